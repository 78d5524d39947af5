"""Running the message workflow with scripted activities, on a real server or on one that skips time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from tests.workflows.branches import ScriptedActivities
from workflows import policies
from workflows.contracts import MessageInput, MessageResult
from workflows.message import MessageWorkflow


@asynccontextmanager
async def scripted_workers(client: Client, activities: ScriptedActivities) -> AsyncIterator[None]:
    """Serve both queues with a branch's activities."""
    async with AsyncExitStack() as stack:
        claim, *others = activities.all()
        await stack.enter_async_context(Worker(client, task_queue=policies.CLAIM_QUEUE, activities=[claim]))
        await stack.enter_async_context(
            Worker(client, task_queue=policies.MESSAGE_QUEUE, workflows=[MessageWorkflow], activities=others)
        )
        yield


async def ended(handle: WorkflowHandle[MessageWorkflow, MessageResult]) -> MessageResult:
    """Wait for a run's end, for a while."""
    return await asyncio.wait_for(handle.result(), 60)


async def start(client: Client, workflow_id: str | None = None) -> WorkflowHandle[MessageWorkflow, MessageResult]:
    """Start the workflow of a message that nobody stored: its activities are scripted."""
    return await client.start_workflow(
        MessageWorkflow.run,
        MessageInput(message_id=str(uuid4()), tenant_id="acme"),
        id=workflow_id or f"acme/{uuid4()}",
        task_queue=policies.MESSAGE_QUEUE,
    )
