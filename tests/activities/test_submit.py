"""Submit: begin, one call, record, whatever breaks around it. Postgres is real; a proxy before it loses replies."""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from activities.contracts import SubmitReply, SubmitRequest
from activities.submit import SubmitActivity
from db.engine import DatabaseSettings, create_engine
from db.lifecycle import State
from db.outcomes import Outcome
from db.records import CallResult, MessageRef
from db.store import MessageStore
from tests.conftest import Database
from tests.db.test_store import LEASE, LIMITS
from tests.factories import AttemptRow, make_message, make_tenant, snapshot
from tests.fakes import ScriptedProvider
from tests.faults.proxy import FaultProxy, Loss, fault_proxy
from tests.waiting import until


def submit_activity(store: MessageStore, provider: ScriptedProvider, pool: ThreadPoolExecutor) -> SubmitActivity:  # type: ignore[type-arg]  # the fake's request is its own
    return SubmitActivity(
        store,
        provider,
        pool,
        call_budget=timedelta(seconds=5),
        submit_within=timedelta(seconds=10),
        limits=LIMITS,
    )


@pytest.fixture
def pool() -> AsyncIterator[ThreadPoolExecutor]:  # type: ignore[misc]  # pytest reads it as a generator
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
async def store(worker_engine: AsyncEngine, superuser: asyncpg.Connection) -> MessageStore:
    await make_tenant(superuser)
    return MessageStore(worker_engine)


@asynccontextmanager
async def behind_a_proxy(database: Database) -> AsyncIterator[tuple[FaultProxy, MessageStore]]:
    async with fault_proxy(database.server.port, postgres=True) as proxy:
        url = proxy.url(database.url("fencepost_worker"))
        engine = create_engine(DatabaseSettings.model_validate({"url": url}), application="tests")
        store = MessageStore(engine)
        await store.expired_leases(1)  # a new connection commits something of its own
        yield proxy, store
        await engine.dispose()


async def run(activity: SubmitActivity, message: MessageRef, attempt: int = 1) -> SubmitReply:  # type: ignore[type-arg]  # as above
    return await activity.submit(SubmitRequest(message_id=str(message.id), attempt=attempt))


async def outcome_of(connection: asyncpg.Connection, message: MessageRef) -> tuple[str | None, bool, int]:
    row = await connection.fetchrow(
        """SELECT a.outcome, a.begun_at IS NOT NULL, m.attempts_used
        FROM attempts a JOIN messages m ON m.id = message_id WHERE message_id = $1""",
        message.id,
    )
    assert row is not None
    return tuple(row)


async def test_submit_begins_calls_once_and_records(
    store: MessageStore, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow())
    provider = ScriptedProvider()

    reply = await run(submit_activity(store, provider, pool), message)

    assert reply == SubmitReply(result="accepted")
    assert len(provider.calls) == 1
    assert await outcome_of(superuser, message) == ("accepted", True, 1)


@pytest.mark.parametrize(
    ("state", "attempt"),
    [
        (State.RETRYABLE, AttemptRow(outcome="not_begun", closed=True)),
        (State.LEASED, AttemptRow(lease=timedelta(seconds=5.9))),
        (State.LEASED, AttemptRow(token=2, number=2)),
    ],
    ids=["closed", "too little lease", "stale token"],
)
async def test_a_refused_begin_makes_no_call(
    store: MessageStore,
    superuser: asyncpg.Connection,
    pool: ThreadPoolExecutor,
    state: State,
    attempt: AttemptRow,
) -> None:
    older = [AttemptRow(outcome="not_begun", closed=True)] if attempt.token == 2 else []
    attempt = attempt if not older else AttemptRow(token=2, number=2, claim_id="claim-2")
    message = await make_message(superuser, state, *older, attempt)
    provider = ScriptedProvider()
    before = await snapshot(superuser, message)

    reply = await run(submit_activity(store, provider, pool), message)

    assert reply.result == "refused"
    assert provider.calls == []
    assert await snapshot(superuser, message) == before


async def test_many_bodies_of_one_submit_make_one_call(
    store: MessageStore, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow())
    provider = ScriptedProvider()
    activity = submit_activity(store, provider, pool)

    replies = await asyncio.gather(*(run(activity, message) for _ in range(8)))

    assert len(provider.calls) == 1
    assert sorted(reply.result for reply in replies) == ["accepted", *["refused"] * 7]


async def test_a_body_that_lost_the_reply_to_its_begin_calls_once(
    database: Database, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.LEASED, AttemptRow())
    provider = ScriptedProvider()

    async with behind_a_proxy(database) as (proxy, store):
        proxy.lose(Loss.REPLY)
        reply = await run(submit_activity(store, provider, pool), message)

    assert proxy.lost == 1
    assert reply.result == "accepted"
    assert len(provider.calls) == 1
    assert await outcome_of(superuser, message) == ("accepted", True, 1)


async def test_a_body_whose_begin_never_arrived_makes_no_call(
    database: Database, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.LEASED, AttemptRow())
    provider = ScriptedProvider()

    async with behind_a_proxy(database) as (proxy, store):
        proxy.lose(Loss.COMMIT)
        reply = await run(submit_activity(store, provider, pool), message)

    assert reply.result == "stop"
    assert provider.calls == []
    assert await outcome_of(superuser, message) == (None, False, 0)


async def test_a_body_that_finds_its_begin_too_late_submits_nothing(
    database: Database, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.LEASED, AttemptRow())
    provider = ScriptedProvider()

    async def lease_runs_short() -> None:
        await superuser.execute(
            "SET session_replication_role = replica;"
            "UPDATE attempts SET lease_expires_at = clock_timestamp() + interval '5 s' "
            f"WHERE message_id = '{message.id}';"
            "SET session_replication_role = origin"
        )

    async with behind_a_proxy(database) as (proxy, store):
        proxy.lose(Loss.REPLY, meanwhile=lease_runs_short)
        reply = await run(submit_activity(store, provider, pool), message)

    assert reply.result == "not_submitted"
    assert provider.calls == []
    assert await outcome_of(superuser, message) == ("not_submitted", True, 1)


@pytest.mark.parametrize("loss", Loss)
async def test_an_outcome_is_recorded_once_whatever_is_lost(
    database: Database, superuser: asyncpg.Connection, pool: ThreadPoolExecutor, loss: Loss
) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.LEASED, AttemptRow())

    async with behind_a_proxy(database) as (proxy, store):

        def accepted() -> CallResult:
            proxy.lose(loss)  # the next COMMIT is record's
            return CallResult(outcome=Outcome.ACCEPTED, provider="ses", provider_message_id="ses-7")

        provider = ScriptedProvider(script=[accepted])
        reply = await run(submit_activity(store, provider, pool), message)

    assert proxy.lost == 1
    assert reply.result == "accepted"
    assert (
        await superuser.fetchval("SELECT provider_message_id FROM attempts WHERE message_id = $1", message.id)
        == "ses-7"
    )
    assert await superuser.fetchval("SELECT count(*) FROM evidence WHERE message_id = $1", message.id) == 0


async def test_a_cancelled_submit_ends_its_call_and_records_it(
    store: MessageStore, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow())
    provider = ScriptedProvider()
    provider.may_answer.clear()
    task = asyncio.create_task(run(submit_activity(store, provider, pool), message))
    await until(provider.called.is_set, within=5)

    task.cancel()
    task.cancel()
    provider.may_answer.set()
    reply = await task

    assert reply.result == "accepted"
    assert await outcome_of(superuser, message) == ("accepted", True, 1)


async def test_a_provider_that_raises_leaves_an_unknown_outcome(
    store: MessageStore, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow())

    def broken() -> CallResult:
        raise RuntimeError("ada@example.com")

    reply = await run(submit_activity(store, ScriptedProvider(script=[broken]), pool), message)

    assert reply.result == "unknown"
    assert await outcome_of(superuser, message) == ("unknown", True, 1)


async def test_a_result_that_comes_after_the_message_was_settled_is_late(
    store: MessageStore, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    message = await make_message(superuser)
    attempt = (await store.claim(message.id, claim_id="claim-1", owner="w", lease=LEASE, limits=LIMITS)).attempt
    provider = ScriptedProvider()
    provider.may_answer.clear()
    task = asyncio.create_task(run(submit_activity(store, provider, pool), message, attempt))
    await until(provider.called.is_set, within=5)
    await superuser.execute(
        "SET session_replication_role = replica;"
        "UPDATE attempts SET lease_expires_at = clock_timestamp() - interval '1 s' "
        f"WHERE message_id = '{message.id}';"
        "SET session_replication_role = origin"
    )
    (lease,) = [lease for lease in await store.expired_leases(50) if lease.message_id == message.id]
    await store.settle_expired(lease, limits=LIMITS)

    provider.may_answer.set()
    reply = await task

    assert reply.result == "late"
    assert await superuser.fetchval("SELECT state FROM messages WHERE id = $1", message.id) == "ambiguous"
    assert await superuser.fetchval("SELECT count(*) FROM evidence WHERE message_id = $1", message.id) == 1


async def test_a_begin_that_took_too_long_is_recorded_as_not_submitted(
    store: MessageStore, superuser: asyncpg.Connection, pool: ThreadPoolExecutor
) -> None:
    """Somebody holds the row for longer than the margin: the lease still suffices, the moment to call is past."""
    message = await make_message(superuser, State.LEASED, AttemptRow())
    provider = ScriptedProvider()
    async with superuser.transaction():
        await superuser.execute("SELECT 1 FROM messages WHERE id = $1 FOR UPDATE", message.id)
        begun = time.monotonic()
        task = asyncio.create_task(run(submit_activity(store, provider, pool), message))
        await until(lambda: time.monotonic() - begun > 1.5, within=5)

    assert (await task).result == "not_submitted"
    assert provider.calls == []
