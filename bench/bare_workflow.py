"""The baseline's workflow: one plain activity, and nothing around it."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.contracts import MessageInput, MessageResult

TASK_QUEUE = "bench-bare"
#: Not retried, as ours: a second request could be a second mail.
SUBMIT_START_TO_CLOSE = policies.WORKFLOW_TASK_TIMEOUT * 4


@workflow.defn(name="Bare")
class BareWorkflow:
    """Has a message submitted."""

    @workflow.run
    async def run(self, message: MessageInput) -> MessageResult:
        """Submit, and end."""
        result: MessageResult = await workflow.execute_activity(
            "bare-submit",
            message,
            result_type=MessageResult,
            start_to_close_timeout=SUBMIT_START_TO_CLOSE,
            retry_policy=policies.ONCE,
        )
        return result
