"""What a mutant is: one guard of the product, taken out or changed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One guard less."""

    name: str
    file: str  #: from the root of the checkout
    text: str  #: what is taken out or changed; it stands exactly once in its file
    becomes: str
    leaves_out: str  #: what the product then no longer does, in one sentence
    tests: tuple[str, ...]  #: pytest node ids; at least one of them fails
    stands_in: str = ""  #: what makes up for this guard, where no test can tell that it is gone

    def apply(self, tree: Path) -> None:
        """Change the file in this copy of the checkout. Raises ValueError where the text isn't there exactly once."""
        path = tree / self.file
        path.write_text(self.mutated(path.read_text(encoding="utf-8")), encoding="utf-8")

    def mutated(self, source: str) -> str:
        """Give the changed source. Raises ValueError where the text isn't there exactly once."""
        if (found := source.count(self.text)) != 1:
            raise ValueError(f"{self.name}: its text stands {found} times in {self.file}, and must stand once")
        return source.replace(self.text, self.becomes)


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the product, and the file of tests whose tests are named without their path."""

    file: str
    tests: str

    def without(self, name: str, text: str, leaves_out: str, *tests: str) -> Mutant:
        """Take this text out."""
        return self.changed(name, text, "", leaves_out, *tests)

    def changed(self, name: str, text: str, becomes: str, leaves_out: str, *tests: str, stands_in: str = "") -> Mutant:
        """Change this text."""
        return Mutant(
            name=name,
            file=self.file,
            text=text,
            becomes=becomes,
            leaves_out=leaves_out,
            tests=tuple(test if test.startswith("tests/") else f"{self.tests}::{test}" for test in tests),
            stands_in=stands_in,
        )

    def lacking(self, name: str, block: str, line: str, leaves_out: str, *tests: str) -> Mutant:
        """Take one part out of a block, where the part alone stands in other places too."""
        if block.count(line) != 1:
            raise ValueError(f"{name}: what is taken out must stand once in its block")
        return self.changed(name, block, block.replace(line, ""), leaves_out, *tests)
