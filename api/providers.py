"""The switch of each provider: an operator pauses it, and resumes it."""

import re
from typing import Annotated, Any, Final, Self, cast

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from api.auth import Authenticator
from api.bodies import has_body, read_json_body
from api.command_schema import anchored
from api.fields import read_object
from api.operators import ALWAYS, BODY, REASON_SCHEMA, OperatorFields
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.schemas import Time
from api.strict_json import JsonObject
from db.providers import Provider, ProviderStore

router = APIRouter(prefix="/v1/operator/providers", tags=["operators"])

#: What else stands in a path is nobody's name.
_NAME: Final = "[a-z0-9_-]{1,64}"
#: A provider in a path. The pattern is for OpenAPI: `_known_form` judges, after the credential.
_ProviderPath = Annotated[str, Path(json_schema_extra={"pattern": anchored(_NAME)})]
_SWITCH_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"reason": {**REASON_SCHEMA, "type": ["string", "null"]}},
    "additionalProperties": False,
    "examples": [{"reason": "SES is having an incident"}],
}
_SWITCH_BODY: Final = {"requestBody": {"required": False, "content": {"application/json": {"schema": _SWITCH_SCHEMA}}}}
_THIS: Final = {"name": "$response.body#/name"}


class ProviderBody(BaseModel):
    """A provider, and whether it is switched off."""

    name: str
    paused: bool
    changed_at: Time = Field(description="When it was last switched.")

    @classmethod
    def of(cls, provider: Provider) -> Self:
        """Show a provider."""
        return cls(name=provider.name, paused=provider.paused, changed_at=provider.changed_at)


def _responses(description: str, other: str) -> dict[int | str, dict[str, Any]]:
    links = {
        "list": {"operationId": "list_providers"},
        other: {"operationId": f"{other}_provider", "parameters": _THIS},
    }
    return {200: {"description": description, "links": links}, **documented(*ALWAYS, *BODY, Code.NOT_FOUND)}


@router.get(
    "",
    operation_id="list_providers",
    summary="List providers",
    response_model=PageBody[ProviderBody],
    responses={
        200: {"description": "A page of the providers, by name.", "headers": LINK_HEADER},
        **documented(*ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": PAGE_PARAMETERS},
)
async def list_providers(request: Request) -> Response:
    """List the providers, and whether each is switched off."""
    await cast("Authenticator", request.app.state.authenticator).operator(request)
    query = Query(request)
    query.refuse()
    (after,) = cast("Cursors", request.app.state.cursors).read(query, of="providers") or [""]
    found = await _store(request).page(after=after, at_most=query.at_most)
    return page(request, query, found, of="providers", show=ProviderBody.of, place=lambda provider: [provider.name])


@router.post(
    "/{name}/pause",
    operation_id="pause_provider",
    summary="Switch a provider off",
    responses=_responses("The provider, switched off now or before.", "resume"),
    openapi_extra=_SWITCH_BODY,
)
async def pause_provider(request: Request, name: _ProviderPath) -> ProviderBody:
    """Switch a provider off: no lease is taken, and one that has not begun is given back. Calls under way end normally.

    No attempt is used up, but age goes on. One that is off stays as it is: nothing changes, and its reason is not kept.
    """
    by, reason = await _read(request)
    return _shown(await _store(request).pause(_known_form(name), by=by, reason=reason))


@router.post(
    "/{name}/resume",
    operation_id="resume_provider",
    summary="Switch a provider on",
    responses=_responses("The provider, switched on now or before.", "pause"),
    openapi_extra=_SWITCH_BODY,
)
async def resume_provider(request: Request, name: _ProviderPath) -> ProviderBody:
    """Switch a provider on again; what waits goes out within a minute. One that is on stays as it is."""
    by, reason = await _read(request)
    return _shown(await _store(request).resume(_known_form(name), by=by, reason=reason))


async def _read(request: Request) -> tuple[str, str | None]:
    """Give the operator's credential and the reason, if there is a body with one."""
    operator = await cast("Authenticator", request.app.state.authenticator).operator(request)
    body = read_object(await read_json_body(request)) if has_body(request) else {}
    fields = OperatorFields()
    fields.only(body, {"reason"})
    reason = None if body.get("reason") is None else fields.reason(body["reason"])
    fields.refuse()
    return operator.credential_id, reason


def _store(request: Request) -> ProviderStore:
    return cast("ProviderStore", request.app.state.providers)


def _known_form(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise Problem(Code.NOT_FOUND)
    return name


def _shown(provider: Provider | None) -> ProviderBody:
    if provider is None:
        raise Problem(Code.NOT_FOUND)
    return ProviderBody.of(provider)
