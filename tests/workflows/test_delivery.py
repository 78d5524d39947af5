"""The worker as it is composed, on real Postgres and a real Temporal server; only the provider is scripted."""

import asyncio
import time
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError
from typing_extensions import override

from activities.contracts import SUBMIT
from db.lifecycle import State
from db.outcomes import Outcome, Reason
from db.records import CallResult, MessageRef, Submission
from db.store import MessageStore
from dev.temporal import Temporal
from tests.factories import AttemptRow, make_message, state_of
from tests.fakes import ScriptedProvider
from tests.readable import readable
from tests.waiting import until
from tests.workflows.delivery import DELIVERY, Delivery
from worker import build_sweep
from workflows.temporal import (
    MissingSearchAttributesError,
    check_search_attributes,
    ensure_sweep_schedule,
    start_message,
)

UNKNOWN = CallResult(outcome=Outcome.UNKNOWN, provider="ses", reason=Reason.CONNECTION_LOST)
THROTTLED = CallResult(outcome=Outcome.REFUSED, provider="ses", reason=Reason.THROTTLED)
ACCEPTED = CallResult(outcome=Outcome.ACCEPTED, provider="ses", provider_message_id="ses-1")


async def test_a_message_is_submitted_once_and_its_workflow_completes(delivery: Delivery) -> None:
    message = await make_message(delivery.connection)
    provider = ScriptedProvider()

    async with delivery.working(provider):
        assert await delivery.run(message) is State.PROVIDER_ACCEPTED

    assert len(provider.calls) == 1
    assert await delivery.status(message) is WorkflowExecutionStatus.COMPLETED


async def test_throttling_is_tried_again_and_then_accepted(delivery: Delivery) -> None:
    message = await make_message(delivery.connection)
    provider = ScriptedProvider(script=[THROTTLED, THROTTLED, ACCEPTED])

    async with delivery.working(provider):
        assert await delivery.run(message) is State.PROVIDER_ACCEPTED

    assert [submission.attempt for submission in provider.calls] == [1, 2, 3]


async def test_an_unknown_outcome_ends_the_run_and_no_new_run_submits_again(delivery: Delivery) -> None:
    message = await make_message(delivery.connection)
    provider = ScriptedProvider(script=[UNKNOWN])

    async with delivery.working(provider):
        first = await delivery.run(message)
        second = await delivery.run(message)

    assert (first, second) == (State.AMBIGUOUS, State.AMBIGUOUS)
    assert len(provider.calls) == 1


async def test_many_starts_of_one_message_are_one_run(delivery: Delivery) -> None:
    message = await make_message(delivery.connection)
    provider = ScriptedProvider()
    await asyncio.gather(*(start_message(delivery.client, message) for _ in range(20)))

    async with delivery.working(provider):
        assert await delivery.run(message) is State.PROVIDER_ACCEPTED

    assert len(provider.calls) == 1
    runs = [run async for run in delivery.client.list_workflows(f"WorkflowId = '{message.workflow_id}'")]
    assert len(runs) <= 2  # the one, and one that came after its end and found nothing to do


async def test_a_call_that_outlives_its_timeout_is_ambiguous_at_the_end_of_its_lease_and_its_result_late(
    delivery: Delivery,
) -> None:
    message = await make_message(delivery.connection)
    provider = ScriptedProvider()
    provider.may_answer.clear()
    begun = time.monotonic()

    async with delivery.working(provider):
        assert await delivery.run(message) is State.AMBIGUOUS
        assert time.monotonic() - begun >= DELIVERY.lease_seconds - 0.5
        provider.may_answer.set()
        late = "SELECT provider_message_id FROM evidence WHERE message_id = $1"
        await until(lambda: delivery.connection.fetchval(late, message.id), within=5)

    assert await state_of(delivery.connection, message) is State.AMBIGUOUS
    assert len(provider.calls) == 1


async def test_a_paused_provider_is_looked_at_again_and_nothing_is_used_up(delivery: Delivery) -> None:
    message = await make_message(delivery.connection)
    provider = ScriptedProvider()
    await delivery.connection.execute("UPDATE providers SET paused = true")
    try:
        async with delivery.working(provider):
            await start_message(delivery.client, message)
            await until(lambda: _timers(delivery, message), within=10)
            assert provider.calls == []
            await delivery.connection.execute("UPDATE providers SET paused = false")
            assert await delivery.end(message) is State.PROVIDER_ACCEPTED
    finally:
        await delivery.connection.execute("UPDATE providers SET paused = false")

    assert await delivery.connection.fetchval("SELECT attempts_used FROM messages WHERE id = $1", message.id) == 1


async def _timers(delivery: Delivery, message: MessageRef) -> int:
    history = await delivery.handle(message).fetch_history()
    return sum(event.HasField("timer_fired_event_attributes") for event in history.events)


async def test_the_sweep_starts_what_was_never_started_or_was_terminated(delivery: Delivery) -> None:
    never = await make_message(delivery.connection)
    terminated = await make_message(delivery.connection)
    await start_message(delivery.client, terminated)
    await delivery.handle(terminated).terminate("by a person")
    provider = ScriptedProvider()
    sweep = build_sweep(delivery.store, delivery.client, DELIVERY)

    requested = "SELECT count(*) FROM messages WHERE id = ANY($1) AND run_requested_at IS NOT NULL"

    async def swept() -> bool:
        await sweep.sweep()
        return bool(await delivery.connection.fetchval(requested, [never.id, terminated.id]) == 2)

    await until(swept, within=10)
    async with delivery.working(provider):
        for message in (never, terminated):
            assert await delivery.end(message) is State.PROVIDER_ACCEPTED

    submitted = [submission.message_id for submission in provider.calls]
    assert [submitted.count(message.id) for message in (never, terminated)] == [1, 1]


async def test_the_sweep_settles_what_nobody_finalized(delivery: Delivery) -> None:
    over = AttemptRow(begin_id=uuid4(), lease=timedelta(seconds=-1))
    message = await make_message(delivery.connection, State.LEASED, over)

    await build_sweep(delivery.store, delivery.client, DELIVERY).sweep()

    assert await state_of(delivery.connection, message) is State.AMBIGUOUS


async def test_the_sweep_counts_what_it_could_not_start_and_gives_up_soon(
    delivery: Delivery, worker_engine: AsyncEngine
) -> None:
    forgotten = [await make_message(delivery.connection) for _ in range(5)]
    away = await Client.connect("127.0.0.1:1", lazy=True)
    sweep = build_sweep(MessageStore(worker_engine), away, DELIVERY)

    async def failed() -> bool:
        return (await sweep.sweep()).failed == 3

    await until(failed, within=10)
    await delivery.connection.execute(
        "UPDATE messages SET state = 'dead' WHERE id = ANY($1)", [message.id for message in forgotten]
    )


async def test_the_schedule_of_the_sweep_is_made_once_and_follows_its_setting(delivery: Delivery) -> None:
    every = timedelta(seconds=600)
    await asyncio.gather(*(ensure_sweep_schedule(delivery.client, every=every) for _ in range(5)))
    await ensure_sweep_schedule(delivery.client, every=timedelta(seconds=700))

    described = await delivery.client.get_schedule_handle("fencepost-sweep").describe()
    await delivery.client.get_schedule_handle("fencepost-sweep").delete()

    assert [interval.every for interval in described.schedule.spec.intervals] == [timedelta(seconds=700)]
    assert described.schedule.policy.catchup_window == timedelta(seconds=60)


async def test_no_exceptions_text_reaches_temporal(delivery: Delivery, caplog: pytest.LogCaptureFixture) -> None:
    message = await make_message(delivery.connection)

    class Broken(ScriptedProvider):
        @override
        def prepare(self, submission: Submission) -> Submission:
            try:
                return submission[f"canary-inner {submission.subject}"]  # type: ignore[index, no-any-return]  # raises
            except TypeError as inner:
                raise RuntimeError("canary-outer@example.com") from inner

    async with delivery.working(Broken(), store=delivery.apart):
        await start_message(delivery.client, message)
        await until(lambda: _has_failed_submit(delivery, message), within=10)
        await delivery.handle(message).terminate("seen enough")

    history = readable(await delivery.handle(message).fetch_history())
    assert "canary" not in history + caplog.text
    assert '"internal"' in history
    assert str(message.id) in history


async def _has_failed_submit(delivery: Delivery, message: MessageRef) -> bool:
    history = await delivery.handle(message).fetch_history()
    submits = {
        event.event_id
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == SUBMIT
    }
    failed = (event.activity_task_failed_event_attributes for event in history.events)
    return any(each.scheduled_event_id in submits for each in failed)


async def test_a_message_that_this_database_does_not_know_fails_its_workflow(delivery: Delivery) -> None:
    message = await make_message(delivery.connection)
    await delivery.connection.execute(
        f"""SET session_replication_role = replica; DELETE FROM messages WHERE id = '{message.id}';
        SET session_replication_role = origin"""
    )

    async with delivery.working(ScriptedProvider()):
        await start_message(delivery.client, message)
        await until(lambda: _failed(delivery, message), within=10)


async def _failed(delivery: Delivery, message: MessageRef) -> bool:
    return await delivery.status(message) is WorkflowExecutionStatus.FAILED


async def test_a_namespace_without_our_search_attributes_is_found_out_at_the_start(temporal: Temporal) -> None:
    client = await Client.connect(temporal.address, namespace="bare")
    request = RegisterNamespaceRequest(namespace="bare")
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await client.workflow_service.register_namespace(request)

    async def answers() -> bool:
        try:
            await check_search_attributes(client)
        except MissingSearchAttributesError:
            return True
        except RPCError:
            return False
        return False

    await until(answers, within=20)


async def test_only_ids_stand_in_a_history(delivery: Delivery) -> None:
    message = await make_message(delivery.connection)

    async with delivery.working(ScriptedProvider()):
        await delivery.run(message)

    history = readable(await delivery.handle(message).fetch_history())
    assert str(message.id) in history
    for protected in ("ada@", "example.com", "Hello Ada", "Dear Ada", f"key-{message.id}"):
        assert protected not in history
