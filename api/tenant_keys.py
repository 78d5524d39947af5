"""A tenant's API keys: an operator issues, lists, limits, rotates and revokes them."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final, assert_never, cast

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from api import keys
from api.auth import Authenticator, Scope
from api.bodies import has_body, read_json_body
from api.command_schema import anchored
from api.faults import Fault, FaultCode, InvalidRequest
from api.fields import read_object
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.tenant_key_bodies import CHANGE_SCHEMA, ISSUE_SCHEMA, ROTATE_SCHEMA, IssuedKeyBody, KeyBody, KeyFields
from api.tenants import TenantPath, known_form
from db.tenant_keys import KeyRefusal, KeyView, NewSecret, TenantKeyStore

router = APIRouter(prefix="/v1/tenants/{tenant_id}/keys", tags=["tenants"])

#: What else stands in a path is nobody's id.
_ID: Final = "[0-9A-Za-z_-]{1,64}"
#: A key in a path. The pattern is for OpenAPI: `_key_id` judges, after the credential.
_KeyPath = Annotated[str, Path(json_schema_extra={"pattern": anchored(_ID)})]
_THIS: Final = {"tenant_id": "$request.path.tenant_id", "key_id": "$response.body#/id"}
_LINKS: Final = {
    "list": {"operationId": "list_keys", "parameters": {"tenant_id": "$request.path.tenant_id"}},
    "change": {"operationId": "change_key", "parameters": _THIS},
    "rotate": {"operationId": "rotate_key", "parameters": _THIS},
    "revoke": {"operationId": "revoke_key", "parameters": _THIS},
}
_NO_STORE: Final = {
    "Cache-Control": {
        "description": "No cache may keep the key.",
        "required": True,
        "schema": {"type": "string", "enum": ["no-store"]},
    }
}
#: Any call here may fail like this, and any with a body like that.
_ALWAYS: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.NOT_FOUND, Code.UNAVAILABLE, Code.INTERNAL)
_BODY: Final = (Code.INVALID_REQUEST, Code.REQUEST_TOO_LARGE, Code.UNSUPPORTED_MEDIA_TYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mint:
    """Makes this deployment's keys: with its word in them, and stored under its pepper."""

    environment: keys.Environment
    pepper: bytes = field(repr=False)

    def make(self) -> tuple[str, NewSecret]:
        """Make a key: what is shown once, and what is stored."""
        minted = keys.mint(self.environment)
        return minted.key, NewSecret(id=minted.key_id, secret_hash=keys.secret_hash(self.pepper, minted.secret))


@router.post(
    "",
    operation_id="issue_key",
    summary="Issue a key",
    status_code=201,
    response_model=IssuedKeyBody,
    responses={
        201: {"description": "The key, shown this once.", "headers": _NO_STORE, "links": _LINKS},
        **documented(*_ALWAYS, *_BODY),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": ISSUE_SCHEMA}}}},
)
async def issue_key(request: Request, tenant_id: TenantPath) -> Response:
    """Issue a key to a tenant. It is shown this once: an answer that was lost is a key to revoke."""
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    body = read_object(await read_json_body(request))
    fields = KeyFields()
    fields.only(body, {"scopes", "expires_at"})
    scopes = fields.scopes(body.get("scopes"))
    expires_at = None if body.get("expires_at") is None else fields.time(body["expires_at"], "/expires_at")
    fields.refuse()
    key, secret = _mint(request).make()
    store = _store(request)
    outcome = await store.issue(
        known_form(tenant_id), secret, scopes=scopes, expires_at=expires_at, by=operator.credential_id
    )
    return _issued(key, _granted(outcome))


@router.get(
    "",
    operation_id="list_keys",
    summary="List a tenant's keys",
    response_model=PageBody[KeyBody],
    responses={
        200: {"description": "A page of the tenant's keys, newest first.", "headers": LINK_HEADER},
        **documented(*_ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": PAGE_PARAMETERS},
)
async def list_keys(request: Request, tenant_id: TenantPath) -> Response:
    """List a tenant's keys, also those that are expired or revoked, newest first."""
    await cast("Authenticator", request.app.state.authenticator).operator(request)
    query = Query(request)
    query.refuse()
    cursors = cast("Cursors", request.app.state.cursors)
    name = f"keys of {tenant_id}"
    place = cursors.read(query, of=name)
    before = None if place is None else (datetime.fromisoformat(place[0]), place[1])
    found = await _store(request).page(known_form(tenant_id), before=before, at_most=query.at_most)
    if found is None:
        raise Problem(Code.NOT_FOUND)
    return page(request, query, found, of=name, show=KeyBody.of, place=lambda key: [key.created_at.isoformat(), key.id])


@router.patch(
    "/{key_id}",
    operation_id="change_key",
    summary="Change a key's scopes",
    responses={
        200: {"description": "The key as it now stands."},
        **documented(*_ALWAYS, *_BODY, Code.KEY_NOT_ACTIVE),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": CHANGE_SCHEMA}}}},
)
async def change_key(request: Request, tenant_id: TenantPath, key_id: _KeyPath) -> KeyBody:
    """Replace a key's scopes, at once. What it queued goes out only while it has `messages:send`."""
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    body = read_object(await read_json_body(request))
    fields = KeyFields()
    fields.only(body, {"scopes"})
    scopes = fields.scopes(body.get("scopes"))
    fields.refuse()
    outcome = await _store(request).change_scopes(
        known_form(tenant_id), _key_id(key_id), scopes, by=operator.credential_id
    )
    return KeyBody.of(_granted(outcome))


@router.post(
    "/{key_id}/rotate",
    operation_id="rotate_key",
    summary="Rotate a key",
    status_code=201,
    response_model=IssuedKeyBody,
    responses={
        201: {"description": "The key that follows, shown this once.", "headers": _NO_STORE, "links": _LINKS},
        **documented(*_ALWAYS, *_BODY, Code.KEY_NOT_ACTIVE),
    },
    openapi_extra={"requestBody": {"required": False, "content": {"application/json": {"schema": ROTATE_SCHEMA}}}},
)
async def rotate_key(request: Request, tenant_id: TenantPath, key_id: _KeyPath) -> Response:
    """Let a new key follow, with the scopes and the expiry of the old one, which goes on for the overlap.

    What the old one queued goes out all the same. A key is rotated once: of two rotations at once, one gets a key.
    """
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    body = read_object(await read_json_body(request)) if has_body(request) else {}
    fields = KeyFields()
    fields.only(body, {"overlap_seconds"})
    overlap = fields.overlap(body.get("overlap_seconds"))
    fields.refuse()
    key, secret = _mint(request).make()
    outcome = await _store(request).rotate(
        known_form(tenant_id), _key_id(key_id), secret, overlap=overlap, by=operator.credential_id
    )
    return _issued(key, _granted(outcome))


@router.delete(
    "/{key_id}",
    operation_id="revoke_key",
    summary="Revoke a key",
    status_code=204,
    response_model=None,
    responses={204: {"description": "Revoked, now or before."}, **documented(*_ALWAYS)},
)
async def revoke_key(request: Request, tenant_id: TenantPath, key_id: _KeyPath) -> Response:
    """Revoke a key, at once and for ever. What it queued does not go out; the key that followed it stays."""
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    if not await _store(request).revoke(known_form(tenant_id), _key_id(key_id), by=operator.credential_id):
        raise Problem(Code.NOT_FOUND)
    return Response(status_code=204)


def _mint(request: Request) -> Mint:
    return cast("Mint", request.app.state.mint)


def _store(request: Request) -> TenantKeyStore:
    return cast("TenantKeyStore", request.app.state.tenant_keys)


def _key_id(text: str) -> str:
    if not re.fullmatch(_ID, text):
        raise Problem(Code.NOT_FOUND)
    return text


def _granted(outcome: KeyView | KeyRefusal) -> KeyView:
    """Give the key, or raise what the refusal is called outside."""
    if isinstance(outcome, KeyView):
        return outcome
    match outcome:
        case KeyRefusal.UNKNOWN:
            raise Problem(Code.NOT_FOUND)
        case KeyRefusal.NOT_ACTIVE:
            raise Problem(Code.KEY_NOT_ACTIVE)
        case KeyRefusal.EXPIRY_PASSED:
            detail = "This has to be in the future."
            raise InvalidRequest(Fault(pointer="/expires_at", code=FaultCode.OUT_OF_RANGE, detail=detail))
        case _:
            assert_never(outcome)


def _issued(key: str, view: KeyView) -> JSONResponse:
    body = IssuedKeyBody(
        id=view.id, key=key, scopes=[Scope(scope) for scope in view.scopes], expires_at=view.expires_at
    )
    return JSONResponse(body.model_dump(mode="json"), status_code=201, headers={"Cache-Control": "no-store"})
