"""Waiting for something to become true, instead of for a time to pass."""

import asyncio
import inspect
import time
from collections.abc import Callable

import asyncpg


async def until(condition: Callable[[], object], *, within: float, every: float = 0.02) -> None:
    """Return as soon as the condition holds, looked at every so many seconds; fail after `within` seconds.

    The condition may be async.
    """
    deadline = time.monotonic() + within
    while True:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < deadline, f"not within {within} s"
        await asyncio.sleep(every)


async def somebody_waits(connection: asyncpg.Connection) -> None:
    """Return when another session waits for a lock in this database."""
    waiting = """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""

    async def somebody() -> bool:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        return bool(await connection.fetchval(waiting))

    await until(somebody, within=5)
