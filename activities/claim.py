"""Claim: take the lease of a message, or say why not; and, having it, go on at once with the attempt.

Runs on the claim queue, which is paced and fair. What a backlog waits for is there, where nothing is leased yet; from
the lease on nothing waits, since the body that took it submits and finalizes (docs/decisions/0026).
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog
from temporalio import activity

from activities.contracts import CLAIM, ClaimReply, ClaimRequest
from activities.provider import Request
from activities.submit import SubmitActivity, uninterrupted
from db.crash_points import CrashPoint, passing
from db.decisions import ClaimAnswer, Limits
from db.ids import MessageId
from db.store import MessageStore

#: A lease that is over is settled by now, or by the next sweep; no need to ask at once.
_AFTER_LOST: Final = timedelta(seconds=1)
#: The shortest look-again while the provider is switched off (CONTRACT: times and limits).
_PAUSE_LOOK_LEAST: Final = timedelta(seconds=5)
#: A body that takes longer than most says that it lives, so that Temporal soon finds out about a killed worker.
_BEAT: Final = timedelta(seconds=2)

_log = structlog.get_logger(__name__)


class ClaimActivity:
    """Claims for one worker.

    Args:
        store: Where messages are.
        submit: What the body that took the lease goes on with.
        owner: This process, by a name that no other has; for people who look into the database.
        lease: How long a lease runs.
        limits: When a message is given up.
        submit_within: How long the attempt may take; and the start-to-close of a submit as an activity of its own.
        pause_look: The longest wait before another look while the provider is switched off.

    """

    def __init__(
        self,
        store: MessageStore,
        submit: SubmitActivity[Request],
        *,
        owner: str,
        lease: timedelta,
        limits: Limits,
        submit_within: timedelta,
        pause_look: timedelta,
    ) -> None:
        self._store = store
        self._submit = submit
        self._owner = owner
        self._lease = lease
        self._limits = limits
        self._submit_within = submit_within
        self._pause_look = pause_look
        self._under_way: set[asyncio.Task[ClaimReply]] = set()

    @activity.defn(name=CLAIM)
    async def claim(self, request: ClaimRequest) -> ClaimReply:
        """Take the lease and make the attempt. No cancel and no shutdown cuts it short once it runs.

        Run again with the same claim id, which Temporal does where it lost sight of a body, it takes up its own lease
        and does no more: the attempt may be under way, and what is left of it is the workflow's to order.
        """
        passing(CrashPoint.CLAIM_TAKEN_UP)
        message_id = MessageId(UUID(request.message_id))
        async with _beating():
            reply = await uninterrupted(self._claim(message_id, request.claim_id))
            if reply.answer is not ClaimAnswer.LEASED or activity.info().attempt > 1:
                return reply
            return await uninterrupted(self._in_time(message_id, reply))

    async def _in_time(self, message_id: MessageId, reply: ClaimReply) -> ClaimReply:
        """Make the attempt, for as long as a submit may take; an attempt that takes longer goes on by itself."""
        attempt = asyncio.create_task(self._attempt(message_id, reply))
        self._under_way.add(attempt)
        attempt.add_done_callback(self._under_way.discard)
        done, _ = await asyncio.wait({attempt}, timeout=self._submit_within.total_seconds())
        return attempt.result() if done else replace(reply, submitted="unanswered")

    async def _attempt(self, message_id: MessageId, reply: ClaimReply) -> ClaimReply:
        try:
            made = await self._submit.attempt(message_id, reply.attempt)
        except Exception as error:  # noqa: BLE001  (whatever it was, the row knows more; the workflow asks it)
            _log.warning("attempt_broken_off", message_id=str(message_id), error=type(error).__name__)
            return replace(reply, submitted="broken_off")
        reply = replace(reply, submitted=made.result)
        if made.final is None:
            return reply
        final = made.final
        passing(CrashPoint.FINALIZE_COMMITTED)
        return replace(reply, final=final.answer, state=final.state, wait_seconds=final.wait.total_seconds())

    async def _claim(self, message_id: MessageId, claim_id: str) -> ClaimReply:
        claimed = await self._store.claim(
            message_id, claim_id=claim_id, owner=self._owner, lease=self._lease, limits=self._limits
        )
        passing(CrashPoint.CLAIM_COMMITTED)
        wait = claimed.wait or timedelta()
        if claimed.answer is ClaimAnswer.LOST:
            wait = _AFTER_LOST
        elif claimed.answer is ClaimAnswer.PAUSED:
            wait = self._look_again()
        return ClaimReply(
            answer=claimed.answer,
            state=claimed.state,
            attempt=claimed.attempt,
            wait_seconds=wait.total_seconds(),
            submit_within_seconds=self._submit_within.total_seconds(),
        )

    def _look_again(self) -> timedelta:
        """Spread the looks of many waiting messages, so that they don't all come back at one moment."""
        least = min(_PAUSE_LOOK_LEAST, self._pause_look)
        return least + (self._pause_look - least) * random.random()  # noqa: S311  (spreads load, guards nothing)


@asynccontextmanager
async def _beating() -> AsyncIterator[None]:
    """Say that this activity lives, as long as it does."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(_BEAT.total_seconds())
            activity.heartbeat()

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        beats.cancel()
