"""Waiting for something to become true, instead of for a time to pass."""

import asyncio
import inspect
import time
from collections.abc import Callable


async def until(condition: Callable[[], object], *, within: float, every: float = 0.02) -> None:
    """Return as soon as the condition holds, looked at every so many seconds; fail after `within` seconds.

    The condition may be async.
    """
    deadline = time.monotonic() + within
    while True:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < deadline, f"not within {within} s"
        await asyncio.sleep(every)
