"""Templates: publishing versions, reading them, and looking at what one makes of a context."""

import asyncio
import re
from typing import Annotated, Final, cast

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from api.auth import Authenticator, Scope, TenantCaller
from api.bodies import read_json_body
from api.command import MAX_VERSION
from api.faults import FaultCode
from api.fields import KEY, PURPOSE, Fields, read_object
from api.pages import LINK_HEADER, PAGE_PARAMETERS, Cursors, PageBody, Query, page
from api.problems import Code, Problem, documented
from api.rendering import TemplateParts, check_template, render
from api.schemas import located
from api.strict_json import JsonObject, JsonValue
from api.template_schemas import (
    DEFAULT_PURPOSE,
    KEY_PARAMETER,
    NUMBER_PARAMETER,
    PREVIEW_SCHEMA,
    VERSION_SCHEMA,
    NewestVersionBody,
    RenderedBody,
    VersionBody,
)
from db.intake import TemplateVersion
from db.templates import PublishedVersion, TemplateStore

router = APIRouter(prefix="/v1/templates", tags=["templates"])

Key = Annotated[str, Path(description="The template's key.", json_schema_extra=KEY_PARAMETER)]
Number = Annotated[str, Path(description="The version's number.", json_schema_extra=NUMBER_PARAMETER)]

_MEMBERS: Final = frozenset({"subject", "text", "html", "purpose", "context_schema"})
_LOCATION: Final = located("the version")
_THIS: Final = {"key": "$response.body#/key", "n": "$response.body#/version"}
_LINKS: Final = {
    "read": {"operationId": "get_template_version", "parameters": _THIS},
    "preview": {"operationId": "preview_template_version", "parameters": _THIS},
    "list": {"operationId": "list_templates"},
}
#: Any call may fail like this, and any with a body like that.
_ALWAYS: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.UNAVAILABLE, Code.INTERNAL)
_WITH_BODY: Final = (
    Code.RATE_LIMITED,
    Code.INVALID_REQUEST,
    Code.REQUEST_TOO_LARGE,
    Code.UNSUPPORTED_MEDIA_TYPE,
)


class _VersionFields(Fields):
    """Reads the members that only a version has."""

    def part(self, value: JsonValue, at: str) -> str | None:
        """Read a template's source; its absence is not judged here."""
        if isinstance(value, str | None):
            return value
        self.fault(at, FaultCode.WRONG_TYPE, "This has to be a string.")
        return None


@router.post(
    "/{key}/versions",
    operation_id="publish_template_version",
    summary="Publish a template version",
    status_code=201,
    response_model=VersionBody,
    responses={
        201: {"description": "Published, with the next number.", "headers": _LOCATION, "links": _LINKS},
        200: {
            "model": VersionBody,
            "description": "The newest version is just this one already.",
            "headers": _LOCATION,
            "links": _LINKS,
        },
        **documented(*_ALWAYS, *_WITH_BODY, Code.TENANT_DISABLED),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": VERSION_SCHEMA}}}},
)
async def publish_template_version(request: Request, key: Key) -> Response:
    """Publish the next version of a template, or the first one of a new template.

    What is published can be used: syntax, variables and schema are checked, and 422 tells every fault. A version never
    changes. Publishing again is safe, also where an answer was lost: the newest version, if it is identical, is given
    instead of one more.
    """
    caller = await _caller(request)
    body = read_object(await read_json_body(request))
    caller.require_active()
    content = await _read_version(key, body)
    published, new = await _store(request).publish(caller.tenant_id, key, content)
    return JSONResponse(
        VersionBody.of(published).model_dump(mode="json"),
        status_code=201 if new else 200,
        headers={"Location": f"{router.prefix}/{published.key}/versions/{published.version}"},
    )


async def _read_version(key: str, body: JsonObject) -> TemplateVersion:
    """Read a version that can be used; its template's key is judged with it."""
    fields = _VersionFields()
    subject = fields.part(body.get("subject"), "/subject") or ""
    text, html = fields.part(body.get("text"), "/text"), fields.part(body.get("html"), "/html")
    schema = fields.members(body.get("context_schema"), "/context_schema")
    if not fields.faults:
        # In a thread: checking waits for a process of its own.
        fields.faults.extend(await asyncio.to_thread(check_template, subject, text, html, schema))
    purpose = DEFAULT_PURPOSE if body.get("purpose") is None else fields.text(body["purpose"], "/purpose", PURPOSE)
    fields.text(key, "/key", KEY)
    fields.only(body, _MEMBERS)
    fields.refuse()
    return TemplateVersion(subject=subject, text=text, html=html, purpose=purpose, context_schema=schema)


@router.get(
    "",
    operation_id="list_templates",
    summary="List templates",
    response_model=PageBody[NewestVersionBody],
    responses={
        200: {"description": "A page of the tenant's templates, by key.", "headers": LINK_HEADER},
        **documented(*_ALWAYS, Code.CURSOR_INVALID, Code.INVALID_REQUEST),
    },
    openapi_extra={"parameters": PAGE_PARAMETERS},
)
async def list_templates(request: Request) -> Response:
    """List the tenant's templates by key, each with its newest version."""
    caller = await _caller(request)
    query = Query(request)
    query.refuse()
    cursors = cast("Cursors", request.app.state.cursors)
    name = f"templates of {caller.tenant_id}"
    (after,) = cursors.read(query, of=name) or [""]
    found = await _store(request).page(caller.tenant_id, after=after, at_most=query.at_most)
    return page(request, query, found, of=name, show=NewestVersionBody.of, place=lambda newest: [newest.key])


@router.get(
    "/{key}/versions/{n}",
    operation_id="get_template_version",
    summary="Read a template version",
    responses={200: {"description": "The version, as it was published."}, **documented(*_ALWAYS, Code.NOT_FOUND)},
)
async def get_template_version(request: Request, key: Key, n: Number) -> VersionBody:
    """Read a version. Somebody else's answers like none."""
    caller = await _caller(request)
    return VersionBody.of(await _version(request, caller, key, n))


@router.post(
    "/{key}/versions/{n}/preview",
    operation_id="preview_template_version",
    summary="Preview a template version",
    responses={
        200: {"description": "What a message with this context would be."},
        **documented(*_ALWAYS, *_WITH_BODY, Code.NOT_FOUND),
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": PREVIEW_SCHEMA}}}},
)
async def preview_template_version(request: Request, key: Key, n: Number) -> RenderedBody:
    """Render a version, exactly as it would be stored with a message of this context. Nothing is stored or sent."""
    caller = await _caller(request)
    body = read_object(await read_json_body(request))
    fields = Fields()
    fields.only(body, {"context"})
    context = fields.members(body.get("context"), "/context")
    fields.refuse()
    version = await _version(request, caller, key, n)
    # In a thread: rendering waits for a process of its own.
    rendered = await asyncio.to_thread(render, TemplateParts.of(version.content), context)
    return RenderedBody(subject=rendered.subject, text=rendered.text, html=rendered.html)


async def _caller(request: Request) -> TenantCaller:
    return await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.TEMPLATES)


def _store(request: Request) -> TemplateStore:
    return cast("TemplateStore", request.app.state.templates)


async def _version(request: Request, caller: TenantCaller, key: str, number: str) -> PublishedVersion:
    """Find a version. Raises `not_found` also for a key and a number that no version has."""
    if not re.fullmatch(KEY, key) or not re.fullmatch("[1-9][0-9]{0,9}", number) or int(number) > MAX_VERSION:
        raise Problem(Code.NOT_FOUND)
    published = await _store(request).version(caller.tenant_id, key, int(number))
    if published is None:
        raise Problem(Code.NOT_FOUND)
    return published
