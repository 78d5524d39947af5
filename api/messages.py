"""Sending a message, reading it, and listing a tenant's messages."""

import re
from datetime import datetime
from typing import Annotated, Any, Final, cast
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response

from api.auth import Authenticator, Scope
from api.bodies import read_json_body
from api.command import TAG, IdempotencyKeyInvalid, IdempotencyKeyMissing, parse_command, parse_idempotency_key
from api.command_schema import IDEMPOTENCY_KEY, SEND_COMMAND_SCHEMA, TIME_SCHEMA, anchored
from api.fields import PURPOSE
from api.intake import Intake, Verdict
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.schemas import ListedMessageBody, MessageBody, located
from db.ids import MessageId
from db.lifecycle import State
from db.reading import MessageFilter, MessageReader, Place

router = APIRouter(prefix="/v1/messages", tags=["messages"])

_REPLAYED: Final = {
    "Idempotent-Replayed": {
        "description": "`true`: this command was accepted before, and this is its message as it now stands.",
        "required": True,
        "schema": {"type": "string", "enum": ["true"]},
    }
}
_LOCATION: Final = located("the message")
_IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "1 to 255 printable ASCII characters, yours to choose; a UUID does. The same key and command give"
    " the same message for ever, the same key and another command 409. One pair of quotes around it is taken off.",
    "schema": IDEMPOTENCY_KEY,
    "example": "order-17-receipt",
}
_LINKS: Final = {
    "read": {"operationId": "get_message", "parameters": {"message_id": "$response.body#/id"}},
    "list": {"operationId": "list_messages", "parameters": {"query.purpose": "$response.body#/purpose"}},
}
_FILTERS: Final[list[dict[str, Any]]] = [
    {"name": "state", "in": "query", "schema": {"type": "string", "enum": [str(state) for state in State]}},
    {"name": "purpose", "in": "query", "schema": {"type": "string", "pattern": anchored(PURPOSE)}},
    {
        "name": "tag",
        "in": "query",
        "description": "`NAME:VALUE`: messages with this tag.",
        "schema": {"type": "string", "pattern": anchored(f"{TAG}:{TAG}")},
    },
    {
        "name": "created_after",
        "in": "query",
        "description": "RFC 3339, inclusive.",
        "schema": TIME_SCHEMA,
    },
    {
        "name": "created_before",
        "in": "query",
        "description": "RFC 3339, exclusive.",
        "schema": TIME_SCHEMA,
    },
]
_UUID: Final = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
#: Any call may fail like this.
_ALWAYS: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.UNAVAILABLE, Code.INTERNAL)


@router.post(
    "",
    operation_id="send_message",
    summary="Send a message",
    status_code=202,
    response_model=MessageBody,
    responses={
        202: {
            "description": "Accepted: the message is stored, and will be submitted.",
            "headers": _LOCATION,
            "links": _LINKS,
        },
        200: {
            "model": MessageBody,
            "description": "An exact replay.",
            "headers": {**_LOCATION, **_REPLAYED},
            "links": _LINKS,
        },
        **documented(
            *_ALWAYS,
            Code.IDEMPOTENCY_KEY_MISSING,
            Code.IDEMPOTENCY_KEY_INVALID,
            Code.IDEMPOTENCY_CONFLICT,
            Code.INVALID_REQUEST,
            Code.TEMPLATE_NOT_FOUND,
            Code.SENDER_NOT_FOUND,
            Code.SENDER_DISABLED,
            Code.TENANT_DISABLED,
            Code.RATE_LIMITED,
            Code.REQUEST_TOO_LARGE,
            Code.UNSUPPORTED_MEDIA_TYPE,
        ),
    },
    openapi_extra={
        "parameters": [_IDEMPOTENCY_KEY],
        "requestBody": {"required": True, "content": {"application/json": {"schema": SEND_COMMAND_SCHEMA}}},
    },
)
async def send_message(request: Request) -> Response:
    """Accept a command, once for ever.

    Sending it again, at any later time, gives the same message as it now stands, and sends nothing.
    """
    authenticator = cast("Authenticator", request.app.state.authenticator)
    intake = cast("Intake", request.app.state.intake)
    caller = await authenticator.tenant(request, Scope.MESSAGES_SEND)
    try:
        key = parse_idempotency_key(request.headers.getlist("idempotency-key"))
    except IdempotencyKeyMissing:
        raise Problem(Code.IDEMPOTENCY_KEY_MISSING) from None
    except IdempotencyKeyInvalid:
        raise Problem(Code.IDEMPOTENCY_KEY_INVALID) from None
    command = parse_command(await read_json_body(request))
    accepted = await intake.accept(caller, key, command)
    reader = cast("MessageReader", request.app.state.reader)
    message = accepted.message or await reader.message(caller.tenant_id, accepted.message_id)
    if message is None:
        raise Problem(Code.NOT_FOUND)
    replay = accepted.verdict is Verdict.REPLAY
    headers = {"Location": f"/v1/messages/{accepted.message_id}"}
    if replay:
        headers["Idempotent-Replayed"] = "true"
    body = MessageBody.of_one(message, replay=replay)
    return Response(
        body.model_dump_json(by_alias=True),
        status_code=200 if replay else 202,
        headers=headers,
        media_type="application/json",
    )


@router.get(
    "",
    operation_id="list_messages",
    summary="List messages",
    response_model=PageBody[ListedMessageBody],
    responses={
        200: {"description": "A page of the tenant's messages, newest first.", "headers": LINK_HEADER},
        **documented(*_ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": [*_FILTERS, *PAGE_PARAMETERS]},
)
async def list_messages(request: Request) -> Response:
    """List the tenant's messages, newest first, without attempts and timeline. Filters hold all together.

    A message that is accepted meanwhile stands before the first page, and is on none of the later ones.
    """
    authenticator = cast("Authenticator", request.app.state.authenticator)
    reader = cast("MessageReader", request.app.state.reader)
    cursors = cast("Cursors", request.app.state.cursors)
    caller = await authenticator.tenant(request, Scope.MESSAGES_READ)
    query = Query(request, [parameter["name"] for parameter in _FILTERS])
    wanted = _filter(query)
    query.refuse()
    name = f"messages of {caller.tenant_id}"
    place = cursors.read(query, of=name)
    after = None if place is None else _place(*place)
    found = await reader.messages(caller.tenant_id, wanted, after=after, limit=query.at_most)
    return page(
        request,
        query,
        found,
        of=name,
        show=ListedMessageBody.of,
        place=lambda message: [message.created_at.isoformat(), str(message.ref.id)],
    )


def _place(created_at: str, message_id: str) -> Place:
    return Place(created_at=datetime.fromisoformat(created_at), message_id=MessageId(UUID(message_id)))


def _filter(query: Query) -> MessageFilter:
    given = query.given
    tag = query.text(given["tag"], "/tag", f"{TAG}:{TAG}").partition(":") if "tag" in given else None
    return MessageFilter(
        state=query.choice(given["state"], "/state", State) if "state" in given else None,
        purpose=query.text(given["purpose"], "/purpose", PURPOSE) if "purpose" in given else None,
        tag=(tag[0], tag[2]) if tag else None,
        created_after=query.time(given["created_after"], "/created_after") if "created_after" in given else None,
        created_before=query.time(given["created_before"], "/created_before") if "created_before" in given else None,
    )


@router.get(
    "/{message_id}",
    operation_id="get_message",
    summary="Read a message",
    responses={200: {"description": "The message as it stands."}, **documented(*_ALWAYS, Code.NOT_FOUND)},
)
async def get_message(
    request: Request, message_id: Annotated[str, Path(json_schema_extra={"format": "uuid"})]
) -> MessageBody:
    """Read a message: its state, attempts and timeline, redacted. Somebody else's id answers like none."""
    authenticator = cast("Authenticator", request.app.state.authenticator)
    reader = cast("MessageReader", request.app.state.reader)
    caller = await authenticator.tenant(request, Scope.MESSAGES_READ)
    message = await reader.message(caller.tenant_id, known_form(message_id))
    if message is None:
        raise Problem(Code.NOT_FOUND)
    return MessageBody.of_one(message, replay=False)


def known_form(text: str) -> MessageId:
    """Read an id as we write it; UUID itself takes braces and more. Raises `not_found` for anything else."""
    if not re.fullmatch(_UUID, text):
        raise Problem(Code.NOT_FOUND)
    return MessageId(UUID(text))
