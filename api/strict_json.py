"""JSON as RFC 8259 has it, less everything that two readers could understand differently."""

import json
import math
import re
from typing import Final, Never, TypeAlias

from api.faults import Fault, FaultCode, InvalidRequest

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH: Final = 32

#: RFC 7493 section 2.2: the integers that every reader's double holds exactly.
MAX_SAFE_INTEGER: Final = 2**53 - 1
_SAFE_INTEGER_TEXT: Final = len(str(-MAX_SAFE_INTEGER))

# A whole string, or what there is of it.  The quantifiers are possessive and the end is optional, so that no
# input makes the expression go over the same bytes twice.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_UNPAIRED: Final = re.compile("[\x00\ud800-\udfff]")


def parse(raw: bytes) -> JsonValue:
    """Return the value of a JSON text.

    Refused besides what is not JSON: a byte order mark and anything but UTF-8; a member named twice; NaN, infinities
    and numbers that overflow to them; integers beyond ±(2^53 - 1); U+0000 and unpaired surrogates, in member names too;
    nesting deeper than `MAX_DEPTH` (RFC 7493 and RFC 8785 section 3.1, DESIGN section 3).

    Raises `InvalidRequest` with one fault, which points at the whole document.
    """
    # The depth comes first, since json's own parser is recursive.
    if _depth_exceeds(raw, MAX_DEPTH):
        raise _refusal(FaultCode.JSON_DEPTH, f"The JSON text is nested more than {MAX_DEPTH} levels deep.")
    # The errors of the standard library quote the body, so they are cut off from ours.
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _refusal(FaultCode.JSON_ENCODING, "The body has to be UTF-8.") from None
    if text.startswith("\ufeff"):
        raise _refusal(FaultCode.JSON_ENCODING, "The body has to be UTF-8 without a byte order mark.")
    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=_members, parse_int=_integer, parse_float=_double, parse_constant=_constant
        )
    except json.JSONDecodeError:
        raise _refusal(FaultCode.JSON_MALFORMED, "The body is not one JSON text.") from None
    # Only an escape can bring these in: raw, a NUL is malformed and a surrogate is not UTF-8.
    if "\\u" in text and _has_bad_text(value):
        raise _refusal(FaultCode.JSON_TEXT, "Strings must not hold U+0000 or unpaired surrogates.")
    return value


def _refusal(code: FaultCode, detail: str) -> InvalidRequest:
    return InvalidRequest(Fault(pointer="", code=code, detail=detail))


def _depth_exceeds(raw: bytes, limit: int) -> bool:
    depth = 0
    for bracket in _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS):
        if bracket in b"[{":
            depth += 1
            if depth > limit:
                return True
        else:
            depth -= 1
    return False


def _members(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _refusal(FaultCode.JSON_DUPLICATE_KEY, "An object names the same member twice.")
    return members


def _integer(text: str) -> int:
    # The length comes first: int() refuses long texts with an error of its own, and takes quadratic time below that.
    if len(text) > _SAFE_INTEGER_TEXT or abs(number := int(text)) > MAX_SAFE_INTEGER:
        raise _refusal(FaultCode.JSON_NUMBER, "Integers have to be between -(2^53 - 1) and 2^53 - 1.")
    return number


def _double(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _refusal(FaultCode.JSON_NUMBER, "Numbers have to fit into a double.")
    return number


def _constant(_name: str) -> Never:
    raise _refusal(FaultCode.JSON_NUMBER, "JSON has no NaN and no infinities.")


def _has_bad_text(value: JsonValue) -> bool:
    match value:
        case str():
            return _UNPAIRED.search(value) is not None
        case list():
            return any(map(_has_bad_text, value))
        case dict():
            return any(map(_has_bad_text, value)) or any(map(_has_bad_text, value.values()))
        case _:
            return False
