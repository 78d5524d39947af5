"""What is wrong with a request's input, said without repeating any of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class FaultCode(StrEnum):
    """Why an input was refused; a closed list that clients may switch on."""

    JSON_ENCODING = "json_encoding"  #: not UTF-8, or with a byte order mark
    JSON_MALFORMED = "json_malformed"  #: not one JSON text
    JSON_DUPLICATE_KEY = "json_duplicate_key"  #: an object names a member twice
    JSON_NUMBER = "json_number"  #: NaN, infinite, or an integer that a double can't hold exactly
    JSON_TEXT = "json_text"  #: a string with U+0000 or half a surrogate pair
    JSON_DEPTH = "json_depth"  #: nested too deeply

    CSV_ENCODING = "csv_encoding"  #: not UTF-8
    CSV_MALFORMED = "csv_malformed"  #: no CSV from some line on: a quote too many, U+0000
    CSV_HEADER = "csv_header"  #: the first line doesn't name the columns
    CSV_COLUMNS = "csv_columns"  #: a line with more or fewer cells than there are columns

    REQUIRED = "required"  #: the member is missing
    UNKNOWN_FIELD = "unknown_field"  #: the object has a member that nobody asked for
    WRONG_TYPE = "wrong_type"  #: another JSON type is wanted
    INVALID_FORMAT = "invalid_format"  #: the right type, but not the right characters or form
    NOT_ALLOWED = "not_allowed"  #: not one of the allowed values
    RESERVED = "reserved"  #: the name belongs to Fencepost or to the provider
    DUPLICATE = "duplicate"  #: given twice
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    TOO_FEW = "too_few"
    TOO_MANY = "too_many"
    OUT_OF_RANGE = "out_of_range"
    INVALID = "invalid"  #: against the schema in another way

    ADDRESS_INVALID = "address_invalid"  #: not one mail address that can be delivered to
    NAME_INVALID = "name_invalid"  #: a display name that can't stand in a mail header

    SCHEMA_INVALID = "schema_invalid"  #: the context schema is no usable JSON Schema, Draft 2020-12
    TEMPLATE_SYNTAX = "template_syntax"  #: the template can't be read
    TEMPLATE_FORBIDDEN = "template_forbidden"  #: the template uses what is switched off, such as `safe`
    TEMPLATE_UNDEFINED = "template_undefined"  #: the template uses a value that nobody gave
    TEMPLATE_FAILED = "template_failed"  #: the template can't work with these values
    TEMPLATE_TOO_COSTLY = "template_too_costly"  #: checking or rendering takes more work or memory than allowed
    CONTEXT_TOO_LARGE = "context_too_large"
    RENDERED_TOO_LARGE = "rendered_too_large"
    SUBJECT_NOT_ONE_LINE = "subject_not_one_line"  #: a line break or control character after rendering


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong, and where.

    `pointer` is an RFC 6901 JSON pointer into the request's body, and `detail` is for people.  Neither holds
    anything of the input: a fault in a member whose name the client made up points at the member's parent.
    """

    pointer: str
    code: str
    detail: str


class InvalidRequest(Exception):  # noqa: N818  # named like the answer that it becomes, 422 `invalid_request`
    """The input cannot be taken; `faults` say why, and are safe to show and to log."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(", ".join(f"{fault.code} at {fault.pointer or 'the document'}" for fault in faults))
        self.faults = faults


def pointer(*tokens: str | int) -> str:
    """Return the RFC 6901 pointer made of reference tokens; none of them means the whole document."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def refuse(faults: Iterable[Fault]) -> None:
    """Raise `InvalidRequest` if there is any fault."""
    found = tuple(faults)
    if found:
        raise InvalidRequest(*found)
