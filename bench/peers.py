"""Fencepost beside the same three fenced steps on other engines: a DBOS workflow, and a plain Postgres poller.

Each side drives messages that the product's intake accepted, in the product's database, 50 at once, by the product's
own store and provider: the engine differs, and nothing else. A worker's CPU doesn't show what its engine has others do:
Temporal's server is a process of its own, and DBOS's writes and the poller's looks are Postgres's. So the CPU of
worker, Postgres and Temporal together is shown beside.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import psutil
import sqlalchemy as sa

from bench import orders
from bench.correctness import WrongRun
from bench.figures import Better, Figure
from bench.measuring import Measuring, Stopwatch
from bench.sides import Fencepost, Prepared, drive_all
from db.lifecycle import CLAIMABLE, State
from dev.refusals import StartRefused

IN_FLIGHT: Final = 50
CPU_REACH: Final = 1.5
#: DBOS's own tables, in a database that lives as long as the benchmark.
_DBOS_DATABASE: Final = "fencepost_bench_dbos"
_ROLE: Final = "fencepost_worker"
#: Far beyond the largest run that goes on.
_STILL_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    worker: psutil.Process
    drive: Callable[[Sequence[Prepared]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    per_second: float
    worker_ms: float  #: CPU a message, of the worker
    whole_ms: float  #: and of the worker, Postgres and Temporal together


async def measure(measuring: Measuring) -> list[Figure]:
    """Measure all sides in turn. Raises WrongRun, and StartRefused without DBOS."""
    if find_spec("dbos") is None:
        raise StartRefused("DBOS is not installed, which the benchmark `peers` needs: `make bench` installs it.")
    await _check_nothing_waits(measuring)
    async with _sides(measuring) as (ours, sides):
        for side in sides.values():
            await _run(measuring, ours, side)  # not counted: every connection of a pool learns its statements first
        runs: dict[str, list[_Run]] = {name: [] for name in sides}
        for _ in range(measuring.extent.runs):
            for name, side in sides.items():
                runs[name].append(await _run(measuring, ours, side))
            measuring.say(", ".join(f"{name} {_told(each[-1])}" for name, each in runs.items()))
    return [
        _figure("worker_cpu_vs_dbos", runs, "dbos", lambda run: run.worker_ms, reach=CPU_REACH),
        _figure("worker_cpu_vs_poller", runs, "poller", lambda run: run.worker_ms),
        _figure("whole_cpu_vs_dbos", runs, "dbos", lambda run: run.whole_ms),
        _figure("whole_cpu_vs_poller", runs, "poller", lambda run: run.whole_ms),
        _figure("throughput_vs_dbos", runs, "dbos", lambda run: run.per_second, better=Better.HIGHER),
        _figure("throughput_vs_poller", runs, "poller", lambda run: run.per_second, better=Better.HIGHER),
    ]


async def _check_nothing_waits(measuring: Measuring) -> None:
    """Make sure that the poller finds the messages of its own runs, and none that another benchmark left behind."""
    waiting = await measuring.database.fetchval(
        "SELECT count(*) FROM messages WHERE state = ANY($1)", [*CLAIMABLE, State.LEASED]
    )
    if waiting:
        raise WrongRun(f"{waiting} messages wait that are not its own; it has to come before `intake`")


def _told(run: _Run) -> str:
    return f"{run.per_second:.1f}/s with {run.worker_ms:.1f} ms of CPU"


def _figure(
    name: str,
    runs: Mapping[str, Sequence[_Run]],
    baseline: str,
    value: Callable[[_Run], float],
    *,
    better: Better = Better.LOWER,
    reach: float | None = None,
) -> Figure:
    return Figure(
        name=name,
        measure="ms" if better is Better.LOWER else "messages/s",
        better=better,
        as_ratio=True,
        reach=reach,
        ours_runs=tuple(value(run) for run in runs["ours"]),
        baseline_runs=tuple(value(run) for run in runs[baseline]),
    )


@asynccontextmanager
async def _sides(measuring: Measuring) -> AsyncIterator[tuple[Fencepost, dict[str, _Side]]]:
    """Start the baselines, and give who prepares messages and who drives them."""
    stack = measuring.stack
    worker_url = stack.role_url(_ROLE)
    async with AsyncExitStack() as opened:
        ours = Fencepost(measuring.client, stack)
        opened.push_async_callback(ours.close)
        system_url = await opened.enter_async_context(_database_of_its_own(measuring, worker_url))
        dbos_pid = await opened.enter_async_context(
            stack.baseline(
                "bench.dbos_worker",
                database_url=worker_url,
                settings={"FENCEPOST_BENCH_DBOS_URL": system_url},
            )
        )
        poller_port = stack.second_baseline_port
        poller_pid = await opened.enter_async_context(
            stack.baseline("bench.poller_worker", database_url=worker_url, port=poller_port)
        )

        async def by_ours(messages: Sequence[Prepared]) -> None:
            await drive_all(measuring.client, messages, in_flight=IN_FLIGHT)

        yield (
            ours,
            {
                "ours": _Side(worker=ours.worker, drive=by_ours),
                "dbos": _Side(worker=psutil.Process(dbos_pid), drive=_by_order(stack.bare_api_port)),
                "poller": _Side(worker=psutil.Process(poller_pid), drive=_by_order(poller_port)),
            },
        )


@asynccontextmanager
async def _database_of_its_own(measuring: Measuring, role_url: str) -> AsyncIterator[str]:
    await measuring.database.execute(f"CREATE DATABASE {_DBOS_DATABASE} OWNER {_ROLE}")
    try:
        yield sa.make_url(role_url).set(database=_DBOS_DATABASE).render_as_string(hide_password=False)
    finally:
        await measuring.database.execute(f"DROP DATABASE {_DBOS_DATABASE} WITH (FORCE)")


def _by_order(port: int) -> Callable[[Sequence[Prepared]], Awaitable[None]]:
    async def drive(messages: Sequence[Prepared]) -> None:
        try:
            async with asyncio.timeout(_STILL_SECONDS):
                ended = await orders.give(port, [message.message_id for message in messages])
        except TimeoutError:
            raise WrongRun(f"a run did not end within {_STILL_SECONDS:.0f} s") from None
        if ended != Counter({State.PROVIDER_ACCEPTED: len(messages)}):
            others = len(messages) - ended[State.PROVIDER_ACCEPTED]
            raise WrongRun(f"{others} of {len(messages)} messages did not end as {State.PROVIDER_ACCEPTED}")

    return drive


async def _run(measuring: Measuring, ours: Fencepost, side: _Side) -> _Run:
    messages = await ours.prepare(measuring.extent.messages)
    count = len(messages)
    await measuring.fresh_provider()
    servers = [psutil.Process(measuring.stack.pids[name]) for name in ("postgres", "temporal")]
    worker_before, servers_before, watch = _cpu_seconds(side.worker), sum(map(_tree_cpu_seconds, servers)), Stopwatch()
    await side.drive(messages)
    seconds = watch.seconds
    worker = _cpu_seconds(side.worker) - worker_before
    whole = worker + sum(map(_tree_cpu_seconds, servers)) - servers_before
    await measuring.check_accepted_once({message.message_id for message in messages})
    return _Run(per_second=count / seconds, worker_ms=worker / count * 1000, whole_ms=whole / count * 1000)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _tree_cpu_seconds(process: psutil.Process) -> float:
    """Give the CPU time of a server and of its children, those that ended included."""
    times = process.cpu_times()
    seconds = _cpu_seconds(process) + times.children_user + times.children_system
    for each in process.children():
        with suppress(psutil.NoSuchProcess):
            seconds += _cpu_seconds(each)
    return seconds
