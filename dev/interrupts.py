"""How a person tells the stack to stop, and to hurry."""

import asyncio
import signal
import time

#: `make` passes on a SIGTERM that the whole process group got as well, and a held key repeats: one wish, not two.
SAME_WISH_SECONDS = 0.5


class Interrupts:
    """SIGINT, SIGTERM and SIGHUP to this process, from now on and in the running event loop.

    Attributes:
        stop: Set by the first of them.
        hasten: Set by a later SIGINT, the second Ctrl-C.

    """

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hasten = asyncio.Event()
        self._first_at = 0.0
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(sign, self._take, sign)

    def _take(self, sign: signal.Signals) -> None:
        now = time.monotonic()
        if not self.stop.is_set():
            self._first_at = now
            self.stop.set()
        elif sign == signal.SIGINT and now - self._first_at > SAME_WISH_SECONDS:
            self.hasten.set()
