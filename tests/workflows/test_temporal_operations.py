"""Temporal's operations on activities, used against us: at most one call, and each message ends where it should."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.client import Client
from temporalio.worker import Worker
from typing_extensions import override

from activities.contracts import CLAIM, SUBMIT
from activities.finalize import FinalizeActivity
from activities.ses import SesProvider, SesSettings
from db.decisions import Limits
from db.engine import UnavailableError
from db.ids import MessageId
from db.lifecycle import State
from db.outcomes import Outcome, Reason
from db.records import CallResult, MessageRef
from db.store import Finalized, Recorded
from tests.dev.running_simulator import running_simulator
from tests.factories import make_message, state_of
from tests.fakes import ACCEPTED
from tests.waiting import somebody_waits, until
from tests.workflows.delivery import DELIVERY, LONG_LEASE, PATIENT, CountingProvider, Delivery, SubmitsApart
from tests.workflows.temporal_operations import (
    PAUSED,
    SCHEDULED,
    SOON,
    allow_attempts,
    pause,
    reset_activity,
    stands,
    unpause,
)
from workflows import policies
from workflows.failures import SanitizeFailures
from workflows.message import MessageWorkflow
from workflows.temporal import start_message

THROTTLED = CallResult(outcome=Outcome.REFUSED, provider="ses", reason=Reason.THROTTLED)
UNKNOWN = CallResult(outcome=Outcome.UNKNOWN, provider="ses", reason=Reason.CONNECTION_LOST)
#: Temporal gives up submit long before its lease is over.
SOON_TIMED_OUT = DELIVERY.model_copy(update={"submit_timeout_seconds": 1.5, "lease_seconds": 7})


class Unrecorded(SubmitsApart):
    """Loses Postgres after each call: the body of submit fails, and its outcome is nowhere."""

    @override
    async def conclude(
        self, message_id: MessageId, attempt: int, *, begin_id: UUID, result: CallResult, limits: Limits
    ) -> tuple[Recorded, Finalized | None]:
        raise UnavailableError

    @override
    async def record(self, message_id: MessageId, attempt: int, *, begin_id: UUID, result: CallResult) -> Recorded:
        raise UnavailableError


OPERATIONS: Final = ("none", "pause", "pause, reset", "reset", "five attempts", "five attempts, reset")
#: After these Temporal runs a failed body again, though submit is to be tried once; some need a person for it.
AGAIN_BY_HAND: Final = ("pause", "pause, reset", "five attempts, reset")
RUN_AGAIN: Final = (*AGAIN_BY_HAND, "five attempts")


async def _while_it_runs(client: Client, message: MessageRef, operation: str, activity: str = SUBMIT) -> None:
    match operation:
        case "pause" | "pause, reset":
            await pause(client, message, activity)
        case "reset":
            await reset_activity(client, message, activity)
        case "five attempts":
            await allow_attempts(client, message, activity, attempts=5)
        case "five attempts, reset":
            await allow_attempts(client, message, activity, attempts=5, every=timedelta(seconds=60))
        case _:
            assert operation == "none"


async def _once_it_has_failed(client: Client, message: MessageRef, operation: str) -> None:
    match operation:
        case "pause":
            await stands(client, message, SUBMIT, PAUSED)
            await unpause(client, message, SUBMIT)
        case "pause, reset":
            await stands(client, message, SUBMIT, PAUSED)
            await reset_activity(client, message, SUBMIT)
        case "five attempts, reset":
            await stands(client, message, SUBMIT, SCHEDULED)
            await reset_activity(client, message, SUBMIT)
        case _:
            assert operation not in AGAIN_BY_HAND


@pytest.mark.parametrize("activity", [CLAIM, SUBMIT])
@pytest.mark.parametrize(
    ("answer", "end"),
    [(ACCEPTED, State.PROVIDER_ACCEPTED), (UNKNOWN, State.AMBIGUOUS)],
    ids=["accepted", "unknown"],
)
async def test_a_submit_that_is_operated_on_while_it_runs_ends_as_its_provider_said(
    delivery: Delivery, answer: CallResult, end: State, activity: str
) -> None:
    messages = {operation: await make_message(delivery.connection) for operation in OPERATIONS}
    provider = CountingProvider(script=[answer], scripts={m.id: [answer] for m in messages.values()})
    provider.may_answer.clear()

    store = delivery.apart if activity == SUBMIT else delivery.store

    async with delivery.working(provider, times=PATIENT, store=store):
        await asyncio.gather(*(start_message(delivery.client, message) for message in messages.values()))
        await provider.calls_under_way(*messages.values())
        await asyncio.gather(
            *(_while_it_runs(delivery.client, m, operation, activity) for operation, m in messages.items())
        )
        provider.may_answer.set()
        ends = {operation: await delivery.end(message) for operation, message in messages.items()}

    assert ends == dict.fromkeys(OPERATIONS, end)
    assert {operation: provider.times_called()[m.id] for operation, m in messages.items()} == dict.fromkeys(
        OPERATIONS, 1
    )


async def test_a_submit_that_failed_and_is_run_again_makes_no_second_call(
    delivery: Delivery, worker_engine: AsyncEngine
) -> None:
    messages = {operation: await make_message(delivery.connection) for operation in OPERATIONS}
    provider = CountingProvider()
    provider.may_answer.clear()
    store = Unrecorded(worker_engine)

    async with delivery.working(provider, times=LONG_LEASE, store=store):
        await asyncio.gather(*(start_message(delivery.client, message) for message in messages.values()))
        await provider.calls_under_way(*messages.values())
        await asyncio.gather(*(_while_it_runs(delivery.client, m, operation) for operation, m in messages.items()))
        provider.may_answer.set()
        await asyncio.gather(*(_once_it_has_failed(delivery.client, m, operation) for operation, m in messages.items()))
        ends = {operation: await delivery.end(message) for operation, message in messages.items()}

    assert ends == dict.fromkeys(OPERATIONS, State.AMBIGUOUS)
    assert {operation: provider.times_called()[m.id] for operation, m in messages.items()} == dict.fromkeys(
        OPERATIONS, 1
    )
    assert {operation for operation, m in messages.items() if provider.bodies[m.id] > 1} >= set(RUN_AGAIN)


async def test_a_submit_that_is_paused_before_it_starts_waits_and_is_made_once(delivery: Delivery) -> None:
    first, paused, after = [await make_message(delivery.connection) for _ in range(3)]
    provider = CountingProvider()
    provider.may_answer.clear()

    # One slot, and so no worker to hand the second submit to at once.
    async with delivery.working(provider, times=PATIENT, slots=1, store=delivery.apart):
        await start_message(delivery.client, first)
        await provider.calls_under_way(first)
        await start_message(delivery.client, paused)
        await stands(delivery.client, paused, SUBMIT, SCHEDULED)
        await pause(delivery.client, paused, SUBMIT)
        provider.may_answer.set()
        assert await delivery.run(after) is State.PROVIDER_ACCEPTED
        assert provider.bodies[paused.id] == 0
        await unpause(delivery.client, paused, SUBMIT)
        assert await delivery.end(paused) is State.PROVIDER_ACCEPTED

    assert provider.times_called() == {first.id: 1, paused.id: 1, after.id: 1}


async def test_a_claim_that_is_paused_before_it_starts_leases_nothing_until_it_goes_on(delivery: Delivery) -> None:
    paused, free = [await make_message(delivery.connection) for _ in range(2)]
    provider = CountingProvider()

    with ThreadPoolExecutor(8) as executor:
        claims, messages = delivery.workers(provider, executor)
        async with messages:
            await start_message(delivery.client, paused)
            await stands(delivery.client, paused, CLAIM, SCHEDULED)
            await pause(delivery.client, paused, CLAIM)
            async with claims:
                assert await delivery.run(free) is State.PROVIDER_ACCEPTED
                assert await state_of(delivery.connection, paused) is State.QUEUED
                await unpause(delivery.client, paused, CLAIM)
                assert await delivery.end(paused) is State.PROVIDER_ACCEPTED

    assert provider.times_called() == {paused.id: 1, free.id: 1}


@pytest.mark.parametrize("claim_fails", [False, True], ids=["and succeeds", "and fails"])
async def test_a_claim_that_is_paused_while_it_runs_leases_once(delivery: Delivery, claim_fails: bool) -> None:
    message = await make_message(delivery.connection)
    provider = CountingProvider()

    async with delivery.working(provider):
        async with delivery.connection.transaction():
            await delivery.connection.execute("SELECT 1 FROM messages WHERE id = $1 FOR UPDATE", message.id)
            await start_message(delivery.client, message)
            await somebody_waits(delivery.connection)
            await pause(delivery.client, message, CLAIM)
            if claim_fails:  # at the end of its wait for the row
                await stands(delivery.client, message, CLAIM, PAUSED)
        if claim_fails:
            await unpause(delivery.client, message, CLAIM)
        assert await delivery.end(message) is State.PROVIDER_ACCEPTED

    attempts = "SELECT count(*) FROM attempts WHERE message_id = $1"
    assert await delivery.connection.fetchval(attempts, message.id) == 1
    assert len(provider.calls) == 1


async def test_a_result_that_comes_after_temporal_gave_up_submit_is_what_counts(delivery: Delivery) -> None:
    accepted, throttled = [await make_message(delivery.connection) for _ in range(2)]
    provider = CountingProvider(scripts={throttled.id: [THROTTLED, ACCEPTED]})
    provider.may_answer.clear()

    async with delivery.working(provider, times=SOON_TIMED_OUT, store=delivery.apart):
        await asyncio.gather(*(start_message(delivery.client, message) for message in (accepted, throttled)))
        await until(lambda: _timed_out(delivery, accepted, throttled), within=SOON)
        provider.may_answer.set()
        ends = [await delivery.end(message) for message in (accepted, throttled)]

    assert ends == [State.PROVIDER_ACCEPTED, State.PROVIDER_ACCEPTED]
    assert provider.times_called() == {accepted.id: 1, throttled.id: 2}


async def _timed_out(delivery: Delivery, *messages: MessageRef) -> bool:
    histories = [await delivery.handle(message).fetch_history() for message in messages]
    return all(
        any(event.HasField("activity_task_timed_out_event_attributes") for event in history.events)
        for history in histories
    )


async def test_bodies_that_get_no_thread_in_time_submit_nothing_late(
    delivery: Delivery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    messages = [await make_message(delivery.connection) for _ in range(6)]
    may_go_on = threading.Event()

    async with running_simulator(tmp_path) as simulator:
        provider = SesProvider(SesSettings(endpoint_url=simulator.endpoint_url), connections=8)
        with ThreadPoolExecutor(1) as one_thread:
            one_thread.submit(may_go_on.wait, 60)
            claims, others = delivery.workers(provider, one_thread, times=SOON_TIMED_OUT, store=delivery.apart)
            async with claims, others:
                await asyncio.gather(*(start_message(delivery.client, message) for message in messages))
                await until(lambda: _timed_out(delivery, *messages), within=SOON)
                may_go_on.set()
                ends = [await delivery.end(message) for message in messages]
        submissions = await simulator.submissions()

    assert set(ends) == {State.PROVIDER_ACCEPTED}
    submitted = Counter(submission["tags"]["fencepost_message"] for submission in submissions)
    assert submitted == {str(message.id): 1 for message in messages}
    # Every first attempt got its thread too late, and none of them was sent by then.
    assert {submission["tags"]["fencepost_attempt"] for submission in submissions}.isdisjoint({"1"})
    first = "SELECT outcome FROM attempts WHERE message_id = ANY($1) AND number = 1"
    outcomes = await delivery.connection.fetch(first, [message.id for message in messages])
    assert {outcome for (outcome,) in outcomes} == {"not_submitted"}


async def test_a_worker_that_knows_no_submit_costs_an_attempt_that_does_not_count(delivery: Delivery) -> None:
    message = await make_message(delivery.connection)
    provider = CountingProvider()
    finalize = FinalizeActivity(delivery.store, limits=DELIVERY.limits())
    # A client of its own, as another process has: workers of one client must not serve one queue.
    address = delivery.client.service_client.config.target_host
    lacking = Worker(
        await Client.connect(address, namespace=delivery.client.namespace),
        task_queue=policies.MESSAGE_QUEUE,
        workflows=[MessageWorkflow],
        activities=[finalize.finalize],
        interceptors=[SanitizeFailures()],
    )

    with ThreadPoolExecutor(8) as executor:
        claims, messages = delivery.workers(provider, executor, store=delivery.apart)
        async with claims:
            async with lacking:
                await start_message(delivery.client, message)
                not_begun = "SELECT count(*) FROM attempts WHERE message_id = $1 AND outcome = 'not_begun'"
                await until(lambda: delivery.connection.fetchval(not_begun, message.id), within=SOON)
            async with messages:
                assert await delivery.end(message) is State.PROVIDER_ACCEPTED

    assert await delivery.connection.fetchval("SELECT attempts_used FROM messages WHERE id = $1", message.id) == 1
    assert len(provider.calls) == 1
