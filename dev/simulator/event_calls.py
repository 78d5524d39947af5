"""The control call that publishes one more event, and the certificate that the signatures are checked with."""

import uuid
from http import HTTPStatus
from typing import Annotated, Final

import httpx
from fastapi import APIRouter, HTTPException, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from dev.simulator import publications
from dev.simulator.events import Bounce, Event, EventType
from dev.simulator.publisher import Publisher
from dev.simulator.record import Record
from dev.simulator.send_email import addr_spec

_NOTHING_PUBLISHED: Final = "No event is published: start the simulator with --events-url URL."
_UNKNOWN_SUBMISSION: Final = "ses_message_id: no mail was accepted under it; GET /_sim/submissions lists them all."
_OTHER_EVENT: Final = "sns_message_id: another event was published under it; take a new one, or leave it out."
_NO_ANSWER: Final = "The API behind --events-url does not answer: start it, or start the simulator with another URL."

_Word = Annotated[str, Field(pattern=r"^[A-Za-z]{1,64}$")]


class OneMoreEvent(BaseModel):
    """What to publish; about all of the mail's recipients where none is named."""

    model_config = ConfigDict(extra="forbid", strict=True)

    ses_message_id: str
    # JSON has no enums, so that a strict one would refuse every string.
    type: Annotated[EventType, Field(strict=False)]
    recipients: Annotated[list[str], Field(min_length=1, max_length=50)] | None = None
    bounce_type: _Word = "Permanent"
    bounce_sub_type: _Word = "General"
    status: Annotated[str, Field(pattern=r"^[245]\.\d{1,3}\.\d{1,3}$")] | None = "5.1.1"
    sns_message_id: Annotated[str, Field(pattern=r"^[!-~]{1,100}$")] | None = None


def event_routes(record: Record, publisher: Publisher | None) -> APIRouter:
    """Return the routes about events; without a publisher, the control call says what is missing."""
    router = APIRouter()

    @router.post("/_sim/events")
    async def publish(body: OneMoreEvent) -> dict[str, str | int]:
        if publisher is None:
            raise HTTPException(HTTPStatus.CONFLICT, _NOTHING_PUBLISHED)
        submission = await record.find_accepted(body.ses_message_id)
        if submission is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, _UNKNOWN_SUBMISSION)
        event = _event(body, submission.request.recipients)
        sns_message_id = body.sns_message_id or str(uuid.uuid4())
        publication = await record.run(publications.find_or_add, submission.id, sns_message_id, event)
        if (publication.submission_id, publication.event.type) != (submission.id, event.type):
            raise HTTPException(HTTPStatus.CONFLICT, _OTHER_EVENT)
        try:
            status = await publisher.publish(publication, submission)
        except httpx.TransportError as error:
            raise HTTPException(HTTPStatus.BAD_GATEWAY, _NO_ANSWER) from error
        return {"sns_message_id": sns_message_id, "status": status}

    @router.get("/SimpleNotificationService-{name}.pem", include_in_schema=False)
    async def certificate(name: Annotated[str, Path()]) -> Response:
        if publisher is None or publisher.signer.certificate_path != f"/SimpleNotificationService-{name}.pem":
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return Response(publisher.signer.certificate_pem, media_type="application/x-pem-file")

    return router


def _event(body: OneMoreEvent, all_recipients: tuple[str, ...]) -> Event:
    named = all_recipients if body.recipients is None else body.recipients
    bounce = Bounce(type=body.bounce_type, sub_type=body.bounce_sub_type, status=body.status)
    return Event(
        type=body.type,
        recipients=tuple(dict.fromkeys(addr_spec(recipient) for recipient in named)),
        bounce=bounce if body.type is EventType.BOUNCE else None,
    )
