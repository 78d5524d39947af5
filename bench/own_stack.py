"""A second stack for a benchmark that needs other settings, or processes that nothing ran on before."""

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncpg
import httpx
from temporalio.client import Client

from bench import stack
from bench.measuring import Measuring
from dev.temporal import NAMESPACE


@asynccontextmanager
async def another(measuring: Measuring, *, settings: Mapping[str, str]) -> AsyncIterator[Measuring]:
    """Run another stack beside the shared one, which is idle meanwhile, and end it afterwards. Its sweep runs.

    Args:
        measuring: What the benchmark was given; extent and screen stay.
        settings: FENCEPOST_ variables in place of the caller's own.

    Raises:
        StartRefused: It doesn't start.

    """
    async with AsyncExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(dir=measuring.stack.folder.parent))
        running = await opened.enter_async_context(stack.running(Path(folder), settings=settings))
        client = await Client.connect(f"127.0.0.1:{running.ports.temporal}", namespace=NAMESPACE)
        simulator = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{running.ports.simulator}",
            trust_env=False,
            timeout=measuring.simulator.timeout,
        )
        await opened.enter_async_context(simulator)
        database = await asyncpg.connect(running.database_url, ssl=False)
        opened.push_async_callback(database.close)
        yield replace(measuring, stack=running, client=client, simulator=simulator, database=database)
