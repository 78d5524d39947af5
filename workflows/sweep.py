"""The workflow that a Temporal Schedule starts every few seconds: one sweep."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.contracts import SWEEP, SweepReply
    from workflows import policies


@workflow.defn(name="Sweep")
class SweepWorkflow:
    """Sweeps once. A failed sweep is made up for by the next, so it is not retried."""

    @workflow.run
    async def run(self) -> SweepReply:
        """Sweep, and say how many messages were settled and started."""
        reply: SweepReply = await workflow.execute_activity(
            SWEEP,
            result_type=SweepReply,
            start_to_close_timeout=policies.SWEEP_START_TO_CLOSE,
            heartbeat_timeout=policies.SWEEP_HEARTBEAT,
            retry_policy=policies.ONCE,
            summary="settle expired leases, start what should run",
        )
        return reply
