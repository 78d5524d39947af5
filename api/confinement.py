"""Runs a function on untrusted input in a process of its own, with bounds on its CPU time and memory."""

import atexit
import contextlib
import importlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final

#: What a call may take besides what its worker holds already; with the stack, under 50 MB.
MEMORY_BYTES: Final = 40 * 10**6
STACK_BYTES: Final = 8 * 2**20
#: Far beyond any call: only a keeper that was stopped or starved takes this long.
WALL_SECONDS: Final = 10.0

_CPU_SECONDS: Final = Struct("d")
_DONE: Final = b"\x01"
_GAVE_OUT: Final = b"\x00"

Function = Callable[[bytes], bytes]


class ConfinementUnavailableError(Exception):
    """The process that runs the function could not be started, or was killed twice."""


class Confinement:
    """Calls one pure function from bytes to bytes, given as `package.module:name`, in confinement.

    A child process, the keeper, imports the function's module once and forks a worker, which takes one call after
    the other.  A worker that uses up its bounds or crashes is the answer to the call it was in, and the keeper forks
    another one within milliseconds.  The child gets no environment, so it holds no secret.  It starts with the
    first call and ends with this process.  Calls block, and are safe from several threads.
    """

    def __init__(self, function: str) -> None:
        self._function = function
        self._lock = Lock()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def call(self, argument: bytes, *, cpu_seconds: float) -> bytes | None:
        """Return the function's result, or None if it used up its bounds or crashed on this argument.

        The bound is CPU time, so that a busy machine refuses nobody.
        """
        frame = _CPU_SECONDS.pack(cpu_seconds) + argument
        with self._lock:
            # The function is pure, so that a call whose keeper somebody killed may run again.
            for _ in range(2):
                with contextlib.suppress(EOFError, OSError):
                    return self._exchange(frame)
                self._stop()
        raise ConfinementUnavailableError

    def close(self) -> None:
        """End the child; the next call starts another one."""
        with self._lock:
            self._stop()

    def _exchange(self, frame: bytes) -> bytes | None:
        connection = self._connection or self._start()
        connection.send_bytes(frame)
        if not connection.poll(WALL_SECONDS):
            raise TimeoutError
        answer = connection.recv_bytes()
        return answer[1:] if answer.startswith(_DONE) else None

    def _start(self) -> Connection:
        self._connection, theirs = Pipe()
        with theirs:
            self._keeper = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                [sys.executable, "-m", "api.confinement", str(theirs.fileno()), self._function],
                cwd=Path(__file__).resolve().parents[1],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Ctrl-C is for us; the child ends when its connection does.
                start_new_session=True,
            )
        atexit.register(self.close)
        return self._connection

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
        self._connection = self._keeper = None
        atexit.unregister(self.close)


class _Worker:
    """The keeper's side of a forked worker."""

    def __init__(self, function: Function) -> None:
        self._connection, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._connection.close()
            _work(theirs, function)
        theirs.close()

    def call(self, frame: bytes) -> bytes | None:
        """Return None if the worker is gone."""
        with contextlib.suppress(EOFError, OSError):
            self._connection.send_bytes(frame)
            return self._connection.recv_bytes()
        return None

    def is_gone(self) -> bool:
        """Tell whether the worker has ended while it had nothing to do."""
        return self._connection.poll(0)

    def bury(self) -> bool:
        """Reap a worker that is gone.  True if it was killed, which no call of its own does."""
        self._connection.close()
        _, status = os.waitpid(self._pid, 0)
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _work(connection: Connection, function: Function) -> None:
    """Be the worker; never returns."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _lower(resource.RLIMIT_STACK, STACK_BYTES)
        while True:
            frame = connection.recv_bytes()
            _bound_memory()
            # SIGPROF's own action ends the process in the middle of anything, which no handler of ours could.
            signal.setitimer(signal.ITIMER_PROF, *_CPU_SECONDS.unpack_from(frame))
            result = function(frame[_CPU_SECONDS.size :])
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send_bytes(result)
    finally:
        os._exit(1)


def _bound_memory() -> None:
    # What RLIMIT_DATA counts is the sixth number in proc_pid_statm(5).
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    _lower(resource.RLIMIT_DATA, pages * resource.getpagesize() + MEMORY_BYTES)


def _lower(kind: int, soft: int) -> None:
    """Set a soft limit, beneath the hard one that somebody may have set for us."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _keep(connection: Connection, function: Function) -> None:
    """Be the keeper: exactly one answer for each call, until the other side is closed."""
    worker = _Worker(function)
    with contextlib.suppress(EOFError):
        while True:
            frame = connection.recv_bytes()
            if worker.is_gone():
                worker.bury()
                worker = _Worker(function)
            answer = worker.call(frame)
            if answer is None:
                killed = worker.bury()
                worker = _Worker(function)
                # By the kernel, short of memory, or by somebody: the call has done nothing, and may run again.
                answer = worker.call(frame) if killed else None
            connection.send_bytes(_GAVE_OUT if answer is None else _DONE + answer)


def main() -> None:
    """Run the keeper; for `Confinement` alone."""
    descriptor, function = sys.argv[1:]
    module, _, name = function.partition(":")
    confined: Function = getattr(importlib.import_module(module), name)
    # From here on a message could quote what is confined.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    _keep(Connection(int(descriptor)), confined)


if __name__ == "__main__":
    main()
