"""A transaction on one message: it takes the row lock first, and all that follows is decided and written under it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.util import greenlet_spawn

from db import statements
from db.engine import outages
from db.ids import MessageId
from db.lifecycle import Actor, Move, State
from db.outcomes import Outcome, Reason


class UnknownMessageError(Exception):
    """No message has this id: this database is not the one that accepted it, or was restored to an earlier time."""


@dataclass(frozen=True, slots=True)
class LockedMessage:
    """A message whose row this transaction holds."""

    connection: AsyncConnection
    message_id: MessageId

    async def first(self, statement: sa.Executable, **values: Any) -> sa.Row[Any] | None:  # noqa: ANN401
        """Run a statement about this message; give its only row, or None."""
        return (await self.connection.execute(statement, {"this_message": self.message_id, **values})).one_or_none()

    async def one(self, statement: sa.Executable, **values: Any) -> sa.Row[Any]:  # noqa: ANN401
        """Run a statement about this message that must give one row."""
        return (await self.connection.execute(statement, {"this_message": self.message_id, **values})).one()

    async def make(
        self,
        move: Move,
        *,
        token: int,
        from_state: State,
        reason: Reason | None,
        attempt: int | None = None,
        **more: Any,  # noqa: ANN401  (what the statement of this move binds besides)
    ) -> None:
        """Make a move that was decided under the lock. Its statement must agree, or the whole transaction fails."""
        values = {"this_token": token, "state_before": from_state, "why": reason, "in_attempt": attempt, **more}
        await self.one(statements.MOVES[move], **values)

    async def note(
        self,
        move: str,
        *,
        attempt: int | None,
        from_state: State | None = None,
        to_state: State | None = None,
        reason: Reason | None = None,
        by: Actor = Actor.MACHINE,
    ) -> None:
        """Write a line of the timeline."""
        values = {"state_before": from_state, "state_after": to_state, "named": move, "why": reason}
        await self.one(statements.NOTE, by_actor=by, in_attempt=attempt, **values)

    async def close(self, token: int, closes_as: Outcome | None, closes_because: Reason | None) -> None:
        """Close an attempt, in the transaction of the move out of leased; a recorded outcome stays as it is."""
        await self.one(statements.CLOSE, this_token=token, closes_as=closes_as, closes_because=closes_because)


@asynccontextmanager
async def locked(
    engine: AsyncEngine, message_id: MessageId, *, by: sa.Executable = statements.LOCK
) -> AsyncIterator[LockedMessage]:
    """Begin a transaction and take the message row; commit at the end, roll back on any exception.

    Raises UnavailableError for any trouble with Postgres; the COMMIT may have happened all the same. Raises
    UnknownMessageError where `by`, the statement that takes the row, finds none to take.
    """
    with outages():
        async with engine.begin() as connection:
            message = LockedMessage(connection, message_id)
            if await message.first(by) is None:
                raise UnknownMessageError
            yield message


@asynccontextmanager
async def connected(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Take a connection, for what needs no lock; nothing is committed by itself. Raises UnavailableError."""
    with outages():
        async with engine.connect() as connection:
            yield connection


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Take a connection for statements that are transactions by themselves: two round trips less than `connected`.

    Raises UnavailableError.
    """
    with outages():
        async with engine.connect() as plain:
            yield await plain.execution_options(isolation_level="AUTOCOMMIT")


async def rows_of(engine: AsyncEngine, statement: sa.Executable, values: Mapping[str, Any]) -> Sequence[sa.Row[Any]]:
    """Run one statement that is a transaction by itself, and give its rows. Raises UnavailableError.

    All of it runs in one greenlet. Each call on an AsyncConnection makes one of its own, and its close a task: for what
    every request does, that is a third of the time.
    """

    def run() -> Sequence[sa.Row[Any]]:
        with engine.sync_engine.connect() as plain:
            return plain.execution_options(isolation_level="AUTOCOMMIT").execute(statement, values).all()

    with outages():
        return await greenlet_spawn(run)
