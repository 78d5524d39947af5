"""Fills a migrated database with any number of messages and all that belongs to them, in a realistic mix of states.

Their states follow from their numbers alone, so that two databases of one size are alike. What is under way is a
few hundred messages whatever the size: it follows from the load, and not from how much was sent in all the time before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import asyncpg

from db.ids import MessageId, TenantId

#: The tenant that has two fifths of all messages; the others share the rest.
LARGE_TENANT: Final = TenantId("scale-0")
CREDENTIAL: Final = "credential-scale-0"
SENDER: Final = "main"
TEMPLATE: Final = "welcome"
#: What a message takes on the disk with all that belongs to it, measured at 3 million of them, and what filling takes
#: besides for a while: the log, and files to sort by.
BYTES_A_MESSAGE: Final = 4_000
BYTES_BESIDE: Final = 3_000_000_000
#: Of what is under way: each a third queued, leased (half of these expired) and retryable.
_UNDER_WAY: Final = 300
_BATCH: Final = 250_000
_TENANTS: Final = 200

_TENANT_ROWS: Final = (
    "INSERT INTO tenants (id, name) SELECT 'scale-' || n, 'Scale ' || n FROM generate_series(0, $1 - 1) AS n",
    "INSERT INTO senders (tenant_id, key, address) SELECT id, 'main', 'hello@scale.example.com' FROM tenants",
    """INSERT INTO template_versions (tenant_id, key, version, subject, text, purpose, context_schema)
    SELECT id, 'welcome', 1, 'Hello', 'Hello', 'transactional', '{}' FROM tenants""",
    """INSERT INTO credentials (id, tenant_id, secret_hash, scopes)
    SELECT 'credential-' || id, id, sha256(id::bytea), '{messages:send}' FROM tenants""",
)

_STAMP: Final = "lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'"


def _id(word: str) -> str:
    """Write a UUID version 7, as `db/ids.py` makes it, for a row of the batch: its time, and a digest of `word`.

    `gen_random_uuid()` costs several times as much where Postgres asks the system for each.
    """
    return f"(stamp || overlay(substr(md5({word}), 1, 19) PLACING 'a' FROM 4 FOR 1))::uuid"


_NEW_ID: Final = _id("'message-' || n")

_MAKE_BATCH: Final = """
CREATE TEMP TABLE batch (n bigint, stamp text, id uuid, at timestamptz, tenant_id text, state text, tries int,
    address_hash bytea)
"""

_FILL_BATCH: Final = f"""
INSERT INTO batch
SELECT n, stamp, {_NEW_ID}, at, CASE WHEN spread % 5 < 2 THEN 'scale-0' ELSE 'scale-' || 1 + spread % $4 END,
    state, CASE WHEN state IN ('queued', 'suppressed') THEN 0 WHEN spread % 20 = 7 THEN 2 ELSE 1 END,
    sha256(('somebody-' || n % 100000)::bytea)
FROM generate_series($1::bigint, $2::bigint) AS n,
    LATERAL (SELECT abs(hashint8(n)::bigint), now() - interval '90 days' * (1 - n::float8 / $3)) AS s (spread, at),
    LATERAL (SELECT {_STAMP} AS stamp) AS stamped,
    LATERAL (SELECT CASE
        WHEN n >= $3 - $5 THEN (ARRAY['queued', 'leased', 'retryable'])[1 + n % 3]
        WHEN spread / 7 % 10000 < 8500 THEN 'delivered'
        WHEN spread / 7 % 10000 < 9400 THEN 'provider_accepted'
        WHEN spread / 7 % 10000 < 9650 THEN 'hard_bounced'
        WHEN spread / 7 % 10000 < 9680 THEN 'complained'
        WHEN spread / 7 % 10000 < 9800 THEN 'suppressed'
        WHEN spread / 7 % 10000 < 9995 THEN 'dead'
        ELSE 'ambiguous' END AS state) AS judged
"""  # noqa: S608 (constants of this file)

_ACCEPTED: Final = "('provider_accepted', 'delivered', 'hard_bounced', 'complained')"

#: From the batch, in the order in which foreign keys would have it. Which events SES publishes is chosen there:
#: here, Send is for a fifth of the messages.
_ROWS: Final = (
    f"""INSERT INTO messages (id, tenant_id, idempotency_key, request_hash, hash_version, state, token,
        came_from, due_at, age_from, attempts_used, purpose, template_key, template_version, template_purpose,
        sender_key, sender_address, sender_reply_to, credential_id, provider, tags, provider_accepted_at, delivered_at,
        created_at, updated_at)
    SELECT id, tenant_id, 'order-' || n, 'v1:' || md5(n::text) || md5('again' || n), 1, state, tries,
        CASE WHEN tries > 0 THEN 'queued' END, at, at, tries,
        CASE n % 10 WHEN 0 THEN 'security' ELSE 'transactional' END,
        'welcome', 1, 'transactional', 'main', 'hello@scale.example.com', '[]', 'credential-' || tenant_id, 'ses',
        jsonb_build_object('order', n::text, 'kind', 'kind-' || n % 7),
        CASE WHEN state IN {_ACCEPTED} THEN at + interval '1 second' END,
        CASE WHEN state = 'delivered' THEN at + interval '3 seconds' END, at, at + interval '3 seconds'
    FROM batch""",  # noqa: S608 (constants of this file)
    """INSERT INTO message_contents (message_id, subject, text, headers, reply_to)
    SELECT id, 'Your order ' || n, repeat('Thank you for order ' || n || '. ', 8), '[]', '[]' FROM batch""",
    """INSERT INTO recipients (message_id, role, position, tenant_id, address, address_hash, redacted, outcome,
        outcome_at)
    SELECT id, role, 0, tenant_id, 'somebody-' || n % 100000 || '@example.com', address_hash, 's***@example.com',
        outcome, CASE WHEN outcome IS NOT NULL THEN at END
    FROM batch, unnest(CASE WHEN n % 10 = 3 THEN ARRAY['to', 'cc'] ELSE ARRAY['to'] END) AS role,
        LATERAL (SELECT CASE state WHEN 'delivered' THEN 'delivered' WHEN 'hard_bounced' THEN 'bounced'
            WHEN 'complained' THEN 'complained' WHEN 'suppressed' THEN 'suppressed' END) AS became (outcome)""",
    f"""INSERT INTO attempts (message_id, number, token, claim_id, lease_owner, claimed_at, lease_expires_at, begin_id,
        begun_at, outcome, reason, provider, provider_message_id, provider_request_id, ended_at, closed_at)
    SELECT id, number, number, md5('claim-' || n || number), 'worker-1', at,
        CASE WHEN outcome IS NOT NULL THEN at + interval '1 minute'
            WHEN n % 2 = 0 THEN now() - interval '10 minutes' ELSE now() + interval '1 day' END,
        CASE WHEN outcome IS NOT NULL THEN md5('begin-' || n || number)::uuid END,
        CASE WHEN outcome IS NOT NULL THEN at END, outcome,
        CASE outcome WHEN 'refused' THEN 'throttled' WHEN 'rejected' THEN 'rejected'
            WHEN 'unknown' THEN 'provider_timeout' END,
        CASE WHEN outcome IS NOT NULL THEN 'ses' END, CASE WHEN outcome = 'accepted' THEN 'ses-' || id END,
        CASE WHEN outcome IS NOT NULL THEN md5('request-' || n || number) END,
        CASE WHEN outcome IS NOT NULL THEN at END, CASE WHEN outcome IS NOT NULL THEN at END
    FROM batch, generate_series(1, tries) AS number,
        LATERAL (SELECT CASE WHEN number < tries OR state = 'retryable' THEN 'refused' WHEN state IN {_ACCEPTED}
            THEN 'accepted' WHEN state = 'dead' THEN 'rejected' WHEN state = 'ambiguous' THEN 'unknown' END)
            AS came (outcome)""",  # noqa: S608 (constants of this file)
    f"""INSERT INTO timeline (message_id, seq, at, from_state, to_state, move, reason, attempt, actor)
    SELECT id, 1, at, NULL, 'queued', 'intake', NULL, NULL::int, 'client' FROM batch
    UNION ALL SELECT id, 2, at, 'queued', 'suppressed', 'suppress_at_claim', 'recipient_suppressed', NULL, 'machine'
        FROM batch WHERE state = 'suppressed'
    UNION ALL SELECT id, 2 * number, at, CASE number WHEN 1 THEN 'queued' ELSE 'retryable' END, 'leased', 'claim', NULL,
        number, 'machine' FROM batch, generate_series(1, tries) AS number
    UNION ALL SELECT id, 2 * number + 1, at, 'leased', became,
        CASE became WHEN 'retryable' THEN 'retry' WHEN 'dead' THEN 'reject' WHEN 'ambiguous' THEN 'quarantine'
            ELSE 'accept' END,
        CASE became WHEN 'retryable' THEN 'throttled' WHEN 'dead' THEN 'rejected'
            WHEN 'ambiguous' THEN 'provider_timeout' END, number, 'machine'
        FROM batch, generate_series(1, tries) AS number, LATERAL (SELECT CASE WHEN number < tries THEN 'retryable'
            WHEN state IN {_ACCEPTED} THEN 'provider_accepted' ELSE state END) AS came (became)
        WHERE became <> 'leased'
    UNION ALL SELECT id, 2 * tries + 2, at, 'provider_accepted', state,
        CASE state WHEN 'delivered' THEN 'deliver' WHEN 'hard_bounced' THEN 'bounce' ELSE 'complain' END, NULL, tries,
        'provider' FROM batch WHERE state IN ('delivered', 'hard_bounced', 'complained')""",  # noqa: S608 (constants of this file)
    f"""WITH events AS MATERIALIZED (
        SELECT n, id, at, stamp, tries, type, {_id("type || n")} AS event_id
        FROM batch, unnest(CASE WHEN n % 5 = 0 THEN ARRAY['send'] ELSE '{{}}' END || CASE state
            WHEN 'delivered' THEN ARRAY['delivery'] WHEN 'hard_bounced' THEN ARRAY['bounce']
            WHEN 'complained' THEN ARRAY['complaint'] ELSE '{{}}' END) AS type
        WHERE state IN {_ACCEPTED}
    ), kept AS (
        INSERT INTO provider_events (id, provider, notification_id, type, provider_message_id, message_tag, attempt_tag,
            detail, occurred_at, received_at, natural_key)
        SELECT event_id, 'ses', md5('sns-' || type || n), type, 'ses-' || id, id::text,
            tries::text, '{{"reason": null, "recipients": []}}', at, at, md5(type || n) || md5(n || type) FROM events
    )
    INSERT INTO evidence (id, message_id, attempt, kind, event_type, provider_event_id, provider_message_id, at)
    SELECT {_id("'evidence-' || type || n")}, id, tries, 'event', type, event_id, 'ses-' || id, at
    FROM events""",  # noqa: S608 (constants of this file)
)

#: $1 of each; a few of the events wait for their message, and for most nobody looks any more.
_REST: Final = (
    """INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason)
    SELECT gen_random_uuid(), 'scale-' || n % 200, 'nobody-' || n || '@example.com',
        sha256(('nobody-' || n)::bytea), 'all', 'hard_bounce' FROM generate_series(1, $1::bigint) AS n""",
    """WITH strays AS MATERIALIZED (SELECT n, gen_random_uuid() AS id FROM generate_series(1, $1::bigint) AS n),
    kept AS (
        INSERT INTO provider_events (id, provider, notification_id, type, provider_message_id, detail, natural_key)
        SELECT id, 'ses', 'stray-' || n, 'delivery', 'stray-' || n, '{"reason": null, "recipients": []}',
            md5('stray-' || n) FROM strays
    )
    INSERT INTO unmatched_events (event_id, looks, look_at)
    SELECT id, 3, CASE WHEN n <= 50 THEN now() - interval '1 minute' END FROM strays""",
    """INSERT INTO operator_audit (id, credential_id, action, tenant_id, message_id, attempt, decision, reason)
    SELECT gen_random_uuid(), 'credential-scale-0', 'resolve', tenant_id, id, token, 'abandon', 'looked'
    FROM (SELECT * FROM messages WHERE state = 'dead' LIMIT $1) AS dead""",
)

_SECONDARY: Final = """
SELECT indexrelid::regclass::text AS name, indrelid::regclass::text AS of, con.conname AS as_constraint,
    CASE WHEN con.oid IS NULL THEN pg_get_indexdef(indexrelid) ELSE pg_get_constraintdef(con.oid) END AS definition
FROM pg_index LEFT JOIN pg_constraint AS con ON con.conindid = indexrelid AND con.contype IN ('p', 'u')
WHERE indrelid = ANY ($1::text[]::regclass[]) AND NOT indisprimary
ORDER BY 2, 1
"""
"""The indexes beside the primary keys, which grow at their ends only, as the ids do."""

_FILLED: Final = ("messages", "message_contents", "recipients", "attempts", "timeline", "provider_events", "evidence")

_NEW: Final = f"""
INSERT INTO batch
SELECT n, stamp, {_NEW_ID}, at, CASE WHEN n % 5 < 2 THEN 'scale-0' ELSE 'scale-' || 1 + n % 199 END,
    'queued', 0, sha256(('somebody-' || n % 100000)::bytea)
FROM generate_series($1::bigint, $2::bigint) AS n, (SELECT now()) AS s (at),
    LATERAL (SELECT {_STAMP} AS stamp) AS stamped
"""  # noqa: S608 (constants of this file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A message that is in the database."""

    id: MessageId
    tenant_id: TenantId
    address_hash: bytes = field(repr=False)
    created_at: datetime


class Filling:
    """Fills one database, and adds to it later.

    Args:
        connection: A superuser's; it goes past the triggers, so that a message may begin in any state.

    """

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._next = 1

    async def fill(self, count: int, say: Callable[[str], None]) -> None:
        """Make so many messages, then bring the statistics and the visibility maps to where they are in life."""
        await self._prepare()
        indexes = await self._connection.fetch(_SECONDARY, _FILLED)
        for table in _FILLED:  # it would look at each part, and be in the way of the next
            await self._connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        for index in indexes:
            drop = "ALTER TABLE {of} DROP CONSTRAINT {as_constraint}" if index["as_constraint"] else "DROP INDEX {name}"
            await self._connection.execute(drop.format(**index))
        for first in range(1, count + 1, _BATCH):
            last = min(first + _BATCH - 1, count)
            await self._rows(_FILL_BATCH, first, last, count, _TENANTS - 1, _UNDER_WAY)
            say(f"{last:,} of {count:,} messages are made")
        self._next = count + 1
        for index in indexes:
            add = "ALTER TABLE {of} ADD CONSTRAINT {as_constraint} " if index["as_constraint"] else ""
            await self._connection.execute(add.format(**index) + index["definition"])
        say("the indexes are made")
        for statement in _REST:
            await self._connection.execute(statement, max(count // 20, 200))
        for table in _FILLED:
            await self._connection.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)")
        await self._connection.execute("VACUUM (ANALYZE)")
        await self._connection.execute("CHECKPOINT")
        say("vacuumed and analyzed")

    async def add(self, count: int) -> list[Known]:
        """Add so many messages that were accepted just now."""
        first, self._next = self._next, self._next + count
        return [Known(**row) for row in await self._rows(_NEW, first, self._next - 1)]

    async def some(self, count: int) -> list[Known]:
        """Give some of the messages, spread over all of the time but for the first tenth."""
        chosen = await self._connection.fetch(
            """SELECT m.id, m.tenant_id, r.address_hash, m.created_at
            FROM messages AS m JOIN recipients AS r ON r.message_id = m.id AND r.role = 'to'
            WHERE (m.tenant_id, m.idempotency_key) IN (
                SELECT 'scale-' || tenant, 'order-' || n
                FROM generate_series($1::bigint / 10, $1, greatest($1 / $2, 1)) AS n,
                    generate_series(0, $3 - 1) AS tenant)""",
            self._next - 1,
            count,
            _TENANTS,
        )
        return [Known(**row) for row in chosen]

    async def _prepare(self) -> None:
        await self._connection.execute(
            "SET session_replication_role = replica; SET synchronous_commit = off; SET maintenance_work_mem = '512MB'"
        )
        await self._connection.execute(_MAKE_BATCH)
        for statement in _TENANT_ROWS:
            await self._connection.execute(statement, *([_TENANTS] if "$1" in statement else []))

    async def _rows(self, batch: str, *values: int) -> list[asyncpg.Record]:
        """Put messages into the batch, and from there all rows into their tables; give what a Known is made of."""
        async with self._connection.transaction():
            await self._connection.execute("TRUNCATE batch")
            await self._connection.execute(batch, *values)
            await self._connection.execute("ANALYZE batch")
            for statement in _ROWS:
                await self._connection.execute(statement)
            # A large batch's would be of no use to anybody.
            few: list[asyncpg.Record] = await self._connection.fetch(
                "SELECT id, tenant_id, address_hash, at AS created_at FROM batch WHERE state = 'queued'"
            )
        return few
