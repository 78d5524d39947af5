"""A COMMIT, or only its reply, is lost at each step: a second try says what stands, and there is one right end.

What the API makes of it for its client is in tests/api/test_intake_outages.py, and what a body of submit makes of it in
tests/activities/test_submit.py.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

import asyncpg
import pytest
from temporalio.testing import ActivityEnvironment

from activities.claim import ClaimActivity
from activities.contracts import ClaimReply, ClaimRequest, FinalizeRequest, SubmitRequest
from activities.finalize import FinalizeActivity
from activities.submit import SubmitActivity
from activities.sweep import SweepActivity
from db.decisions import BeginAnswer, ClaimAnswer, FinalAnswer
from db.engine import DatabaseSettings, UnavailableError, create_engine
from db.events import EventStore
from db.ids import new_message_id
from db.intake import IntakeStore, NewMessage, NewRecipient
from db.lifecycle import State
from db.records import MessageRef
from db.store import MessageStore, Recorded, Reread
from tests.conftest import Database
from tests.db.test_store import ACCEPTED, BEGIN_ID, LEASE, LIMITS, NEEDS, begun, claim, timeline
from tests.factories import ADDRESS_HASH, CREDENTIAL, TENANT, AttemptRow, make_message, make_tenant, snapshot, state_of
from tests.fakes import ScriptedProvider
from tests.faults.proxy import FaultProxy, Loss, fault_proxy
from tests.waiting import until

Result = TypeVar("Result")

#: A statement that only this step's transaction contains.
CLAIM, BEGIN, RECORD, SETTLE = "INSERT INTO attempts", "SET begin_id=", "SET outcome=$", "SET outcome=coalesce"
QUICK = replace(LIMITS, backoff_base=timedelta(milliseconds=1))


@pytest.fixture
async def proxy(database: Database, superuser: asyncpg.Connection) -> AsyncIterator[FaultProxy]:
    await make_tenant(superuser)
    async with fault_proxy(database.server.port, postgres=True) as proxy:
        yield proxy


@pytest.fixture
async def store(database: Database, proxy: FaultProxy) -> AsyncIterator[MessageStore]:
    settings = DatabaseSettings.model_validate({"url": proxy.url(database.url("fencepost_worker"))})
    engine = create_engine(settings, application="tests")
    yield MessageStore(engine)
    await engine.dispose()


@pytest.fixture
async def intake(database: Database, proxy: FaultProxy) -> AsyncIterator[IntakeStore]:
    settings = DatabaseSettings.model_validate({"url": proxy.url(database.url("fencepost_api"))})
    engine = create_engine(settings, application="tests")
    yield IntakeStore(engine)
    await engine.dispose()


async def lost(proxy: FaultProxy, loss: Loss, step: str, first_try: Callable[[], Awaitable[object]]) -> None:
    """Run a step whose COMMIT, or the reply to it, is lost: it must say that it doesn't know."""
    before = proxy.lost
    proxy.lose(loss, containing=step)
    with pytest.raises(UnavailableError):
        await first_try()
    assert proxy.lost == before + 1


def a_message(key: str) -> NewMessage:
    return NewMessage(
        ref=MessageRef(id=new_message_id(), tenant_id=TENANT, request_hash=f"v1:{uuid4().hex}{uuid4().hex}"),
        idempotency_key=key,
        hash_version=1,
        credential_id=CREDENTIAL,
        provider="ses",
        purpose="transactional",
        template_key="welcome",
        template_version=1,
        template_purpose="transactional",
        sender_key="main",
        sender_address="hello@acme.example.com",
        sender_name="Acme",
        sender_reply_to=[],
        reply_to=[],
        recipients=(
            NewRecipient(
                role="to",
                address="ada@example.com",
                name=None,
                address_hash=ADDRESS_HASH,
                redacted="a***@example.com",
            ),
        ),
        subject="Hello",
        text="Hello",
        html=None,
        headers=(),
        tags={},
    )


@pytest.mark.parametrize("loss", Loss)
async def test_an_accept_that_is_tried_again_makes_one_message(
    proxy: FaultProxy, intake: IntakeStore, superuser: asyncpg.Connection, loss: Loss
) -> None:
    key = f"accept {loss}"
    message = a_message(key)

    await lost(proxy, loss, "INSERT INTO messages", lambda: intake.accept(message))
    found = await intake.original(TENANT, key)
    again = await intake.accept(message)

    assert found is None if loss is Loss.COMMIT else found is not None and found.ref == message.ref
    assert (again is not None) is (loss is Loss.COMMIT)
    rows = await superuser.fetch("SELECT id, state FROM messages WHERE idempotency_key = $1", key)
    assert [tuple(row) for row in rows] == [(message.ref.id, "queued")]
    assert await timeline(superuser, message.ref) == [("intake", "queued", None)]


@pytest.mark.parametrize("loss", Loss)
async def test_a_claim_that_is_tried_again_finds_or_takes_its_one_lease(
    proxy: FaultProxy, store: MessageStore, superuser: asyncpg.Connection, loss: Loss
) -> None:
    message = await make_message(superuser)

    await lost(proxy, loss, CLAIM, lambda: claim(store, message, "mine"))
    other = await claim(store, message, "another") if loss is Loss.REPLY else None
    again = await claim(store, message, "mine")

    assert other is None or other.answer is ClaimAnswer.BUSY
    assert (again.answer, again.attempt) == (ClaimAnswer.LEASED, 1)
    assert await timeline(superuser, message) == [("intake", "queued", None), ("claim", "leased", None)]
    assert await superuser.fetchval("SELECT count(*) FROM attempts WHERE message_id = $1", message.id) == 1


@pytest.mark.parametrize("loss", Loss)
async def test_a_begin_that_was_lost_lets_its_own_body_call_if_it_happened_and_no_other_one(
    proxy: FaultProxy, store: MessageStore, superuser: asyncpg.Connection, loss: Loss
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow())

    await lost(proxy, loss, BEGIN, lambda: store.begin(message.id, 1, begin_id=BEGIN_ID, needs=NEEDS))
    found = await store.reread_begin(message.id, 1, begin_id=BEGIN_ID, needs=NEEDS)
    others = await store.begin(message.id, 1, begin_id=uuid4(), needs=NEEDS)

    happened = loss is Loss.REPLY
    assert found is (Reread.CALL if happened else Reread.STOP)
    assert others.answer is (BeginAnswer.REFUSED if happened else BeginAnswer.BEGUN)
    assert await superuser.fetchval("SELECT attempts_used FROM messages WHERE id = $1", message.id) == 1


@pytest.mark.parametrize("loss", Loss)
async def test_a_record_that_is_tried_again_is_recorded_once(
    proxy: FaultProxy, store: MessageStore, superuser: asyncpg.Connection, loss: Loss
) -> None:
    message = await make_message(superuser)
    attempt = await begun(store, message)

    async def record() -> Recorded:
        return await store.record(message.id, attempt, begin_id=BEGIN_ID, result=ACCEPTED)

    await lost(proxy, loss, RECORD, record)
    again = await record()

    assert again is Recorded.RECORDED
    recorded = await superuser.fetch(
        "SELECT outcome, provider_message_id FROM attempts WHERE message_id = $1", message.id
    )
    assert [tuple(row) for row in recorded] == [("accepted", "ses-1")]
    assert await superuser.fetchval("SELECT count(*) FROM evidence WHERE message_id = $1", message.id) == 0


@pytest.mark.parametrize("loss", Loss)
async def test_a_finalize_that_is_tried_again_settles_once(
    proxy: FaultProxy, store: MessageStore, superuser: asyncpg.Connection, loss: Loss
) -> None:
    message = await make_message(superuser)
    attempt = await begun(store, message)
    await store.record(message.id, attempt, begin_id=BEGIN_ID, result=ACCEPTED)

    await lost(proxy, loss, SETTLE, lambda: store.finalize(message.id, attempt, limits=LIMITS))
    again = await store.finalize(message.id, attempt, limits=LIMITS)

    assert (again.answer, again.state) == (FinalAnswer.SETTLED, State.PROVIDER_ACCEPTED)
    assert [move for move, _, _ in await timeline(superuser, message)] == ["intake", "claim", "accept"]


@pytest.mark.parametrize("loss", Loss)
async def test_a_sweep_whose_settle_was_lost_is_made_up_for_by_the_next(
    proxy: FaultProxy, store: MessageStore, superuser: asyncpg.Connection, loss: Loss
) -> None:
    over = AttemptRow(begin_id=BEGIN_ID, lease=timedelta(seconds=-1))
    message = await make_message(superuser, State.LEASED, over)

    async def starts_nothing(_: MessageRef) -> None:
        raise AssertionError

    activity = SweepActivity(
        store, EventStore(store.engine), start=starts_nothing, limits=LIMITS, overdue=timedelta(days=1)
    )
    proxy.lose(loss, containing=SETTLE)
    first = await activity.sweep()

    assert proxy.lost == 1
    assert (first.settled, first.failed) == (0, 1)
    settled: list[int] = []

    async def is_ambiguous() -> bool:  # at once, or when Postgres has noticed that the first session is gone
        settled.append((await activity.sweep()).settled)
        return await state_of(superuser, message) is State.AMBIGUOUS

    await until(is_ambiguous, within=10)
    assert sum(settled) == (loss is Loss.COMMIT)
    stands = await snapshot(superuser, message)
    assert (await activity.sweep()).settled == 0
    assert await snapshot(superuser, message) == stands
    assert [move for move, _, _ in await timeline(superuser, message)] == ["intake", "quarantine"]


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("step", [CLAIM, BEGIN, RECORD, SETTLE], ids=["claim", "begin", "record", "settle"])
async def test_a_message_meets_a_loss_at_one_step_and_is_submitted_once(
    proxy: FaultProxy, store: MessageStore, superuser: asyncpg.Connection, step: str, loss: Loss
) -> None:
    message = await make_message(superuser)
    provider = ScriptedProvider()
    proxy.lose(loss, containing=step)

    await drive(store, provider, message)

    assert proxy.lost == 1
    assert await state_of(superuser, message) is State.PROVIDER_ACCEPTED
    assert len(provider.calls) == 1
    never_begun = step == BEGIN and loss is Loss.COMMIT
    outcomes = await superuser.fetch("SELECT outcome FROM attempts WHERE message_id = $1 ORDER BY number", message.id)
    assert [row["outcome"] for row in outcomes] == (["not_begun"] if never_begun else []) + ["accepted"]
    assert await superuser.fetchval("SELECT attempts_used FROM messages WHERE id = $1", message.id) == 1
    assert await superuser.fetchval("SELECT count(*) FROM evidence WHERE message_id = $1", message.id) == 0


async def drive(store: MessageStore, provider: ScriptedProvider, message: MessageRef) -> None:
    """Do as the workflow does, with the activities that it has: claim and finalize until they answer, submit once."""
    name = str(message.id)
    budget, submit_within = timedelta(seconds=5), timedelta(seconds=10)
    finalizes = FinalizeActivity(store, limits=QUICK)
    with ThreadPoolExecutor(1) as pool:
        submits = SubmitActivity(store, provider, pool, call_budget=budget, submit_within=submit_within, limits=QUICK)
        claims = ClaimActivity(
            store, submits, owner="worker-1", lease=LEASE, limits=QUICK, submit_within=submit_within, pause_look=LEASE
        )
        inside = ActivityEnvironment()

        async def has_settled() -> bool:
            asked = ClaimRequest(message_id=name, claim_id=str(uuid4()))
            claimed: ClaimReply = await answered(lambda: inside.run(claims.claim, asked))
            if claimed.answer is not ClaimAnswer.LEASED or claimed.final is FinalAnswer.SETTLED:
                return claimed.answer in (ClaimAnswer.LEASED, ClaimAnswer.SETTLED)
            if not claimed.submitted:
                await submits.submit(SubmitRequest(message_id=name, attempt=claimed.attempt))
            end = await answered(lambda: finalizes.finalize(FinalizeRequest(message_id=name, attempt=claimed.attempt)))
            return end.answer is FinalAnswer.SETTLED

        await until(has_settled, within=10)


async def answered(ask: Callable[[], Awaitable[Result]]) -> Result:
    """Ask as Temporal does, until there is an answer."""
    for _ in range(5):
        try:
            return await ask()
        except UnavailableError:
            continue
    raise AssertionError("Postgres stays away")
