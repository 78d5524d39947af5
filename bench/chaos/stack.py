"""The stack that is tormented: `fencepost dev` with two workers and short times, in a folder of its own."""

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from bench import stack

WORKERS: Final = 2
#: Short, and yet with some seconds between claim and begin, which a busy machine takes.
LEASE_SECONDS: Final = 8.0
SWEEP_SECONDS: Final = 1.5
SUBMIT_SECONDS: Final = 3.5
#: The ladder of CONTRACT in a few seconds: call budget < start-to-close < lease, grace >= start-to-close.
TIMES: Final = {
    "FENCEPOST_CALL_BUDGET_SECONDS": "2.5",
    "FENCEPOST_SES_READ_TIMEOUT_SECONDS": "2.3",
    "FENCEPOST_SUBMIT_TIMEOUT_SECONDS": str(SUBMIT_SECONDS),
    "FENCEPOST_LEASE_SECONDS": str(LEASE_SECONDS),
    "FENCEPOST_SHUTDOWN_GRACE_SECONDS": "4",
    "FENCEPOST_SWEEP_SECONDS": str(SWEEP_SECONDS),
    "FENCEPOST_ATTEMPTS": "4",
    "FENCEPOST_BACKOFF_BASE_SECONDS": "0.2",
    "FENCEPOST_BACKOFF_CAP_SECONDS": "4",
    "FENCEPOST_PAUSE_LOOK_SECONDS": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TormentedStack:
    """A running stack, and its processes to send signals to."""

    process: subprocess.Popen[bytes]
    directory: Path
    description: dict[str, Any]  #: dev.json as it was at the start; only the process ids change

    def secrets(self) -> dict[str, Any]:
        """Read what must stand nowhere: passwords, keys, the pepper."""
        found: dict[str, Any] = json.loads((self.directory / "secrets.json").read_text(encoding="utf-8"))
        return found

    def pid(self, name: str) -> int | None:
        """Give the process id of a part that runs; None while it is being started again."""
        try:
            pids = json.loads((self.directory / "dev.json").read_text(encoding="utf-8"))["pids"]
        except (OSError, ValueError):
            return None
        pid = pids.get(name)
        return int(pid) if pid and self._is_ours(int(pid)) else None

    def all_run(self) -> bool:
        """Tell whether every part runs that ran at the start."""
        return all(self.pid(name) for name in self.description["pids"])

    def signal(self, name: str, sign: signal.Signals) -> bool:
        """Send a part a signal; False where it doesn't run just now."""
        pid = self.pid(name)
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, sign)
            return True
        return False

    @contextmanager
    def stopped(self, name: str) -> Iterator[bool]:
        """Stop a part with all that it has started, and let it go on at the end; False where it doesn't run."""
        stopped: list[psutil.Process] = []
        if pid := self.pid(name):
            with suppress(psutil.NoSuchProcess):
                part = psutil.Process(pid)
                stopped = [part, *part.children(recursive=True)]
        for each in stopped:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        try:
            yield bool(stopped)
        finally:
            for each in stopped:
                # psutil looks first whether the id is still this process's.
                with suppress(psutil.NoSuchProcess):
                    each.resume()

    def _is_ours(self, pid: int) -> bool:
        try:
            return psutil.Process(pid).ppid() == self.process.pid
        except psutil.NoSuchProcess:
            return False


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[TormentedStack]:
    """Run a stack on free ports, and end it at the end, whatever state its processes are in.

    Raises:
        StartRefused: It doesn't start.

    """
    async with stack.running(folder, workers=WORKERS, settings=TIMES, events=True) as started:
        description = json.loads((started.folder / "dev.json").read_text(encoding="utf-8"))
        yield TormentedStack(process=started.process, directory=started.folder, description=description)
