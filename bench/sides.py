"""The two sides of a comparison: Fencepost's own workflow, and the bare one, started and awaited by one client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import uuid4

import psutil
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from api import keys
from api.auth import TenantCaller
from api.command import parse_command
from api.intake import Intake
from api.starter import Starter
from bench.bare_workflow import TASK_QUEUE, BareWorkflow
from bench.correctness import WrongRun
from bench.stack import Stack
from db.engine import DatabaseSettings, create_engine
from db.ids import TenantId
from db.intake import IntakeStore
from db.lifecycle import State
from db.records import MessageRef
from dev.seed import TENANT
from workflows import policies
from workflows.contracts import MessageInput, MessageResult
from workflows.temporal import start_message

COMMAND: Final = (
    b'{"to": "Ada <ada@example.com>", "sender": "demo", "template": {"key": "welcome", "version": 1},'
    b' "context": {"name": "Ada"}}'
)
#: Far beyond any run that goes on; a message whose answer was lost is settled within a lease.
_STILL_SECONDS: Final = 120.0
_DONE: Final = MessageResult(state=State.PROVIDER_ACCEPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A message whose workflow was not started yet."""

    message_id: str
    workflow_id: str
    start: Callable[[], Awaitable[object]]


class Side(Protocol):
    """One side: who prepares messages, and the worker process that drives them."""

    worker: psutil.Process

    async def prepare(self, count: int) -> list[Prepared]:
        """Make messages and hold their starts back."""
        ...


class Fencepost:
    """Messages accepted by the product's own intake, and driven by its own workflow."""

    def __init__(self, client: Client, stack: Stack) -> None:
        self.worker = psutil.Process(stack.pids["worker-1"])
        self._client = client
        self._address_key = stack.kept.address_key.encode()
        settings = DatabaseSettings.model_validate({"url": stack.role_url("fencepost_api")})
        self._engine = create_engine(settings, application="bench")
        key = keys.parse(stack.kept.api_key or "")
        if key is None:
            raise RuntimeError("the stack has no API key")
        self._caller = TenantCaller(credential_id=key.key_id, tenant_id=TenantId(TENANT), tenant_active=True)

    async def prepare(self, count: int) -> list[Prepared]:
        """Accept commands with keys of their own."""
        held: list[MessageRef] = []

        async def hold(message: MessageRef) -> None:
            held.append(message)

        starter = Starter(hold)
        starter.open()
        intake = Intake(IntakeStore(self._engine), starter, address_key=self._address_key)
        command = parse_command(COMMAND)
        for _ in range(count):
            await intake.accept(self._caller, str(uuid4()), command)
        await starter.close()
        return [self._held(message) for message in held]

    async def close(self) -> None:
        """Let the database go."""
        await self._engine.dispose()

    def _held(self, message: MessageRef) -> Prepared:
        return Prepared(
            message_id=str(message.id),
            workflow_id=message.workflow_id,
            start=lambda: start_message(self._client, message),
        )


class Bare:
    """Messages that are an id, and driven by the bare workflow."""

    def __init__(self, client: Client, pid: int) -> None:
        self.worker = psutil.Process(pid)
        self._client = client

    async def prepare(self, count: int) -> list[Prepared]:
        """Choose ids."""
        return [self._held(str(uuid4())) for _ in range(count)]

    def _held(self, message_id: str) -> Prepared:
        workflow_id = f"bare/{message_id}"
        return Prepared(
            message_id=message_id,
            workflow_id=workflow_id,
            start=lambda: self._client.start_workflow(
                BareWorkflow.run,
                MessageInput(message_id=message_id, tenant_id=TENANT),
                id=workflow_id,
                task_queue=TASK_QUEUE,
                task_timeout=policies.WORKFLOW_TASK_TIMEOUT,
            ),
        )


@asynccontextmanager
async def both(client: Client, stack: Stack) -> AsyncIterator[tuple[Fencepost, Bare]]:
    """Run the bare worker beside the product's, and give both sides."""
    async with stack.baseline("bench.bare_worker", database_url=stack.role_url("fencepost_worker")) as pid:
        ours = Fencepost(client, stack)
        try:
            yield ours, Bare(client, pid)
        finally:
            await ours.close()


async def drive(client: Client, message: Prepared) -> None:
    """Start a message's workflow and wait for its result. Raises WrongRun for any but `provider_accepted`, or none."""
    handle = client.get_workflow_handle(message.workflow_id, result_type=MessageResult)
    try:
        async with asyncio.timeout(_STILL_SECONDS):
            while not await _started(message):
                pass
            result = await handle.result()
    except TimeoutError:
        raise WrongRun(f"a message did not end within {_STILL_SECONDS:.0f} s") from None
    if result != _DONE:
        raise WrongRun(f"a message ended as {result.state} instead of {_DONE.state}")


async def _started(message: Prepared) -> bool:
    """Start it; False where Temporal took too long to answer. Then it is asked again, and joins what runs."""
    try:
        await message.start()
    except RPCError as error:
        # What the SDK makes of its own time-out. The product leaves such a start to the sweep, which is paused here.
        if error.status is not RPCStatusCode.CANCELLED:
            raise
        return False
    return True


async def drive_all(client: Client, messages: Iterable[Prepared], *, in_flight: int) -> None:
    """Drive messages, so many at a time. Raises WrongRun."""
    waiting = iter(messages)

    async def lane(waiting: Iterator[Prepared]) -> None:
        for message in waiting:
            await drive(client, message)

    lanes = [asyncio.create_task(lane(waiting)) for _ in range(in_flight)]
    try:
        await asyncio.gather(*lanes)
    finally:
        for task in lanes:
            task.cancel()
