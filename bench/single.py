"""What one message takes and costs, one at a time, beside the bare workflow.

Billable actions are counted as Temporal Cloud does (docs.temporal.io/evaluate/cloud/actions): a workflow's start, each
start of an activity, each timer, and one for all local activities of one workflow task. Its surcharge for fairness keys
is left out. A message's transactions are those that got a transaction id, so that only writing ones count, and its WAL
is what the server wrote meanwhile. All of it is from the start of the run, which the 202 is followed by, to its result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from bench.figures import Better, Figure
from bench.measuring import PROVIDER_SECONDS, Measuring, Stopwatch
from bench.sides import Prepared, Side, both, drive

LATENCY_REACH: Final = 1.7
#: For ours; what it costs is not compared with a baseline that keeps no record.
REACHES: Final = {"history_events": 18, "billable_actions": 4, "history_bytes": 2500, "write_transactions": 5}

_WRITTEN: Final = """
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS transactions,
    (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint AS wal_bytes
"""
"""Both only grow: the next transaction id, and how much WAL there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one message took. The fields are named as the figures."""

    latency_ms: float  #: without the provider's own time
    history_events: float
    billable_actions: float
    history_bytes: float
    write_transactions: float
    wal_bytes: float


_MEASURES: Final = {
    "history_events": "events",
    "billable_actions": "actions",
    "history_bytes": "bytes",
    "write_transactions": "transactions",
    "wal_bytes": "bytes",
}


async def measure(measuring: Measuring) -> list[Figure]:
    """Measure both sides in turn. Raises WrongRun."""
    async with both(measuring.client, measuring.stack) as (ours, bare):
        for side in (ours, bare):
            await _run(measuring, side)  # not counted
        ours_runs, bare_runs = [], []
        for _ in range(measuring.extent.runs):
            ours_runs.append(await _run(measuring, ours))
            bare_runs.append(await _run(measuring, bare))
            measuring.say(f"ours {ours_runs[-1].latency_ms:.1f} ms, bare {bare_runs[-1].latency_ms:.1f} ms a message")
    latency = Figure(
        name="latency_vs_bare_workflow",
        measure="ms",
        better=Better.LOWER,
        as_ratio=True,
        reach=LATENCY_REACH,
        ours_runs=tuple(run.latency_ms for run in ours_runs),
        baseline_runs=tuple(run.latency_ms for run in bare_runs),
    )
    return [latency, *(_cost(name, ours_runs, bare_runs) for name in _MEASURES)]


def _cost(name: str, ours_runs: Sequence[Cost], bare_runs: Sequence[Cost]) -> Figure:
    return Figure(
        name=name,
        measure=_MEASURES[name],
        better=Better.LOWER,
        as_ratio=False,
        reach=REACHES.get(name),
        ours_runs=tuple(getattr(run, name) for run in ours_runs),
        baseline_runs=tuple(getattr(run, name) for run in bare_runs),
    )


async def _run(measuring: Measuring, side: Side) -> Cost:
    """Drive some messages, one after the other, and give each cost's median."""
    messages = await side.prepare(measuring.extent.singles)
    await measuring.fresh_provider()
    costs = [await _one(measuring, message) for message in messages]
    await measuring.check_accepted_once({message.message_id for message in messages})
    return Cost(**{name: median(getattr(cost, name) for cost in costs) for name in Cost.__dataclass_fields__})


async def _one(measuring: Measuring, message: Prepared) -> Cost:
    transactions, wal_bytes = await _written(measuring)
    watch = Stopwatch()
    await drive(measuring.client, message)
    seconds = watch.seconds
    transactions_after, wal_bytes_after = await _written(measuring)
    handle = measuring.client.get_workflow_handle(message.workflow_id)
    events, actions = await _events_and_actions(handle)
    described = (await handle.describe()).raw_description.workflow_execution_info
    return Cost(
        latency_ms=(seconds - PROVIDER_SECONDS) * 1000,
        history_events=events,
        billable_actions=actions,
        history_bytes=described.history_size_bytes,
        write_transactions=transactions_after - transactions,
        wal_bytes=wal_bytes_after - wal_bytes,
    )


async def _written(measuring: Measuring) -> tuple[int, int]:
    (row,) = await measuring.database.fetch(_WRITTEN)
    return row["transactions"], row["wal_bytes"]


async def _events_and_actions(handle: "WorkflowHandle[object, object]") -> tuple[int, int]:
    events = actions = 0
    tasks_with_local_activities = set()
    async for event in handle.fetch_history_events():
        events += 1
        match event.event_type:
            case (
                EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
                | EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
                | EventType.EVENT_TYPE_TIMER_STARTED
            ):
                # An activity that was tried again has one such event, with the number of its last try.
                actions += max(event.activity_task_started_event_attributes.attempt, 1)
            case EventType.EVENT_TYPE_MARKER_RECORDED:
                tasks_with_local_activities.add(event.marker_recorded_event_attributes.workflow_task_completed_event_id)
            case _:
                pass
    return events, actions + len(tasks_with_local_activities)
