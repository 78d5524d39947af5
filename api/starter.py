"""Starting workflows after intake has committed, without making a client wait for Temporal."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from db.crash_points import CrashPoint, passing
from db.ids import TenantId
from db.records import MessageRef

#: What waits here is in Postgres too: past this, a start is left to the sweep.
_MOST_WAITING: Final = 10_000
#: Starts at a time; each is one short call.
_STARTERS: Final = 16
#: At shutdown, what is left after this goes to the sweep.
_DRAIN_SECONDS: Final = 3.0

_log = structlog.get_logger(__name__)


class _Turns:
    """What waits, a queue for each tenant: nobody waits behind all that somebody else has posted."""

    def __init__(self) -> None:
        self._of: OrderedDict[TenantId, deque[MessageRef]] = OrderedDict()

    def add(self, message: MessageRef) -> None:
        """Put a message behind its tenant's."""
        self._of.setdefault(message.tenant_id, deque()).append(message)

    def take(self) -> MessageRef:
        """Take the first of the tenant whose turn it is; it is the last tenant then."""
        tenant, theirs = self._of.popitem(last=False)
        message = theirs.popleft()
        if theirs:
            self._of[tenant] = theirs
        return message


class Starter:
    """Starts the runs of accepted messages in the background.

    Tenants take turns. A start that fails, or is never tried, loses nothing: the sweep finds the message (DESIGN: the
    workflow).

    Args:
        start: Asks Temporal for the run of a message. Raises where Temporal is away.

    """

    def __init__(self, start: Callable[[MessageRef], Awaitable[None]]) -> None:
        self._start = start
        self._turns = _Turns()
        #: One entry for each message in `_turns`: to wait for, and to bound them.
        self._waiting: asyncio.Queue[None] = asyncio.Queue(_MOST_WAITING)
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Begin to start what comes."""
        self._tasks = [asyncio.create_task(self._run()) for _ in range(_STARTERS)]

    def want(self, message: MessageRef) -> None:
        """Have the run of a message started soon. Never blocks and never fails."""
        try:
            self._waiting.put_nowait(None)
            self._turns.add(message)
        except asyncio.QueueFull:
            _log.warning("start_left_to_sweep", message_id=str(message.id))

    async def close(self) -> None:
        """Start what waits, for a short while, and end."""
        try:
            await asyncio.wait_for(self._waiting.join(), _DRAIN_SECONDS)
        except TimeoutError:
            _log.warning("starts_left_to_sweep", count=self._waiting.qsize())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._waiting.get()
            message = self._turns.take()
            try:
                await self._start(message)
                passing(CrashPoint.RUN_STARTED)
            except Exception as error:  # noqa: BLE001  (the sweep starts it)
                _log.warning("start_failed", message_id=str(message.id), error=type(error).__name__)
            finally:
                self._waiting.task_done()
