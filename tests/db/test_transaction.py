"""A statement that runs by itself: what becomes of its connection when nobody waits for it any more."""

import asyncio

import asyncpg
import pytest
import sqlalchemy as sa

from db.engine import DatabaseSettings, UnavailableError, create_engine
from db.transaction import rows_of
from tests.conftest import Database, free_port
from tests.waiting import until

SLEEP = sa.select(sa.func.pg_sleep(60), sa.literal("cancelled soon"))


async def test_a_statement_that_is_cancelled_leaves_the_pools_only_connection_to_the_next(
    database: Database, superuser: asyncpg.Connection
) -> None:
    settings = DatabaseSettings.model_validate({"url": database.url("fencepost_api"), "pool_size": 1})
    engine = create_engine(settings, application="cancelled")
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cancelled' AND query LIKE '%pg_sleep%'"

    async def sleeps() -> bool:
        return bool(await superuser.fetchval(sleeping + " AND state = 'active'"))

    asking = asyncio.create_task(rows_of(engine, SLEEP, {}))
    await until(sleeps, within=10)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    rows = await rows_of(engine, sa.select(sa.literal(7).label("seven")), {})
    await engine.dispose()

    assert asking.cancelled()
    assert [row.seven for row in rows] == [7]


async def test_a_statement_without_postgres_is_unavailable() -> None:
    gone = DatabaseSettings.model_validate({"url": f"postgresql://fencepost_api:x@127.0.0.1:{free_port()}/fencepost"})
    engine = create_engine(gone, application="tests")

    with pytest.raises(UnavailableError):
        await rows_of(engine, sa.select(sa.literal(7)), {})

    await engine.dispose()
