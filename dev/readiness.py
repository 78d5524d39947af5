"""Waiting until a server answers, with a line for the person if it doesn't."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from dev.refusals import StartRefused


async def until(
    answers: Callable[[], Awaitable[bool]], *, name: str, within: float, ended: Callable[[], bool], log: Path
) -> None:
    """Wait until `answers()` is true.

    Args:
        answers: One look, which takes a few seconds at most.
        name: Who is meant, for the refusal.
        within: Seconds.
        ended: Whether waiting has become pointless.
        log: Where the person finds out more.

    Raises:
        StartRefused: Time is up, or it ended.

    """
    deadline = time.monotonic() + within
    while not await answers():
        if ended():
            raise StartRefused(f"{name} ended instead of answering. Its log: {log}{_last_line(log)}")
        if time.monotonic() > deadline:
            raise StartRefused(f"{name} didn't answer within {within:.0f} s. Its log: {log}{_last_line(log)}")
        await asyncio.sleep(0.05)


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((f"\n  … {line.strip()[:300]}" for line in reversed(lines) if line.strip()), "")
