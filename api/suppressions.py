"""Suppressions: addresses that a tenant doesn't mail, looked up, added and removed one at a time."""

from typing import Annotated, Final, Self, cast
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.convertors import Convertor, register_url_convertor
from typing_extensions import override

from api.addresses import Address
from api.auth import Authenticator, Scope
from api.bodies import has_body, read_json_body
from api.command_schema import PLAIN_ADDRESS, anchored
from api.faults import FaultCode
from api.fields import LINE, PURPOSE, Fields, read_object
from api.messages import known_form
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.schemas import Time, located
from api.strict_json import JsonObject, JsonValue
from api.suppression_csv import EVERYTHING
from db.outcomes import SuppressionReason
from db.suppressions import LAST_ID, SuppressedAddress, Suppression, SuppressionStore


class _IdConvertor(Convertor[str]):
    """What may be an id in a path: all but the calls' own words, so that another method of those is 405."""

    regex = "(?!export|import)[^/]+"

    @override
    def convert(self, value: str) -> str:
        return value

    @override
    def to_string(self, value: str) -> str:
        return value


register_url_convertor("suppression", _IdConvertor())

router = APIRouter(prefix="/v1/suppressions", tags=["suppressions"])

MAX_REASON_LENGTH: Final = 1000
_SCOPE_SCHEMA: Final[JsonObject] = {
    "type": ["string", "null"],
    "pattern": anchored(PURPOSE),
    "default": EVERYTHING,
    "description": "`all`, or the purpose whose messages it holds back.",
}
_NEW_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "address": {**PLAIN_ADDRESS, "description": "`a@b.c`, without a name. Letter case doesn't count."},
        "scope": _SCOPE_SCHEMA,
        "reason": {"type": ["string", "null"], "enum": [str(SuppressionReason.MANUAL), None]},
    },
    "required": ["address"],
    "additionalProperties": False,
    "examples": [{"address": "ada@example.com"}, {"address": "ada@example.com", "scope": "newsletter"}],
}
_REASON_SCHEMA: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_REASON_LENGTH,
    "pattern": anchored(LINE),
}
_REMOVAL_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"reason": {**_REASON_SCHEMA, "type": ["string", "null"]}},
    "additionalProperties": False,
    "examples": [{"reason": "They wrote in: the mailbox works again"}],
}
_REASON_PARAMETER: Final = {
    "name": "reason",
    "in": "query",
    "description": "Why, in place of a body; one of the two has to be there, and not both.",
    "schema": _REASON_SCHEMA,
}
_ADDRESS_PARAMETER: Final = {
    "name": "address",
    "in": "query",
    "description": "Only those of this address, in whatever letter case.",
    "schema": PLAIN_ADDRESS,
}
#: A suppression in a path. The format is for OpenAPI: `known_form` judges, after the credential.
_IdPath = Annotated[str, Path(json_schema_extra={"format": "uuid"})]
_LOCATION: Final = located("the suppression")
_THIS: Final = {"suppression_id": "$response.body#/id"}
_LINKS: Final = {
    "read": {"operationId": "get_suppression", "parameters": _THIS},
    "remove": {"operationId": "remove_suppression", "parameters": _THIS},
}
#: Any call may fail like this, and any that writes like that.
ALWAYS: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.UNAVAILABLE, Code.INTERNAL)
WRITING: Final = (
    Code.TENANT_DISABLED,
    Code.RATE_LIMITED,
    Code.INVALID_REQUEST,
    Code.REQUEST_TOO_LARGE,
    Code.UNSUPPORTED_MEDIA_TYPE,
)


class SuppressionBody(BaseModel):
    """A suppression: a standing reason not to mail an address."""

    id: UUID
    address: str
    scope: str = Field(description="`all`, or the purpose whose messages it holds back.")
    reason: SuppressionReason
    message_id: UUID | None = Field(description="The message that bounced or was complained about; null for `manual`.")
    created_at: Time
    removed_at: Time | None
    removed_reason: str | None

    @classmethod
    def of(cls, suppression: Suppression) -> Self:
        """Show a suppression."""
        return cls(
            id=suppression.id,
            address=suppression.address,
            scope=suppression.scope,
            reason=suppression.reason,
            message_id=suppression.message_id,
            created_at=suppression.created_at,
            removed_at=suppression.removed_at,
            removed_reason=suppression.removed_reason,
        )


def store_of(request: Request) -> SuppressionStore:
    """Give where suppressions are kept."""
    return cast("SuppressionStore", request.app.state.suppressions)


def suppressed(request: Request, address: Address, scope: str) -> SuppressedAddress:
    """Give an address in the form in which it is kept and looked up."""
    key: bytes = request.app.state.address_key
    return SuppressedAddress(address=address.spec, address_hash=address.hashed(key), scope=scope)


def _new(body: JsonObject) -> tuple[Address, str]:
    fields = Fields()
    fields.only(body, {"address", "scope", "reason"})
    address = _plain_address(fields, body.get("address"))
    scope = EVERYTHING if body.get("scope") is None else fields.text(body["scope"], "/scope", PURPOSE)
    if body.get("reason") not in (None, SuppressionReason.MANUAL):
        fields.fault("/reason", FaultCode.NOT_ALLOWED, "This is manual: the other reasons are a provider's.")
    fields.refuse()
    # Without an address there was a fault.
    return cast("Address", address), scope


def _plain_address(fields: Fields, value: JsonValue) -> Address | None:
    """Read an address that stands alone: in this form of one, the name would be a member of its own."""
    return fields.address({"address": value}, "")


@router.post(
    "",
    operation_id="add_suppression",
    summary="Suppress an address",
    status_code=201,
    response_model=SuppressionBody,
    responses={
        201: {"description": "Suppressed from now on.", "headers": _LOCATION, "links": _LINKS},
        200: {
            "model": SuppressionBody,
            "description": "What suppresses this address in this scope already, whatever its reason.",
            "headers": _LOCATION,
            "links": _LINKS,
        },
        **documented(*ALWAYS, *WRITING),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _NEW_SCHEMA}}}},
)
async def add_suppression(request: Request) -> Response:
    """Suppress an address: nothing of this scope goes to it any more, nor what was accepted before and still waits.

    Asking again is safe: what suppresses the address in this scope already is given.
    """
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SUPPRESSIONS)
    address, scope = _new(read_object(await read_json_body(request)))
    caller.require_active()
    suppression, added = await store_of(request).add(caller.tenant_id, suppressed(request, address, scope))
    return JSONResponse(
        SuppressionBody.of(suppression).model_dump(mode="json"),
        status_code=201 if added else 200,
        headers={"Location": f"{router.prefix}/{suppression.id}"},
    )


@router.get(
    "",
    operation_id="list_suppressions",
    summary="List suppressions",
    response_model=PageBody[SuppressionBody],
    responses={
        200: {"description": "A page of the tenant's active suppressions, newest first.", "headers": LINK_HEADER},
        **documented(*ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": [_ADDRESS_PARAMETER, *PAGE_PARAMETERS]},
)
async def list_suppressions(request: Request) -> Response:
    """List the tenant's suppressions that hold, newest first, or those of one address."""
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SUPPRESSIONS)
    query = Query(request, {"address"})
    address = _plain_address(query, query.given["address"]) if "address" in query.given else None
    query.refuse()
    name = f"suppressions of {caller.tenant_id}"
    (before,) = cast("Cursors", request.app.state.cursors).read(query, of=name) or [str(LAST_ID)]
    found = await store_of(request).page(
        caller.tenant_id,
        address_hash=None if address is None else suppressed(request, address, EVERYTHING).address_hash,
        before=UUID(before),
        at_most=query.at_most,
    )
    return page(request, query, found, of=name, show=SuppressionBody.of, place=lambda each: [str(each.id)])


@router.get(
    "/{suppression_id:suppression}",
    operation_id="get_suppression",
    summary="Read a suppression",
    responses={200: {"description": "The suppression, held or removed."}, **documented(*ALWAYS, Code.NOT_FOUND)},
)
async def get_suppression(request: Request, suppression_id: _IdPath) -> SuppressionBody:
    """Read a suppression, also one that was removed."""
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SUPPRESSIONS)
    found = await store_of(request).find(caller.tenant_id, known_form(suppression_id))
    if found is None:
        raise Problem(Code.NOT_FOUND)
    return SuppressionBody.of(found)


@router.delete(
    "/{suppression_id:suppression}",
    operation_id="remove_suppression",
    summary="Remove a suppression",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Removed, now or before."}, **documented(*ALWAYS, *WRITING, Code.NOT_FOUND)},
    openapi_extra={
        "parameters": [_REASON_PARAMETER],
        "requestBody": {"required": False, "content": {"application/json": {"schema": _REMOVAL_SCHEMA}}},
    },
)
async def remove_suppression(request: Request, suppression_id: _IdPath) -> Response:
    """Remove a suppression, and say why; from now on, its address is mailed again.

    What was removed stays readable, with the first reason. A message that ended `suppressed` is not sent.
    """
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SUPPRESSIONS)
    reason = await _read_reason(request)
    caller.require_active()
    if not await store_of(request).remove(caller.tenant_id, known_form(suppression_id), reason=reason):
        raise Problem(Code.NOT_FOUND)
    return Response(status_code=204)


async def _read_reason(request: Request) -> str:
    """Read why, from the query or from the body."""
    fields = Fields()
    body = read_object(await read_json_body(request)) if has_body(request) else {}
    fields.only(body, {"reason"})
    given = request.query_params.multi_items()
    if any(name != "reason" for name, _ in given):
        fields.fault("", FaultCode.UNKNOWN_FIELD, "The query has a parameter that this call doesn't know.")
    reasons = [body["reason"]] if body.get("reason") is not None else []
    reasons += [value for name, value in given if name == "reason"]
    if len(reasons) > 1:
        fields.fault("/reason", FaultCode.DUPLICATE, "The reason stands in the query or in the body, once.")
    detail = f"A reason is one line of 1 to {MAX_REASON_LENGTH} printable characters."
    reason = fields.line(reasons[0] if reasons else None, "/reason", most=MAX_REASON_LENGTH, detail=detail)
    fields.refuse()
    return reason
