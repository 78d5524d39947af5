"""Commands in every spelling that a client may choose: a table by member, and strategies for all the rest."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias
from unicodedata import normalize

from hypothesis import strategies as st

from api.strict_json import MAX_SAFE_INTEGER

#: A command's members, or those of a part of it, as JSON has them.
Members: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Members], Members]

#: What the sender and the templates of these commands say where a command says nothing.
DEFAULT_PURPOSE: Final = "receipt"
DEFAULT_REPLY_TO: Final = "desk@example.org"

_LISTS: Final = (
    (None, "null", "[]", "[ ]"),
    ('["a@x.example", "b@x.example"]', '[{"address": "a@X.example", "name": ""}, "<b@x.EXAMPLE>"]'),
    ('["b@x.example", "a@x.example"]',),
    ('["a@x.example"]',),
    ('["a@x.example", "a@x.example"]',),
    ('["A@x.example", "b@x.example"]',),
    ('["a@x.example", "B <b@x.example>"]', '["a@x.example", {"name": "B", "address": "b@x.example"}]'),
)
#: For each member, JSON texts of its value (None: left out). What stands in one row is equal, and in two rows is not.
#: The idempotency key is among them, as its header has it.
SPELLINGS: Final[Mapping[str, tuple[tuple[str | None, ...], ...]]] = {
    "key": (("key", '"key"'), ("Key",), ('""key""',), ('"key',), ('" key"',), ("key,key",)),
    "to": (
        (
            *(
                '"ada@example.com"',
                '"<ada@Example.COM>"',
                '"\\u0061da@example\\u002ecom"',
                '"\\"\\" <ada@example.com>"',
            ),
            *('{"address": "ada@example.com"}', '{"name": null, "address": "ada@example.com"}'),
            *('{"address": "ada@EXAMPLE.com", "name": ""}', '{"address": "ada@example.com", "name": "  "}'),
        ),
        ('"Ada@example.com"',),
        (
            *('"Ada <ada@example.com>"', '"\\"Ada\\" <ada@example.com>"', '"Ada<ada@example.com>"'),
            *('{"address": "ada@example.com", "name": "Ada"}', '{"name": " Ada ", "address": "ada@example.com"}'),
        ),
        ('"ada <ada@example.com>"',),
        (
            '"Ada L <ada@example.com>"',
            '"Ada   L  <ada@example.com>"',
            '{"address": "ada@example.com", "name": "Ada L"}',
        ),
        ('{"address": "ada@example.com", "name": "Ada  L"}', '"\\"Ada  L\\" <ada@example.com>"'),
        ('{"address": "ada@example.com", "name": "\\"Ada\\""}', '"\\"\\\\\\"Ada\\\\\\"\\" <ada@example.com>"'),
        ('"Zoë <ada@example.com>"', '"Zo\\u00eb <ada@example.com>"'),
        ('"Zoe\\u0308 <ada@example.com>"',),
        (
            *(
                '"ada@bücher.example"',
                '"ada@BÜCHER.example"',
                '"ada@bu\\u0308cher.example"',
                '"ada@b\\u00fccher.example"',
            ),
            *('"ada@xn--bcher-kva.example"', '{"address": "ada@XN--BCHER-KVA.EXAMPLE"}'),
        ),
        ('"ada@bucher.example"',),
        ('"ada@faß.example"', '"ada@xn--fa-hia.example"'),
        ('"ada@fass.example"',),
        ('"ada+1@example.com"',),
    ),
    "cc": _LISTS,
    "bcc": _LISTS,
    "reply_to": (
        (None, "null", "[]", '["desk@example.org"]', '[{"address": "desk@EXAMPLE.org"}]'),
        ('["Desk <desk@example.org>"]',),
        ('["desk@example.org", "a@x.example"]',),
        ('["a@x.example", "desk@example.org"]',),
        ('["a@x.example"]', '["<a@X.example>"]'),
    ),
    "sender": (('"desk"', '"d\\u0065sk"'), ('"other"',)),
    "template": (
        (
            *(
                '{"key": "static", "version": 1}',
                '{"version": 1.0, "key": "static"}',
                '{"key": "static", "version": 1e0}',
            ),
            *('{"key": "static", "version": 10e-1}', '{"key": "st\\u0061tic", "version": 1.000}'),
        ),
        ('{"key": "static", "version": 2}',),
        ('{"key": "statics", "version": 1}',),
    ),
    "context": (
        (None, "null", "{}", "{\n}"),
        *(('{"n": 1}', '{"n":1.0}', '{"n": 1e0}', '{"n": 10e-1}', '{"\\u006e": 0.1e1}'), ('{"n": "1"}',)),
        *(('{"n": true}',), ('{"n": [1]}', '{"n": [1.0]}'), ('{"n": [[1]]}',), ('{"n": null}',), ('{"n": ""}',)),
        *(('{"n": 0}', '{"n": -0}', '{"n": 0.0}', '{"n": -0.0}', '{"n": 0e9}'), ('{"n": false}',)),
        *(
            ('{"n": "é"}', '{"n": "\\u00e9"}', '{"n": "\\u00E9"}'),
            ('{"n": "e\\u0301"}',),
            ('{"n": []}',),
            ('{"n": {}}',),
        ),
        *(('{"n": "/"}', '{"n": "\\/"}'), ('{"n": "\U0001f600"}', '{"n": "\\ud83d\\ude00"}'), ('{"N": 1}',)),
        *(('{"n": 0.1}', '{"n": 0.1000000000000000055}', '{"n": 1e-1}'), ('{"n": 0.10000000000000002}',)),
        *(('{"n": 1e21}', '{"n": 1000000000000000000000.0}'), ('{"n": 9007199254740991}', '{"n": 9007199254740991.0}')),
        *(('{"a": [1, 2], "b": {"c": 1, "d": 2}}', '{"b": {"d": 2.0, "c": 1}, "a": [1.0, 2e0]}'),),
        *(('{"a": [2, 1], "b": {"c": 1, "d": 2}}',), ('{"a": [1, 2], "b": {"c": 2, "d": 1}}',)),
        *(('{"a": "1\\n2"}', '{"a": "1\\u000a2"}'), ('{"a": "1 2"}',), ('{"a ": "1 2"}',)),
    ),
    "purpose": ((None, "null", '"receipt"', '"r\\u0065ceipt"'), ('"receipt_"',)),
    "headers": (
        (None, "null", "{}"),
        ('{"X-A": "1", "X-B": "b"}', '{"x-b": "b", "x-a": "1"}', '{"X-a": "\\u0031", "x-B": "b"}'),
        *(('{"X-A": "b", "X-B": "1"}',), ('{"X-A": "1", "X-B": "B"}',), ('{"X-A": "1", "X-B": "b "}',)),
        *(('{"X-A": "1"}', '{"x-a": "1"}'), ('{"X-AB": "1b"}',), ('{"References": "1"}', '{"REFERENCES": "1"}')),
    ),
    "tags": (
        (None, "null", "{}"),
        ('{"a": "1", "b": "x"}', '{"b": "x", "a": "1"}', '{"\\u0061": "1", "b": "\\u0078"}'),
        *(
            ('{"a": "x", "b": "1"}',),
            ('{"a": "1", "b": "X"}',),
            ('{"A": "1", "b": "x"}',),
            ('{"a": "1"}',),
            ('{"ab": "1x"}',),
        ),
    ),
}

_ROLES: Final = ("cc", "bcc", "reply_to")
_OBJECTS: Final = ("context", "headers", "tags")


def a_label(label: str) -> str:
    """Return a domain's label as it stands in the DNS, lower-case."""
    lower = normalize("NFC", label.lower())
    return lower if lower.isascii() else f"xn--{lower.encode('punycode').decode()}"


_TEXT: Final = st.text(st.characters(codec="utf-8", min_codepoint=1), max_size=12)
_NAMES: Final = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
_LETTERS: Final = st.text("abcxyz", min_size=1, max_size=6)
_WORDS: Final = st.text("AZaz09-", min_size=1, max_size=6)
_SPECS: Final = st.builds(
    "{}@{}.{}".format,
    st.text("ABCabc019+", max_size=6).map("{}x".format),
    _LETTERS | st.sampled_from(["bücher", "faß", "пример", "例え"]),
    st.sampled_from(["example", "example.com", "bücher.example"]),
)
_MAILBOXES: Final[st.SearchStrategy[Members]] = st.fixed_dictionaries({"address": _SPECS}, optional={"name": _NAMES})
_SOME: Final = st.lists(_MAILBOXES, min_size=2, max_size=3, unique_by=str)
_CONTEXTS: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
#: Commands that say something in every member, each address as an object.
COMMANDS: Final[st.SearchStrategy[Members]] = st.fixed_dictionaries(
    {
        "to": _MAILBOXES,
        "cc": _SOME,
        "bcc": _SOME,
        "reply_to": _SOME,
        "sender": _LETTERS,
        "template": st.fixed_dictionaries({"key": st.just("static"), "version": st.integers(1, 2**31 - 1)}),
        "context": st.fixed_dictionaries(
            {"n": st.integers(-(10**9), 10**9), "list": st.just([1, 2]), "any": _CONTEXTS}
        ),
        "purpose": _LETTERS,
        "headers": st.dictionaries(_LETTERS.map("X-{}".format), _WORDS, min_size=2, max_size=3),
        "tags": st.dictionaries(_WORDS, _WORDS, min_size=2, max_size=3),
    }
)


def _of(member: str, change: Callable[[Any], Any]) -> Change:
    """Make a change of one member."""
    return lambda body: body | {member: change(body[member])}


def _everywhere(change: Callable[[Members], Any]) -> Change:
    """Make a change of every address."""

    def changed(value: Any) -> Any:
        return [change(item) for item in value] if isinstance(value, list) else change(value)

    return lambda body: body | {role: changed(body[role]) for role in ("to", *_ROLES)}


def _spec(change: Callable[[str, str], str]) -> Change:
    """Make a change of an address, given its local part and its domain."""
    return lambda mailbox: mailbox | {"address": change(*mailbox["address"].split("@"))}


def _upper(domain: str) -> str:
    # The upper case of ß is SS, which is another domain.
    return "".join(letter if letter == "ß" else letter.upper() for letter in domain)


def _a_labels(domain: str) -> str:
    return ".".join(map(a_label, domain.split(".")))


def _string(mailbox: Members) -> str:
    quoted = mailbox.get("name", "").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{mailbox["address"]}>'


def _backwards(value: Any) -> Any:
    match value:
        case dict():
            return {name: _backwards(value[name]) for name in reversed(value)}
        case list():
            return [_backwards(item) for item in value]
        case _:
            return value


def _floats(value: Any) -> Any:
    match value:
        case dict():
            return {name: _floats(item) for name, item in value.items()}
        case list():
            return [_floats(item) for item in value]
        case int() if not isinstance(value, bool):
            return float(value)
        case _:
            return value


def _escaped(value: Any) -> str:
    """Write JSON with every character escaped and every integer with an exponent."""
    match value:
        case str():
            units = value.encode("utf-16-be").hex()
            return '"' + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'
        case dict():
            return f"{{{','.join(f'{_escaped(name)}:{_escaped(item)}' for name, item in value.items())}}}"
        case list():
            return f"[{','.join(map(_escaped, value))}]"
        case int() if not isinstance(value, bool):
            return f"{value}.00E+0"
        case _:
            return json.dumps(value)


#: Each spells a command of `COMMANDS` in another way, and never changes its meaning.
REWRITINGS: Final[Mapping[str, Callable[[Members], Members | str]]] = {
    "domains in upper case": _everywhere(_spec(lambda local, domain: f"{local}@{_upper(domain)}")),
    "domains in A-labels": _everywhere(_spec(lambda local, domain: f"{local}@{_a_labels(domain)}")),
    "domains in upper-case A-labels": _everywhere(_spec(lambda local, domain: f"{local}@{_a_labels(domain).upper()}")),
    "domains decomposed": _everywhere(_spec(lambda local, domain: f"{local}@{normalize('NFD', domain)}")),
    "addresses as strings": _everywhere(_string),
    "display names with space around them": _everywhere(lambda box: box | {"name": f" {box.get('name', '')}\u3000"}),
    "display names null for absent": _everywhere(lambda box: {"name": None} | box),
    "display names empty for absent": _everywhere(lambda box: {"name": ""} | box),
    "header names in the other case": _of("headers", lambda it: {name.swapcase(): it[name] for name in it}),
    "headers in another order": _of("headers", lambda it: dict(reversed(it.items()))),
    "tags in another order": _of("tags", lambda it: dict(reversed(it.items()))),
    "members in another order": _backwards,
    "integers as fractions": _floats,
    "white space": lambda body: json.dumps(body, indent="\r\n\t "),
    "no white space": lambda body: json.dumps(body, separators=(",", ":")),
    "letters that are not ASCII as they are": lambda body: json.dumps(body, ensure_ascii=False),
    "escapes and exponents": _escaped,
}

#: Each changes one thing that somebody would notice.
CHANGES: Final[Mapping[str, Change]] = {
    "letter case of a local part": _of("to", _spec(lambda local, domain: f"{local.swapcase()}@{domain}")),
    "local part": _of("to", _spec(lambda local, domain: f"{local}+x@{domain}")),
    "domain": _of("to", _spec(lambda local, domain: f"{local}@x.{domain}")),
    "display name": _of("to", lambda box: box | {"name": f"{box.get('name', '')}x"}),
    "display name of the last cc": _of("cc", lambda it: [*it[:-1], it[-1] | {"name": f"{it[-1].get('name', '')}x"}]),
    **{f"one less in {role}": _of(role, lambda it: it[1:]) for role in _ROLES},
    **{f"one more in {role}": _of(role, lambda it: [*it, "more@example.com"]) for role in _ROLES},
    **{f"one twice in {role}": _of(role, lambda it: [*it, it[-1]]) for role in _ROLES},
    **{f"order of {role}": _of(role, lambda it: it[::-1]) for role in _ROLES},
    "cc and bcc": lambda body: body | {"cc": body["bcc"], "bcc": body["cc"]},
    "to and a cc": lambda body: body | {"to": body["cc"][0], "cc": [body["to"], *body["cc"][1:]]},
    "sender": _of("sender", lambda key: f"{key}x"),
    "template key": _of("template", lambda it: it | {"key": f"{it['key']}x"}),
    "template version": _of("template", lambda it: it | {"version": it["version"] % 7 + 1}),
    "purpose": _of("purpose", lambda purpose: f"{purpose}_"),
    **{f"a value in {name}": _of(name, lambda it: it | {next(iter(it)): "another"}) for name in _OBJECTS},
    **{
        f"all names in {name}": _of(name, lambda it: {f"{key}z": value for key, value in it.items()})
        for name in _OBJECTS
    },
    **{f"one less in {name}": _of(name, lambda it: dict(list(it.items())[1:])) for name in _OBJECTS},
    **{f"one more in {name}": _of(name, lambda it: it | {"X-More": "1"}) for name in _OBJECTS},
    "a space behind a header's value": _of("headers", lambda it: {name: f"{value} " for name, value in it.items()}),
    **{f"{name} left out": _of(name, lambda _: None) for name in (*_ROLES, *_OBJECTS, "purpose")},
}


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to everything in a context that holds nothing else."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner or not value:
        yield path
    for key, item in inner:
        yield from leaves(item, (*path, key))


def changed_at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return a copy of a context in which what the path leads to is something else."""
    if not path:
        return [value] if isinstance(value, list | dict) else {"was": value}
    copy: Any = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = changed_at(copy[path[0]], path[1:])
    return copy
