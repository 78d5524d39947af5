"""A whole stack as a process of its own, as `make dev` runs it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.dev.processes import alive
from tests.waiting import until

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStack:
    """A stack, its folder, and what it wrote to its terminal."""

    process: asyncio.subprocess.Process
    directory: Path
    screen: Path

    def describe(self) -> dict[str, Any]:  # as JSON has it
        """Return dev.json."""
        found: dict[str, Any] = json.loads((self.directory / "dev.json").read_text())
        return found

    def pid(self, name: str) -> int:
        """Return the process id of a child, 0 while it has none."""
        return int(self.describe()["pids"].get(name, 0))

    def family(self) -> set[int]:
        """Return the ids of all processes that come from this stack, itself among them."""
        parent = psutil.Process(self.process.pid)
        return {parent.pid, *(each.pid for each in parent.children(recursive=True))}

    async def end(self, sign: signal.Signals) -> set[int]:
        """Send a signal, wait until the stack has ended, and return those of its family that are still there."""
        family = self.family()
        self.process.send_signal(sign)
        await asyncio.wait_for(self.process.wait(), 60)
        return {pid for pid in family if alive(pid)}


async def launch(directory: Path, *options: str, environment: Mapping[str, str] | None = None) -> RunningStack:
    """Start `fencepost dev` on the folder, and don't wait for it; `environment` comes on top of ours."""
    screen = directory.with_suffix(".screen")
    with screen.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cli", "dev", "--dir", str(directory), *options),
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )
    return RunningStack(process=process, directory=directory, screen=screen)


@asynccontextmanager
async def running(
    directory: Path, *options: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[RunningStack]:
    """Start a stack and wait until everything answers; at the end of the block it is stopped if it still runs."""
    leftover = _written_at(directory / "dev.json")
    stack = await launch(directory, *options, environment=environment)
    try:
        await until(
            lambda: _written_at(directory / "dev.json") not in {None, leftover} or stack.process.returncode is not None,
            within=60,
        )
        assert stack.process.returncode is None, stack.screen.read_text()
        yield stack
    finally:
        if stack.process.returncode is None:
            stack.process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(stack.process.wait(), 60)


def _written_at(file: Path) -> int | None:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None
