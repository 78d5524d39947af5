"""The request of SES v2's SendEmail: its shape, and what SES refuses in it.

Shape, patterns and limits are those of botocore's service model ``sesv2/2019-09-27``.
"""

import re
from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_pascal

MAX_RECIPIENTS: Final = 50
MAX_HEADERS: Final = 15
MAX_HEADER_LENGTH: Final = 996

_ADDRESS: Final = re.compile(r"[!-?A-~]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_HEADER_NAME: Final = re.compile(r"[!-9;-~]{1,126}")
_HEADER_VALUE: Final = re.compile(r"[ -~]{1,995}")
_TAG: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal, frozen=True, strict=True)


class Part(_Shape):
    """One text of a message, such as its subject (SES calls it Content)."""

    data: str


class Body(_Shape):
    """The two forms of a message's text."""

    text: Part | None = None
    html: Part | None = None


class Header(_Shape):
    """One custom header."""

    name: str
    value: str


class Simple(_Shape):
    """A message that SES itself puts together (SES calls it Message)."""

    subject: Part
    body: Body
    headers: tuple[Header, ...] = ()


class Content(_Shape):
    """What to mail; SES takes raw and templated content too, the simulator does not."""

    simple: Simple | None = None


class Destination(_Shape):
    """The recipients."""

    to_addresses: tuple[str, ...] = ()
    cc_addresses: tuple[str, ...] = ()
    bcc_addresses: tuple[str, ...] = ()


class Tag(_Shape):
    """A name and a value that come back with each provider event."""

    name: str
    value: str


class SendEmail(_Shape):
    """One request, as it came; everything that it may lack is empty."""

    from_email_address: str | None = None
    destination: Destination = Destination()
    reply_to_addresses: tuple[str, ...] = ()
    content: Content = Content()
    email_tags: tuple[Tag, ...] = ()
    configuration_set_name: str | None = None

    @property
    def recipients(self) -> tuple[str, ...]:
        """All recipients, in the order to, cc, bcc."""
        destination = self.destination
        return destination.to_addresses + destination.cc_addresses + destination.bcc_addresses

    @property
    def tags(self) -> dict[str, str]:
        """The tags by name."""
        return {tag.name: tag.value for tag in self.email_tags}


def parse(body: bytes) -> SendEmail | None:
    """Read a request's body; None where it is not JSON of SendEmail's shape."""
    try:
        return SendEmail.model_validate_json(body)
    except ValidationError:
        return None


def addr_spec(address: str) -> str:
    """Return the bare address of ``Name <address>`` or ``address``."""
    return address.rpartition("<")[2].removesuffix(">") if address.endswith(">") else address


def refusal(request: SendEmail) -> str | None:
    """Return the first thing that SES answers with BadRequestException, or None where it takes the request.

    The text repeats nothing of what was asked. Any configuration set passes, as does none.
    """
    return next(_refusals(request), None)


def _refusals(request: SendEmail) -> Iterator[str]:
    if request.from_email_address is None:
        yield "FromEmailAddress is missing."
    else:
        yield from _address_refusals(request.from_email_address)
    if not request.recipients:
        yield "Destination has no recipient."
    if len(request.recipients) > MAX_RECIPIENTS:
        yield f"Recipient count exceeds {MAX_RECIPIENTS}."
    for address in request.recipients + request.reply_to_addresses:
        yield from _address_refusals(address)
    for tag in request.email_tags:
        if not (_TAG.fullmatch(tag.name) and _TAG.fullmatch(tag.value)):
            yield "A tag's name and value have 1 to 256 ASCII letters, digits, underscores or dashes."
    if request.content.simple is None:
        yield "Content.Simple is missing; this simulator takes no raw or templated content."
    else:
        yield from _message_refusals(request.content.simple)


def _address_refusals(address: str) -> Iterator[str]:
    bare = addr_spec(address)
    if "@" not in bare:
        # The wording is SES's own.
        yield "Missing final '@domain'"
    elif not _ADDRESS.fullmatch(bare):
        yield "Illegal address"


def _message_refusals(message: Simple) -> Iterator[str]:
    if message.body.text is None and message.body.html is None:
        yield "Content.Simple.Body has neither Text nor Html."
    if len(message.headers) > MAX_HEADERS:
        yield f"A message has at most {MAX_HEADERS} headers."
    for header in message.headers:
        if not _HEADER_NAME.fullmatch(header.name):
            yield "A header's name has 1 to 126 printable ASCII characters but the colon."
        if not _HEADER_VALUE.fullmatch(header.value):
            yield "A header's value has 1 to 995 printable ASCII characters."
        if len(header.name) + len(header.value) > MAX_HEADER_LENGTH:
            yield f"A header's name and value have at most {MAX_HEADER_LENGTH} characters together."
