"""Claim: take the lease of a message, or say why not. Runs on the claim queue, which is paced and fair."""

import random
from datetime import timedelta
from typing import Final
from uuid import UUID

from temporalio import activity

from activities.contracts import CLAIM, ClaimReply, ClaimRequest
from db.crash_points import CrashPoint, passing
from db.decisions import ClaimAnswer, Limits
from db.ids import MessageId
from db.store import MessageStore

#: A lease that is over is settled by now, or by the next sweep; no need to ask at once.
_AFTER_LOST: Final = timedelta(seconds=1)
#: The shortest look-again while the provider is switched off (CONTRACT: times and limits).
_PAUSE_LOOK_LEAST: Final = timedelta(seconds=5)


class ClaimActivity:
    """Claims for one worker.

    Args:
        store: Where messages are.
        owner: This process, by a name that no other has; for people who look into the database.
        lease: How long a lease runs.
        limits: When a message is given up.
        submit_within: The start-to-close of the submit that follows.
        pause_look: The longest wait before another look while the provider is switched off.

    """

    def __init__(
        self,
        store: MessageStore,
        *,
        owner: str,
        lease: timedelta,
        limits: Limits,
        submit_within: timedelta,
        pause_look: timedelta,
    ) -> None:
        self._store = store
        self._owner = owner
        self._lease = lease
        self._limits = limits
        self._submit_within = submit_within
        self._pause_look = pause_look

    @activity.defn(name=CLAIM)
    async def claim(self, request: ClaimRequest) -> ClaimReply:
        """Take the lease; run again with the same claim id, it finds its own."""
        passing(CrashPoint.CLAIM_TAKEN_UP)
        claimed = await self._store.claim(
            MessageId(UUID(request.message_id)),
            claim_id=request.claim_id,
            owner=self._owner,
            lease=self._lease,
            limits=self._limits,
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
