"""Take out one guard at a time, and say which test fails: `python -m tests.mutation [WORD ...]`.

With words, only the guards whose name or file holds one of them. Progress goes to stderr, the table to stdout as
Markdown. The exit status is 1 where nothing caught a guard's loss, or its tests did not run.
"""

import sys
import tempfile
import time
from pathlib import Path

from tests.mutation.guards import GUARDS
from tests.mutation.mutant import Mutant
from tests.mutation.run import Checkout, Shown, Verdict


def main(words: list[str]) -> int:
    """Try every chosen mutant; give the exit status."""
    chosen = [mutant for mutant in GUARDS if not words or any(word in f"{mutant.file} {mutant.name}" for word in words)]
    if not chosen:
        _say("No guard's name or file holds any of these words.")
        return 2
    with tempfile.TemporaryDirectory(prefix="fencepost-mutants-") as folder:
        checkout = Checkout(Path(folder))
        if lacking := checkout.lacking(chosen):
            _say("\n".join(lacking))
            return 1
        named = dict.fromkeys(test for mutant in chosen for test in mutant.tests)
        _say(f"{len(chosen)} guards. First their {len(named)} tests without any mutant ...")
        if trouble := checkout.trouble(named):
            _say(f"They fail by themselves, and can show nothing: {trouble}")
            return 1
        shown = {mutant.name: _try_out(checkout, mutant, f"{n}/{len(chosen)}") for n, mutant in enumerate(chosen, 1)}
    _write_table(chosen, shown)
    lost = [name for name, each in shown.items() if each.verdict in (Verdict.NOT_CAUGHT, Verdict.BROKEN)]
    _say(
        f"{len(chosen) - len(lost)} of {len(chosen)} caught or stood in for." + "".join(f"\n  {name}" for name in lost)
    )
    return 1 if lost else 0


def _try_out(checkout: Checkout, mutant: Mutant, place: str) -> Shown:
    begun = time.monotonic()
    shown = checkout.try_out(mutant)
    _say(f"{place} {mutant.name}: {shown.verdict} {shown.what} ({time.monotonic() - begun:.1f} s)")
    return shown


def _write_table(chosen: list[Mutant], shown: dict[str, Shown]) -> None:
    rows = [("guard", "what is left out", "caught by"), ("---", "---", "---")]
    for mutant in chosen:
        each = shown[mutant.name]
        by = f"`{each.what}`" if each.verdict is Verdict.CAUGHT else f"{each.verdict} {each.what}"
        rows.append((mutant.name, mutant.leaves_out, by))
    sys.stdout.writelines(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
