"""Races on real connections: one winner each, whatever the interleaving."""

import asyncio
from datetime import timedelta
from functools import partial
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy.exc import NoResultFound
from sqlalchemy.ext.asyncio import AsyncEngine

from db.decisions import BeginAnswer, ClaimAnswer
from db.ids import TenantId
from db.lifecycle import State
from db.records import ExpiredLease
from db.store import MessageStore
from tests.db.test_store import ACCEPTED, BEGIN_ID, LEASE, LIMITS, NEEDS, break_policy
from tests.factories import AttemptRow, make_message, make_tenant, state_of
from tests.waiting import somebody_waits, until

RACERS = 16


@pytest.fixture
async def store(worker_engine: AsyncEngine, superuser: asyncpg.Connection) -> MessageStore:
    await make_tenant(superuser)
    return MessageStore(worker_engine)


async def test_of_many_claims_at_once_one_wins_and_the_token_grows_once(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)

    answers = await asyncio.gather(
        *(
            store.claim(message.id, claim_id=f"claim-{number}", owner="w", lease=LEASE, limits=LIMITS)
            for number in range(RACERS)
        )
    )

    assert [answer.answer for answer in answers].count(ClaimAnswer.LEASED) == 1
    assert [answer.answer for answer in answers].count(ClaimAnswer.BUSY) == RACERS - 1
    assert await superuser.fetchval("SELECT token FROM messages WHERE id = $1", message.id) == 1


async def test_of_many_runs_of_one_claim_all_find_the_same_lease(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)

    answers = await asyncio.gather(
        *(store.claim(message.id, claim_id="one", owner="w", lease=LEASE, limits=LIMITS) for _ in range(RACERS))
    )

    assert {(answer.answer, answer.attempt) for answer in answers} == {(ClaimAnswer.LEASED, 1)}
    assert await superuser.fetchval("SELECT count(*) FROM attempts WHERE message_id = $1", message.id) == 1


async def test_of_many_bodies_one_begins(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow())

    answers = await asyncio.gather(*(store.begin(message.id, 1, begin_id=uuid4(), needs=NEEDS) for _ in range(RACERS)))

    assert [answer.answer for answer in answers].count(BeginAnswer.BEGUN) == 1
    assert await superuser.fetchval("SELECT attempts_used FROM messages WHERE id = $1", message.id) == 1


async def test_begin_and_sweep_never_both_have_the_last_word(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    """A lease that runs out while a body begins: it began and is ambiguous, or it was settled and never begins."""
    for _ in range(10):
        message = await make_message(superuser, State.LEASED, AttemptRow(lease=timedelta(milliseconds=30)))
        lease = ExpiredLease(message_id=message.id, attempt=1)
        sweep = until(partial(store.settle_expired, lease, limits=LIMITS), within=10, every=0)

        begun, _ = await asyncio.gather(
            store.begin(message.id, 1, begin_id=uuid4(), needs=timedelta(milliseconds=1)), sweep
        )

        expected = State.AMBIGUOUS if begun.answer is BeginAnswer.BEGUN else State.RETRYABLE
        assert await state_of(superuser, message) is expected


async def test_many_finalizes_settle_once(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(begin_id=BEGIN_ID))
    await store.record(message.id, 1, begin_id=BEGIN_ID, result=ACCEPTED)

    finals = await asyncio.gather(*(store.finalize(message.id, 1, limits=LIMITS) for _ in range(RACERS)))

    assert {final.state for final in finals} == {State.PROVIDER_ACCEPTED}
    assert await superuser.fetchval("SELECT count(*) FROM timeline WHERE message_id = $1", message.id) == 2


async def test_a_begin_that_waited_for_the_row_sees_a_suppression_that_came_meanwhile(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    """One statement would keep the snapshot from before its wait (model: row_lock.sh, cases 2 and 5)."""
    tenant_id = TenantId("waited")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, State.LEASED, AttemptRow(), tenant_id=tenant_id)
    async with superuser.transaction():
        await superuser.execute("SELECT 1 FROM messages WHERE id = $1 FOR UPDATE", message.id)
        begin = asyncio.create_task(store.begin(message.id, 1, begin_id=uuid4(), needs=NEEDS))
        await somebody_waits(superuser)
        await break_policy(superuser, tenant_id, "suppressed")

    assert (await begin).answer is BeginAnswer.SUPPRESSED


async def test_a_begin_that_waited_for_the_row_sees_that_its_lease_has_run_short(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    """An UPDATE that waited for a holder that changes nothing doesn't look at its WHERE again (row_lock.sh, case 1)."""
    message = await make_message(superuser, State.LEASED, AttemptRow(lease=timedelta(seconds=1)))
    needs = timedelta(milliseconds=900)
    async with superuser.transaction():
        await superuser.execute("SELECT 1 FROM messages WHERE id = $1 FOR UPDATE", message.id)
        begin = asyncio.create_task(store.begin(message.id, 1, begin_id=uuid4(), needs=needs))
        await somebody_waits(superuser)
        await superuser.execute("SELECT pg_sleep(0.3)")

    assert (await begin).answer is BeginAnswer.REFUSED


CLOSE = "UPDATE attempts SET outcome = 'not_begun', ended_at = now(), closed_at = now() WHERE message_id = $1"


async def test_a_begin_whose_attempt_is_closed_past_the_row_lock_is_refused(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    """Somebody at a `psql` prompt doesn't take the message row; the guard of the statement still looks."""
    message = await make_message(superuser, State.LEASED, AttemptRow())
    async with superuser.transaction():
        await superuser.execute(CLOSE, message.id)
        begin = asyncio.create_task(store.begin(message.id, 1, begin_id=uuid4(), needs=NEEDS))
        await somebody_waits(superuser)

    assert (await begin).answer is BeginAnswer.REFUSED
    assert await superuser.fetchval("SELECT attempts_used FROM messages WHERE id = $1", message.id) == 0


async def test_a_settlement_whose_attempt_is_closed_past_the_row_lock_moves_nothing(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow())
    async with superuser.transaction():
        await superuser.execute(CLOSE, message.id)
        final = asyncio.create_task(store.finalize(message.id, 1, limits=LIMITS))
        await somebody_waits(superuser)

    with pytest.raises(NoResultFound):
        await final
    assert await state_of(superuser, message) is State.LEASED
