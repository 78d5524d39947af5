"""What the servers that we start have in common: a child process, a log, and waiting until it answers."""

import asyncio
import subprocess
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev import readiness


class Server(ABC):
    """A server of our own, as a child process.

    Args:
        name: For people.
        log: Where its output goes.

    """

    def __init__(self, name: str, log: Path) -> None:
        self.log = log
        self._name = name
        self._child: subprocess.Popen[bytes] | None = None

    @abstractmethod
    async def answers(self) -> bool:
        """Tell whether the server answers."""

    def wait(self, timeout: float) -> None:
        """Wait until the server answers, from code that is not async; see `ready`."""
        # In a thread, so that it also works where an event loop runs already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self.ready(timeout)).result()

    async def ready(self, timeout: float) -> None:  # noqa: ASYNC109 - the limit is part of the refusal
        """Wait until the server answers.

        Raises:
            StartRefused: It didn't within `timeout` seconds, or it has exited.

        """
        await readiness.until(self.answers, name=self._name, within=timeout, ended=self._ended, log=self.log)

    def _ended(self) -> bool:
        return self._child is not None and self._child.poll() is not None
