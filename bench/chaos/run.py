"""One chaos run: start, prepare, torment under load, let it settle, and gather what every witness has seen."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg
import httpx
from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError

from bench.chaos import plan, simulator_record, stack as stacks
from bench.chaos.gathering import gather
from bench.chaos.load import Load
from bench.chaos.looks import Looks
from bench.chaos.nemesis import Nemesis, Struck, waiting_sender
from bench.chaos.operator_calls import Operator
from bench.chaos.plan import Kind, Planned
from bench.chaos.preparing import OtherTenant, make_other_tenant, publish
from bench.chaos.records import Observed
from bench.chaos.temporal_operations import TemporalOperations
from bench.correctness import WrongRun
from bench.measuring import Stopwatch
from dev.simulator.events import AMBIGUOUS_SECONDS

#: What a busy machine takes to start its parts again and to work off what waited.
BUSY_SECONDS: Final = 90.0
#: The latest events of a submission come so many seconds after it.
SETTLED_WITHIN: Final = stacks.LEASE_SECONDS + 2 * stacks.SWEEP_SECONDS + AMBIGUOUS_SECONDS + BUSY_SECONDS
#: Until every part that was killed last answers again.
_READY_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 10.0
#: Between two looks into the simulator's record, for each of which it is stopped.
_RECORD_EVERY_SECONDS: Final = 2.0
_TOLD_EVERY_SECONDS: Final = 10.0
#: Of all commands, asked for again when everything has settled.
_REPLAYED: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What is asked of a run."""

    messages: int
    faults: int
    seed: int
    rate: float  #: messages a second
    only: Collection[Kind] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run has seen."""

    observed: Observed
    struck: Struck
    retries: dict[str, int]  #: how often the client had to ask again, by why
    load_seconds: float  #: until the last answer, and the last fault was over
    settled_seconds: float | None  #: after the end of the load and the faults; None: not within the bound


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """All that takes part in a run."""

    stack: stacks.TormentedStack
    tenant: httpx.AsyncClient
    other: OtherTenant
    temporal: Client
    load: Load
    operator: Operator
    operations: TemporalOperations
    looks: Looks
    nemesis: Nemesis


async def run(extent: Extent, folder: Path, say: Callable[[str], None]) -> Ran:
    """Run it in this folder. Raises StartRefused and WrongRun where there is nothing to judge."""
    generator = random.Random(extent.seed)  # noqa: S311 - to be repeated, not to be secret
    messages = plan.messages(generator, extent.messages)
    faults = plan.faults(generator, extent.faults, extent.only)
    async with stacks.running(folder) as stack, _parts(stack, extent, messages, faults) as parts:
        load_seconds = await _torment(parts, faults, every=extent.messages / extent.rate / (len(faults) + 1), say=say)
        say(f"settling; {SETTLED_WITHIN:.0f} s at most")
        settled_seconds = await _settle(parts)
        await parts.load.replay_some(generator, _REPLAYED)
        say("gathering what every witness has seen")
        observed = await _gather(parts)
    return Ran(
        observed=observed,
        struck=parts.nemesis.struck,
        retries=dict(parts.load.retries),
        load_seconds=load_seconds,
        settled_seconds=settled_seconds,
    )


@asynccontextmanager
async def _parts(
    stack: stacks.TormentedStack, extent: Extent, messages: Sequence[Planned], faults: Sequence[Kind]
) -> AsyncIterator[_Parts]:
    """Connect to everything, and prepare what the run needs."""
    keys = stack.description
    async with _client(stack, keys["api_key"]) as tenant, _client(stack, keys["operator_key"]) as operator_http:
        senders = [waiting_sender(number) for number, kind in enumerate(faults, 1) if kind is Kind.SENDER_OFF]
        await publish(tenant, senders)
        other = await make_other_tenant(operator_http)
        # By default its client tells the screen of every call that found no server; that is what is done to it here.
        silent = Runtime(telemetry=TelemetryConfig(logging=None))
        address, namespace = keys["temporal_address"], keys["temporal_namespace"]
        temporal = await Client.connect(address, namespace=namespace, runtime=silent)
        load, operator = Load(tenant, messages, rate=extent.rate), Operator(operator_http, tenant)
        operations, looks = TemporalOperations(temporal), Looks(keys["database_url"])
        try:
            yield _Parts(
                stack=stack,
                tenant=tenant,
                other=other,
                temporal=temporal,
                load=load,
                operator=operator,
                operations=operations,
                looks=looks,
                nemesis=Nemesis(
                    stack=stack, looks=looks, temporal=operations, operator=operator, load=load, seed=extent.seed
                ),
            )
        finally:
            looks.close()


async def _torment(parts: _Parts, faults: Sequence[Kind], *, every: float, say: Callable[[str], None]) -> float:
    """Send everything while the nemesis strikes; return the seconds until both are through."""
    watch = Stopwatch()
    async with asyncio.TaskGroup() as group:
        telling = group.create_task(_tell(parts, say))
        loading = group.create_task(parts.load.run())
        await parts.nemesis.run(faults, every=every)
        parts.load.faults_are_over()
        await loading
        telling.cancel()
    return watch.seconds


async def _settle(parts: _Parts) -> float | None:
    """Wait until nothing is on its way any more, and no event about it; give the seconds.

    None: it was not within the bound.
    """
    await _ready(parts.stack, parts.tenant)
    if not parts.operator.provider_runs:
        await parts.operator.switch(paused=False)
    watch = Stopwatch()
    while watch.seconds < SETTLED_WITHIN:
        if await parts.looks.unsettled() == 0 and await parts.operations.resets_ended():
            record = await simulator_record.read(parts.stack)
            if record is not None and record.all_published():
                return watch.seconds
            await asyncio.sleep(_RECORD_EVERY_SECONDS)
        await asyncio.sleep(0.2)
    return None


async def _gather(parts: _Parts) -> Observed:
    """Gather with the workers stopped: what goes on all the same must not make the witnesses' stories differ."""
    with ExitStack() as stopped:
        for number in range(1, stacks.WORKERS + 1):
            stopped.enter_context(parts.stack.stopped(f"worker-{number}"))
        record = await simulator_record.read(parts.stack)
        if record is None:
            raise WrongRun("the simulator doesn't run, though nothing torments it")
        try:
            async with _client(parts.stack, parts.other.key) as other_tenant:
                return await gather(
                    stack=parts.stack,
                    load=parts.load,
                    record=record,
                    actions=(*parts.other.actions, *parts.operator.actions),
                    switched_off=parts.nemesis.struck.switched_off,
                    tenant=parts.tenant,
                    other_tenant=other_tenant,
                    temporal=parts.temporal,
                )
        except (httpx.HTTPError, asyncpg.PostgresError, OSError, RPCError) as error:
            what = type(error).__name__
            raise WrongRun(f"a witness could not be asked ({what}), though nothing is tormented any more") from None


async def _ready(stack: stacks.TormentedStack, tenant: httpx.AsyncClient) -> None:
    """Wait until the parts that were killed last answer again. Raises WrongRun."""
    give_up_at = time.monotonic() + _READY_SECONDS
    while time.monotonic() < give_up_at:
        try:
            told = (await tenant.get("/readyz")).json()
            if told.get("database") == told.get("temporal") == "reachable" and stack.all_run():
                return
        except (httpx.TransportError, ValueError):
            pass
        await asyncio.sleep(0.2)
    raise WrongRun(f"not every part answered within {_READY_SECONDS:.0f} s after the last fault")


async def _tell(parts: _Parts, say: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(_TOLD_EVERY_SECONDS)
        load, happened = parts.load, parts.nemesis.struck.done.total()
        say(f"{len(load.answers)} answers, {load.left} messages left to send, {happened} faults so far")


def _client(stack: stacks.TormentedStack, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=stack.description["api_url"],
        headers={"Authorization": f"Bearer {key}"},
        limits=httpx.Limits(max_connections=100),
        timeout=_ANSWER_SECONDS,
        trust_env=False,
    )
