"""What the SES endpoint says: the answers of SES v2's SendEmail, right and wrong."""

import json
import time
import uuid
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP answer, before its framing."""

    status: int
    body: bytes
    content_type: str = "application/json"
    error_type: str | None = None  #: the exception's name in the service model


def new_message_id() -> str:
    """Return an id of the form that SES gives: a time in hexadecimal, a UUID, six zeros."""
    return f"0100{time.time_ns() // 1_000_000:012x}-{uuid.uuid4()}-000000"


def accepted(ses_message_id: str) -> Reply:
    """Return SES's yes."""
    return Reply(status=200, body=json.dumps({"MessageId": ses_message_id}).encode())


def bad_request(text: str) -> Reply:
    """Return the refusal of a request that breaks SES's rules."""
    return _error(400, "BadRequestException", text)


def message_rejected(address: str) -> Reply:
    """Return the refusal that names the recipient, word for word as SES does for an account in its sandbox."""
    return _error(
        400,
        "MessageRejected",
        f"Email address is not verified. The following identities failed the check in region US-EAST-1: {address}",
    )


def _error(status: int, error_type: str, text: str) -> Reply:
    return Reply(status=status, body=json.dumps({"message": text}).encode(), error_type=error_type)


THROTTLED: Final = _error(429, "TooManyRequestsException", "Maximum sending rate exceeded.")
INTERNAL_FAILURE: Final = _error(500, "InternalFailure", "The request failed because of an internal error.")
UNAVAILABLE: Final = _error(503, "ServiceUnavailable", "The service is temporarily unavailable.")
UNREADABLE: Final = _error(400, "SerializationException", "The body is not JSON of the expected shape.")
UNKNOWN_OPERATION: Final = _error(404, "UnknownOperationException", "This simulator knows SendEmail only.")
GARBAGE: Final = Reply(
    status=200, body=b"<!doctype html><title>Welcome</title><h1>It works!</h1>", content_type="text/html"
)
EMPTY: Final = Reply(status=200, body=b"{}")


def protocol_error(status: int) -> Reply:
    """Return the answer to bytes that are not HTTP/1.1, or too many."""
    return _error(status, "BadRequestException", "The request is malformed or too large.")
