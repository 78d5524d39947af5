"""A baseline that breaks down has no figures."""

import asyncio
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench import orders
from bench.correctness import WrongRun

#: Takes orders; what is called `bad` breaks it down, and what is called `fatal` ends its process.
BASELINE = """
import asyncio, os, sys
from collections import Counter
from bench import orders

async def drive(message_ids):
    if "bad" in message_ids:
        raise ValueError("somebody@example.com")
    if "fatal" in message_ids:
        os._exit(1)
    return Counter({"provider_accepted": len(message_ids)})

asyncio.run(orders.serve(int(sys.argv[1]), drive))
"""
ROOT = Path(orders.__file__).parent.parent


@asynccontextmanager
async def baseline() -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        BASELINE,
        str(port),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield port
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def test_a_baseline_says_how_its_messages_ended_or_that_it_broke_down_and_nothing_protected() -> None:
    async with baseline() as port:
        assert await orders.give(port, ["one", "two"]) == Counter({"provider_accepted": 2})
        with pytest.raises(WrongRun, match=r"^a baseline broke down: ValueError$"):
            await orders.give(port, ["one", "bad"])
        assert await orders.give(port, ["three"]) == Counter({"provider_accepted": 1})


async def test_a_baseline_whose_process_ends_is_a_wrong_run() -> None:
    async with baseline() as port:
        with pytest.raises(WrongRun, match="its process ended"):
            await orders.give(port, ["fatal"])
