"""Valid commands out of a seeded source, as odd as they may be."""

import json
import random
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar

Members: TypeAlias = dict[str, Any]
_Item = TypeVar("_Item")

#: The template that every command names; it takes any context that has a name.
TEMPLATE: Final = "generated"

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
WORD: Final = f"{LETTERS}{LETTERS.upper()}0123456789_-"
PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_ATEXT: Final = f"{LETTERS}ABCXYZ0123456789!#$%&'*+-/=?^_`{{|}}~"
_DOMAINS: Final = (
    *("example.com", "EXAMPLE.net", "a-b.Example.org", "1.example", "bücher.example", "XN--BCHER-KVA.example"),
    *("faß.example", "пример.example", "例え.example", "مثال.example"),
)
_OTHER_HEADERS: Final = (
    *("List-Unsubscribe", "List-Unsubscribe-Post", "In-Reply-To", "References", "Auto-Submitted", "Feedback-ID"),
)
#: Now and then a command has as many of everything as it may.
_MANY: Final = 0.02


class Source:
    """Where everything random comes from; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # nothing secret about it

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def one(self, items: Sequence[_Item]) -> _Item:
        return self._random.choice(items)

    def some(self, items: Sequence[_Item], count: int) -> list[_Item]:
        return self._random.sample(items, min(count, len(items)))

    def text(self, alphabet: str, least: int, most: int) -> str:
        return "".join(self._random.choices(alphabet, k=self.number(least, most)))

    def letter(self) -> str:
        """Return any character that may stand in a display name."""
        while True:
            letter = chr(self.number(0x20, self.one((0x3000, 0x20000))))
            if unicodedata.category(letter)[0] in "LMNPS":
                return letter

    def letters(self, least: int, most: int) -> str:
        return "".join(self.letter() for _ in range(self.number(least, most)))

    def cased(self, text: str) -> str:
        return "".join(self.one((letter.lower(), letter.upper())) for letter in text)

    def written(self, command: Members) -> bytes:
        """Write a body as one program or another does."""
        return json.dumps(command, ensure_ascii=self.chance(0.5), indent=self.one((None, None, 1, "\t"))).encode()


def valid_command(source: Source) -> Members:
    """Return the members of a command that has to be accepted."""
    many = source.chance(_MANY)
    command: Members = {
        "to": _address(source),
        "sender": "demo",
        "template": {"key": TEMPLATE, "version": source.one((1, 1.0))},
        "context": {"name": source.text(PRINTABLE, 0, 30), **_object(source, 2)},
    }
    for role, most in (("cc", 25), ("bcc", 24), ("reply_to", 10)):
        if many or source.chance(0.4):
            command[role] = [_address(source) for _ in range(most if many else source.number(0, 3))]
    if many or source.chance(0.5):
        command["headers"] = _headers(source, 15 if many else source.number(0, 4))
    if many or source.chance(0.5):
        command["tags"] = _tags(source, 20 if many else source.number(0, 4), 256 if many else 20)
    if source.chance(0.3):
        command["purpose"] = source.text(f"{LETTERS}0123456789_", 1, 32)
    for name in ("cc", "bcc", "reply_to", "headers", "tags", "purpose"):
        if name not in command and source.chance(0.1):
            command[name] = None
    return dict(source.some(list(command.items()), len(command)))


def display_name(source: Source) -> str:
    """Return a display name, or "" for none."""
    match source.number(0, 4):
        case 0:
            return ""
        case 1:
            return source.text(LETTERS, 1, 12).title()
        case 2:
            return source.text(PRINTABLE, 1, 40).strip()
        case 3:
            # What mail programs take for an encoded word.
            return f"=?utf-8?q?{source.text(LETTERS, 1, 12)}=3D?="
        case _:
            return source.letters(1, 40)


def _address(source: Source) -> Any:
    atoms = ".".join(source.text(_ATEXT, 1, 8) for _ in range(source.number(1, 3)))
    # What programs take for an encoded word is refused.
    spec = f"{atoms.replace('=?', '=')}@{source.one(_DOMAINS)}"
    name = display_name(source)
    form = source.number(0, 3)
    if form == 0:
        return {"address": spec, "name": name} if name else {"address": spec}
    if not name:
        return spec if form == 1 else f"<{spec}>"
    if form == 1 and name.isalnum():
        return f"{name} <{spec}>"
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{spec}>'


def _headers(source: Source, count: int) -> dict[str, str]:
    names = [f"X-{source.text(WORD, 1, 20)}" for _ in range(count)] + source.some(_OTHER_HEADERS, count // 2)
    folded = {name.lower(): name for name in names if not name.lower().startswith("x-ses-")}
    return {name: source.text(PRINTABLE, 1, 60) for name in source.some(list(folded.values()), count)}


def _tags(source: Source, count: int, longest: int) -> dict[str, str]:
    return {f"t{source.text(WORD, 0, longest - 1)}": source.text(WORD, 1, longest) for _ in range(count)}


def _object(source: Source, depth: int) -> Members:
    names = (f"{source.text(LETTERS, 1, 6)}{source.letter()}" for _ in range(source.number(0, 3)))
    return {name: _value(source, depth) for name in names}


def _value(source: Source, depth: int) -> Any:
    match source.number(0, 6 if depth else 4):
        case 0:
            return source.one((None, True, False, "", [], {}))
        case 1:
            return source.number(1 - 2**53, 2**53 - 1)
        case 2:
            return source.number(-(10**9), 10**9) * 10.0 ** source.number(-300, 290)
        case 3 | 4:
            return source.letters(0, 8)
        case 5:
            return [_value(source, depth - 1) for _ in range(source.number(0, 3))]
        case _:
            return _object(source, depth - 1)
