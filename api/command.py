"""The send command: what `POST /v1/messages` takes, checked and brought into one form."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from api.addresses import Address
from api.faults import FaultCode, InvalidRequest
from api.fields import KEY, PURPOSE, Fields, read_object
from api.strict_json import JsonObject, JsonValue

#: SES takes 50 recipients a message, of which `to` is one.
MAX_RECIPIENTS: Final = 50
MAX_REPLY_TO: Final = 10
#: SES v2, botocore's model of MessageHeader; the name and the value have 996 characters together.
MAX_HEADERS: Final = 15
MAX_HEADER_VALUE: Final = 995
MAX_HEADER: Final = 996
MAX_TAGS: Final = 20
MAX_IDEMPOTENCY_KEY: Final = 255
MAX_VERSION: Final = 2**31 - 1

TAG: Final = r"[A-Za-z0-9_-]{1,256}"


def any_case(name: str) -> str:
    """Return a pattern for a name in any letter case."""
    return "".join(f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else letter for letter in name)


_OTHER_HEADERS: Final = (
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "In-Reply-To",
    "References",
    "Auto-Submitted",
    "Feedback-ID",
)
#: X-SES-* headers steer SES itself: one of them would send the provider's events elsewhere, or add tags to them.
_SES_HEADERS: Final = "X-SES-"
#: Header names of at most 126 characters.  No inline flags, so that ECMA 262 and thereby OpenAPI can have it too.
HEADER_NAME: Final = "|".join(
    (rf"[Xx]-(?!{any_case(_SES_HEADERS[2:])})[!-9;-@A-~]{{1,124}}", *map(any_case, _OTHER_HEADERS))
)
HEADER_VALUE: Final = rf"[ -~]{{1,{MAX_HEADER_VALUE}}}"
RESERVED_TAGS: Final = "fencepost_"

_FIELDS: Final = frozenset(
    {"to", "cc", "bcc", "reply_to", "sender", "template", "context", "purpose", "headers", "tags"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRef:
    """One version of a template, which never changes."""

    key: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CustomHeader:
    """A header that the client added.  Two are equal if they differ in the letter case of the name only."""

    folded: str = field(repr=False)
    name: str = field(repr=False, compare=False)
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCommand:
    """A send command, normalised so that commands which CONTRACT section 2 calls equal are equal values.

    What the client left out is empty or None; its sender's and its template's defaults are not filled in yet.
    """

    to: Address = field(repr=False)
    cc: tuple[Address, ...] = field(repr=False)
    bcc: tuple[Address, ...] = field(repr=False)
    reply_to: tuple[Address, ...] = field(repr=False)
    sender: str
    template: TemplateRef
    context: JsonObject = field(repr=False)
    purpose: str | None
    headers: tuple[CustomHeader, ...] = field(repr=False)
    tags: tuple[tuple[str, str], ...] = field(repr=False)


class IdempotencyKeyMissing(Exception):  # noqa: N818  # named like the answer, 400 `idempotency_key_missing`
    """The request has no Idempotency-Key."""


class IdempotencyKeyInvalid(Exception):  # noqa: N818  # named like the answer, 400 `idempotency_key_invalid`
    """The request has two Idempotency-Key headers, or one that is no key."""


def parse_idempotency_key(values: Sequence[str]) -> str:
    """Return the key in a request's Idempotency-Key headers, given each one's value.

    One pair of quotes around it is taken off, and nothing else: `abc` and `"abc"` are one key, and a quote without its
    fellow belongs to the key.  What is left has 1 to 255 printable ASCII characters, and not only spaces (CONTRACT
    section 2).  The key is the client's own: not for logs.
    """
    if not values:
        raise IdempotencyKeyMissing
    key = values[0]
    if len(key) > 1 and key.startswith('"') and key.endswith('"'):
        key = key[1:-1]
    if len(values) > 1 or not key.strip(" ") or not re.fullmatch(rf"[ -~]{{1,{MAX_IDEMPOTENCY_KEY}}}", key):
        raise IdempotencyKeyInvalid
    return key


def parse_command(raw: bytes) -> SendCommand:
    """Return the command in a request's body, whose size the caller has bounded.

    Raises `InvalidRequest` with every fault that was found.
    """
    body = read_object(raw)
    check = _Check()
    check.only(body, _FIELDS)
    to = check.address(body.get("to"), "/to")
    cc = check.address_list(body.get("cc"), "/cc", MAX_RECIPIENTS - 1)
    bcc = check.address_list(body.get("bcc"), "/bcc", MAX_RECIPIENTS - 1)
    if 1 + len(cc) + len(bcc) > MAX_RECIPIENTS:
        check.fault("", FaultCode.TOO_MANY, f"To, cc and bcc have at most {MAX_RECIPIENTS} recipients in all.")
    reply_to = check.address_list(body.get("reply_to"), "/reply_to", MAX_REPLY_TO)
    sender = check.text(body.get("sender"), "/sender", KEY)
    template = check.template(body.get("template"))
    purpose = None if body.get("purpose") is None else check.text(body["purpose"], "/purpose", PURPOSE)
    context = check.members(body.get("context"), "/context")
    headers = check.headers(body.get("headers"))
    tags = check.tags(body.get("tags"))
    if check.faults or to is None:
        raise InvalidRequest(*dict.fromkeys(check.faults))
    return SendCommand(
        to=to,
        cc=cc,
        bcc=bcc,
        reply_to=reply_to,
        sender=sender,
        template=template,
        context=context,
        purpose=purpose,
        headers=headers,
        tags=tags,
    )


class _Check(Fields):
    """Reads the members that only a send command has."""

    def template(self, value: JsonValue) -> TemplateRef:
        if value is None:
            self.missing("/template")
        members = self.members(value, "/template")
        if not isinstance(value, dict):
            return TemplateRef(key="", version=0)
        if members.keys() - {"key", "version"}:
            self.fault("/template", FaultCode.UNKNOWN_FIELD, "A template has the members key and version only.")
        key = self.text(members.get("key"), "/template/key", KEY)
        version = self.integer(members.get("version"), "/template/version", least=1, most=MAX_VERSION)
        return TemplateRef(key=key, version=version)

    def headers(self, value: JsonValue) -> tuple[CustomHeader, ...]:
        at = "/headers"
        headers: dict[str, CustomHeader] = {}
        for name, text in self.strings(value, at, MAX_HEADERS):
            folded = name.lower()
            if folded.startswith(_SES_HEADERS.lower()):
                self.fault(at, FaultCode.RESERVED, f"Headers that start with {_SES_HEADERS} are SES's own.")
            elif not re.fullmatch(HEADER_NAME, name):
                self.fault(at, FaultCode.NOT_ALLOWED, "A header with this name can't be set.")
            elif not re.fullmatch(HEADER_VALUE, text) or len(name) + len(text) > MAX_HEADER:
                detail = f"A header's value has 1 to {MAX_HEADER_VALUE} printable ASCII characters."
                self.fault(at, FaultCode.INVALID_FORMAT, detail)
            elif folded in headers:
                self.fault(at, FaultCode.DUPLICATE, "Two headers differ in letter case only.")
            else:
                headers[folded] = CustomHeader(folded=folded, name=name, value=text)
        return tuple(sorted(headers.values()))

    def tags(self, value: JsonValue) -> tuple[tuple[str, str], ...]:
        at = "/tags"
        tags = list(self.strings(value, at, MAX_TAGS))
        for name, text in tags:
            if name.lower().startswith(RESERVED_TAGS):
                self.fault(at, FaultCode.RESERVED, f"Tags that start with {RESERVED_TAGS} are Fencepost's own.")
            elif not re.fullmatch(TAG, name) or not re.fullmatch(TAG, text):
                self.fault(at, FaultCode.INVALID_FORMAT, f"A tag's name and value have to match {TAG}.")
        return tuple(sorted(tags))
