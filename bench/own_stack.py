"""A stack with what a benchmark works with: the shared one, or another with settings or processes of its own."""

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg
import httpx
from temporalio.client import Client

from bench import stack
from bench.measuring import Extent, Measuring
from dev.temporal import NAMESPACE

#: For its whole record, of thousands of submissions, on a busy machine.
_SIMULATOR_SECONDS: Final = 60.0


@asynccontextmanager
async def opened(
    folder: Path, *, extent: Extent, say: Callable[[str], None], settings: Mapping[str, str] | None = None
) -> AsyncIterator[Measuring]:
    """Run a stack in this folder and connect to its parts; end it afterwards. Its sweep runs. Raises StartRefused."""
    async with AsyncExitStack() as entered:
        running = await entered.enter_async_context(stack.running(folder, settings=settings))
        client = await Client.connect(f"127.0.0.1:{running.ports.temporal}", namespace=NAMESPACE)
        simulator = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{running.ports.simulator}", trust_env=False, timeout=_SIMULATOR_SECONDS
        )
        await entered.enter_async_context(simulator)
        database = await asyncpg.connect(running.database_url, ssl=False)
        entered.push_async_callback(database.close)
        yield Measuring(stack=running, client=client, database=database, simulator=simulator, extent=extent, say=say)


@asynccontextmanager
async def another(measuring: Measuring, *, settings: Mapping[str, str]) -> AsyncIterator[Measuring]:
    """Run another stack beside the shared one, which is idle meanwhile, and end it afterwards. Its sweep runs.

    Args:
        measuring: What the benchmark was given; extent and screen stay.
        settings: FENCEPOST_ variables in place of the caller's own.

    Raises:
        StartRefused: It doesn't start.

    """
    with tempfile.TemporaryDirectory(dir=measuring.stack.folder.parent) as folder:
        async with opened(Path(folder), extent=measuring.extent, say=measuring.say, settings=settings) as own:
            yield own
