"""What waits for a person: ambiguous messages of all tenants, and the decision about one of them."""

from datetime import datetime
from typing import Annotated, Any, Final, Self, assert_never, cast
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel

from api.auth import Authenticator
from api.bodies import read_json_body
from api.command_schema import anchored
from api.faults import FaultCode
from api.fields import LINE, Fields, read_object
from api.messages import known_form
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.schemas import AmbiguityBody, MessageBody, RecipientBody
from api.starter import Starter
from api.strict_json import JsonObject, JsonValue
from db.engine import UnavailableError
from db.ids import MessageId
from db.reading import ListedMessage, MessageReader
from db.records import MessageRef
from db.resolutions import Decision, Resolution, ResolutionRefusal, ResolutionStore

router = APIRouter(prefix="/v1/operator", tags=["operators"])

MAX_REASON_LENGTH: Final = 500
REASON_SCHEMA: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_REASON_LENGTH,
    "pattern": anchored(LINE),
    "description": "Why, for the audit. No address and no content belong here.",
}
#: As Postgres counts attempts.
_MAX_ATTEMPT: Final = 2**31 - 1
_PROVIDER_MESSAGE_ID: Final = "[!-~]{1,255}"


def _schema_of(decision: Decision, *required: str, **more: JsonValue) -> JsonObject:
    """Describe the body of one decision."""
    attempt: JsonObject = {
        "type": "integer",
        "minimum": 1,
        "maximum": _MAX_ATTEMPT,
        "description": "`ambiguity.attempt` as the person saw it.",
    }
    properties: JsonObject = {
        "decision": {"type": "string", "const": str(decision)},
        "attempt": attempt,
        "reason": REASON_SCHEMA,
        "acknowledge_duplicate_risk": {"type": ["boolean", "null"]},
        **more,
    }
    return {
        "type": "object",
        "title": str(decision),
        "properties": properties,
        "required": ["decision", "attempt", "reason", *required],
        "additionalProperties": False,
    }


_RESOLUTION_SCHEMA: Final[JsonObject] = {
    "oneOf": [
        _schema_of(
            Decision.ACCEPTED,
            provider_message_id={
                "type": ["string", "null"],
                "pattern": anchored(_PROVIDER_MESSAGE_ID),
                "description": "The provider's id of the message, where the person found it; for the audit.",
            },
        ),
        _schema_of(
            Decision.RESEND,
            "acknowledge_duplicate_risk",
            acknowledge_duplicate_risk={
                "type": "boolean",
                "const": True,
                "description": "The provider may have taken it already: the recipient may get it twice.",
            },
        ),
        _schema_of(Decision.ABANDON),
    ],
    "examples": [
        {
            "decision": "accepted",
            "attempt": 1,
            "reason": "SES's console shows it",
            "provider_message_id": "010001-example",
        },
        {
            "decision": "resend",
            "attempt": 1,
            "reason": "The recipient got nothing",
            "acknowledge_duplicate_risk": True,
        },
        {"decision": "abandon", "attempt": 1, "reason": "No longer of use"},
    ],
}
#: A message in a path. The format is for OpenAPI: `known_form` judges, after the credential.
_MessagePath = Annotated[str, Path(json_schema_extra={"format": "uuid"})]
_LINKS: Final = {"list": {"operationId": "list_ambiguous"}}
#: Any call of an operator may fail like this, and any with a body like that.
ALWAYS: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.UNAVAILABLE, Code.INTERNAL)
BODY: Final = (Code.INVALID_REQUEST, Code.REQUEST_TOO_LARGE, Code.UNSUPPORTED_MEDIA_TYPE)


class AmbiguousBody(BaseModel):
    """A message that waits for a person. Evidence may still end that without one."""

    id: UUID
    tenant: str
    recipients: list[RecipientBody]
    ambiguity: AmbiguityBody

    @classmethod
    def of(cls, message: ListedMessage) -> Self:
        """Show a message of the list."""
        shown: dict[str, Any] = {
            "id": message.ref.id,
            "tenant": message.ref.tenant_id,
            "recipients": [
                {"role": recipient.role, "address": recipient.redacted, "outcome": recipient.outcome}
                for recipient in message.recipients
            ],
            "ambiguity": AmbiguityBody.model_validate(message.ambiguity, from_attributes=True),
        }
        return cls(**shown)


class OperatorFields(Fields):
    """Reads the members of operators' calls."""

    def reason(self, value: JsonValue) -> str:
        """Read why something is done."""
        detail = f"A reason is one line of 1 to {MAX_REASON_LENGTH} printable characters."
        return self.line(value, "/reason", most=MAX_REASON_LENGTH, detail=detail)

    def flag(self, value: JsonValue, at: str) -> bool:
        """Read a yes or no; a missing one is no."""
        if value is not None and not isinstance(value, bool):
            self.fault(at, FaultCode.WRONG_TYPE, "This has to be true or false.")
        return value is True


@router.get(
    "/ambiguous",
    operation_id="list_ambiguous",
    summary="List what waits for a person",
    response_model=PageBody[AmbiguousBody],
    responses={
        200: {"description": "A page of the ambiguous messages of all tenants, oldest first.", "headers": LINK_HEADER},
        **documented(*ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": PAGE_PARAMETERS},
)
async def list_ambiguous(request: Request) -> Response:
    """List the messages of which nobody knows whether the provider took them, with what is known, oldest first."""
    await cast("Authenticator", request.app.state.authenticator).operator(request)
    query = Query(request)
    query.refuse()
    place = cast("Cursors", request.app.state.cursors).read(query, of="ambiguous")
    after = None if place is None else (datetime.fromisoformat(place[0]), MessageId(UUID(place[1])))
    found = await cast("MessageReader", request.app.state.reader).ambiguous(after=after, limit=query.at_most)
    return page(
        request,
        query,
        found,
        of="ambiguous",
        show=AmbiguousBody.of,
        place=lambda message: [message.updated_at.isoformat(), str(message.ref.id)],
    )


@router.post(
    "/messages/{message_id}/resolution",
    operation_id="resolve_message",
    summary="Decide about an ambiguous message",
    responses={
        200: {"description": "The message as it stands after the decision.", "links": _LINKS},
        **documented(*ALWAYS, *BODY, Code.DUPLICATE_RISK_NOT_ACKNOWLEDGED, Code.NOT_FOUND, Code.NOT_AMBIGUOUS),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _RESOLUTION_SCHEMA}}}},
)
async def resolve_message(request: Request, message_id: _MessagePath) -> MessageBody:
    """Decide what becomes of an ambiguous message, about the attempt that the person saw; of many decisions one counts.

    `accepted`: the provider took it. `resend`: it goes out again, with a fresh count of attempts and a fresh age; the
    recipient may get it twice. `abandon`: nothing more is sent. After an answer that was lost, the message or the list
    shows whether the decision was taken; asking again is then `not_ambiguous`.
    """
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    resolution = _read(read_object(await read_json_body(request)), by=operator.credential_id)
    store = cast("ResolutionStore", request.app.state.resolutions)
    message = await _resolve(store, known_form(message_id), resolution)
    if resolution.decision is Decision.RESEND:
        cast("Starter", request.app.state.starter).want(message)
    found = await cast("MessageReader", request.app.state.reader).message(message.tenant_id, message.id)
    if found is None:
        raise Problem(Code.NOT_FOUND)
    return MessageBody.of_one(found, replay=False)


def _read(body: JsonObject, *, by: str) -> Resolution:
    fields = OperatorFields()
    fields.only(body, {"decision", "attempt", "reason", "provider_message_id", "acknowledge_duplicate_risk"})
    decision = fields.choice(body.get("decision"), "/decision", Decision)
    attempt = fields.integer(body.get("attempt"), "/attempt", least=1, most=_MAX_ATTEMPT)
    reason = fields.reason(body.get("reason"))
    at_provider = None
    if body.get("provider_message_id") is not None:
        at_provider = fields.text(body["provider_message_id"], "/provider_message_id", _PROVIDER_MESSAGE_ID)
        if decision is not Decision.ACCEPTED:
            fields.fault("/provider_message_id", FaultCode.NOT_ALLOWED, "This goes with the decision `accepted` only.")
    acknowledged = fields.flag(body.get("acknowledge_duplicate_risk"), "/acknowledge_duplicate_risk")
    fields.refuse()
    if decision is Decision.RESEND and not acknowledged:
        raise Problem(Code.DUPLICATE_RISK_NOT_ACKNOWLEDGED)
    return Resolution(attempt=attempt, decision=decision, reason=reason, provider_message_id=at_provider, by=by)


async def _resolve(store: ResolutionStore, message_id: MessageId, resolution: Resolution) -> MessageRef:
    """Resolve, and find out what became of a COMMIT that got no reply; where Postgres is still away, nobody knows."""
    try:
        outcome = await store.resolve(message_id, resolution)
    except UnavailableError:
        happened = await store.reread(message_id, resolution)
        if happened is None:
            raise
        return happened
    if isinstance(outcome, MessageRef):
        return outcome
    match outcome:
        case ResolutionRefusal.UNKNOWN:
            raise Problem(Code.NOT_FOUND)
        case ResolutionRefusal.NOT_AMBIGUOUS:
            raise Problem(Code.NOT_AMBIGUOUS)
        case _:
            assert_never(outcome)
