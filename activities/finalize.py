"""Finalize: settle a lease by what its row says. Idempotent under the token, so it is retried until it succeeds."""

from uuid import UUID

from temporalio import activity

from activities.contracts import FINALIZE, FinalizeReply, FinalizeRequest
from db.crash_points import CrashPoint, passing
from db.decisions import Limits
from db.ids import MessageId
from db.store import MessageStore


class FinalizeActivity:
    """Finalizes for one worker."""

    def __init__(self, store: MessageStore, *, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    @activity.defn(name=FINALIZE)
    async def finalize(self, request: FinalizeRequest) -> FinalizeReply:
        """Settle; whatever Temporal says of submit is no evidence, only the row is."""
        return await self.settle(MessageId(UUID(request.message_id)), request.attempt)

    async def settle(self, message_id: MessageId, attempt: int) -> FinalizeReply:
        """Settle the lease of an attempt, and say where the message stands."""
        finalized = await self._store.finalize(message_id, attempt, limits=self._limits)
        passing(CrashPoint.FINALIZE_COMMITTED)
        return FinalizeReply(
            answer=finalized.answer, state=finalized.state, wait_seconds=finalized.wait.total_seconds()
        )
