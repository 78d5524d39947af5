"""What the checker reads, gathered from the API, the simulator's record, Postgres, Temporal and the logs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx
from temporalio.client import Client

from bench.chaos.load import Load
from bench.chaos.plan import CANARIES
from bench.chaos.records import Action, Attempt, Audited, KeptEvent, Observed, Row
from bench.chaos.simulator_record import Recorded
from bench.chaos.stack import TormentedStack
from dev.description import TENANT

_ROWS: Final = "SELECT id::text, tenant_id AS tenant, idempotency_key AS key, state FROM messages"
_ATTEMPTS: Final = """
SELECT message_id::text, number, token, claimed_at, begun_at IS NOT NULL AS begun, closed_at IS NOT NULL AS closed,
    outcome, provider_message_id
FROM attempts ORDER BY message_id, number
"""
_AUDIT: Final = "SELECT action, at, message_id::text, attempt, decision FROM operator_audit ORDER BY at"
_EVENTS: Final = "SELECT message_id::text, attempt, event_type AS type FROM evidence WHERE kind = 'event'"
_NOT_FOUND: Final = 404


async def gather(
    *,
    stack: TormentedStack,
    load: Load,
    record: Recorded,
    actions: Iterable[Action],
    switched_off: Iterable[str],
    tenant: httpx.AsyncClient,
    other_tenant: httpx.AsyncClient,
    temporal: Client,
) -> Observed:
    """Ask every witness, once nothing torments them any more."""
    description = stack.description
    database = await asyncpg.connect(description["database_url"], ssl=False)
    try:
        async with database.transaction(isolation="repeatable_read", readonly=True):
            rows = tuple(Row(**dict(row)) for row in await database.fetch(_ROWS))
            attempts = tuple(Attempt(**dict(row)) for row in await database.fetch(_ATTEMPTS))
            audit = tuple(Audited(**dict(row)) for row in await database.fetch(_AUDIT))
            events = tuple(KeptEvent(**dict(row)) for row in await database.fetch(_EVENTS))
    finally:
        await database.close()
    ids = {row.id for row in rows if row.tenant == TENANT}
    ids |= {answer.message_id for answer in load.answers if answer.message_id}
    messages, shown, read_by_others = {}, [], set()
    for message_id in sorted(ids):
        answer = await tenant.get(f"/v1/messages/{message_id}")
        messages[message_id] = None if answer.status_code == _NOT_FOUND else answer.raise_for_status().json()
        shown.append(f"{answer.headers!r} {answer.text}")
        others = await other_tenant.get(f"/v1/messages/{message_id}")
        if others.status_code != _NOT_FOUND:
            read_by_others.add(message_id)
    listed = (await other_tenant.get("/v1/messages")).raise_for_status().json()["data"]
    read_by_others |= {str(message["id"]) for message in listed}
    places = {"an answer": "\n".join(load.texts + shown), "Temporal": await _histories(temporal)}
    return Observed(
        answers=tuple(load.answers),
        unanswered=tuple(load.unanswered),
        actions=tuple(actions),
        messages=messages,
        rows=rows,
        attempts=attempts,
        audit=audit,
        events=events,
        requests=record.requests,
        notifications=record.notifications,
        places=places | _logs(stack.directory),
        canaries=_canaries(stack),
        switched_off=frozenset(switched_off),
        read_by_others=frozenset(read_by_others),
    )


async def _histories(temporal: Client) -> str:
    """Read every history that the server has, and what a list of runs shows. Their payloads are plain JSON."""
    read = []
    async for run in temporal.list_workflows("WorkflowType = 'Message'"):
        read.append(str(run.raw_info))
        handle = temporal.get_workflow_handle(run.id, run_id=run.run_id)
        read += [str(event) async for event in handle.fetch_history_events()]
    return "\n".join(read)


def _logs(directory: Path) -> dict[str, str]:
    files = [path for path in directory.rglob("*.log*") if path.is_file()]
    return {f"log {path.name}": path.read_text(encoding="utf-8", errors="replace") for path in files}


def _canaries(stack: TormentedStack) -> dict[str, str]:
    """Name every string that must stand nowhere."""
    secrets: dict[str, Any] = stack.secrets()
    superuser = stack.description["database_url"].split(":")[2].split("@")[0]
    return {
        "local part": CANARIES.local_part,
        "display name": CANARIES.name,
        "context value": CANARIES.context_value,
        "template text": CANARIES.template_text,
        "header value": CANARIES.header,
        "idempotency key": CANARIES.key,
        "API key": secrets["api_key"],
        "operator key": secrets["operator_key"],
        "key pepper": secrets["key_pepper"],
        "address key": secrets["address_key"],
        "superuser's password": superuser,
        **{f"password of {role}": password for role, password in secrets["passwords"].items()},
    }
