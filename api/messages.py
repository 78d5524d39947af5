"""POST and GET of messages."""

from typing import Annotated, Final, cast
from uuid import UUID

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse

from api.auth import Authenticator, Scope
from api.bodies import read_json_body
from api.command import IdempotencyKeyInvalid, IdempotencyKeyMissing, parse_command, parse_idempotency_key
from api.command_schema import SEND_COMMAND_SCHEMA
from api.intake import Intake, Verdict
from api.problems import Code, Problem, documented
from api.schemas import MessageBody
from db.ids import MessageId
from db.reading import MessageReader

router = APIRouter(prefix="/v1/messages", tags=["messages"])

_REPLAYED: Final = {
    "Idempotent-Replayed": {
        "description": "`true`: this command was accepted before, and this is its message as it now stands.",
        "schema": {"type": "string", "enum": ["true"]},
    }
}
_LOCATION: Final = {"Location": {"description": "Where the message is read.", "schema": {"type": "string"}}}
#: Any call may fail like this.
_ALWAYS: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.UNAVAILABLE, Code.INTERNAL)


@router.post(
    "",
    operation_id="send_message",
    summary="Send a message",
    status_code=202,
    response_model=MessageBody,
    responses={
        202: {"description": "Accepted: the message is stored, and will be submitted.", "headers": _LOCATION},
        200: {"model": MessageBody, "description": "An exact replay.", "headers": {**_LOCATION, **_REPLAYED}},
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
        "requestBody": {"required": True, "content": {"application/json": {"schema": SEND_COMMAND_SCHEMA}}},
    },
)
async def send_message(
    request: Request,
    idempotency_key: Annotated[  # noqa: ARG001  (for OpenAPI; read from the raw headers, since two must be seen)
        str | None,
        Header(
            description="Required. 1 to 255 printable ASCII characters, yours to choose; a UUID does. The same key and"
            " command give the same message for ever, the same key and another command 409.",
        ),
    ] = None,
) -> Response:
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
    message = await reader.message(caller.tenant_id, accepted.message_id)
    if message is None:
        raise Problem(Code.NOT_FOUND)
    replay = accepted.verdict is Verdict.REPLAY
    headers = {"Location": f"/v1/messages/{accepted.message_id}"}
    if replay:
        headers["Idempotent-Replayed"] = "true"
    body = MessageBody.of(message, replay=replay)
    return JSONResponse(
        body.model_dump(mode="json", by_alias=True), status_code=200 if replay else 202, headers=headers
    )


@router.get(
    "/{message_id}",
    operation_id="get_message",
    summary="Read a message",
    responses={200: {"description": "The message as it stands."}, **documented(*_ALWAYS, Code.NOT_FOUND)},
)
async def get_message(request: Request, message_id: str) -> MessageBody:
    """Read a message: its state, attempts and timeline, redacted. Somebody else's id answers like none."""
    authenticator = cast("Authenticator", request.app.state.authenticator)
    reader = cast("MessageReader", request.app.state.reader)
    caller = await authenticator.tenant(request, Scope.MESSAGES_READ)
    try:
        wanted = MessageId(UUID(message_id))
    except ValueError:
        raise Problem(Code.NOT_FOUND) from None
    message = await reader.message(caller.tenant_id, wanted)
    if message is None:
        raise Problem(Code.NOT_FOUND)
    return MessageBody.of(message, replay=False)
