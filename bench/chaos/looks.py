"""Looks into the stack's Postgres while it is tormented: moments to aim at, and what has not settled yet."""

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import asyncpg

#: A look is a few milliseconds; a Postgres that is stopped or being started gives no answer at all.
_LOOK_SECONDS: Final = 1.0
#: Between two looks while a moment is waited for: some of them last a few milliseconds.
_EVERY_SECONDS: Final = 0.01

#: The last is what asyncpg says of a connection that broke in the middle of a look.
_NO_ANSWER: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)

_MOMENT: Final = """
SELECT m.id::text AS message_id, m.tenant_id || '/' || m.request_hash AS workflow_id,
    split_part(a.lease_owner, '-', 2) AS worker
FROM attempts AS a JOIN messages AS m ON m.id = a.message_id WHERE {condition} ORDER BY random() LIMIT 1
"""
_UNSETTLED: Final = "SELECT id::text FROM messages WHERE state IN ('queued', 'leased', 'retryable')"


class Moment(StrEnum):
    """A moment in an attempt's life that a fault is aimed at."""

    CLAIMED = "a.closed_at IS NULL AND a.begun_at IS NULL"
    BEGUN = "a.closed_at IS NULL AND a.begun_at IS NOT NULL AND a.outcome IS NULL"
    RECORDED = "a.closed_at IS NULL AND a.outcome IS NOT NULL"
    OPEN = "a.closed_at IS NULL"
    #: The sweep has asked for no run of it yet: it asks again after a minute only.
    OPEN_FIRST_RUN = "a.closed_at IS NULL AND m.run_requested_at IS NULL"
    ACCEPTED = "a.closed_at IS NOT NULL AND a.outcome = 'accepted'"
    #: Its events are on their way.
    JUST_ACCEPTED = "a.outcome = 'accepted' AND a.closed_at > clock_timestamp() - interval '0.5 s'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A message that is in such a moment."""

    message_id: str
    workflow_id: str
    worker: str  #: the number of the worker that claimed it


class Looks:
    """One connection as a superuser, opened again whenever it broke."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._connection: asyncpg.Connection | None = None
        self._one_at_a_time = asyncio.Lock()

    async def target(self, moment: Moment, *, within: float, but: frozenset[str] = frozenset()) -> Target | None:
        """Wait for a message in this moment, other than those in `but`; None where none came within so many seconds."""
        query = _MOMENT.format(condition=f"{moment} AND NOT m.id = ANY ($1::uuid[])")
        deadline = time.monotonic() + within
        while True:
            for row in await self._rows(query, list(but)) or ():
                return Target(**dict(row))
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(_EVERY_SECONDS)

    async def unsettled(self) -> int | None:
        """Count what is in a passing state; None where Postgres doesn't answer."""
        rows = await self._rows(_UNSETTLED)
        return None if rows is None else len(rows)

    def close(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.terminate()
            self._connection = None

    async def _rows(self, query: str, *arguments: object) -> list[Any] | None:
        try:
            async with self._one_at_a_time, asyncio.timeout(_LOOK_SECONDS):
                if self._connection is None or self._connection.is_closed():
                    self._connection = await asyncpg.connect(self._database_url, ssl=False)
                rows: list[Any] = await self._connection.fetch(query, *arguments)
                return rows
        except _NO_ANSWER:
            self.close()
            return None
