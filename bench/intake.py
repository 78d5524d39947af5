"""How many commands the API accepts in a second, new ones and replays, beside a bare handler with one INSERT.

Meanwhile the product's worker is stopped, so that what is measured is intake: Temporal takes the starts, and nobody
takes the runs. Then Temporal is stopped too, and hangs while commands go on to be accepted.
"""

import asyncio
import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import psutil

from bench.correctness import WrongRun
from bench.figures import Better, Figure, percentile
from bench.http_load import Answer, ask, post
from bench.measuring import Measuring, Stopwatch
from bench.sides import COMMAND
from bench.stack import Stack

REACH: Final = 0.5
#: The p99 of intake while Temporal hangs, in times of that while it runs.
REACH_TEMPORAL_STOPPED: Final = 1.3
#: Enough to keep a process of one core busy; more would only queue.
CONNECTIONS: Final = 16
#: A process that takes less of one core than this has nothing left to do; Temporal is never quite idle.
_IDLE_PERCENT: Final = 20.0
_IDLE_LOOK_SECONDS: Final = 0.25
#: The longest that starts take to catch up, on a busy machine.
_IDLE_WITHIN_SECONDS: Final = 120.0

_WHOLE: Final = """
SELECT count(*) FROM messages JOIN message_contents ON message_contents.message_id = messages.id
WHERE messages.id = ANY($1::uuid[]) AND messages.state = 'queued'
    AND (SELECT count(*) FROM recipients WHERE recipients.message_id = messages.id) = 1
    AND (SELECT count(*) FROM timeline WHERE timeline.message_id = messages.id) = 1
"""
_ALL: Final = "SELECT count(*) FROM messages"
_BARE: Final = "SELECT count(*) FROM bench.messages WHERE id = ANY($1::uuid[])"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    per_second: float
    p50_ms: float
    p99_ms: float


async def measure(measuring: Measuring) -> list[Figure]:
    """Measure new commands, their replays, the bare handler, and new commands without Temporal in turn.

    Raises WrongRun.
    """
    worker = psutil.Process(measuring.stack.pids["worker-1"])
    async with measuring.stack.baseline("bench.bare_api", database_url=measuring.stack.database_url):
        worker.send_signal(signal.SIGSTOP)
        try:
            await _turn(measuring)  # not counted: every connection of a pool learns its statements first
            turns = []
            for _ in range(measuring.extent.runs):
                turns.append(await _turn(measuring))
                rates = [f"{run.per_second:.0f}/s" for run in turns[-1]]
                measuring.say("new {}, replayed {}, bare {}, new with Temporal stopped {}".format(*rates))
        finally:
            worker.send_signal(signal.SIGCONT)
    new, replays, bare, stopped = zip(*turns, strict=True)
    return [
        *_figures("intake", new, bare, reach=REACH),
        *_figures("replay", replays, bare, reach=None),
        Figure(
            name="intake_p99_temporal_stopped",
            measure="ms",
            better=Better.LOWER,
            as_ratio=True,
            reach=REACH_TEMPORAL_STOPPED,
            ours_runs=tuple(run.p99_ms for run in stopped),
            baseline_runs=tuple(run.p99_ms for run in new),
        ),
    ]


def _figures(name: str, ours: Sequence[_Run], bare: Sequence[_Run], *, reach: float | None) -> list[Figure]:
    return [
        Figure(
            name=f"{name}_vs_bare_insert",
            measure="requests/s",
            better=Better.HIGHER,
            as_ratio=True,
            reach=reach,
            ours_runs=tuple(run.per_second for run in ours),
            baseline_runs=tuple(run.per_second for run in bare),
        ),
        Figure(
            name=f"{name}_p50",
            measure="ms",
            better=Better.LOWER,
            as_ratio=False,
            ours_runs=tuple(run.p50_ms for run in ours),
            baseline_runs=tuple(run.p50_ms for run in bare),
        ),
        Figure(
            name=f"{name}_p99",
            measure="ms",
            better=Better.LOWER,
            as_ratio=False,
            ours_runs=tuple(run.p99_ms for run in ours),
            baseline_runs=tuple(run.p99_ms for run in bare),
        ),
    ]


async def _turn(measuring: Measuring) -> tuple[_Run, _Run, _Run, _Run]:
    """Send new commands, send them again, send as many to the bare handler, and new ones while Temporal hangs."""
    stack, count = measuring.stack, measuring.extent.requests
    requests, new, new_seconds = await _send_new(measuring)
    ids = await _stored_whole(measuring, new)
    stored = await measuring.database.fetchval(_ALL)

    # Each side has the machine to itself: the runs of what was accepted are started in the background.
    await _idle(stack)
    replayed, replay_seconds = await ask(stack.ports.api, requests, connections=CONNECTIONS)
    if _ids(replayed, status=200) != ids or any(b"idempotent-replayed: true" not in each.head for each in replayed):
        raise WrongRun("some of the replays were not answered with their message")
    if await measuring.database.fetchval(_ALL) != stored:
        raise WrongRun("replays made new messages")

    bare, bare_seconds = await ask(stack.bare_api_port, requests, connections=CONNECTIONS)
    if await measuring.database.fetchval(_BARE, _ids(bare, status=202)) != count:
        raise WrongRun("the bare handler did not store every command")

    temporal = psutil.Process(stack.pids["temporal"])
    temporal.send_signal(signal.SIGSTOP)
    try:
        _, stopped, stopped_seconds = await _send_new(measuring)
    finally:
        temporal.send_signal(signal.SIGCONT)
    await _idle(stack)
    await _stored_whole(measuring, stopped)
    return (
        _run(new, new_seconds),
        _run(replayed, replay_seconds),
        _run(bare, bare_seconds),
        _run(stopped, stopped_seconds),
    )


async def _send_new(measuring: Measuring) -> tuple[list[bytes], list[Answer], float]:
    """Send commands with new keys; return them, their answers, and the seconds in all."""
    authorization = {"authorization": f"Bearer {measuring.stack.kept.api_key}"}
    requests = [
        post("/v1/messages", COMMAND, {**authorization, "idempotency-key": str(uuid4())})
        for _ in range(measuring.extent.requests)
    ]
    return requests, *await ask(measuring.stack.ports.api, requests, connections=CONNECTIONS)


async def _stored_whole(measuring: Measuring, answers: Sequence[Answer]) -> list[str]:
    """Return the ids of the messages of new commands. Raises WrongRun where one is not there as it must be."""
    ids = _ids(answers, status=202)
    if await measuring.database.fetchval(_WHOLE, ids) != len(ids):
        raise WrongRun("some of the new commands were not stored whole, once and as queued")
    return ids


async def _idle(stack: Stack) -> None:
    """Wait until neither the API nor Temporal has anything left to do. Raises WrongRun where that never comes."""
    processes = [psutil.Process(stack.pids[name]) for name in ("api", "temporal")]
    for process in processes:
        process.cpu_percent()
    watch = Stopwatch()
    while watch.seconds < _IDLE_WITHIN_SECONDS:
        await asyncio.sleep(_IDLE_LOOK_SECONDS)
        if max(process.cpu_percent() for process in processes) < _IDLE_PERCENT:
            return
    raise WrongRun("the starts of what was accepted never came to an end")


def _ids(answers: Sequence[Answer], *, status: int) -> list[str]:
    wrong = [answer.status for answer in answers if answer.status != status]
    if wrong:
        raise WrongRun(f"{len(wrong)} of {len(answers)} requests were answered {wrong[0]} instead of {status}")
    ids = [str(json.loads(answer.body)["id"]) for answer in answers]
    if len(set(ids)) != len(ids):
        raise WrongRun("two commands had one message")
    return ids


def _run(answers: Sequence[Answer], seconds: float) -> _Run:
    times = [answer.seconds * 1000 for answer in answers]
    return _Run(per_second=len(answers) / seconds, p50_ms=percentile(times, 50), p99_ms=percentile(times, 99))
