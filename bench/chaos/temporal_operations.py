"""Temporal turned against us: what anyone with its UI can do to a run, and what runs the body of submit again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypedDict
from uuid import uuid4

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    PauseActivityRequest,
    ResetWorkflowExecutionRequest,
    UnpauseActivityRequest,
)
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.contracts import CLAIM, SUBMIT

#: The activities whose bodies submit: usually the claim goes on to, and else there is one for it.
_SUBMITTING: Final = frozenset({CLAIM, SUBMIT})
#: For one call; a server that is stopped or being started gives no answer.
_ANSWER_SECONDS: Final = 5.0
_TRIES: Final = 10
_PAUSE_SECONDS: Final = 1.0
_NO_SUCH_THING: Final = frozenset(
    {RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.INVALID_ARGUMENT}
)


class _Run(TypedDict):
    namespace: str
    execution: WorkflowExecution


class TemporalOperations:
    """Operations on runs; each is tried again while Temporal is away. False: there was nothing to do it to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reset_runs: set[tuple[str, str]] = set()

    async def reset(self, workflow_id: str) -> bool:
        """Reset the newest run to the workflow task that scheduled its last attempt, which is then scheduled again."""
        return await _persistently(lambda: self._reset(workflow_id))

    async def terminate(self, workflow_id: str) -> bool:
        """Terminate the running run."""
        return await _persistently(lambda: self._terminate(workflow_id))

    async def delete(self, workflow_id: str) -> bool:
        """Delete the newest run with its history."""
        return await _persistently(lambda: self._delete(workflow_id))

    async def pause_submit(self, workflow_id: str, *, seconds: float) -> bool:
        """Pause the attempt that is under way, and let it go on after a while."""
        paused: list[str] = []

        async def pause() -> bool:
            pending = (await self._client.get_workflow_handle(workflow_id).describe()).raw_description
            for activity in pending.pending_activities:
                if activity.activity_type.name in _SUBMITTING:
                    await self._client.workflow_service.pause_activity(
                        PauseActivityRequest(id=activity.activity_id, reason="chaos", **self._run(workflow_id))
                    )
                    paused.append(activity.activity_id)
            return bool(paused)

        async def unpause() -> bool:
            await self._client.workflow_service.unpause_activity(
                UnpauseActivityRequest(id=paused[0], **self._run(workflow_id))
            )
            return True

        if not await _persistently(pause):
            return False
        await asyncio.sleep(seconds)
        # Ended meanwhile, it needs none. One that stays paused would hold its run for ever, so this is tried for long.
        await _persistently(unpause, tries=_TRIES * 3)
        return True

    async def resets_ended(self) -> bool:
        """Tell whether every run that came from a reset has ended, so that what it does again is done."""
        return all([await _persistently(lambda run=run: self._has_ended(*run)) for run in self._reset_runs])  # type: ignore[misc]  # a bound value

    async def _reset(self, workflow_id: str) -> bool:
        handle = self._client.get_workflow_handle(workflow_id)
        run_id = (await handle.describe()).run_id
        before_attempt = 0
        async for event in self._client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events():
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name in _SUBMITTING:
                before_attempt = scheduled.workflow_task_completed_event_id
        if not before_attempt:
            return False
        new = await self._client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=self._client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
                reason="chaos",
                workflow_task_finish_event_id=before_attempt,
                request_id=str(uuid4()),
            )
        )
        self._reset_runs.add((workflow_id, new.run_id))
        return True

    async def _terminate(self, workflow_id: str) -> bool:
        await self._client.get_workflow_handle(workflow_id).terminate(reason="chaos")
        return True

    async def _delete(self, workflow_id: str) -> bool:
        await self._client.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=self._client.namespace, workflow_execution=WorkflowExecution(workflow_id=workflow_id)
            )
        )
        return True

    def _run(self, workflow_id: str) -> _Run:
        return {"namespace": self._client.namespace, "execution": WorkflowExecution(workflow_id=workflow_id)}

    async def _has_ended(self, workflow_id: str, run_id: str) -> bool:
        try:
            described = await self._client.get_workflow_handle(workflow_id, run_id=run_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:  # deleted since
                return True
            raise
        return described.status is not WorkflowExecutionStatus.RUNNING


async def _persistently(operation: Callable[[], Awaitable[bool]], *, tries: int = _TRIES) -> bool:
    """Try until Temporal answers; False where it says that there is no such thing, or doesn't answer at all."""
    for _ in range(tries):
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await operation()
        except TimeoutError:
            pass
        except RPCError as error:
            if error.status in _NO_SUCH_THING:
                return False
        await asyncio.sleep(_PAUSE_SECONDS)
    return False
