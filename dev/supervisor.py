"""Keeps named child processes running, and stops them in order."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from dev import child

#: A child that lived this long was well; the next one is started at once.
WELL_SECONDS = 10.0
#: The longest pause before another start. A child must be back within 2 s (CONTRACT section 1).
LONGEST_PAUSE_SECONDS = 1.5
#: How often the children are looked at.
LOOK_SECONDS = 0.1
#: So many ends in a row, each soon after the start, and waiting for an answer is pointless.
HOPELESS = 6
#: A log that is longer at a start is set aside as NAME.log.1.
LOG_BYTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to keep running under a name.

    Attributes:
        tier: At the stop, the children of the highest tier go first, and lower ones when those have ended.
        stop_signal: What asks it to end.
        grace: Seconds between that and SIGKILL.

    """

    name: str
    command: list[str]
    environment: dict[str, str]
    directory: Path
    tier: int
    grace: float
    account: child.Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM


@dataclass(slots=True, kw_only=True)
class _Child:
    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    ends_in_a_row: int = 0
    start_at: float = field(default_factory=time.monotonic)

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Keeps programs running; one that ended is started again under its own name, one that is stopped is left alone.

    All of it belongs to one event loop in the main thread: the kernel kills a child when the thread that started it
    ends.

    Args:
        logs: The folder for each child's output, NAME.log.
        say: Shows one line to the person.
        changed: Called after a child got another process id.

    """

    def __init__(self, *, logs: Path, say: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._logs = logs
        self._say = say
        self._changed = changed
        self._children: dict[str, _Child] = {}

    def start(self, program: Program) -> None:
        """Start the program, and from now on keep it running."""
        started = self._children[program.name] = _Child(program=program)
        self._launch(started)

    def log(self, name: str) -> Path:
        """Return the file that takes the output of the child with this name."""
        return self._logs / f"{name}.log"

    def pids(self) -> dict[str, int]:
        """Return the process id of each child, but for one that waits for its next start."""
        return {name: each.process.pid for name, each in self._children.items() if each.process}

    def hopeless(self, name: str) -> bool:
        """Tell whether the child keeps ending as soon as it starts."""
        return self._children[name].ends_in_a_row >= HOPELESS

    async def watch(self) -> NoReturn:
        """Start again whatever ended, until this is cancelled."""
        while True:
            for each in self._children.values():
                if each.process and each.process.poll() is not None:
                    self._take_note(each, each.process.returncode)
                if each.process is None and time.monotonic() >= each.start_at:
                    self._launch(each)
                    self._changed()
            await asyncio.sleep(LOOK_SECONDS)

    async def stop(self, hasten: asyncio.Event) -> None:
        """Stop every child, tier after tier; once `hasten` is set, by SIGKILL."""
        tiers = sorted({each.program.tier for each in self._children.values()}, reverse=True)
        for tier in tiers:
            living = [each for each in self._children.values() if each.program.tier == tier and each.runs()]
            for each in living:
                _signal(each, each.program.stop_signal)
                # A child that is stopped would not hear it.
                _signal(each, signal.SIGCONT)
            asked_at = time.monotonic()
            while living := [each for each in living if each.runs()]:
                for each in living:
                    if hasten.is_set() or time.monotonic() - asked_at > each.program.grace:
                        _kill(each)
                await asyncio.sleep(0.02)

    def _launch(self, each: _Child) -> None:
        program = each.program
        log = self.log(program.name)
        each.started_at = time.monotonic()
        try:
            if log.exists() and log.stat().st_size > LOG_BYTES:
                log.rename(log.with_suffix(".log.1"))
            each.process = child.start(
                program.command,
                environment=program.environment,
                log=log,
                account=program.account,
                directory=program.directory,
            )
        except OSError as error:  # such as a full disk or process table: it may pass
            self._say(f"{program.name} could not be started: {error.strerror}. It is tried again.")
            each.start_at = time.monotonic() + LONGEST_PAUSE_SECONDS

    def _take_note(self, each: _Child, status: int) -> None:
        lived = time.monotonic() - each.started_at
        each.process = None
        each.ends_in_a_row = 1 if lived > WELL_SECONDS else each.ends_in_a_row + 1
        pause = 0.0 if lived > WELL_SECONDS else min(0.05 * 2**each.ends_in_a_row, LONGEST_PAUSE_SECONDS)
        each.start_at = time.monotonic() + pause
        # One that keeps ending is told of after 1, 2, 4, 8, 16 … times.
        if each.ends_in_a_row.bit_count() == 1:
            ending = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
            again = "" if each.ends_in_a_row == 1 else f" ({each.ends_in_a_row} times in a row)"
            name = each.program.name
            self._say(f"{name} ended {ending}{again}; it is started again. Its log: {self.log(name)}")


def _signal(each: _Child, sign: signal.Signals) -> None:
    if each.process:
        each.process.send_signal(sign)


def _kill(each: _Child) -> None:
    """Kill the child with all that it has started: it leads a process group of its own."""
    if each.process:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)
