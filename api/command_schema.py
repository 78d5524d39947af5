"""The send command as JSON Schema, Draft 2020-12, for OpenAPI; `api.command` is what judges.

It is as tight as such a schema can be, in patterns that ECMA 262, Python and Rust read in the same way.
"""

from typing import Final

from api.addresses import MAX_ADDRESS_LENGTH, MAX_NAME_LENGTH, MAX_TEXT_LENGTH
from api.command import (
    HEADER_NAME,
    HEADER_VALUE,
    MAX_HEADERS,
    MAX_IDEMPOTENCY_KEY,
    MAX_RECIPIENTS,
    MAX_REPLY_TO,
    MAX_TAGS,
    MAX_VERSION,
    RESERVED_TAGS,
    TAG,
    any_case,
)
from api.fields import KEY, PURPOSE, TIME
from api.strict_json import JsonObject


def anchored(pattern: str) -> str:
    """Return a pattern as JSON Schema has it, which would find it anywhere."""
    return f"^(?:{pattern})$"


TIME_SCHEMA: Final[JsonObject] = {"type": "string", "format": "date-time", "pattern": anchored(TIME)}
#: The header as it arrives: without spaces around it. One pair of quotes is taken off; what is left is not blank.
IDEMPOTENCY_KEY: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_IDEMPOTENCY_KEY + 2,
    "pattern": anchored(r'[!#-~][ -~]{0,254}|"(?:[ -~]{0,253}[!#-~])?|" {0,254}[!-~][ -~]{0,254}"'),
}
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+(?:[A-Za-z0-9][A-Za-z0-9-]{0,61})?[A-Za-z]"
#: With any letter outside ASCII. Which of those may stand in a domain (IDNA 2008) is beyond a pattern.
_IDN: Final = r"[A-Za-z0-9.-]*[^\u0000-\u007f][^\u0000-,/:-@\[-`{-\u007f]*"
DOMAIN: Final = f"(?:{_HOST}|{_IDN})"
_SPEC: Final = rf"{_ATOM}(?:\.?{_ATOM}){{0,63}}@{DOMAIN}"
_CONTROLS: Final = r"\u0000-\u001f\u007f-\u009f"
_WORD: Final = rf'(?:[^{_CONTROLS} "(),.:;<>@\[\\\]]+|"(?:[^{_CONTROLS}"\\]|\\[^{_CONTROLS}])*")'
PLAIN_ADDRESS: Final[JsonObject] = {
    "type": "string",
    "maxLength": MAX_ADDRESS_LENGTH,
    "pattern": anchored(_SPEC),
    "examples": ["ada@example.com"],
}
NAME: Final[JsonObject] = {
    "type": ["string", "null"],
    "maxLength": MAX_NAME_LENGTH,
    "pattern": rf"^[^{_CONTROLS}\u2028-\u202e\u2066-\u2069]*$",
    "description": "What mail programs show: no line breaks, and nothing that turns the direction of what follows.",
    "examples": ["Ada"],
}
_ADDRESS: Final[JsonObject] = {
    "description": "`a@b.c`, `Name <a@b.c>` (a name with special characters in double quotes), or an object.",
    "anyOf": [
        PLAIN_ADDRESS,
        {
            "type": "string",
            "maxLength": MAX_TEXT_LENGTH,
            "pattern": anchored(f"(?:{_WORD}(?: +{_WORD})* *)?<{_SPEC}>"),
            "examples": ["Ada <ada@example.com>"],
        },
        {
            "type": "object",
            "properties": {"address": PLAIN_ADDRESS, "name": NAME},
            "required": ["address"],
            "additionalProperties": False,
            "examples": [{"address": "ada@example.com", "name": "Ada"}],
        },
    ],
}


def address_list(limit: int, description: str) -> JsonObject:
    """Return the schema of a list of addresses that may be left out."""
    return {"type": ["array", "null"], "items": _ADDRESS, "maxItems": limit, "description": description}


SEND_COMMAND_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "description": "An absent member, null, and an empty list or object are one and the same.",
    "properties": {
        "to": _ADDRESS,
        "cc": address_list(MAX_RECIPIENTS - 1, f"With to and bcc at most {MAX_RECIPIENTS}."),
        "bcc": address_list(MAX_RECIPIENTS - 1, f"With to and cc at most {MAX_RECIPIENTS}."),
        "reply_to": address_list(MAX_REPLY_TO, "Left out: the sender's own."),
        "sender": {"type": "string", "pattern": anchored(KEY), "examples": ["demo"]},
        "template": {
            "type": "object",
            "properties": {
                "key": {"type": "string", "pattern": anchored(KEY)},
                "version": {"type": "integer", "minimum": 1, "maximum": MAX_VERSION},
            },
            "required": ["key", "version"],
            "additionalProperties": False,
            "examples": [{"key": "welcome", "version": 1}],
        },
        "context": {
            "type": ["object", "null"],
            "description": "The template's values; the template version's own schema says which.",
            "examples": [{"name": "Ada"}],
        },
        "purpose": {
            "type": ["string", "null"],
            "pattern": anchored(PURPOSE),
            "description": "Left out: the template's own.",
        },
        "headers": {
            "type": ["object", "null"],
            "maxProperties": MAX_HEADERS,
            "propertyNames": {"pattern": anchored(HEADER_NAME)},
            "additionalProperties": {"type": "string", "pattern": anchored(HEADER_VALUE)},
            "description": "Names count without letter case.",
            "examples": [{"X-Order": "17"}],
        },
        "tags": {
            "type": ["object", "null"],
            "maxProperties": MAX_TAGS,
            "propertyNames": {"pattern": anchored(rf"(?!{any_case(RESERVED_TAGS)}){TAG}")},
            "additionalProperties": {"type": "string", "pattern": anchored(TAG)},
            "examples": [{"order": "17"}],
        },
    },
    "required": ["to", "sender", "template"],
    "additionalProperties": False,
    "examples": [
        {
            "to": "Ada <ada@example.com>",
            "sender": "demo",
            "template": {"key": "welcome", "version": 1},
            "context": {"name": "Ada"},
            "headers": {"X-Order": "17"},
            "tags": {"order": "17"},
        }
    ],
}
