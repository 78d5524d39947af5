"""How many messages go through in a second, 50 at once in flight, beside the bare workflow; and the workers' CPU."""

from dataclasses import dataclass
from typing import Final

from bench.figures import Better, Figure
from bench.measuring import Measuring, Stopwatch
from bench.sides import Side, both, drive_all

IN_FLIGHT: Final = 50
REACH: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    per_second: float
    cpu_ms: float  #: of the worker, a message


async def measure(measuring: Measuring) -> list[Figure]:
    """Measure both sides in turn. Raises WrongRun."""
    async with both(measuring.client, measuring.stack) as (ours, bare):
        for side in (ours, bare):
            await _run(measuring, side)  # not counted: every connection of a pool learns its statements first
        ours_runs, bare_runs = [], []
        for _ in range(measuring.extent.runs):
            ours_runs.append(await _run(measuring, ours))
            bare_runs.append(await _run(measuring, bare))
            measuring.say(f"ours {ours_runs[-1].per_second:.1f}/s, bare {bare_runs[-1].per_second:.1f}/s")
    return [
        Figure(
            name="throughput_vs_bare_workflow",
            measure="messages/s",
            better=Better.HIGHER,
            as_ratio=True,
            reach=REACH,
            ours_runs=tuple(run.per_second for run in ours_runs),
            baseline_runs=tuple(run.per_second for run in bare_runs),
        ),
        Figure(
            name="worker_cpu_per_message",
            measure="ms",
            better=Better.LOWER,
            as_ratio=False,
            ours_runs=tuple(run.cpu_ms for run in ours_runs),
            baseline_runs=tuple(run.cpu_ms for run in bare_runs),
        ),
    ]


async def _run(measuring: Measuring, side: Side) -> _Run:
    count = measuring.extent.messages
    messages = await side.prepare(count)
    await measuring.fresh_provider()
    cpu_before, watch = _cpu_seconds(side), Stopwatch()
    await drive_all(measuring.client, messages, in_flight=IN_FLIGHT)
    seconds, cpu = watch.seconds, _cpu_seconds(side) - cpu_before
    await measuring.check_accepted_once({message.message_id for message in messages})
    return _Run(per_second=count / seconds, cpu_ms=cpu / count * 1000)


def _cpu_seconds(side: Side) -> float:
    times = side.worker.cpu_times()
    return times.user + times.system
