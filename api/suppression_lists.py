"""Suppressions, many at once: a tenant's whole list as CSV, taken out and brought in."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from api import suppression_csv
from api.auth import Authenticator, Scope
from api.bodies import read_body
from api.faults import Fault, FaultCode, InvalidRequest
from api.problems import Code, documented
from api.strict_json import JsonObject
from api.suppressions import ALWAYS, WRITING, router as one_by_one, store_of, suppressed
from db.ids import TenantId
from db.suppressions import FIRST_ID, Suppression, SuppressionStore

router = APIRouter(prefix=one_by_one.prefix, tags=["suppressions"])

CSV: Final = "text/csv"
#: What one query of an export fetches, and so what the process holds of it.
_EXPORT_PAGE: Final = 500
#: More of them would say no more to a person, and an answer has to stay small.
MAX_REJECTED: Final = 100

_EXPORTED: Final = "address,scope,reason,created_at\r\nada@example.com,all,manual,2026-01-01T12:00:00.000000Z\r\n"
_IMPORT_SCHEMA: Final[JsonObject] = {
    "type": "string",
    "description": "The first line names the columns: `address`, perhaps `scope`; any others are ignored.",
    "examples": ["address,scope\r\nada@example.com,all\r\nbob@example.com,newsletter\r\n"],
}
_DISPOSITION: Final = {
    "Content-Disposition": {
        "description": "It is to be kept as a file.",
        "required": True,
        "schema": {"type": "string", "enum": ['attachment; filename="suppressions.csv"']},
    }
}


class RejectedLineBody(BaseModel):
    """A line that was not taken."""

    line: int = Field(ge=2, description="Its number, from 1 for the first line of the body.")
    code: FaultCode


class ImportBody(BaseModel):
    """What became of an import."""

    added: int = Field(ge=0)
    already: int = Field(ge=0, description="Were suppressed in their scope before, or stood in the body twice.")
    rejected: list[RejectedLineBody] = Field(max_length=MAX_REJECTED, description="The first of the rejected lines.")
    rejected_total: int = Field(ge=0)


@router.get(
    "/export",
    operation_id="export_suppressions",
    summary="Export suppressions",
    response_class=Response,
    responses={
        200: {
            "description": "All active suppressions of the tenant, oldest first.",
            "content": {CSV: {"schema": {"type": "string"}, "examples": {"one": {"value": _EXPORTED}}}},
            "headers": _DISPOSITION,
        },
        **documented(*ALWAYS, Code.INVALID_REQUEST),
    },
)
async def export_suppressions(request: Request) -> Response:
    """Give all suppressions that hold, as CSV with the columns `address`, `scope`, `reason` and `created_at`.

    What changes meanwhile may be in it or not. A connection that breaks ends it early: then it isn't whole.
    """
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SUPPRESSIONS)
    if request.query_params:
        detail = "This call has no parameters: it gives everything."
        raise InvalidRequest(Fault(pointer="", code=FaultCode.UNKNOWN_FIELD, detail=detail))
    store = store_of(request)
    # Before the answer begins, so that an outage is still a 503.
    first = await store.oldest(caller.tenant_id, after=FIRST_ID, at_most=_EXPORT_PAGE)
    return StreamingResponse(
        _written(store, caller.tenant_id, first),
        media_type=CSV,
        headers={"Content-Disposition": 'attachment; filename="suppressions.csv"'},
    )


async def _written(store: SuppressionStore, tenant_id: TenantId, found: Sequence[Suppression]) -> AsyncIterator[str]:
    """Write the list a page at a time.

    No cursor of Postgres: its transaction would stay open for as long as a slow client reads, and be ended for it.
    """
    yield suppression_csv.header_line()
    while found:
        yield suppression_csv.lines(found)
        found = await store.oldest(tenant_id, after=found[-1].id, at_most=_EXPORT_PAGE)


@router.post(
    "/import",
    operation_id="import_suppressions",
    summary="Import suppressions",
    responses={
        200: {
            "description": "What could be taken was taken, all of it or nothing; the rejected lines are named.",
            "links": {"list": {"operationId": "list_suppressions"}},
        },
        **documented(*ALWAYS, *WRITING),
    },
    openapi_extra={"requestBody": {"required": True, "content": {CSV: {"schema": _IMPORT_SCHEMA}}}},
)
async def import_suppressions(request: Request) -> ImportBody:
    """Suppress the addresses of a CSV list, each with the reason `manual`.

    Lines that are at fault are rejected, and the others taken all the same. An export can be imported. Asking again is
    safe: what is suppressed already is only counted.
    """
    caller = await cast("Authenticator", request.app.state.authenticator).tenant(request, Scope.SUPPRESSIONS)
    raw = await read_body(request, CSV)
    # In a thread: thousands of addresses take seconds to judge.
    entries, rejected = await asyncio.to_thread(suppression_csv.read, raw)
    caller.require_active()
    new = [suppressed(request, entry.address, entry.scope) for entry in entries]
    added = await store_of(request).add_all(caller.tenant_id, new)
    return ImportBody(
        added=added,
        already=len(entries) - added,
        rejected=[RejectedLineBody(line=each.line, code=FaultCode(each.code)) for each in rejected[:MAX_REJECTED]],
        rejected_total=len(rejected),
    )
