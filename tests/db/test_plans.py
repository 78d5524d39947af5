"""No statement of a hot operation reads a table whole that grows with what was sent."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from bench.scale_data import Filling, Known
from bench.scale_operations import OPERATIONS, Stores, opened
from bench.scale_plans import GROWING, Ran, collecting, whole_reads
from tests.conftest import Database

_MESSAGES = 2_000


@pytest.fixture(scope="module")
async def filling(database: Database) -> AsyncIterator[Filling]:
    connection = await asyncpg.connect(database.superuser_url)
    filling = Filling(connection)
    await filling.fill(_MESSAGES, lambda _: None)
    yield filling
    await connection.close()


@pytest.fixture(scope="module")
async def message(filling: Filling) -> Known:
    """Give a message that nothing was done with yet."""
    (message,) = await filling.add(1)
    return message


@pytest.fixture(scope="module")
async def stores(database: Database) -> AsyncIterator[Stores]:
    async with opened(database.url) as stores:
        yield stores


async def test_no_hot_statement_reads_a_growing_table_whole(database: Database, stores: Stores, message: Known) -> None:
    superuser = await asyncpg.connect(database.superuser_url)
    # A table of a few pages is cheaper read whole, whatever its indexes, and so is a join with it: this asks whether
    # there are indexes to go by.
    await superuser.execute("SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
    reads = {}
    for operation in OPERATIONS:
        with collecting(stores.engines) as ran:
            await operation.run(stores, message)
        assert ran, f"{operation.name} ran no statement that was seen"
        for each in ran.values():
            reads[operation.name, each.statement] = await whole_reads(superuser, each)
    await superuser.close()

    assert {which: found for which, found in reads.items() if found} == {}


@pytest.mark.usefixtures("filling")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM messages WHERE provider_accepted_at IS NULL ORDER BY updated_at LIMIT 5",
        "SELECT count(*) FROM messages",
        "SELECT id FROM messages ORDER BY id",
        "UPDATE recipients SET outcome = NULL WHERE address = 'ada@example.com'",
        "DELETE FROM unmatched_events WHERE looks > 3",
    ],
)
async def test_a_statement_that_reads_a_table_whole_is_found(superuser: asyncpg.Connection, statement: str) -> None:
    assert await whole_reads(superuser, Ran(statement=statement, parameters=()))


@pytest.mark.usefixtures("filling")
async def test_every_table_that_the_data_grows_is_watched(superuser: asyncpg.Connection) -> None:
    large = await superuser.fetch(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        " AND relname <> ALL (ARRAY['tenants', 'senders', 'template_versions', 'credentials']) AND reltuples > 10"
    )

    assert {row["relname"] for row in large} <= GROWING


async def test_a_statement_whose_index_is_gone_is_found(
    stores: Stores, superuser: asyncpg.Connection, message: Known
) -> None:
    (sweep,) = (operation for operation in OPERATIONS if operation.name == "sweep")
    with collecting(stores.engines) as ran:
        await sweep.run(stores, message)
    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute("DROP INDEX ix_unmatched_events_look_at")

    found = [read for each in ran.values() for read in await whole_reads(superuser, each)]

    await transaction.rollback()
    assert "Seq Scan on unmatched_events" in found
