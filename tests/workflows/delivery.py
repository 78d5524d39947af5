"""The worker's parts as they are composed, on real Postgres and a real Temporal server, for tests to drive."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import Worker
from typing_extensions import override

from activities.contracts import SweepReply
from activities.provider import Provider, Request
from db.decisions import Limits
from db.engine import UnavailableError
from db.ids import MessageId
from db.lifecycle import State
from db.records import CallResult, MessageRef, Submission
from db.store import Claimed, MessageStore
from tests.factories import state_of
from tests.fakes import ACCEPTED, ScriptedProvider
from tests.waiting import until
from worker import THREADS_A_SLOT, DeliverySettings, WorkerSettings, build_sweep, build_workers
from workflows.contracts import MessageResult
from workflows.temporal import start_message

DELIVERY = DeliverySettings(
    call_budget_seconds=1,
    submit_timeout_seconds=2,
    lease_seconds=4,
    shutdown_grace_seconds=5,
    sweep_seconds=0.1,
    backoff_base_seconds=0.05,
    backoff_cap_seconds=0.2,
    pause_look_seconds=0.2,
)
#: For what must happen while a call is under way, and waits for no lease's end.
PATIENT = DELIVERY.model_copy(
    update={"submit_timeout_seconds": 20, "lease_seconds": 40, "shutdown_grace_seconds": 20, "call_budget_seconds": 10}
)
#: For what must happen before submit is timed out, and then before its lease is over.
LONG_LEASE = DELIVERY.model_copy(update={"submit_timeout_seconds": 5, "lease_seconds": 9, "shutdown_grace_seconds": 6})


class SubmitsApart(MessageStore):
    """Loses the reply to each claim once: Temporal runs it again, and submit becomes an activity of its own."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self._lost: set[str] = set()

    @override
    async def claim(
        self, message_id: MessageId, *, claim_id: str, owner: str, lease: timedelta, limits: Limits
    ) -> Claimed:
        claimed = await super().claim(message_id, claim_id=claim_id, owner=owner, lease=lease, limits=limits)
        if claim_id in self._lost:
            return claimed
        self._lost.add(claim_id)
        raise UnavailableError


@dataclass(frozen=True, slots=True)
class Delivery:
    """A worker's parts, and ways to ask for a message's run."""

    client: Client
    store: MessageStore
    connection: asyncpg.Connection

    async def run(self, message: MessageRef) -> State:
        """Start a message's run and wait for its end."""
        await start_message(self.client, message)
        return await self.end(message)

    async def end(self, message: MessageRef) -> State:
        """Wait for the end of a message's run, and give the state it ended with."""
        return (await asyncio.wait_for(self.handle(message).result(), 60)).state

    def handle(self, message: MessageRef) -> WorkflowHandle[object, MessageResult]:
        return self.client.get_workflow_handle(message.workflow_id, result_type=MessageResult)

    @property
    def apart(self) -> SubmitsApart:
        """A store with which submit is an activity of its own."""
        return SubmitsApart(self.store.engine)

    async def status(self, message: MessageRef) -> WorkflowExecutionStatus | None:
        return (await self.handle(message).describe()).status

    async def sweep(self) -> SweepReply:
        """Sweep once, as the Schedule and the command line do."""
        return await build_sweep(self.store, self.client, DELIVERY).sweep()

    async def states_of(self, *messages: MessageRef) -> list[State]:
        """Read where messages stand."""
        return [await state_of(self.connection, message) for message in messages]

    async def swept_into(self, states: Mapping[MessageRef, State], *, within: float = 30) -> None:
        """Sweep again and again until each of these messages stands in its state."""
        found: dict[MessageRef, State] = {}

        async def stand_there() -> bool:
            await self.sweep()
            found.update(zip(states, await self.states_of(*states), strict=True))
            return found == states

        with contextlib.suppress(AssertionError):
            await until(stand_there, within=within, every=0.1)
        assert found == states

    def workers(
        self,
        provider: Provider[Request],
        executor: ThreadPoolExecutor,
        *,
        times: DeliverySettings = DELIVERY,
        slots: int = 8,
        store: MessageStore | None = None,
    ) -> tuple[Worker, Worker]:
        """Build the workers of claims and of everything else."""
        return build_workers(
            client=self.client,
            store=store or self.store,
            provider=provider,
            executor=executor,
            settings=WorkerSettings(name="test", slots=slots),
            delivery=times,
        )

    @asynccontextmanager
    async def working(
        self,
        provider: ScriptedProvider,
        *,
        times: DeliverySettings = DELIVERY,
        slots: int = 8,
        store: MessageStore | None = None,
    ) -> AsyncIterator[None]:
        """Run one worker process's workers in this one."""
        with ThreadPoolExecutor(THREADS_A_SLOT * slots) as executor:
            workers = self.workers(provider, executor, times=times, slots=slots, store=store)
            async with workers[0], workers[1]:
                try:
                    yield
                finally:
                    provider.may_answer.set()


@dataclass(slots=True)
class CountingProvider(ScriptedProvider):
    """Answers each message by a script of its own, and counts the bodies of submit besides the calls."""

    scripts: dict[MessageId, list[CallResult]] = field(default_factory=dict)
    bodies: Counter[MessageId] = field(default_factory=Counter)
    #: These may be answered while `may_answer` is clear.
    answerable: set[MessageId] = field(default_factory=set)

    @override
    def prepare(self, submission: Submission) -> Submission:
        self.bodies[submission.message_id] += 1
        return submission

    @override
    def call(self, request: Submission, *, deadline: float) -> CallResult:
        called = request.message_id
        turn = self.times_called()[called]
        self.calls.append(request)
        self.called.set()
        give_up_at = time.monotonic() + 60
        while not (self.may_answer.wait(0.02) or called in self.answerable):
            assert time.monotonic() < give_up_at
        script = self.scripts.get(called, [ACCEPTED])
        return script[min(turn, len(script) - 1)]

    def times_called(self) -> Counter[MessageId]:
        """Count the calls of each message."""
        return Counter(submission.message_id for submission in self.calls)

    async def calls_under_way(self, *messages: MessageRef) -> None:
        """Wait until each of these messages was called for."""
        await until(lambda: all(self.times_called()[message.id] for message in messages), within=20)
