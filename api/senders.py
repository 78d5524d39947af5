"""Senders: whom a tenant's mail comes from."""

import re
from typing import Annotated, Final, Self, cast

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api import addresses
from api.addresses import Address
from api.auth import Authenticator, Scope
from api.bodies import read_json_body
from api.command import MAX_REPLY_TO
from api.command_schema import NAME, PLAIN_ADDRESS, address_list, anchored
from api.faults import FaultCode, InvalidRequest
from api.fields import KEY, Fields, read_object
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.schemas import Time, located
from api.strict_json import JsonObject, JsonValue
from db.senders import SenderChange, SenderDefaults, SenderState, SenderStore, SenderView

router = APIRouter(prefix="/v1/senders", tags=["senders"])

_MEMBERS: Final[dict[str, JsonValue]] = {
    "address": {**PLAIN_ADDRESS, "description": "`a@b.c`, without a name."},
    "name": NAME,
    "reply_to": address_list(MAX_REPLY_TO, "Where answers go, unless a message says otherwise."),
}
_NEW_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "description": "An absent member, null and an empty list are one and the same.",
    "properties": {"key": {"type": "string", "pattern": anchored(KEY), "examples": ["demo"]}, **_MEMBERS},
    "required": ["key", "address"],
    "additionalProperties": False,
    "examples": [{"key": "demo", "address": "hello@example.com", "name": "Acme", "reply_to": ["help@example.com"]}],
}
_CHANGE_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "description": "What is absent stays; null or an empty list takes the name or the reply-to away.",
    "properties": {**_MEMBERS, "state": {"type": "string", "enum": [str(state) for state in SenderState]}},
    "additionalProperties": False,
    "examples": [{"name": "Acme", "state": "disabled"}],
}
_LOCATION: Final = located("the sender")
#: A sender in a path. The pattern is for OpenAPI: `_known_form` judges, after the credential.
_KeyPath = Annotated[str, Path(json_schema_extra={"pattern": anchored(KEY)})]
_THIS: Final = {"key": "$response.body#/key"}
_LINKS: Final = {
    "read": {"operationId": "get_sender", "parameters": _THIS},
    "change": {"operationId": "change_sender", "parameters": _THIS},
}
#: Any call may fail like this, and any that writes like that.
_ALWAYS: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.UNAVAILABLE, Code.INTERNAL)
_WRITING: Final = (
    Code.TENANT_DISABLED,
    Code.RATE_LIMITED,
    Code.INVALID_REQUEST,
    Code.REQUEST_TOO_LARGE,
    Code.UNSUPPORTED_MEDIA_TYPE,
)


class AddressBody(BaseModel):
    """An address, with the name that goes with it."""

    address: str = Field(examples=["help@example.com"])
    name: str | None


class SenderBody(BaseModel):
    """A sender."""

    key: str = Field(examples=["demo"])
    address: str = Field(examples=["hello@example.com"])
    name: str | None
    reply_to: list[AddressBody]
    state: SenderState
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, sender: SenderView) -> Self:
        """Show a sender."""
        return cls(
            key=sender.key,
            address=sender.defaults.address,
            name=sender.defaults.name,
            reply_to=[AddressBody.model_validate(entry) for entry in sender.defaults.reply_to],
            state=sender.state,
            created_at=sender.created_at,
            updated_at=sender.updated_at,
        )


class _SenderFields(Fields):
    """Reads the members that only a sender has, into the form in which they are stored."""

    def plain_address(self, value: JsonValue) -> str:
        """Read an address that stands alone."""
        # In this form of an address, the name would be a member of its own.
        address = self.address({"address": value}, "")
        return "" if address is None else address.spec

    def name(self, value: JsonValue) -> str | None:
        """Read a display name; null and an empty one are none."""
        if not isinstance(value, str | None):
            self.fault("/name", FaultCode.WRONG_TYPE, "A name is a string.")
            return None
        try:
            return addresses.display_name(value or "", "/name")
        except InvalidRequest as refusal:
            self.faults.extend(refusal.faults)
            return None

    def reply_to(self, value: JsonValue) -> list[dict[str, str | None]]:
        """Read the addresses for answers."""
        return [_stored(address) for address in self.address_list(value, "/reply_to", MAX_REPLY_TO)]


def _stored(address: Address) -> dict[str, str | None]:
    return {"address": address.spec, "name": address.name}


def _new(body: JsonObject) -> tuple[str, SenderDefaults]:
    fields = _SenderFields()
    fields.only(body, {"key", *_MEMBERS})
    key = fields.text(body.get("key"), "/key", KEY)
    defaults = SenderDefaults(
        address=fields.plain_address(body.get("address")),
        name=fields.name(body.get("name")),
        reply_to=fields.reply_to(body.get("reply_to")),
    )
    fields.refuse()
    return key, defaults


def _change(body: JsonObject) -> SenderChange:
    fields = _SenderFields()
    fields.only(body, {"state", *_MEMBERS})
    change = SenderChange()
    if "address" in body:
        change["address"] = fields.plain_address(body["address"])
    if "name" in body:
        change["name"] = fields.name(body["name"])
    if "reply_to" in body:
        change["reply_to"] = fields.reply_to(body["reply_to"])
    if "state" in body:
        change["state"] = fields.choice(body["state"], "/state", SenderState)
    fields.refuse()
    return change


@router.post(
    "",
    operation_id="create_sender",
    summary="Make a sender",
    status_code=201,
    response_model=SenderBody,
    responses={
        201: {"description": "Made, and active.", "headers": _LOCATION, "links": _LINKS},
        200: {
            "model": SenderBody,
            "description": "There is just this sender already, as it stands.",
            "headers": _LOCATION,
            "links": _LINKS,
        },
        **documented(*_ALWAYS, *_WRITING, Code.SENDER_EXISTS),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _NEW_SCHEMA}}}},
)
async def create_sender(request: Request) -> Response:
    """Make a sender. Asking again is safe: just the same sender is given as it stands, another one is a conflict."""
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SENDERS)
    key, defaults = _new(read_object(await read_json_body(request)))
    caller.require_active()
    sender, made = await _store(request).create(caller.tenant_id, key, defaults)
    if sender.defaults != defaults:
        raise Problem(Code.SENDER_EXISTS)
    return JSONResponse(
        SenderBody.of(sender).model_dump(mode="json"),
        status_code=201 if made else 200,
        headers={"Location": f"{router.prefix}/{sender.key}"},
    )


@router.get(
    "",
    operation_id="list_senders",
    summary="List senders",
    response_model=PageBody[SenderBody],
    responses={
        200: {"description": "A page of the tenant's senders, by key.", "headers": LINK_HEADER},
        **documented(*_ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": PAGE_PARAMETERS},
)
async def list_senders(request: Request) -> Response:
    """List the tenant's senders, also those that are switched off, by key."""
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SENDERS)
    query = Query(request)
    query.refuse()
    cursors = cast("Cursors", request.app.state.cursors)
    name = f"senders of {caller.tenant_id}"
    (after,) = cursors.read(query, of=name) or [""]
    found = await _store(request).page(caller.tenant_id, after=after, at_most=query.at_most)
    return page(request, query, found, of=name, show=SenderBody.of, place=lambda sender: [sender.key])


@router.get(
    "/{key}",
    operation_id="get_sender",
    summary="Read a sender",
    responses={200: {"description": "The sender as it stands."}, **documented(*_ALWAYS, Code.NOT_FOUND)},
)
async def get_sender(request: Request, key: _KeyPath) -> SenderBody:
    """Read a sender. Somebody else's key answers like none."""
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SENDERS)
    return _found(await _store(request).find(caller.tenant_id, _known_form(key)))


@router.patch(
    "/{key}",
    operation_id="change_sender",
    summary="Change a sender, switch it off or on",
    responses={
        200: {"description": "The sender as it now stands."},
        **documented(*_ALWAYS, *_WRITING, Code.NOT_FOUND),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _CHANGE_SCHEMA}}}},
)
async def change_sender(request: Request, key: _KeyPath) -> SenderBody:
    """Change a sender (RFC 7396: what is absent stays, null takes away).

    What was accepted before keeps the address, the name and the reply-to that it took. While the sender is switched
    off, nothing goes out from it, also nothing that was accepted before.
    """
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SENDERS)
    change = _change(read_object(await read_json_body(request)))
    caller.require_active()
    return _found(await _store(request).change(caller.tenant_id, _known_form(key), change))


def _store(request: Request) -> SenderStore:
    return cast("SenderStore", request.app.state.senders)


def _known_form(key: str) -> str:
    """Take what a path has for a sender's key. Raises `not_found` for what no sender has for one."""
    if not re.fullmatch(KEY, key):
        raise Problem(Code.NOT_FOUND)
    return key


def _found(sender: SenderView | None) -> SenderBody:
    if sender is None:
        raise Problem(Code.NOT_FOUND)
    return SenderBody.of(sender)
