"""One call, sane defaults: a tenant with all that belongs to it, and messages in any state."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from db.ids import MessageId, TenantId, new_message_id
from db.lifecycle import RANKS, State
from db.records import MessageRef

TENANT = TenantId("acme")
CREDENTIAL = "credential0000001"
ADDRESS_HASH = b"h" * 32
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """An attempt as a test wants it; times are relative to now."""

    number: int = 1
    token: int = 1
    claim_id: str = "claim-1"
    lease: timedelta = timedelta(seconds=60)
    begin_id: UUID | None = None
    outcome: str | None = None
    reason: str | None = None
    provider_message_id: str | None = None
    closed: bool = False


async def make_tenant(connection: asyncpg.Connection, tenant_id: TenantId = TENANT) -> None:
    """Make a tenant with a sender, a template and a credential, if it isn't there."""
    if await connection.fetchval("SELECT true FROM tenants WHERE id = $1", tenant_id):
        return
    await connection.execute("INSERT INTO tenants (id, name) VALUES ($1, 'Acme')", tenant_id)
    await connection.execute(
        "INSERT INTO senders (tenant_id, key, address, name) VALUES ($1, 'main', 'hello@acme.example.com', 'Acme')",
        tenant_id,
    )
    await connection.execute(
        """INSERT INTO template_versions (tenant_id, key, version, subject, text, purpose, context_schema)
        VALUES ($1, 'welcome', 1, 'Hello {{ name }}', 'Dear {{ name }}', 'transactional', '{}')""",
        tenant_id,
    )
    await connection.execute(
        "INSERT INTO credentials (id, tenant_id, secret_hash, scopes) VALUES ($1, $2, $3, '{messages:send}')",
        credential_of(tenant_id),
        tenant_id,
        b"x" * 32,
    )


def credential_of(tenant_id: TenantId) -> str:
    """Name the credential that `make_tenant` makes."""
    return CREDENTIAL if tenant_id == TENANT else f"credential-{tenant_id}"


async def make_message(
    connection: asyncpg.Connection,
    state: State = State.QUEUED,
    *attempts: AttemptRow,
    token: int | None = None,
    tenant_id: TenantId = TENANT,
    **columns: Any,
) -> MessageRef:
    """Put a message into any state, past the triggers, as only a superuser can; the CHECKs still hold."""
    message_id = new_message_id()
    request_hash = f"v1:{uuid4().hex}{uuid4().hex}"
    if state is State.LEASED and not attempts:
        attempts = (AttemptRow(),)
    row: dict[str, Any] = {
        "id": message_id,
        "tenant_id": tenant_id,
        "idempotency_key": f"key-{message_id}",
        "request_hash": request_hash,
        "hash_version": 1,
        "state": state.value,
        "token": token if token is not None else max((attempt.token for attempt in attempts), default=0),
        "attempts_used": sum(attempt.begin_id is not None for attempt in attempts),
        "came_from": "queued" if state is State.LEASED else None,
        "purpose": "transactional",
        "template_key": "welcome",
        "template_version": 1,
        "template_purpose": "transactional",
        "sender_key": "main",
        "sender_address": "hello@acme.example.com",
        "sender_name": "Acme",
        "sender_reply_to": "[]",
        "credential_id": credential_of(tenant_id),
        "provider": "ses",
        "tags": "{}",
        "provider_accepted_at": NOON if state in RANKS else None,
        "delivered_at": NOON if state is State.DELIVERED else None,
        **columns,
    }
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await _insert(connection, "messages", row)
        await _insert(
            connection,
            "message_contents",
            {
                "message_id": message_id,
                "subject": "Hello Ada",
                "text": "Dear Ada",
                "headers": "[]",
                "reply_to": "[]",
            },
        )
        await _insert(
            connection,
            "recipients",
            {
                "message_id": message_id,
                "role": "to",
                "position": 0,
                "tenant_id": tenant_id,
                "address": "ada@example.com",
                "name": "Ada",
                "address_hash": ADDRESS_HASH,
                "redacted": "a***@example.com",
            },
        )
        for attempt in attempts:
            await _insert_attempt(connection, message_id, attempt)
        await _insert(
            connection,
            "timeline",
            {"message_id": message_id, "seq": 1, "to_state": "queued", "move": "intake", "actor": "client"},
        )
    return MessageRef(id=message_id, tenant_id=tenant_id, request_hash=request_hash)


async def _insert_attempt(connection: asyncpg.Connection, message_id: MessageId, attempt: AttemptRow) -> None:
    await connection.execute(
        """INSERT INTO attempts (message_id, number, token, claim_id, lease_owner, lease_expires_at, begin_id, begun_at,
            outcome, reason, provider_message_id, ended_at, closed_at)
        VALUES ($1, $2, $3, $4, 'worker', clock_timestamp() + $5::interval, $6::uuid,
            CASE WHEN $6::uuid IS NOT NULL THEN clock_timestamp() END, $7::text, $8, $9,
            CASE WHEN $7::text IS NOT NULL THEN clock_timestamp() END,
            CASE WHEN $10 THEN clock_timestamp() END)""",
        message_id,
        attempt.number,
        attempt.token,
        attempt.claim_id,
        attempt.lease,
        attempt.begin_id,
        attempt.outcome,
        attempt.reason,
        attempt.provider_message_id,
        attempt.closed,
    )


async def _insert(connection: asyncpg.Connection, table: str, row: dict[str, Any]) -> None:
    names = ", ".join(row)
    places = ", ".join(f"${index}" for index in range(1, len(row) + 1))
    await connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", *row.values())


async def state_of(connection: asyncpg.Connection, message: MessageRef) -> State:
    """Read a message's state."""
    return State(await connection.fetchval("SELECT state FROM messages WHERE id = $1", message.id))


async def snapshot(connection: asyncpg.Connection, message: MessageRef) -> str:
    """Read all that is stored of a message, to see whether anything has changed."""
    parts = [await connection.fetchval("SELECT to_jsonb(m)::text FROM messages m WHERE id = $1", message.id)]
    for table in ("attempts", "timeline", "evidence", "recipients"):
        rows = f"SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]')::text FROM {table} t WHERE message_id = $1"
        parts.append(await connection.fetchval(rows, message.id))
    return json.dumps(parts)
