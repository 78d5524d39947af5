"""Tenants: an operator makes, lists, names and switches them."""

import re
from typing import Annotated, Final, Self, cast

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from api.auth import Authenticator
from api.bodies import read_json_body
from api.command_schema import anchored
from api.fields import LINE, Fields, read_object
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.schemas import Time, located
from api.strict_json import JsonObject, JsonValue
from db.ids import TenantId
from db.tenants import Tenant, TenantState, TenantStore

router = APIRouter(prefix="/v1/tenants", tags=["tenants"])

_MAX_NAME_LENGTH: Final = 200
#: As in the table's CHECK: what else stands in a path is nobody's id.
_ID: Final = "[a-z0-9-]{1,64}"
#: A tenant in a path. The pattern is for OpenAPI: `known_form` judges, after the credential.
TenantPath = Annotated[str, Path(json_schema_extra={"pattern": anchored(_ID)})]

_NAME_SCHEMA: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": _MAX_NAME_LENGTH,
    "pattern": anchored(LINE),
    "examples": ["Acme"],
}
_NEW_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"name": _NAME_SCHEMA},
    "required": ["name"],
    "additionalProperties": False,
    "examples": [{"name": "Acme"}],
}
_CHANGE_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "description": "What is absent stays.",
    "properties": {"name": _NAME_SCHEMA, "state": {"type": "string", "enum": [str(state) for state in TenantState]}},
    "additionalProperties": False,
    "examples": [{"state": "disabled"}],
}
_LOCATION: Final = located("the tenant")
_THIS: Final = {"tenant_id": "$response.body#/id"}
_LINKS: Final = {
    "read": {"operationId": "get_tenant", "parameters": _THIS},
    "change": {"operationId": "change_tenant", "parameters": _THIS},
    "issue_key": {"operationId": "issue_key", "parameters": _THIS},
    "list_keys": {"operationId": "list_keys", "parameters": _THIS},
}
#: Any call of an operator may fail like this, and any with a body like that.
_ALWAYS: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.UNAVAILABLE, Code.INTERNAL)
_BODY: Final = (Code.INVALID_REQUEST, Code.REQUEST_TOO_LARGE, Code.UNSUPPORTED_MEDIA_TYPE)


class TenantBody(BaseModel):
    """A tenant."""

    id: str
    name: str
    state: TenantState
    created_at: Time

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        """Show a tenant."""
        return cls(id=tenant.id, name=tenant.name, state=tenant.state, created_at=tenant.created_at)


class _TenantFields(Fields):
    """Reads the members that only a tenant has."""

    def name(self, value: JsonValue) -> str:
        """Read a tenant's name."""
        detail = f"A name has 1 to {_MAX_NAME_LENGTH} printable characters."
        return self.line(value, "/name", most=_MAX_NAME_LENGTH, detail=detail)


def known_form(tenant_id: str) -> TenantId:
    """Take what a path has for a tenant's id. Raises `not_found` for what no tenant has for one."""
    if not re.fullmatch(_ID, tenant_id):
        raise Problem(Code.NOT_FOUND)
    return TenantId(tenant_id)


@router.post(
    "",
    operation_id="create_tenant",
    summary="Make a tenant",
    status_code=201,
    response_model=TenantBody,
    responses={
        201: {
            "description": "Made, and active.",
            "headers": _LOCATION,
            "links": _LINKS,
        },
        **documented(*_ALWAYS, *_BODY),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _NEW_SCHEMA}}}},
)
async def create_tenant(request: Request) -> Response:
    """Make a tenant. Each call makes one: after an answer that was lost, look for it before you ask again."""
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    body = read_object(await read_json_body(request))
    fields = _TenantFields()
    fields.only(body, {"name"})
    name = fields.name(body.get("name"))
    fields.refuse()
    store = cast("TenantStore", request.app.state.tenants)
    tenant = TenantBody.of(await store.create(name, by=operator.credential_id))
    headers = {"Location": f"{router.prefix}/{tenant.id}"}
    return JSONResponse(tenant.model_dump(mode="json"), status_code=201, headers=headers)


@router.get(
    "",
    operation_id="list_tenants",
    summary="List tenants",
    response_model=PageBody[TenantBody],
    responses={
        200: {"description": "A page of the tenants, oldest first.", "headers": LINK_HEADER},
        **documented(*_ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": PAGE_PARAMETERS},
)
async def list_tenants(request: Request) -> Response:
    """List all tenants, also those that are switched off, oldest first."""
    await cast("Authenticator", request.app.state.authenticator).operator(request)
    query = Query(request)
    query.refuse()
    cursors = cast("Cursors", request.app.state.cursors)
    (after,) = cursors.read(query, of="tenants") or [""]
    found = await cast("TenantStore", request.app.state.tenants).page(after=after, at_most=query.at_most)
    return page(request, query, found, of="tenants", show=TenantBody.of, place=lambda tenant: [tenant.id])


@router.get(
    "/{tenant_id}",
    operation_id="get_tenant",
    summary="Read a tenant",
    responses={200: {"description": "The tenant as it stands."}, **documented(*_ALWAYS, Code.NOT_FOUND)},
)
async def get_tenant(request: Request, tenant_id: TenantPath) -> TenantBody:
    """Read a tenant."""
    await cast("Authenticator", request.app.state.authenticator).operator(request)
    tenant = await cast("TenantStore", request.app.state.tenants).find(known_form(tenant_id))
    if tenant is None:
        raise Problem(Code.NOT_FOUND)
    return TenantBody.of(tenant)


@router.patch(
    "/{tenant_id}",
    operation_id="change_tenant",
    summary="Rename a tenant, switch it off or on",
    responses={
        200: {"description": "The tenant as it now stands."},
        **documented(*_ALWAYS, *_BODY, Code.NOT_FOUND),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _CHANGE_SCHEMA}}}},
)
async def change_tenant(request: Request, tenant_id: TenantPath) -> TenantBody:
    """Change a tenant (RFC 7396: what is absent stays).

    A tenant that is switched off may read and replay; nothing new is taken from it, and what it queued does not go out.
    """
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    body = read_object(await read_json_body(request))
    fields = _TenantFields()
    fields.only(body, {"name", "state"})
    name = fields.name(body["name"]) if "name" in body else None
    state = fields.choice(body["state"], "/state", TenantState) if "state" in body else None
    fields.refuse()
    store = cast("TenantStore", request.app.state.tenants)
    tenant = await store.change(known_form(tenant_id), name=name, state=state, by=operator.credential_id)
    if tenant is None:
        raise Problem(Code.NOT_FOUND)
    return TenantBody.of(tenant)
