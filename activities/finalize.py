"""Finalize: settle a lease by what its row says. Idempotent under the token, so it is retried until it succeeds."""

from uuid import UUID

from temporalio import activity

from activities.contracts import FINALIZE, FinalizeReply, FinalizeRequest
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
        message_id = MessageId(UUID(request.message_id))
        finalized = await self._store.finalize(message_id, request.attempt, limits=self._limits)
        return FinalizeReply(
            answer=finalized.answer, state=finalized.state, wait_seconds=finalized.wait.total_seconds()
        )
