"""The three fenced steps of a message, by the product's own store and provider, for engines other than Temporal."""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from activities.ses import SesProvider, SesSettings
from activities.submit import BEGIN_MARGIN
from db.decisions import BeginAnswer, ClaimAnswer
from db.engine import DatabaseSettings, Engine, create_engine
from db.ids import MessageId
from db.records import CallResult
from db.store import MessageStore, Recorded
from worker import DeliverySettings

#: As many messages at once as the product's worker takes.
IN_FLIGHT: Final = 50
#: For a connection. The product's worker tries again where Temporal tells it to; a baseline would break the run off.
_PATIENT_SECONDS: Final = 60.0


class StepFailedError(Exception):
    """A step said no, in a run in which nothing stands in its way; the text is its answer."""


class FencedSteps:
    """Claim, submit and finalize, with what the product's worker has: settings, pool, threads.

    Args:
        engine: The product's database, as its worker's role.
        provider: Who takes the mail.
        executor: Threads for the provider's blocking call, one for each message in flight.
        delivery: Times and limits.
        owner: Who takes the leases.

    """

    def __init__(
        self,
        engine: Engine,
        provider: SesProvider,
        executor: ThreadPoolExecutor,
        *,
        delivery: DeliverySettings,
        owner: str,
    ) -> None:
        self.engine = engine
        self._store = MessageStore(engine)
        self._provider = provider
        self._executor = executor
        self._owner = owner
        self._lease = timedelta(seconds=delivery.lease_seconds)
        self._budget = timedelta(seconds=delivery.call_budget_seconds)
        self._limits = delivery.limits()

    async def claim(self, message: str, claim_id: str) -> int:
        """Take the lease, and give the number of its attempt."""
        claimed = await self._store.claim(
            _id(message), claim_id=claim_id, owner=self._owner, lease=self._lease, limits=self._limits
        )
        if claimed.answer is not ClaimAnswer.LEASED:
            raise StepFailedError(claimed.answer)
        return claimed.attempt

    async def submit(self, message: str, attempt: int) -> None:
        """Begin, call the provider once, and record what came of it."""
        begin_id, result = await self._call(message, attempt)
        _must_be_recorded(await self._store.record(_id(message), attempt, begin_id=begin_id, result=result))

    async def finalize(self, message: str, attempt: int) -> str:
        """Settle the lease by what its row says, and give the state of the message."""
        return (await self._store.finalize(_id(message), attempt, limits=self._limits)).state

    async def at_once(self, message: str, claim_id: str) -> str:
        """Take all three in one go, with record and finalize as one transaction, as the product's own body does."""
        attempt = await self.claim(message, claim_id)
        begin_id, result = await self._call(message, attempt)
        recorded, finalized = await self._store.conclude(
            _id(message), attempt, begin_id=begin_id, result=result, limits=self._limits
        )
        _must_be_recorded(recorded)
        if finalized is None:
            raise StepFailedError(recorded)
        return finalized.state

    async def _call(self, message: str, attempt: int) -> tuple[UUID, CallResult]:
        submission = await self._store.submission(_id(message), attempt)
        request = self._provider.prepare(submission)
        begin_id = uuid4()
        deadline = time.monotonic() + self._budget.total_seconds()
        begun = await self._store.begin(_id(message), attempt, begin_id=begin_id, needs=self._budget + BEGIN_MARGIN)
        if begun.answer is not BeginAnswer.BEGUN:
            raise StepFailedError(begun.answer)
        result = await asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: self._provider.call(request, deadline=deadline)
        )
        return begin_id, result


@asynccontextmanager
async def opened(owner: str) -> AsyncIterator[FencedSteps]:
    """Compose the steps from the environment, as the product's worker composes its own."""
    patient = {"connect_timeout_seconds": _PATIENT_SECONDS, "pool_timeout_seconds": _PATIENT_SECONDS}
    engine = create_engine(DatabaseSettings().model_copy(update=patient), application=f"bench-{owner}")
    with ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="provider") as executor:
        provider = SesProvider(SesSettings(), connections=IN_FLIGHT)
        yield FencedSteps(engine, provider, executor, delivery=DeliverySettings(), owner=owner)
    await engine.dispose()


def _id(message: str) -> MessageId:
    return MessageId(UUID(message))


def _must_be_recorded(recorded: Recorded) -> None:
    if recorded is not Recorded.RECORDED:
        raise StepFailedError(recorded)
