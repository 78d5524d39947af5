"""A page of a long list costs no more than a page of a short one: Postgres is asked how it would read it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.ids import MessageId
from db.lifecycle import State
from db.reading import MessageFilter, Place, newest_first, oldest_ambiguous
from tests.conftest import Database
from tests.factories import CREDENTIAL, TENANT, make_tenant

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
#: A scan of the whole table reads about a thousand pages; 50 rows and what belongs to them about 300 at the worst.
FEW = 500
LAST = UUID("ffffffff-ffff-7fff-bfff-ffffffffffff")

MANY = """
INSERT INTO messages (id, tenant_id, idempotency_key, request_hash, hash_version, state, purpose, template_key,
  template_version, template_purpose, sender_key, sender_address, sender_reply_to, credential_id, provider, tags,
  created_at, provider_accepted_at)
SELECT gen_random_uuid(), $1, 'many-' || n, 'v1:' || lpad(to_hex(n), 64, '0'), 1,
  CASE WHEN n % 100 = 0 THEN 'ambiguous' ELSE 'provider_accepted' END,
  CASE WHEN n % 50 = 0 THEN 'rare' ELSE 'often' END,
  'welcome', 1, 'often', 'main', 'hello@acme.example.com', '[]', $2, 'ses', jsonb_build_object('order', n::text),
  $3::timestamptz + n * interval '1 second', $3
FROM generate_series(1, 20000) AS n"""


@pytest.fixture(scope="module")
async def long_list(database: Database) -> None:
    """Put 20,000 messages of one tenant into the database."""
    connection = await asyncpg.connect(database.superuser_url)
    await make_tenant(connection)
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(MANY, TENANT, CREDENTIAL, FIRST)
    await connection.execute("ANALYZE")
    await connection.close()


@pytest.fixture
async def connection(api_engine: AsyncEngine, long_list: None) -> AsyncIterator[AsyncConnection]:
    del long_list
    async with api_engine.connect() as connection:
        yield connection


async def plan(connection: AsyncConnection, statement: sa.Select[Any], **values: Any) -> dict[str, Any]:
    """Give what Postgres did for a page of 50."""
    ran: list[tuple[str, tuple[Any, ...]]] = []
    sa.event.listen(connection.sync_connection, "before_cursor_execute", lambda *seen: ran.append((seen[2], seen[3])))
    await connection.execute(statement, values)
    sql, bound = ran[-1]
    done = await connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", bound)
    whole: dict[str, Any] = done.scalar_one()[0]["Plan"]
    return whole


def blocks(done: dict[str, Any]) -> int:
    """Count the pages that were read."""
    return int(done["Shared Hit Blocks"] + done["Shared Read Blocks"])


@pytest.mark.parametrize(
    "wanted",
    [
        MessageFilter(),
        MessageFilter(state=State.AMBIGUOUS),
        MessageFilter(state=State.PROVIDER_ACCEPTED),
        MessageFilter(purpose="rare"),
        MessageFilter(tag=("order", "17")),
        MessageFilter(created_after=FIRST + timedelta(hours=1)),
        MessageFilter(created_before=FIRST + timedelta(hours=5)),
        MessageFilter(state=State.AMBIGUOUS, created_before=FIRST + timedelta(hours=5)),
    ],
    ids=str,
)
@pytest.mark.parametrize("after", [None, Place(created_at=FIRST + timedelta(hours=2), message_id=MessageId(LAST))])
async def test_a_page_of_a_long_list_reads_no_more_than_a_few_pages_of_the_table(
    connection: AsyncConnection, wanted: MessageFilter, after: Place | None
) -> None:
    done = await plan(connection, newest_first(wanted, after, 51), of_tenant=TENANT)

    assert blocks(done) < FEW


@pytest.mark.parametrize("after", [None, (FIRST, MessageId(LAST))])
async def test_a_page_of_what_waits_for_a_person_reads_no_more_than_a_few_pages_of_the_table(
    connection: AsyncConnection, after: tuple[datetime, MessageId] | None
) -> None:
    done = await plan(connection, oldest_ambiguous(after, 51))

    assert done["Actual Rows"] == 51
    assert blocks(done) < FEW
