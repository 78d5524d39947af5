"""Submit: the fenced begin, then one provider call, then its outcome. Never retried; a raise means "I don't know"."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Generic, TypeVar
from uuid import UUID, uuid4

import structlog
from temporalio import activity

from activities.contracts import SUBMIT, SubmitReply, SubmitRequest
from activities.provider import Provider, Request
from db.crash_points import CrashPoint, passing
from db.decisions import BeginAnswer, Limits
from db.ids import MessageId
from db.outcomes import Outcome, Reason
from db.records import CallResult
from db.store import Finalized, MessageStore, Recorded, Reread

Result = TypeVar("Result")

#: What may go by between sending begin and calling, besides the call's own budget.
BEGIN_MARGIN: Final = timedelta(seconds=1)
#: Between tries to reach Postgres again; the call is over, or must not be made, so nothing else presses.
_DATABASE_PAUSE: Final = timedelta(seconds=0.2)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """What submit came to, and where the message stands, if it was settled too."""

    result: str
    final: Finalized | None = None


class SubmitActivity(Generic[Request]):
    """Submits for one worker.

    Args:
        store: Where messages are.
        provider: Who takes the mail.
        executor: Threads for the provider's blocking call; as many as this worker has activity slots, since a body
            that waits for a thread would begin after Temporal called it timed out.
        call_budget: Wall clock from begin to the end of the call.
        submit_within: The whole of this activity; what is left of it after the call is for recording.
        limits: When a message is tried again, and when it is given up.

    """

    def __init__(
        self,
        store: MessageStore,
        provider: Provider[Request],
        executor: Executor,
        *,
        call_budget: timedelta,
        submit_within: timedelta,
        limits: Limits,
    ) -> None:
        self._store = store
        self._provider = provider
        self._executor = executor
        self._call_budget = call_budget
        self._submit_within = submit_within
        self._limits = limits

    @activity.defn(name=SUBMIT)
    async def submit(self, request: SubmitRequest) -> SubmitReply:
        """Submit an attempt, if begin lets it. No cancel and no shutdown cuts it short once it runs."""
        made = await uninterrupted(self.attempt(MessageId(UUID(request.message_id)), request.attempt))
        return SubmitReply(result=made.result)

    async def attempt(self, message_id: MessageId, attempt: int) -> Attempted:
        """Submit an attempt, if begin lets it, and settle it. The caller sees to it that nothing cuts in."""
        passing(CrashPoint.SUBMIT_TAKEN_UP)
        submission = await self._store.submission(message_id, attempt)
        prepared = self._provider.prepare(submission)
        begin_id = uuid4()
        asked_at = time.monotonic()
        answer, left_out = await self._begin(message_id, attempt, begin_id)
        if answer is not BeginAnswer.BEGUN and answer is not Reread.UNSENT:
            return Attempted(result=str(answer))
        passing(CrashPoint.BEGIN_COMMITTED)
        if left_out:
            prepared = self._provider.prepare(submission.without(left_out))
        if answer is Reread.UNSENT or time.monotonic() - asked_at > BEGIN_MARGIN.total_seconds():
            result = self._not_submitted()
        else:
            deadline = asked_at + self._call_budget.total_seconds()
            result = await self._call(prepared, deadline)
            passing(CrashPoint.ANSWER_READ)
        record_until = asked_at + self._submit_within.total_seconds()
        return await self._conclude(message_id, attempt, begin_id, result, record_until)

    async def _begin(
        self, message_id: MessageId, attempt: int, begin_id: UUID
    ) -> tuple[BeginAnswer | Reread, frozenset[str]]:
        """Begin, and say which copies are left out; where its reply is lost, find out what stands before anything."""
        needs = self._call_budget + BEGIN_MARGIN
        give_up_at = time.monotonic() + self._submit_within.total_seconds()

        async def reread() -> tuple[BeginAnswer | Reread, frozenset[str]]:
            found = await self._store.reread_begin(message_id, attempt, begin_id=begin_id, needs=needs)
            if found is not Reread.CALL:
                return found, frozenset()
            return BeginAnswer.BEGUN, await self._store.suppressed_copies(message_id)

        try:
            begun = await self._store.begin(message_id, attempt, begin_id=begin_id, needs=needs)
        except Exception as error:  # noqa: BLE001  (whatever it was, the COMMIT may have happened)
            _log.warning("begin_unanswered", message_id=str(message_id), error=type(error).__name__)
            return await _until_answered(reread, give_up_at)
        return begun.answer, begun.left_out

    async def _call(self, prepared: Request, deadline: float) -> CallResult:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, lambda: self._provider.call(prepared, deadline=deadline))
        except Exception as error:  # noqa: BLE001  (a provider that raises says nothing of what it sent)
            _log.error("provider_raised", error=type(error).__name__)
            return CallResult(outcome=Outcome.UNKNOWN, provider=self._provider.name, reason=Reason.PROVIDER_ERROR)

    async def _conclude(
        self, message_id: MessageId, attempt: int, begin_id: UUID, result: CallResult, until: float
    ) -> Attempted:
        """Record and settle at once; where that gets no answer, record at any rate, and leave settling to finalize."""
        final = None
        try:
            recorded, final = await self._store.conclude(
                message_id, attempt, begin_id=begin_id, result=result, limits=self._limits
            )
        except Exception as error:  # noqa: BLE001  (whatever it was, the COMMIT may have happened)
            _log.warning("conclude_unanswered", message_id=str(message_id), error=type(error).__name__)
            recorded = await _until_answered(
                lambda: self._store.record(message_id, attempt, begin_id=begin_id, result=result), until
            )
        passing(CrashPoint.RECORD_COMMITTED)
        if recorded is not Recorded.RECORDED:
            _log.error(
                "late_result",
                message_id=str(message_id),
                result=recorded.value,
                outcome=result.outcome.value,
                provider=result.provider,
                provider_message_id=result.provider_message_id,
            )
            return Attempted(result=recorded.value)
        return Attempted(result=result.outcome.value, final=final)

    def _not_submitted(self) -> CallResult:
        return CallResult(outcome=Outcome.NOT_SUBMITTED, provider=self._provider.name, reason=Reason.CALL_TOO_LATE)


async def _until_answered(ask: Callable[[], Awaitable[Result]], until: float) -> Result:
    """Ask Postgres again until it answers, or `until` is past: then its last error is the caller's.

    Safe, since each of these questions may be asked again: they go by the attempt and the begin id.
    """
    while True:
        try:
            return await ask()
        except Exception:
            if time.monotonic() + _DATABASE_PAUSE.total_seconds() > until:
                raise
        await asyncio.sleep(_DATABASE_PAUSE.total_seconds())


async def uninterrupted(body: Awaitable[Result]) -> Result:
    """Run to the end whatever is cancelled around it: a cancelled call is a sent mail whose answer is thrown away."""
    task = asyncio.ensure_future(body)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
        except Exception:  # noqa: BLE001, S110  (given to the caller below)
            pass
    return task.result()
