"""The send command's body as JSON Schema, Draft 2020-12, for OpenAPI; `api.command` is what judges."""

from typing import Final

from api.addresses import MAX_ADDRESS_LENGTH, MAX_TEXT_LENGTH
from api.command import (
    HEADER_NAME,
    HEADER_VALUE,
    MAX_HEADERS,
    MAX_RECIPIENTS,
    MAX_REPLY_TO,
    MAX_TAGS,
    MAX_VERSION,
    RESERVED_TAGS,
    TAG,
    any_case,
)
from api.fields import KEY, PURPOSE
from api.strict_json import JsonObject


def anchored(pattern: str) -> str:
    """Return a pattern as JSON Schema has it, which would find it anywhere."""
    return f"^(?:{pattern})$"


_ADDRESS: Final[JsonObject] = {
    "description": "`a@b.c`, `Name <a@b.c>` (a name with special characters in double quotes), or an object.",
    "anyOf": [
        {"type": "string", "maxLength": MAX_TEXT_LENGTH},
        {
            "type": "object",
            "properties": {
                "address": {"type": "string", "maxLength": MAX_ADDRESS_LENGTH},
                "name": {"type": ["string", "null"]},
            },
            "required": ["address"],
            "additionalProperties": False,
        },
    ],
}


def _addresses(limit: int, description: str) -> JsonObject:
    return {"type": ["array", "null"], "items": _ADDRESS, "maxItems": limit, "description": description}


SEND_COMMAND_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "description": "An absent member, null, and an empty list or object are one and the same.",
    "properties": {
        "to": {**_ADDRESS, "examples": ["Ada <ada@example.com>"]},
        "cc": _addresses(MAX_RECIPIENTS - 1, f"With to and bcc at most {MAX_RECIPIENTS}."),
        "bcc": _addresses(MAX_RECIPIENTS - 1, f"With to and cc at most {MAX_RECIPIENTS}."),
        "reply_to": _addresses(MAX_REPLY_TO, "Left out: the sender's own."),
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
}
