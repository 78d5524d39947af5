"""What a person can do to a message's run with Temporal's own tools, by the calls that these make."""

from datetime import timedelta
from typing import Final
from uuid import uuid4

from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.activity.v1 import ActivityOptions
from temporalio.api.common.v1 import RetryPolicy, WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    PauseActivityRequest,
    ResetActivityRequest,
    ResetWorkflowExecutionRequest,
    UnpauseActivityRequest,
    UpdateActivityOptionsRequest,
)
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from db.records import MessageRef
from tests.waiting import until

PAUSED: Final = PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED
SCHEDULED: Final = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
ENDINGS: Final = ("terminate", "cancel", "delete")
#: How long the server may take for any of these on a busy machine.
SOON: Final = 20.0


async def pause(client: Client, message: MessageRef, activity: str) -> None:
    """Pause a pending activity: one that runs goes on, and is not started again."""
    await client.workflow_service.pause_activity(
        PauseActivityRequest(namespace=client.namespace, execution=_execution(message), type=activity, reason="tests")
    )


async def unpause(client: Client, message: MessageRef, activity: str) -> None:
    """Let a paused activity go on: one whose body has failed runs again, whatever its maximum of attempts."""
    await client.workflow_service.unpause_activity(
        UnpauseActivityRequest(namespace=client.namespace, execution=_execution(message), type=activity)
    )


async def reset_activity(client: Client, message: MessageRef, activity: str) -> None:
    """Have a pending activity begin anew, at its first attempt and at once."""
    await client.workflow_service.reset_activity(
        ResetActivityRequest(namespace=client.namespace, execution=_execution(message), type=activity)
    )


async def allow_attempts(
    client: Client, message: MessageRef, activity: str, *, attempts: int, every: timedelta = timedelta(milliseconds=50)
) -> None:
    """Raise the maximum of attempts of a pending activity."""
    policy = RetryPolicy(maximum_attempts=attempts, backoff_coefficient=1)
    policy.initial_interval.FromTimedelta(every)
    policy.maximum_interval.FromTimedelta(every)
    names = ("maximum_attempts", "initial_interval", "maximum_interval", "backoff_coefficient")
    paths = [f"retry_policy.{name}" for name in names]
    await client.workflow_service.update_activity_options(
        UpdateActivityOptionsRequest(
            namespace=client.namespace,
            execution=_execution(message),
            type=activity,
            activity_options=ActivityOptions(retry_policy=policy),
            update_mask=FieldMask(paths=paths),
        )
    )


async def reset_workflow(client: Client, message: MessageRef, event_id: int, *, run_id: str = "") -> str:
    """Have a new run go on from the end of a workflow task of this one, and give its id."""
    reset = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=_execution(message, run_id),
            reason="tests",
            workflow_task_finish_event_id=event_id,
            request_id=str(uuid4()),
        )
    )
    return reset.run_id


async def reset_points(client: Client, message: MessageRef, *, run_id: str | None = None) -> list[int]:
    """List the events to which a run can be reset: the ends of its workflow tasks."""
    history = await client.get_workflow_handle(message.workflow_id, run_id=run_id).fetch_history()
    return [event.event_id for event in history.events if event.HasField("workflow_task_completed_event_attributes")]


async def delete_run(client: Client, message: MessageRef) -> None:
    """Delete the latest run of a message with its history; one that runs is terminated."""
    await client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=_execution(message))
    )


async def end_run(client: Client, message: MessageRef, how: str) -> None:
    """End the latest run of a message: one of ENDINGS. A cancelled one may go on until its call has ended."""
    match how:
        case "terminate":
            await client.get_workflow_handle(message.workflow_id).terminate("tests")
        case "cancel":
            await client.get_workflow_handle(message.workflow_id).cancel()
        case _:
            assert how == "delete"
            await delete_run(client, message)


async def wipe(client: Client, message: MessageRef) -> None:
    """Delete every run of a message, as the end of the retention does, and wait until none is left."""

    async def is_gone() -> bool:
        if await described(client, message) is None:
            return True
        await delete_run(client, message)
        return False

    await until(is_gone, within=SOON, every=0.1)


async def described(client: Client, message: MessageRef) -> WorkflowExecutionDescription | None:
    """Describe the latest run of a message; None: it has none."""
    try:
        return await client.get_workflow_handle(message.workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def has_ended(client: Client, message: MessageRef) -> bool:
    """Say whether no run of a message is left that runs."""
    found = await described(client, message)
    return found is None or found.status is not WorkflowExecutionStatus.RUNNING


async def none_runs(client: Client, *messages: MessageRef) -> bool:
    """Say whether that holds for all of them."""
    return all([await has_ended(client, message) for message in messages])


async def pending(client: Client, message: MessageRef, activity: str) -> PendingActivityInfo | None:
    """Give what Temporal says of an activity that has not ended."""
    found = await described(client, message)
    infos = found.raw_description.pending_activities if found else ()
    return next((info for info in infos if info.activity_type.name == activity), None)


async def stands(client: Client, message: MessageRef, activity: str, state: int) -> None:
    """Wait until Temporal says this of an activity: `SCHEDULED`, `PAUSED`."""

    async def does() -> bool:
        info = await pending(client, message, activity)
        return info is not None and info.state == state

    await until(does, within=SOON)


def _execution(message: MessageRef, run_id: str = "") -> WorkflowExecution:
    return WorkflowExecution(workflow_id=message.workflow_id, run_id=run_id)
