"""Fencepost's side of a Temporal client: connecting, starting runs, the sweep's schedule, search attributes."""

from datetime import timedelta
from typing import Final

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.runtime import Runtime

from db.records import MessageRef
from workflows import policies
from workflows.contracts import MessageInput
from workflows.message import MessageWorkflow
from workflows.sweep import SweepWorkflow

TENANT: Final = SearchAttributeKey.for_keyword("FencepostTenant")
MESSAGE_ID: Final = SearchAttributeKey.for_keyword("FencepostMessageId")


class TemporalAwayError(Exception):
    """Nobody answers at Temporal's address."""


class MissingSearchAttributesError(Exception):
    """The namespace lacks our search attributes: run `fencepost temporal setup`."""


async def connect(*, lazy: bool = False, runtime: Runtime | None = None) -> Client:
    """Connect as Temporal's own settings say (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, ...; 127.0.0.1:7233 without them).

    Lazy: the first call connects, so that a process starts without Temporal. Raises TemporalAwayError.
    """
    options = ClientConfig.load_client_connect_config()
    options.setdefault("target_host", "127.0.0.1:7233")
    try:
        return await Client.connect(**options, lazy=lazy, runtime=runtime)
    except RuntimeError:  # what the SDK raises where nobody answers
        raise TemporalAwayError from None


async def start_message(client: Client, message: MessageRef) -> None:
    """Start the run of a message, or join the running one.

    A closed run doesn't keep a new one from starting: an operator's resend and the sweep need one, and claim and begin
    decide whether there is work. Raises RPCError or RuntimeError where Temporal is away.
    """
    try:
        await client.start_workflow(
            MessageWorkflow.run,
            MessageInput(message_id=str(message.id), tenant_id=message.tenant_id),
            id=message.workflow_id,
            task_queue=policies.MESSAGE_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=policies.WORKFLOW_TASK_TIMEOUT,
            rpc_timeout=policies.START_RPC_TIMEOUT,
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(TENANT, message.tenant_id), SearchAttributePair(MESSAGE_ID, str(message.id))]
            ),
            priority=Priority(priority_key=policies.PRIORITY_KEY, fairness_key=message.tenant_id[:64]),
            static_summary=f"message {message.id}",
            static_details="Claim, submit, finalize. Content, addresses and the outcome are in Fencepost, not here.",
        )
    except WorkflowAlreadyStartedError:
        return  # it runs, which is what was wanted


async def check_search_attributes(client: Client) -> None:
    """Raise MissingSearchAttributesError unless the namespace has ours: without them every start would fail."""
    known = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    if any(key.name not in known.custom_attributes for key in (TENANT, MESSAGE_ID)):
        raise MissingSearchAttributesError


async def register_search_attributes(client: Client) -> None:
    """Register ours with the namespace; those that are there stay."""
    try:
        await check_search_attributes(client)
    except MissingSearchAttributesError:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=client.namespace,
                search_attributes={
                    key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for key in (TENANT, MESSAGE_ID)
                },
            )
        )


async def ensure_sweep_schedule(client: Client, *, every: timedelta, update: bool = True) -> None:
    """Make the schedule of the sweep; with `update`, bring one that is there to this interval. Safe at any time."""
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            SweepWorkflow.run,
            id=policies.SWEEP_WORKFLOW_ID,
            task_queue=policies.MESSAGE_QUEUE,
            task_timeout=policies.WORKFLOW_TASK_TIMEOUT,
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=policies.SWEEP_CATCHUP),
    )
    try:
        await client.create_schedule(policies.SWEEP_SCHEDULE_ID, schedule)
    except ScheduleAlreadyRunningError:
        if not update:
            return
        handle = client.get_schedule_handle(policies.SWEEP_SCHEDULE_ID)

        def to_this(present: ScheduleUpdateInput) -> ScheduleUpdate | None:
            if present.description.schedule.spec.intervals == schedule.spec.intervals:
                return None
            schedule.state = present.description.schedule.state  # an operator's pause stays
            return ScheduleUpdate(schedule=schedule)

        await handle.update(to_this)
