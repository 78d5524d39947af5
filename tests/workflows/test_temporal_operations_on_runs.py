"""Temporal's operations on runs, used against us: at most one call, and each message ends where it should."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import uuid4

import asyncpg
import pytest

from activities.contracts import CLAIM
from db.lifecycle import State
from db.outcomes import Outcome, Reason
from db.records import CallResult, MessageRef
from tests.factories import AttemptRow, make_message, snapshot
from tests.fakes import ACCEPTED
from tests.waiting import until
from tests.workflows.delivery import LONG_LEASE, CountingProvider, Delivery
from tests.workflows.temporal_operations import (
    ENDINGS,
    SCHEDULED,
    SOON,
    described,
    end_run,
    has_ended,
    none_runs,
    reset_points,
    reset_workflow,
    stands,
    wipe,
)
from workflows.temporal import start_message

UNKNOWN = CallResult(outcome=Outcome.UNKNOWN, provider="ses", reason=Reason.CONNECTION_LOST)
THROTTLED = CallResult(outcome=Outcome.REFUSED, provider="ses", reason=Reason.THROTTLED)
REJECTED = CallResult(outcome=Outcome.REJECTED, provider="ses", reason=Reason.REJECTED)
#: Waits ten minutes at the least, whatever the jitter.
QUOTA_EXCEEDED = CallResult(outcome=Outcome.REFUSED, provider="ses", reason=Reason.QUOTA_EXCEEDED)

SUBMIT_ENDS: Final = ("activity_task_completed_event_attributes", "activity_task_timed_out_event_attributes")
RESETS: Final = ("reset to claim", "reset to submit", "reset to both")
SHORTLY = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ([ACCEPTED], State.PROVIDER_ACCEPTED),
        ([THROTTLED, ACCEPTED], State.PROVIDER_ACCEPTED),
        ([UNKNOWN], State.AMBIGUOUS),
        ([REJECTED], State.DEAD),
    ],
    ids=["accepted", "accepted at last", "ambiguous", "dead"],
)
@pytest.mark.parametrize("apart", [False, True], ids=["one body", "submit apart"])
async def test_a_closed_run_that_is_reset_to_any_of_its_tasks_changes_nothing(
    delivery: Delivery, script: list[CallResult], end: State, apart: bool
) -> None:
    message = await make_message(delivery.connection)
    provider = CountingProvider(scripts={message.id: script})

    async with delivery.working(provider, store=delivery.apart if apart else None):
        assert await delivery.run(message) is end
        before, calls, bodies = (
            await snapshot(delivery.connection, message),
            len(provider.calls),
            provider.bodies.total(),
        )
        run_id = (await delivery.handle(message).describe()).run_id
        for point in await reset_points(delivery.client, message, run_id=run_id):
            await reset_workflow(delivery.client, message, point, run_id=run_id)
            assert await delivery.end(message) is end

    assert (provider.bodies.total() > bodies) is apart  # else the claim finds nothing to do
    assert len(provider.calls) == calls
    assert await snapshot(delivery.connection, message) == before


async def test_a_run_that_is_ended_before_its_claim_is_started_again_by_the_sweep(delivery: Delivery) -> None:
    messages = {how: await make_message(delivery.connection) for how in ENDINGS}
    provider = CountingProvider()

    with ThreadPoolExecutor(8) as executor:
        claims, others = delivery.workers(provider, executor)
        async with others:
            for how, message in messages.items():
                await start_message(delivery.client, message)
                await stands(delivery.client, message, CLAIM, SCHEDULED)
                await end_run(delivery.client, message, how)
                await until(lambda message=message: has_ended(delivery.client, message), within=SOON)  # type: ignore[misc]  # a bound value
            async with claims:
                await delivery.swept_into(dict.fromkeys(messages.values(), State.PROVIDER_ACCEPTED))

    assert provider.times_called() == {message.id: 1 for message in messages.values()}


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Two messages to whose runs the same is done in the middle of a call, which is answered for one of them."""

    answered: MessageRef
    unanswered: MessageRef


@pytest.mark.parametrize("apart", [False, True], ids=["one body", "submit apart"])
async def test_a_call_whose_run_is_ended_or_reset_is_recorded_or_ambiguous_at_the_end_of_its_lease(
    delivery: Delivery, apart: bool
) -> None:
    ways = (*ENDINGS, *RESETS) if apart else (*ENDINGS, "reset to claim")
    pairs = {how: UnderWay(*[await make_message(delivery.connection) for _ in range(2)]) for how in ways}
    answered = [pair.answered for pair in pairs.values()]
    unanswered = [pair.unanswered for pair in pairs.values()]
    provider = CountingProvider()
    provider.may_answer.clear()

    store = delivery.apart if apart else None
    async with delivery.working(provider, times=LONG_LEASE, slots=16, store=store):
        await asyncio.gather(*(start_message(delivery.client, message) for message in (*answered, *unanswered)))
        await provider.calls_under_way(*answered, *unanswered)
        for how, pair in pairs.items():
            await asyncio.gather(*(_end_or_reset(delivery, m, how) for m in (pair.answered, pair.unanswered)))
        if apart:
            run_again = pairs["reset to submit"].answered.id
            await until(lambda: provider.bodies[run_again] > 1, within=SOON)
        provider.answerable.update(message.id for message in answered)
        await delivery.swept_into(
            dict.fromkeys(answered, State.PROVIDER_ACCEPTED) | dict.fromkeys(unanswered, State.AMBIGUOUS)
        )
        provider.may_answer.set()
        late = "SELECT count(*) = $2 FROM evidence WHERE message_id = ANY($1) AND kind = 'late_result'"
        ids = [message.id for message in unanswered]
        await until(lambda: delivery.connection.fetchval(late, ids, len(ids)), within=SOON)
        assert await delivery.states_of(*unanswered) == [State.AMBIGUOUS] * len(unanswered)
        # A cancelled run waited for its call, and lives to see it settled.
        assert await delivery.end(pairs["cancel"].answered) is State.PROVIDER_ACCEPTED

    if apart:
        history = await delivery.handle(pairs["cancel"].answered).fetch_history()
        kinds = [event.WhichOneof("attributes") for event in history.events]
        finalized = kinds.index("marker_recorded_event_attributes")  # by a local activity
        assert not any(kind in SUBMIT_ENDS for kind in kinds[finalized:])
    assert provider.times_called() == {message.id: 1 for message in (*answered, *unanswered)}


async def _end_or_reset(delivery: Delivery, message: MessageRef, how: str) -> None:
    """Do this to a run whose claim was made and whose submit is under way."""
    if how in ENDINGS:
        return await end_run(delivery.client, message, how)
    points = await reset_points(delivery.client, message)
    if how != "reset to claim":
        await reset_workflow(delivery.client, message, points[-1])
    if how != "reset to submit":
        await reset_workflow(delivery.client, message, points[0])
    return None


async def test_a_run_that_is_ended_while_it_waits_for_a_retry_is_started_again_when_it_is_due(
    delivery: Delivery,
) -> None:
    messages = {how: await make_message(delivery.connection) for how in ENDINGS}
    ids = [message.id for message in messages.values()]
    provider = CountingProvider(scripts={message_id: [QUOTA_EXCEEDED, ACCEPTED] for message_id in ids})

    async with delivery.working(provider):
        await asyncio.gather(*(start_message(delivery.client, message) for message in messages.values()))
        for how, message in messages.items():
            await until(lambda message=message: _waits_for_a_retry(delivery, message), within=SOON)  # type: ignore[misc]  # a bound value
            await end_run(delivery.client, message, how)
            await until(lambda message=message: has_ended(delivery.client, message), within=SOON)  # type: ignore[misc]  # a bound value
        assert (await delivery.sweep()).started == 0
        assert await delivery.states_of(*messages.values()) == [State.RETRYABLE] * 3
        await delivery.connection.execute(
            "UPDATE messages SET due_at = clock_timestamp() - interval '1 s' WHERE id = ANY($1)", ids
        )
        await delivery.swept_into(dict.fromkeys(messages.values(), State.PROVIDER_ACCEPTED))

    assert provider.times_called() == dict.fromkeys(ids, 2)


async def _waits_for_a_retry(delivery: Delivery, message: MessageRef) -> bool:
    history = await delivery.handle(message).fetch_history()
    return any(event.HasField("timer_started_event_attributes") for event in history.events)


async def _in_each_state(connection: asyncpg.Connection) -> dict[MessageRef, tuple[State, int]]:
    """Make messages in each state; give where each of them has to end, and after how many calls."""
    begun = AttemptRow(begin_id=uuid4(), lease=SHORTLY)
    closed = AttemptRow(begin_id=uuid4(), outcome="unknown", reason="connection_lost", closed=True)
    accepted = AttemptRow(begin_id=uuid4(), outcome="accepted", provider_message_id="ses-0", closed=True)
    to_go = (State.PROVIDER_ACCEPTED, 1)

    async def made(state: State, *attempts: AttemptRow) -> MessageRef:
        return await make_message(connection, state, *attempts)

    return {
        await made(State.QUEUED): to_go,
        await made(State.RETRYABLE, AttemptRow(begin_id=uuid4(), outcome="refused", closed=True)): to_go,
        await made(State.LEASED, AttemptRow(lease=SHORTLY)): to_go,
        await made(State.LEASED, begun): (State.AMBIGUOUS, 0),
        await made(
            State.LEASED,
            AttemptRow(begin_id=uuid4(), lease=SHORTLY, outcome="accepted", provider_message_id="ses-0"),
        ): (State.PROVIDER_ACCEPTED, 0),
        await made(State.AMBIGUOUS, closed): (State.AMBIGUOUS, 0),
        await made(State.PROVIDER_ACCEPTED, accepted): (State.PROVIDER_ACCEPTED, 0),
        await made(State.DELIVERED, accepted): (State.DELIVERED, 0),
        await made(State.SUPPRESSED): (State.SUPPRESSED, 0),
        await made(State.DEAD, AttemptRow(begin_id=uuid4(), outcome="rejected", closed=True)): (State.DEAD, 0),
    }


async def test_a_history_that_is_wiped_is_made_up_for_by_the_sweep_and_only_where_something_is_to_do(
    delivery: Delivery,
) -> None:
    messages = await _in_each_state(delivery.connection)
    provider = CountingProvider()
    await asyncio.gather(*(start_message(delivery.client, message) for message in messages))
    await asyncio.gather(*(wipe(delivery.client, message) for message in messages))

    async with delivery.working(provider):
        await delivery.swept_into({message: state for message, (state, _) in messages.items()})
        await until(lambda: none_runs(delivery.client, *messages), within=SOON)

    calls = provider.times_called()
    assert {message: calls[message.id] for message in messages} == {message: n for message, (_, n) in messages.items()}
    runs = {message: await described(delivery.client, message) is not None for message in messages}
    assert runs == {message: n > 0 for message, (_, n) in messages.items()}


async def test_new_runs_of_messages_in_each_state_find_out_by_their_claims_what_is_to_do(delivery: Delivery) -> None:
    messages = await _in_each_state(delivery.connection)
    provider = CountingProvider()

    async def start_all() -> None:
        await asyncio.gather(*(start_message(delivery.client, message) for message in messages for _ in range(3)))

    async with delivery.working(provider):
        await start_all()
        await delivery.swept_into({message: state for message, (state, _) in messages.items()})
        await until(lambda: none_runs(delivery.client, *messages), within=SOON)
        await start_all()
        ends = {message: await delivery.end(message) for message in messages}

    assert ends == {message: state for message, (state, _) in messages.items()}
    calls = provider.times_called()
    assert {message: calls[message.id] for message in messages} == {message: n for message, (_, n) in messages.items()}
