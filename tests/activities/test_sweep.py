"""The sweep: bounded, run from many places at once, and held up by no message of its own."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.service import RPCError, RPCStatusCode

from activities import sweep as sweeping
from activities.sweep import SweepActivity
from db.events import EventStore
from db.lifecycle import State
from db.records import MessageRef
from db.store import MessageStore
from tests.db.test_store import BEGIN_ID, LIMITS
from tests.factories import AttemptRow, make_message, make_tenant, state_of

OVER = timedelta(seconds=-1)
LONG_AGO = "UPDATE messages SET due_at = clock_timestamp() - interval '1 minute' WHERE id = ANY($1)"
SWEEPS = 10


@pytest.fixture
async def store(worker_engine: AsyncEngine, superuser: asyncpg.Connection) -> MessageStore:
    await make_tenant(superuser)
    await superuser.execute("SET session_replication_role = replica")
    for table in ("timeline", "evidence", "recipients", "message_contents", "attempts", "messages"):
        await superuser.execute(f"DELETE FROM {table}")
    await superuser.execute("SET session_replication_role = origin")
    await superuser.execute("UPDATE providers SET paused = false")
    return MessageStore(worker_engine)


def a_sweep(store: MessageStore, start: Callable[[MessageRef], Awaitable[None]]) -> SweepActivity:
    return SweepActivity(store, EventStore(store.engine), start=start, limits=LIMITS, overdue=timedelta(seconds=10))


async def nowhere(message: MessageRef) -> None:
    raise AssertionError(f"nobody should start {message.id}")


async def test_sweeps_from_many_places_at_once_settle_each_lease_once_and_no_live_one(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    over = [await make_message(superuser, State.LEASED, AttemptRow(lease=OVER)) for _ in range(15)]
    begun = [await make_message(superuser, State.LEASED, AttemptRow(lease=OVER, begin_id=uuid4())) for _ in range(15)]
    live = [await make_message(superuser, State.LEASED, AttemptRow(begin_id=uuid4())) for _ in range(5)]

    swept = await asyncio.gather(*(a_sweep(store, nowhere).sweep() for _ in range(SWEEPS)))

    assert sum(reply.settled for reply in swept) == len(over) + len(begun)
    assert sum(reply.failed for reply in swept) == 0
    for messages, state in ((over, State.RETRYABLE), (begun, State.AMBIGUOUS), (live, State.LEASED)):
        assert {await state_of(superuser, message) for message in messages} == {state}
    lines = await superuser.fetch("SELECT message_id FROM timeline WHERE move IN ('retry', 'quarantine')")
    assert set(Counter(line["message_id"] for line in lines).values()) == {1}


async def test_a_message_that_somebody_works_on_holds_up_no_sweep(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    held = await make_message(superuser, State.LEASED, AttemptRow(lease=timedelta(seconds=-5)))
    other = await make_message(superuser, State.LEASED, AttemptRow(lease=OVER))

    async with superuser.transaction():
        await superuser.execute("SELECT 1 FROM messages WHERE id = $1 FOR UPDATE", held.id)
        swept = await a_sweep(store, nowhere).sweep()

    assert (swept.settled, swept.failed) == (1, 0)
    assert await state_of(superuser, other) is State.RETRYABLE
    assert await state_of(superuser, held) is State.LEASED


async def test_messages_that_cannot_be_settled_hold_up_none_that_can(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    """Their row is one that this version can't read: a bug, or somebody's hand; each fails for a reason of its own."""
    broken = [await make_message(superuser, State.LEASED, AttemptRow(lease=timedelta(seconds=-60))) for _ in range(10)]
    await superuser.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'broken' USING ERRCODE = 'check_violation'; END $$"
    )
    await superuser.execute(
        "CREATE TRIGGER broken BEFORE UPDATE ON messages FOR EACH ROW WHEN (OLD.purpose = 'broken')"
        " EXECUTE FUNCTION refuse()"
    )
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE messages SET purpose = 'broken'")
    await superuser.execute("SET session_replication_role = origin")
    fine = await make_message(superuser, State.LEASED, AttemptRow(lease=OVER))

    swept = await a_sweep(store, nowhere).sweep()
    await superuser.execute("DROP TRIGGER broken ON messages")

    assert (swept.settled, swept.failed) == (1, len(broken))
    assert await state_of(superuser, fine) is State.RETRYABLE


async def test_messages_that_temporal_refuses_hold_up_none_that_it_takes(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    forgotten = [await make_message(superuser) for _ in range(8)]
    await superuser.execute(LONG_AGO, [message.id for message in forgotten])
    started: list[MessageRef] = []

    async def start(message: MessageRef) -> None:
        if message == forgotten[-1]:
            started.append(message)
        else:
            raise RPCError("refused", RPCStatusCode.INVALID_ARGUMENT, b"")

    swept = await a_sweep(store, start).sweep()

    assert (swept.started, swept.failed) == (1, 7)
    assert started == [forgotten[-1]]


async def test_messages_without_a_run_come_before_those_that_wait_their_turn(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    asked, never = [await make_message(superuser) for _ in range(2)]
    hours = "UPDATE messages SET due_at = clock_timestamp() - $2::interval WHERE id = $1"
    await superuser.execute(hours, asked.id, timedelta(hours=2))
    await superuser.execute(hours, never.id, timedelta(hours=1))
    await store.run_requested(asked.id)

    found = await store.startable(overdue=timedelta(), again_after=timedelta(), most=1)

    assert found == [never]


async def test_a_run_that_was_asked_for_and_is_gone_is_asked_for_again_soon(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    await superuser.execute(LONG_AGO, [message.id])
    started: list[MessageRef] = []

    async def start(message: MessageRef) -> None:
        started.append(message)

    for since in (timedelta(), timedelta(seconds=15), timedelta(seconds=25)):
        await superuser.execute("UPDATE messages SET run_requested_at = run_requested_at - $1::interval", since)
        await a_sweep(store, start).sweep()

    assert started == [message, message]


@pytest.mark.parametrize(
    "away",
    [
        RuntimeError("Failed client connect"),
        RPCError("away", RPCStatusCode.UNAVAILABLE, b""),
        RPCError("Timeout expired", RPCStatusCode.CANCELLED, b""),
        RPCError("late", RPCStatusCode.DEADLINE_EXCEEDED, b""),
        RPCError("busy", RPCStatusCode.RESOURCE_EXHAUSTED, b""),
    ],
    ids=str,
)
async def test_a_sweep_without_temporal_gives_up_soon(
    store: MessageStore, superuser: asyncpg.Connection, away: Exception
) -> None:
    forgotten = [await make_message(superuser) for _ in range(6)]
    await superuser.execute(LONG_AGO, [message.id for message in forgotten])
    asked: list[MessageRef] = []

    async def start(message: MessageRef) -> None:
        asked.append(message)
        raise away

    swept = await a_sweep(store, start).sweep()

    assert (swept.started, swept.failed) == (0, 3)
    assert len(asked) == 3


async def test_a_sweep_asks_for_no_runs_while_the_provider_is_switched_off(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    await superuser.execute(LONG_AGO, [message.id])
    await superuser.execute("UPDATE providers SET paused = true")
    started: list[MessageRef] = []

    async def start(message: MessageRef) -> None:
        started.append(message)

    await a_sweep(store, start).sweep()
    off = list(started)
    await superuser.execute("UPDATE providers SET paused = false")
    await a_sweep(store, start).sweep()

    assert off == []
    assert started == [message]


async def test_one_sweep_takes_on_no_more_than_its_bound_and_the_next_goes_on(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    most = sweeping.MOST_SETTLED
    await superuser.execute("SET session_replication_role = replica")
    first = await make_message(superuser, State.LEASED, AttemptRow(lease=OVER, begin_id=BEGIN_ID))
    await superuser.execute(
        """INSERT INTO messages SELECT (jsonb_populate_record(m, jsonb_build_object(
            'id', gen_random_uuid(), 'idempotency_key', 'many-' || n))).*
        FROM messages m, generate_series(1, $2) n WHERE id = $1""",
        first.id,
        most + 4,
    )
    await superuser.execute(
        """INSERT INTO attempts SELECT (jsonb_populate_record(a, jsonb_build_object('message_id', m.id))).*
        FROM attempts a, messages m WHERE a.message_id = $1 AND m.id <> $1""",
        first.id,
    )
    await superuser.execute("SET session_replication_role = origin")

    swept = [await a_sweep(store, nowhere).sweep() for _ in range(2)]

    assert [reply.settled for reply in swept] == [most, 5]
