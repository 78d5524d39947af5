"""The HTTP door of provider events: what SNS posts."""

from typing import Any, Final, cast

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from api.bodies import read_raw_body
from api.certificates import CertificateUnavailableError
from api.event_intake import EventIntake, Received
from api.problems import Code, Problem, documented
from api.sns import MAX_BYTES, NotAnEnvelopeError, UnverifiedError

router = APIRouter(prefix="/v1/provider-events", tags=["provider events"])

_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            # What SNS says of its JSON.
            "text/plain": {
                "schema": {
                    "type": "string",
                    "description": "The envelope of Amazon SNS, a JSON object, as SNS signed it.",
                    "examples": ['{"Type": "Notification", "Message": "..."}'],
                }
            }
        },
    }
}


class ReceivedBody(BaseModel):
    """What became of a notification."""

    result: Received = Field(description="`unmatched` events are kept and looked at again; nothing here asks for more.")


@router.post(
    "/ses",
    operation_id="receive_ses_event",
    summary="Take a notification of SNS",
    responses={
        200: {"description": "Taken: it need not be sent again."},
        **documented(
            Code.EVENT_INVALID,
            Code.EVENT_UNVERIFIED,
            Code.REQUEST_TOO_LARGE,
            Code.UNAVAILABLE,
            Code.INTERNAL,
        ),
    },
    openapi_extra=_BODY,
)
async def receive_ses_event(request: Request) -> ReceivedBody:
    """Take what SNS posts for SES's events: it needs no key, since SNS's signature is checked, and the topic is ours.

    Content types are not looked at: SNS says text/plain for JSON. A subscription is kept for an operator (`fencepost
    events confirm`), and no address that stands in a body is ever called.
    """
    body = await read_raw_body(request, at_most=MAX_BYTES)
    try:
        received = await cast("EventIntake", request.app.state.event_intake).receive(body)
    except NotAnEnvelopeError:
        raise Problem(Code.EVENT_INVALID) from None
    except UnverifiedError:
        raise Problem(Code.EVENT_UNVERIFIED) from None
    except CertificateUnavailableError:
        raise Problem(Code.UNAVAILABLE) from None
    return ReceivedBody(result=received)
