"""Sweep: settle expired leases, match early events, start runs that are missing. Schedule and command line."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import structlog
from temporalio import activity
from temporalio.service import RPCError, RPCStatusCode

from activities.contracts import SWEEP, SweepReply
from db.crash_points import CrashPoint, passing
from db.decisions import Limits
from db.engine import UnavailableError
from db.events import EventStore
from db.records import MessageRef
from db.store import MessageStore

#: One sweep's bounds: the next comes within seconds and goes on where this one ended.
MOST_SETTLED: Final = 500
_MOST_STARTED: Final = 500
_MOST_MATCHED: Final = 500
#: A run that was asked for is given as long again as a message is before it counts as forgotten, twice over: one that
#: exists would have claimed by then, unless the claim queue is backed up, and asking again joins it.
_PATIENCE: Final = 2
#: So many outages mean that Postgres or Temporal is away: the rest would only wait for the same time-out. What fails
#: for a reason of its own holds up nobody.
_MOST_OUTAGES: Final = 3
#: Where Temporal, asked for a run, is away or overloaded; any other status is about this one message.
_AWAY: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
    }
)

_log = structlog.get_logger(__name__)


class SweepActivity:
    """Sweeps; any number may run at once.

    Args:
        store: Where messages are.
        events: Where provider events are.
        start: Asks Temporal for a run of a message; joins the running one. Raises where Temporal is away.
        limits: When a message is tried again.
        overdue: How long a message may be due before it counts as forgotten.

    """

    def __init__(
        self,
        store: MessageStore,
        events: EventStore,
        *,
        start: Callable[[MessageRef], Awaitable[None]],
        limits: Limits,
        overdue: timedelta,
    ) -> None:
        self._store = store
        self._events = events
        self._start = start
        self._limits = limits
        self._overdue = overdue

    @activity.defn(name=SWEEP)
    async def sweep(self) -> SweepReply:
        """Sweep once. One message's trouble is logged and left to the next sweep; it never stops the others."""
        settled, failed_to_settle = await self._settle()
        # Before runs are started: what an event proves needs none.
        matched, failed_to_match = await self._match_events()
        started, failed_to_start = await self._start_runs()
        failed = failed_to_settle + failed_to_match + failed_to_start
        if settled or matched or started or failed:
            _log.info("swept", settled=settled, matched=matched, started=started, failed=failed)
        return SweepReply(settled=settled, matched=matched, started=started, failed=failed)

    async def _settle(self) -> tuple[int, int]:
        settled = failed = outages = 0
        for lease in await self._store.expired_leases(MOST_SETTLED):
            _say_alive()
            try:
                settled += await self._store.settle_expired(lease, limits=self._limits)
            except Exception as error:  # noqa: BLE001
                failed += 1
                outages += _is_outage(error)
                _log.warning("settle_failed", message_id=str(lease.message_id), error=type(error).__name__)
                if outages >= _MOST_OUTAGES:
                    break
            passing(CrashPoint.SWEEP_SETTLED)
        return settled, failed

    async def _match_events(self) -> tuple[int, int]:
        matched = failed = outages = 0
        for waiting in await self._events.waiting(_MOST_MATCHED):
            _say_alive()
            try:
                matched += await self._events.match(waiting)
            except Exception as error:  # noqa: BLE001
                failed += 1
                outages += _is_outage(error)
                _log.warning("match_failed", event_id=str(waiting.id), error=type(error).__name__)
                if outages >= _MOST_OUTAGES:
                    break
        return matched, failed

    async def _start_runs(self) -> tuple[int, int]:
        started = failed = outages = 0
        forgotten = await self._store.startable(
            overdue=self._overdue, again_after=self._overdue * _PATIENCE, most=_MOST_STARTED
        )
        for message in forgotten:
            _say_alive()
            try:
                await self._start(message)
                passing(CrashPoint.SWEEP_RUN_STARTED)
                await self._store.run_requested(message.id)
            except Exception as error:  # noqa: BLE001
                failed += 1
                outages += _is_outage(error)
                _log.warning("start_failed", message_id=str(message.id), error=type(error).__name__)
                if outages >= _MOST_OUTAGES:
                    break
            else:
                started += 1
        return started, failed


def _is_outage(error: Exception) -> bool:
    """Say whether the next message would meet the same. RuntimeError is the SDK's, where it can't connect at all."""
    if isinstance(error, RPCError):
        return error.status in _AWAY
    return isinstance(error, UnavailableError | RuntimeError)


def _say_alive() -> None:
    """Heartbeat, where the sweep runs as an activity and not from the command line."""
    if activity.in_activity():
        activity.heartbeat()
