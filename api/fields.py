"""Reading the members of a body, and the parameters of a query: each checked, and every fault gathered."""

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeVar

from api import addresses, strict_json
from api.addresses import Address
from api.faults import Fault, FaultCode, InvalidRequest
from api.strict_json import JsonObject, JsonValue

#: A name that a tenant chooses: of a sender, a template.
KEY: Final = r"[a-z0-9][a-z0-9_-]{0,63}"
PURPOSE: Final = r"[a-z0-9_]{1,32}"
_UNPRINTABLE: Final = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_SPACES: Final = r" \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
#: A line for people: something to be seen, and nothing that breaks it.
LINE: Final = rf"[^{_UNPRINTABLE}]*[^{_UNPRINTABLE}{_SPACES}][^{_UNPRINTABLE}]*"
#: RFC 3339 section 5.6, with at most the microseconds that Postgres keeps.
TIME: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]{1,6})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"

_Choice = TypeVar("_Choice", bound=StrEnum)


def read_object(raw: bytes) -> JsonObject:
    """Return the object that a body is; raises InvalidRequest for anything else."""
    body = strict_json.parse(raw)
    if not isinstance(body, dict):
        raise InvalidRequest(Fault(pointer="", code=FaultCode.WRONG_TYPE, detail="The body has to be an object."))
    return body


class Fields:
    """Reads fields and gathers what is wrong.  After a fault, what it returns only has the right type.

    A missing member and null are the same.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def refuse(self) -> None:
        """Raise InvalidRequest if anything was wrong."""
        if self.faults:
            raise InvalidRequest(*dict.fromkeys(self.faults))

    def fault(self, at: str, code: FaultCode, detail: str) -> None:
        """Note a fault."""
        self.faults.append(Fault(pointer=at, code=code, detail=detail))

    def missing(self, at: str) -> None:
        """Note that a member is missing."""
        self.fault(at, FaultCode.REQUIRED, "This member is missing.")

    def only(self, members: Iterable[str], known: Collection[str]) -> None:
        """Refuse members that nobody asked for; the pointer is the body, since their names are the client's."""
        if not set(known).issuperset(members):
            self.fault("", FaultCode.UNKNOWN_FIELD, "The body has a member that this call doesn't know.")

    def text(self, value: JsonValue, at: str, pattern: str) -> str:
        """Read a string that matches a pattern as a whole."""
        if value is None:
            self.missing(at)
        elif not isinstance(value, str):
            self.fault(at, FaultCode.WRONG_TYPE, "This has to be a string.")
        elif not re.fullmatch(pattern, value):
            self.fault(at, FaultCode.INVALID_FORMAT, f"This has to match {pattern}.")
        else:
            return value
        return ""

    def line(self, value: JsonValue, at: str, *, most: int, detail: str) -> str:
        """Read a line for people of at most so many characters."""
        if isinstance(value, str) and (len(value) > most or not re.fullmatch(LINE, value)):
            self.fault(at, FaultCode.INVALID_FORMAT, detail)
        return self.text(value, at, r"[\s\S]*")

    def integer(self, value: JsonValue, at: str, *, least: int, most: int) -> int:
        """Read an integer within bounds."""
        if value is None:
            self.missing(at)
        # 1.0 is 1 in JSON, and true is no number.
        elif isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            self.fault(at, FaultCode.WRONG_TYPE, "This has to be an integer.")
        elif not least <= value <= most:
            self.fault(at, FaultCode.OUT_OF_RANGE, f"This is between {least} and {most}.")
        else:
            return int(value)
        return least

    def time(self, value: JsonValue, at: str) -> datetime:
        """Read a moment (RFC 3339); it has to have a zone, since a moment without one is none."""
        text = self.text(value, at, TIME)
        if text:
            try:
                return datetime.fromisoformat(text.upper()).astimezone(UTC)
            except (ValueError, OverflowError):
                self.fault(at, FaultCode.INVALID_FORMAT, "There is no such moment.")
        return datetime.min.replace(tzinfo=UTC)

    def choice(self, value: JsonValue, at: str, choices: type[_Choice]) -> _Choice:
        """Read one of a closed list."""
        if value is None:
            self.missing(at)
        elif not isinstance(value, str):
            self.fault(at, FaultCode.WRONG_TYPE, "This has to be a string.")
        elif value not in set(choices):
            self.fault(at, FaultCode.NOT_ALLOWED, f"This is one of {', '.join(choices)}.")
        else:
            return choices(value)
        return next(iter(choices))

    def address(self, value: JsonValue, at: str) -> Address | None:
        """Read an address, in one of the forms of CONTRACT section 2."""
        if value is None:
            self.fault(at, FaultCode.REQUIRED, "An address is missing.")
            return None
        try:
            return addresses.parse(value, at)
        except InvalidRequest as refusal:
            self.faults.extend(refusal.faults)
            return None

    def address_list(self, value: JsonValue, at: str, limit: int) -> tuple[Address, ...]:
        """Read a list of addresses; a missing one is empty."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fault(at, FaultCode.WRONG_TYPE, "This has to be a list of addresses.")
            return ()
        if len(value) > limit:
            self.fault(at, FaultCode.TOO_MANY, f"This list has at most {limit} addresses.")
            return ()
        found = (self.address(item, f"{at}/{index}") for index, item in enumerate(value))
        return tuple(address for address in found if address is not None)

    def members(self, value: JsonValue, at: str) -> JsonObject:
        """Read an object; a missing one is empty."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fault(at, FaultCode.WRONG_TYPE, "This has to be an object.")
            return {}
        return value

    def strings(self, value: JsonValue, at: str, limit: int) -> Iterator[tuple[str, str]]:
        """Yield the members of an object of strings.  The faults' pointer is the object: the names are the client's."""
        members = self.members(value, at)
        if len(members) > limit:
            self.fault(at, FaultCode.TOO_MANY, f"This object has at most {limit} members.")
            return
        for name, text in members.items():
            if isinstance(text, str):
                yield name, text
            else:
                self.fault(at, FaultCode.WRONG_TYPE, "Every value here has to be a string.")
