"""Commands that are broken for sure, each in one random way, and commands that somebody changed without looking."""

import json
from collections.abc import Callable
from typing import Any, Final

from tests.acceptance.valid_commands import LETTERS, PRINTABLE, WORD, Members, Source, display_name, valid_command

#: What no header, address, name or tag may hold.
_LINE_BREAKS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\t\x1b\x7f"
#: Signs with a meaning somewhere, and letters that are not what they seem.
_ODD: Final = f"{_LINE_BREAKS}\"'<>@,;:()[]\\%!=?.&{{}} \xa0\u200b\u202e\ufeff\u0301\u212a\uff41é\U0001f4a9-0aZ"
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 10**15, "", "a", " ", [], [1], {}, {"a": 1}, [[]], "a@b.example"),
)
_FORBIDDEN: Final = ("From", "To", "Cc", "Bcc", "Reply-To", "Sender", "Subject", "Date", "Content-Type", "X-SES-A")


def broken_command(source: Source) -> bytes:
    """Return a body that has to be refused."""
    return source.one(_BREAKS)(source, valid_command(source))


def changed_command(source: Source) -> bytes:
    """Return a body that is accepted or refused, nobody knows."""
    command = valid_command(source)
    if source.chance(0.25):
        return _typo(source, json.dumps(command, ensure_ascii=False)).encode()
    return source.written(_changed(source, command, source.one(_paths(command)[1:])))


def _unknown_member(source: Source, command: Members) -> bytes:
    unknown = {source.one(("To", "from", "subject", "html", "", source.text(PRINTABLE, 9, 20))): 1}
    changes: tuple[Members, ...] = (
        *(unknown, {"template": command["template"] | unknown}, {"to": {"address": "ada@example.com"} | unknown}),
    )
    return source.written(command | source.one(changes))


def _missing_member(source: Source, command: Members) -> bytes:
    name = source.one(("to", "sender", "template", "key", "version"))
    if name in ("key", "version"):
        lacking = {key: value for key, value in command["template"].items() if key != name}
        return source.written(command | {"template": lacking})
    if source.chance(0.5):
        return source.written(command | {name: None})
    return source.written({key: value for key, value in command.items() if key != name})


def _wrong_type(source: Source, command: Members) -> bytes:
    scalar = source.one((True, False, 0, 17, -0.5, 10**15))
    name = source.one(("to", "cc", "bcc", "reply_to", "sender", "template", "context", "headers", "tags"))
    wrong: Any = scalar if name in ("to", "sender") else source.one((scalar, "", "text"))
    if name in ("cc", "bcc", "reply_to"):
        wrong = source.one((wrong, {}, {"address": "ada@example.com"}, [scalar], [None], [[]]))
    return source.written(command | {name: wrong})


def _named_twice(source: Source, command: Members) -> bytes:
    name = source.one(list(command))
    if source.chance(0.5):
        name = "".join(f"\\u{ord(letter):04x}" for letter in name)
    return f'{{"{name}": null, {json.dumps(command)[1:]}'.encode()


def _cut(source: Source, command: Members) -> bytes:
    text = json.dumps(command)
    return text[: source.number(0, len(text) - 1)].encode()


def _followed(source: Source, command: Members) -> bytes:
    return source.written(command) + source.one((b"}", b"{}", b"null", b"\x00", b",", b"//", b"\xef\xbb\xbf"))


def _not_utf_8(source: Source, command: Members) -> bytes:
    text = json.dumps(command)
    if source.chance(0.2):
        return source.one((b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16"), text.encode("utf-32")))
    at = source.number(0, len(text))
    return text[:at].encode() + bytes([source.number(0x80, 0xFF)]) + text[at:].encode()


def _spliced(source: Source, command: Members, raw: str) -> bytes:
    """Put a JSON text into the context."""
    place: Any = "@@"
    for _ in range(source.number(0, 3)):
        place = source.one(([place], [0, place], {"a": place}))
    return json.dumps(command | {"context": {"name": "Ada", "at": place}}).replace('"@@"', raw).encode()


def _bad_number(source: Source, command: Members) -> bytes:
    digits = source.text("123456789", 17, 400)
    raw = source.one(("NaN", "Infinity", "-Infinity", "1e309", f"-1e{digits}", digits, f"-{digits}", f"0{digits}"))
    return _spliced(source, command, raw)


def _bad_text(source: Source, command: Members) -> bytes:
    high, low = source.number(0xD800, 0xDBFF), source.number(0xDC00, 0xDFFF)
    escape = source.one(("\\u0000", f"\\u{high:x}", f"\\u{low:x}", f"\\u{low:x}\\u{high:x}", f"\\u{high:x}a"))
    raw = f'"{source.text(LETTERS, 0, 5)}{escape}"'
    return _spliced(source, command, source.one((raw, f"{{{raw}: 1}}")))


def _too_deep(source: Source, command: Members) -> bytes:
    opened = [source.one(("[]", '{"a":}')) for _ in range(source.number(31, 400))]
    raw = f"{''.join(pair[:-1] for pair in opened)}1{''.join(pair[-1] for pair in reversed(opened))}"
    return _spliced(source, command, raw)


def _too_large(source: Source, command: Members) -> bytes:
    return source.written(command | {"context": {"name": "Ada", "large": "x" * source.number(2**16, 2**18 + 2**16)}})


def _too_many(source: Source, command: Members) -> bytes:
    words = [f"a{number}" for number in range(source.number(50, 99))]
    addresses = [f"{word}@example.com" for word in words]
    changes: tuple[Members, ...] = (
        *(
            {"cc": addresses},
            {"bcc": addresses},
            {"cc": addresses[:25], "bcc": addresses[25:]},
            {"reply_to": addresses},
        ),
        *({"headers": {f"X-{word}": "1" for word in words}}, {"tags": dict.fromkeys(words, "1")}),
    )
    return source.written(command | source.one(changes))


def _bad_reference(source: Source, command: Members) -> bytes:
    version = source.one((0, -1, 1.5, True, "1", 2**31, 1e300, [1], source.number(-(2**40), 0)))
    # Neither a key nor a purpose.
    word = f"{source.text(LETTERS, 0, 5)}{source.one(f'{_LINE_BREAKS}AZÄ .:/@é')}"
    template = command["template"]
    changes: tuple[Members, ...] = (
        *({"template": template | {"version": version}}, {"template": template | {"key": word}}),
        *({"sender": word}, {"purpose": word}, {"purpose": "p" * 33}),
    )
    return source.written(command | source.one(changes))


def _placed(source: Source, command: Members, address: Any) -> bytes:
    """Put an address somewhere."""
    role = source.one(("to", "cc", "bcc", "reply_to"))
    return source.written(command | {role: address if role == "to" else ["ada@example.com", address]})


def _bad_address(source: Source, command: Members) -> bytes:
    word, odd = source.text(LETTERS, 1, 8), source.one(f'{_LINE_BREAKS}",;:()<>[]\\ \xa0\u200b\u202eé\u0301')
    good = f"{word}@{word}.com"
    bad = (
        *(word, f"{word}@", f"@{word}.com", f"{word}@{word}", f"{word}@{word}.invalid", f"{word}@127.0.0.1"),
        *(f"{good}.", f"{word}@.{word}.com", f"{word}..{good}", f"{word}@[{word}]", f'"{word}"@{word}.com', f"{good}>"),
        *(f"{word}{odd}{good}", f"{good}, {good}", f"{good}{odd}{good}", f"{word * 70}@{word}.com", f"{word}@-{good}"),
        *(f"{word}@{word * 70}.com", f"{word}@xn--{word}-.com", f"{word}@-{word}.com", f"{word}: {good};"),
    )
    spec = source.one(bad)
    return _placed(source, command, source.one((spec, {"address": spec, "name": "Ada"}, f"Ada <{spec}>")))


def _bad_name(source: Source, command: Members) -> bytes:
    odd = source.one(f"{_LINE_BREAKS}\u202a\u202e\u2066\u2069")
    name = source.one((f"{display_name(source)}{odd}{display_name(source)}", f"{odd}Ada", f"Ada{odd}", "Ada" * 70))
    return _placed(source, command, {"address": "ada@example.com", "name": name})


def _bad_header(source: Source, command: Members) -> bytes:
    name, value = f"X-{source.text(LETTERS, 1, 8)}", source.text(PRINTABLE, 0, 10)
    odd = source.one(f"{_LINE_BREAKS}é\u0301\U0001f4a9")
    bad: tuple[Members, ...] = (
        *(
            {name: f"{value}{odd}{value}"},
            {f"{name}{odd}": "1"},
            {source.cased(source.one(_FORBIDDEN)): "1"},
            {name: ""},
        ),
        *({name: "a" * 996}, {name: 1}, {name: None}, {f"{name}a": "1", f"{name}A": "1"}, {f"{name}: 1\r\nBcc": "1"}),
    )
    return source.written(command | {"headers": source.one(bad)})


def _bad_tag(source: Source, command: Members) -> bytes:
    word = source.text(WORD, 1, 8)
    odd = f"{word}{source.one(f'{_LINE_BREAKS} .:@=/é')}"
    bad: tuple[Members, ...] = (
        *({odd: word}, {word: odd}, {f"{source.cased('fencepost_')}{word}": word}, {word: 1}, {"": word}, {word: ""}),
        *({word: "a" * 257}, {"a" * 257: word}),
    )
    return source.written(command | {"tags": source.one(bad)})


_BREAKS: Final[tuple[Callable[[Source, Members], bytes], ...]] = (
    *(_unknown_member, _missing_member, _wrong_type, _named_twice, _cut, _followed, _not_utf_8, _bad_number, _bad_text),
    *(_too_deep, _too_large, _too_many, _bad_reference, _bad_address, _bad_name, _bad_header, _bad_tag),
)


def _typo(source: Source, text: str) -> str:
    at = source.number(0, len(text))
    after = at + source.one((0, 0, 1, 1, 2, 9))
    return f"{text[:at]}{source.one(('', source.one(_ODD), text[at:after] * 2))}{text[after:]}"


def _changed(source: Source, value: Any, path: tuple[Any, ...]) -> Any:
    """Return a copy in which the place that the path leads to is something else."""
    if not path:
        return _typo(source, value) if isinstance(value, str) and source.chance(0.7) else source.one(_VALUES)
    copy, key = value.copy(), path[0]
    if len(path) == 1 and isinstance(copy, dict) and source.chance(0.2):
        copy[_typo(source, key)] = copy.pop(key)
    else:
        copy[key] = _changed(source, copy[key], path[1:])
    return copy


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the ways to everything in a value, the first one to the value itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(way for key, item in inner for way in _paths(item, (*path, key)))]
