"""Whether this process lives, and whether it can serve."""

import asyncio
from datetime import timedelta
from typing import Final, Literal, cast

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from temporalio.client import Client

from db.engine import UnavailableError
from db.fit import Fit
from db.reading import MessageReader

router = APIRouter(tags=["health"])

_TEMPORAL_WAIT: Final = timedelta(seconds=1)


class Alive(BaseModel):
    """This process answers."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """What this process needs. Temporal is information only: messages are accepted without it."""

    status: Literal["ready", "not_ready"]
    database: Literal["reachable", "unreachable"]
    schema_fit: Fit | None
    temporal: Literal["reachable", "unreachable"]


@router.get("/healthz", operation_id="health", summary="Is the process alive?")
async def health() -> Alive:
    """Answer while the process lives; it asks nobody."""
    return Alive()


@router.get(
    "/readyz",
    operation_id="readiness",
    summary="Can it serve?",
    responses={503: {"model": Ready, "description": "Postgres is away, or its schema is behind."}},
)
async def readiness(request: Request, response: Response) -> Ready:
    """Say whether Postgres answers with a schema that fits, and whether Temporal does."""
    reader = cast("MessageReader", request.app.state.reader)
    client = cast("Client", request.app.state.temporal)
    temporal = asyncio.create_task(_temporal_answers(client))
    try:
        fit = await reader.schema_fit()
    except UnavailableError:
        fit = None
    ready = fit in (Fit.CURRENT, Fit.AHEAD)
    if not ready:
        response.status_code = 503
    return Ready(
        status="ready" if ready else "not_ready",
        database="unreachable" if fit is None else "reachable",
        schema_fit=fit,
        temporal="reachable" if await temporal else "unreachable",
    )


async def _temporal_answers(client: Client) -> bool:
    try:
        return await asyncio.wait_for(
            client.service_client.check_health(timeout=_TEMPORAL_WAIT), _TEMPORAL_WAIT.total_seconds() + 0.5
        )
    except Exception:  # noqa: BLE001  (each of its many errors means the same here)
        return False
