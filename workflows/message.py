"""The workflow of one message: claim, submit, finalize, with durable waits between tries.

The one place that orders steps, though the body that claims usually goes on to the end of its attempt by itself, and
says so (docs/decisions/0026). It completes for every business outcome, and knows nothing but ids, numbers and codes.
Whatever Temporal says of submit is no evidence: finalize asks the row.
"""

from datetime import timedelta
from typing import Never, assert_never

from temporalio import workflow
from temporalio.common import Priority
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.contracts import (
        CLAIM,
        FINALIZE,
        SUBMIT,
        ClaimReply,
        ClaimRequest,
        FinalizeReply,
        FinalizeRequest,
        SubmitReply,
        SubmitRequest,
    )
    from db.decisions import ClaimAnswer, FinalAnswer
    from workflows import policies
    from workflows.contracts import MessageInput, MessageResult


@workflow.defn(name="Message")
class MessageWorkflow:
    """Drives one message until the machine has nothing more to do."""

    @workflow.run
    async def run(self, message: MessageInput) -> MessageResult:
        """Try until it is settled. Another run of the same message does no harm: claim and begin decide."""
        while True:
            if workflow.info().is_continue_as_new_suggested():  # a day of looking at a provider that is switched off
                workflow.continue_as_new(message)
            claim = await self._claim(message)
            match claim.answer:
                case ClaimAnswer.LEASED:
                    end = await self._attempt(message, claim)
                    if end.answer is FinalAnswer.SETTLED:
                        return MessageResult(state=end.state)
                    await _wait(end.wait_seconds, f"{end.state}: next try")
                case ClaimAnswer.SETTLED | ClaimAnswer.SUPPRESSED | ClaimAnswer.DEAD:
                    return MessageResult(state=claim.state)
                case ClaimAnswer.BUSY | ClaimAnswer.NOT_DUE | ClaimAnswer.PAUSED | ClaimAnswer.LOST:
                    await _wait(claim.wait_seconds, f"{claim.answer}: look again")
                case _ as other:
                    _unreachable(other)

    async def _attempt(self, message: MessageInput, claim: ClaimReply) -> FinalizeReply:
        """Do what is left of an attempt: nothing, where the body that claimed it went through to its end."""
        if claim.final in (FinalAnswer.SETTLED, FinalAnswer.AGAIN):
            return FinalizeReply(answer=claim.final, state=claim.state, wait_seconds=claim.wait_seconds)
        if not claim.submitted:
            await self._submit(message, claim)
        return await self._finalize(message, claim)

    async def _claim(self, message: MessageInput) -> ClaimReply:
        reply: ClaimReply = await workflow.execute_activity(
            CLAIM,
            ClaimRequest(message_id=message.message_id, claim_id=str(workflow.uuid4())),
            result_type=ClaimReply,
            task_queue=policies.CLAIM_QUEUE,
            start_to_close_timeout=policies.CLAIM_START_TO_CLOSE,
            heartbeat_timeout=policies.CLAIM_HEARTBEAT,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=policies.UNTIL_IT_SUCCEEDS,
            priority=Priority(priority_key=policies.PRIORITY_KEY, fairness_key=message.tenant_id[:64]),
            summary="claim, submit, finalize",
        )
        return reply

    async def _submit(self, message: MessageInput, claim: ClaimReply) -> None:
        """Run submit once. However it ends, the row knows more than its end says."""
        try:
            await workflow.execute_activity(
                SUBMIT,
                SubmitRequest(message_id=message.message_id, attempt=claim.attempt),
                result_type=SubmitReply,
                start_to_close_timeout=timedelta(seconds=claim.submit_within_seconds),
                schedule_to_start_timeout=policies.SUBMIT_SCHEDULE_TO_START,
                retry_policy=policies.ONCE,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"submit attempt {claim.attempt}",
            )
        except ActivityError:
            workflow.logger.warning("submit_without_result")

    async def _finalize(self, message: MessageInput, claim: ClaimReply) -> FinalizeReply:
        """Settle; where the call may still be under way, wait for the end of its lease and look again."""
        while True:
            reply: FinalizeReply = await workflow.execute_local_activity(
                FINALIZE,
                FinalizeRequest(message_id=message.message_id, attempt=claim.attempt),
                result_type=FinalizeReply,
                start_to_close_timeout=policies.FINALIZE_START_TO_CLOSE,
                retry_policy=policies.UNTIL_IT_SUCCEEDS,
                summary=f"finalize attempt {claim.attempt}",
            )
            if reply.answer is not FinalAnswer.WAIT:
                return reply
            await _wait(reply.wait_seconds, "unanswered: wait for the end of the lease")


async def _wait(seconds: float, why: str) -> None:
    await workflow.sleep(max(timedelta(seconds=seconds), policies.SHORTEST_WAIT), summary=why)


def _unreachable(other: Never) -> Never:
    assert_never(other)
