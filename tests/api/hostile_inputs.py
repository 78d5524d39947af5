"""What hostile and careless clients post to /v1/messages: a row for each, and how it is refused; data only.

`CANARY` stands wherever the shape of an input allows it, and must come back in no answer and no log.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CANARY: Final = "canary"

#: A command that is accepted, and from which most rows differ in one thing.
GOOD: Final[Mapping[str, Any]] = {
    "to": {"address": f"{CANARY}@example.com", "name": CANARY},
    "cc": [f"{CANARY}@example.net"],
    "bcc": [f"{CANARY}@example.org"],
    "reply_to": [f"{CANARY}@example.com"],
    "sender": "main",
    "template": {"key": "welcome", "version": 1},
    "context": {"name": CANARY, CANARY: [{CANARY: CANARY}]},
    "headers": {"X-Canary": CANARY},
    "tags": {CANARY: CANARY},
}

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^[a-z]+$"},
        "plan": {"enum": ["free", "paid"]},
        "terms": {"const": True},
        "items": {"type": "array", "minItems": 1, "maxItems": 2, "uniqueItems": True},
        "sizes": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "number"}},
        "percent": {"type": "number", "minimum": 0, "exclusiveMaximum": 100},
        "odd": {"not": {"multipleOf": 2}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
#: By key: the subject, the text and the context schema of version 1.
TEMPLATES: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "strict": ("Hello", "Dear {{ name }}", _SCHEMA),
    "undefined": ("Hello", "Dear {{ name }}, {{ surname }}", {}),
    "adding": ("Hello", "{{ name + 1 }}", {}),
    "method": ("Hello", "{% if name is string %}{{ name.upper() }}{% endif %}", {}),
    "product": ("Hello", "{% for a in items %}{% for b in items %}{{ b }}{% endfor %}{% endfor %}", {}),
    "swelling": ("Hello", "{% for item in items %}{{ name }}{% endfor %}", {}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A request, and how it is refused."""

    name: str  #: what is wrong with it
    body: bytes
    status: int | None = 422  #: None: the client is gone before anybody could answer
    code: str | None = "invalid_request"  #: None: HTTP itself is broken, and the application never sees the request
    faults: frozenset[tuple[str, str]] = frozenset()  #: each one's pointer and code
    keys: tuple[bytes, ...] | None = None  #: the values of its Idempotency-Key headers; None: a good one
    content_type: bytes | None = b"application/json"
    framing: bytes | None = None  #: header lines in place of a Content-Length that is true
    leaves: bool = False  #: the client closes its side after the last byte


def change(name: str, members: Mapping[str, Any], at: str, code: str) -> Hostile:
    """Give the good command with other members, which are at fault."""
    return Hostile(name=name, body=json.dumps({**GOOD, **members}).encode(), faults=frozenset({(at, code)}))


def many(count: int) -> list[str]:
    return [f"{CANARY}{number}@example.com" for number in range(count)]


def context_of(size: int) -> dict[str, str]:
    """Make a context that takes so many bytes as canonical JSON."""
    frame = len(json.dumps({CANARY: "", "name": CANARY}, separators=(",", ":")))
    return {"name": CANARY, CANARY: "x" * (size - frame)}


def point(text: str) -> str:
    return " ".join(f"U+{ord(character):04X}" for character in text)


#: What one program or another takes for the end of a line.
LINE_BREAKS: Final = ("\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
BLANKS: Final = ("\t", "\xa0", "\u2003", "\u200b", "\u3000", "\ufeff", "\x7f", "\x1b")

#: What lies just inside of a limit, or only looks hostile: a change of the good command, by what is odd about it.
HARMLESS: Final[Mapping[str, Mapping[str, Any]]] = {
    "a local part with a percent sign": {"to": "canary%example.org@example.com"},
    "a local part with a bang path": {"to": "example.org!canary@example.com"},
    "a local part of signs": {"to": "!#$&'*+/?=^_`{|}~-canary@example.com"},
    "64 before the at sign": {"to": f"{CANARY:c<64}@example.com"},
    "63 in a label": {"to": f"canary@{CANARY:c<63}.com"},
    "a mixed domain of one script a label": {"to": "canary@\u0440\u0444.example.com"},
    "a domain of wide letters": {"to": "canary@\uff45xample.com"},
    "a name of 200 letters": {"to": {"address": "canary@example.com", "name": "\U0001f600" * 200}},
    "a name that looks like an encoded word": {"to": '"=?utf-8?q?canary?=" <canary@example.com>'},
    "a name that looks like an address": {"to": '"canary@example.org, <eve@example.org>" <canary@example.com>'},
    "50 recipients": {"cc": many(25), "bcc": many(24)},
    "49 copies": {"cc": many(49), "bcc": None},
    "one address in every role": {role: [f"{CANARY}@example.com"] * 3 for role in ("cc", "bcc", "reply_to")},
    "10 addresses to reply to": {"reply_to": many(10)},
    "15 headers": {"headers": {f"X-Canary-{number}": "1" for number in range(15)}},
    "a header of 996 letters with its name": {"headers": {"X-Canary": f"{CANARY:c<988}"}},
    "a header's name of 126 letters": {"headers": {f"X-{CANARY:c<124}": "1"}},
    "a header that starts like SES's own": {"headers": {"X-Session": CANARY}},
    "20 tags": {"tags": {f"canary{number}": "1" for number in range(20)}},
    "a tag of 256 and 256 letters": {"tags": {f"{CANARY:c<256}": f"{CANARY:c<256}"}},
    "a tag that starts like ours": {"tags": {"fencepost": CANARY, "fencepos_t": CANARY}},
    "a purpose of 32 letters": {"purpose": f"{CANARY:c<32}"},
    "a version that is 1.0": {"template": {"key": "welcome", "version": 1.0}},
    "32 levels": {"context": {"name": CANARY, "deep": json.loads("[" * 30 + "]" * 30)}},
    "a context of 64 KiB": {"context": context_of(2**16)},
    "names that programs stumble over": {
        "context": {"name": CANARY, **dict.fromkeys(("self", "__class__", "__proto__", "", " ", "items", "é"), CANARY)}
    },
    "numbers at the edge": {"context": {"name": CANARY, "n": [2**53 - 1, 1 - 2**53, 5e-324, 1.7976931348623157e308]}},
    "text at the edge": {"context": {"name": "\U0010ffff\ufffe\u202e\ue000'\";--<script>{{ 7*7 }}{% raw %}"}},
    "null wherever it may stand": dict.fromkeys(("cc", "bcc", "reply_to", "purpose", "headers", "tags")),
}
