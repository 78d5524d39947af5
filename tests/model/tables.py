"""What the state machine reads and changes in Postgres past the store: time that passes, policy, the rows."""

import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import asyncpg

from db.ids import MessageId, TenantId
from tests.factories import ADDRESS_HASH
from tests.model.pure_model import Left

#: How far away the end of a lease is put; the call needs ten minutes in this machine, so that no slow step counts.
_LEFT: Final = {Left.NOTHING: "-1 second", Left.LITTLE: "5 minutes"}
_POLICY: Final = {
    "tenant": "UPDATE tenants SET state = CASE WHEN $2 THEN 'disabled' ELSE 'active' END WHERE id = $1",
    "sender": "UPDATE senders SET state = CASE WHEN $2 THEN 'disabled' ELSE 'active' END WHERE tenant_id = $1",
    "credential": "UPDATE credentials SET revoked_at = CASE WHEN $2 THEN now() END WHERE tenant_id = $1",
    "scope": """UPDATE credentials SET scopes = CASE WHEN $2 THEN '{messages:read}' ELSE '{messages:send}' END::text[]
        WHERE tenant_id = $1""",
    # What an event suppressed is taken away, too, and never put back: another event does that.
    "recipient": """UPDATE suppressions SET removed_at = CASE WHEN NOT $2 THEN now() END
        WHERE tenant_id = $1 AND (NOT $2 OR reason = 'manual')""",
}
POLICIES: Final = tuple(_POLICY)


_READ: Final = """SELECT m.state, m.token, m.attempts_used, m.due_at <= clock_timestamp() AS due,
    (SELECT jsonb_agg(to_jsonb(a) ORDER BY a.number) FROM attempts a WHERE a.message_id = m.id) AS tries,
    (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.seq) FROM timeline t WHERE t.message_id = m.id) AS timeline,
    (SELECT count(*) FROM evidence e WHERE e.message_id = m.id AND e.kind = 'late_result') AS late
    FROM messages m WHERE m.id = $1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """All that is stored of a message, as the checks want it."""

    state: str
    token: int
    attempts_used: int
    due: bool
    attempts: list[dict[str, Any]]
    timeline: list[dict[str, Any]]
    late_results: int


@dataclass(frozen=True, slots=True)
class Tables:
    """One message's rows, as a superuser reaches them."""

    connection: asyncpg.Connection
    message_id: MessageId
    tenant_id: TenantId

    async def set_policy(self, which: str, against: bool) -> None:
        await self.connection.execute(_POLICY[which], self.tenant_id, against)

    async def switch_provider(self, paused: bool) -> None:
        await self.connection.execute("UPDATE providers SET paused = $1", paused)

    async def leave_of_lease(self, left: Left) -> None:
        """Let a lease run, past the trigger that holds it fixed."""
        async with self.connection.transaction():
            await self.connection.execute("SET LOCAL session_replication_role = replica")
            await self.connection.execute(
                f"""UPDATE attempts SET lease_expires_at = clock_timestamp() + interval '{_LEFT[left]}'
                WHERE message_id = $1 AND closed_at IS NULL""",
                self.message_id,
            )

    async def let_wait_end(self) -> None:
        await self._change("due_at = clock_timestamp()")

    async def let_age(self) -> None:
        await self._change("age_from = clock_timestamp() - interval '25 hours'")

    async def read(self) -> Rows:
        row = await self.connection.fetchrow(_READ, self.message_id)
        assert row is not None
        return Rows(
            state=row["state"],
            token=row["token"],
            attempts_used=row["attempts_used"],
            due=row["due"],
            attempts=json.loads(row["tries"] or "[]"),
            timeline=json.loads(row["timeline"]),
            late_results=row["late"],
        )

    async def _change(self, assignments: str) -> None:
        await self.connection.execute(f"UPDATE messages SET {assignments} WHERE id = $1", self.message_id)


async def add_suppression(connection: asyncpg.Connection, tenant_id: TenantId) -> None:
    """Suppress the recipient of every message of a tenant, and take it back, for `set_policy` to bring on."""
    await connection.execute(
        """INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason, removed_at)
        VALUES ($1, $2, 'ada@example.com', $3, 'transactional', 'manual', now())""",
        uuid4(),
        tenant_id,
        ADDRESS_HASH,
    )
