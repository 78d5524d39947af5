"""What each hot operation takes in a database of millions of messages, beside one of ten thousand on the same server.

Both databases are made here and dropped at the end. The two are timed in turn, one operation on each, so that whatever
else the machine does meanwhile is the same to both.
"""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final
from uuid import uuid4

import asyncpg
import sqlalchemy as sa

from bench.correctness import WrongRun
from bench.figures import Better, Figure
from bench.measuring import Measuring, Stopwatch
from bench.scale_data import BYTES_A_MESSAGE, BYTES_BESIDE, Filling, Known
from bench.scale_operations import OPERATIONS, Operation, Stores, opened
from bench.scale_plans import collecting, whole_reads
from bench.stack import Stack
from db.migrate import migrate
from dev.refusals import StartRefused

REACH: Final = 1.3
SMALL: Final = 10_000
#: How many of the old messages status and the list's deep page go round.
_SAMPLE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """A filled database, and how to work in it."""

    filling: Filling
    stores: Stores
    old: list[Known]
    connection: asyncpg.Connection


async def measure(measuring: Measuring) -> list[Figure]:
    """Fill both databases, look at the plans, then time each operation. Raises WrongRun; StartRefused without space."""
    large = measuring.extent.scale
    folder = Path(await measuring.database.fetchval("SHOW data_directory"))
    check_space(folder, messages=large + SMALL)
    async with _filled(measuring.stack, SMALL) as small_side, _filled(measuring.stack, large) as large_side:
        await _turn((small_side, large_side), 20)  # not counted: connections learn their statements
        await _check_plans(large_side)
        turns = []
        for _ in range(measuring.extent.runs):
            turns.append(await _turn((small_side, large_side), measuring.extent.messages))
            slowest = max(turns[-1], key=lambda name: turns[-1][name][1] / turns[-1][name][0])
            small_ms, large_ms = turns[-1][slowest]
            measuring.say(f"slowest to grow is {slowest}, {large_ms:.2f} ms beside {small_ms:.2f} ms")
    return [
        Figure(
            name=f"{operation.name}_at_scale",
            measure="ms",
            better=Better.LOWER,
            as_ratio=True,
            reach=REACH,
            ours_runs=tuple(turn[operation.name][1] for turn in turns),
            baseline_runs=tuple(turn[operation.name][0] for turn in turns),
        )
        for operation in OPERATIONS
        if operation.timed
    ]


def check_space(folder: Path, *, messages: int) -> None:
    """Refuse, with a StartRefused that says what is needed, where so many messages don't fit beside `folder`."""
    needed = messages * BYTES_A_MESSAGE + BYTES_BESIDE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StartRefused(
            f"{messages:,} messages need {needed / 1e9:,.0f} GB on the disk and {free / 1e9:,.0f} GB are free:"
            " free some, or measure with fewer (--scale)"
        )


@asynccontextmanager
async def _filled(stack: Stack, count: int) -> AsyncIterator[_Side]:
    """Make a database on the stack's server and fill it; drop it in the end, whatever happens."""
    name = f"scale_{uuid4().hex[:12]}"
    watch = Stopwatch()

    def say(text: str) -> None:
        print(f"[{watch.seconds:4.0f} s] scale: {text}", file=sys.stderr, flush=True)

    async with AsyncExitStack() as stacked:
        server = await asyncpg.connect(stack.database_url, ssl=False)
        stacked.push_async_callback(server.close)
        await server.execute(f"CREATE DATABASE {name} OWNER fencepost_migrate")
        stacked.push_async_callback(server.execute, f"DROP DATABASE {name} WITH (FORCE)")
        await asyncio.to_thread(migrate, _renamed(stack.role_url("fencepost_migrate"), name))
        connection = await asyncpg.connect(_renamed(stack.database_url, name), ssl=False)
        stacked.push_async_callback(connection.close)
        filling = Filling(connection)
        await filling.fill(count, say)
        stores = await stacked.enter_async_context(opened(lambda role: _renamed(stack.role_url(role), name)))
        yield _Side(filling=filling, stores=stores, old=await filling.some(_SAMPLE), connection=connection)


def _renamed(url: str, database: str) -> str:
    return sa.make_url(url).set(database=database).render_as_string(hide_password=False)


async def _check_plans(side: _Side) -> None:
    """Do everything once, and refuse a plan that reads a growing table whole."""
    (message,) = await side.filling.add(1)
    for operation in OPERATIONS:
        with collecting(side.stores.engines) as ran:
            await operation.run(side.stores, message)
        if not ran:
            raise WrongRun(f"no statement of {operation.name} was seen")
        for each in ran.values():
            if found := await whole_reads(side.connection, each):
                raise WrongRun(f"{operation.name} does a {', and a '.join(found)}: {each.statement[:120]}")


async def _turn(sides: tuple[_Side, _Side], count: int) -> dict[str, tuple[float, float]]:
    """Time each operation so many times on each side; give the medians, in milliseconds."""
    new = [await side.filling.add(count) for side in sides]
    return {
        operation.name: await _timed(operation, sides, new if operation.on_new else [side.old for side in sides], count)
        for operation in OPERATIONS
        if operation.timed
    }


async def _timed(
    operation: Operation, sides: tuple[_Side, _Side], messages: list[list[Known]], count: int
) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(count):
        # Who comes first takes turns, too.
        for which in (0, 1) if number % 2 else (1, 0):
            message = messages[which][number % len(messages[which])]
            watch = Stopwatch()
            await operation.run(sides[which].stores, message)
            times[which].append(watch.seconds * 1000)
    return median(times[0]), median(times[1])
