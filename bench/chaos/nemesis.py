"""The nemesis: kills, stops and restarts parts of the stack, and does to it what people can do, by a seed."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from bench.chaos.load import Load
from bench.chaos.looks import Looks, Moment, Target
from bench.chaos.operator_calls import Operator
from bench.chaos.plan import Kind, Planned
from bench.chaos.records import Asked
from bench.chaos.stack import LEASE_SECONDS, SUBMIT_SECONDS, WORKERS, TormentedStack
from bench.chaos.temporal_operations import TemporalOperations

#: All faults on processes but these wait for a moment in which an attempt is open.
_UNAIMED_EVERY: Final = 5
#: What a provider event needs to be taken.
_TAKES_EVENTS: Final = frozenset({"api", "postgres"})
#: For the moment that was drawn; then for any open attempt.
_MOMENT_SECONDS: Final = 1.5
#: For a message in a moment that an operation needs, while the stack is being started again; one that was accepted
#: is there sooner or later.
_TARGET_SECONDS, _ACCEPTED_SECONDS = 20.0, 60.0
_TARGETS: Final = 5
_SERVED_SECONDS: Final = 8.0
_RUNS_SECONDS: Final = 15.0
#: Messages that wait while their sender is switched off.
_WAITING: Final = 3


@dataclass(slots=True, kw_only=True)
class Struck:
    """What the nemesis came to.

    Attributes:
        done: Faults that happened, by kind.
        missed: Those that found nothing to do them to.
        on_processes: How many of those that happened were on processes.
        aimed: How many of these hit while an attempt was seen to be open, or its events were on their way.
        switched_off: Messages that waited while their sender was switched off.

    """

    done: Counter[Kind] = field(default_factory=Counter)
    missed: Counter[Kind] = field(default_factory=Counter)
    on_processes: int = 0
    aimed: int = 0
    switched_off: set[str] = field(default_factory=set)


class Nemesis:
    """Strikes a stack.

    Args:
        stack: Whose processes get signals.
        looks: For moments to aim at.
        temporal: What can be done to runs.
        operator: What a person can do.
        load: Whose messages wait for a sender that is switched off.
        seed: Of everything that is drawn.

    """

    def __init__(
        self,
        *,
        stack: TormentedStack,
        looks: Looks,
        temporal: TemporalOperations,
        operator: Operator,
        load: Load,
        seed: int,
    ) -> None:
        self._stack = stack
        self._looks = looks
        self._temporal = temporal
        self._operator = operator
        self._load = load
        self._seed = seed
        self._provider_switch = asyncio.Lock()
        #: Each is ended once: the sweep asks for a run of one message once a minute only.
        self._runs_taken_away: set[str] = set()
        self._resets = 0
        self._reserved: dict[int, list[Planned]] = {}
        self.struck = Struck()

    async def run(self, kinds: Sequence[Kind], *, every: float) -> None:
        """Strike in this order, one each so many seconds; return when all is over and every part goes on."""
        for number, kind in enumerate(kinds, 1):
            if kind is Kind.SENDER_OFF:
                self._reserved[number] = self._load.take_plain(_WAITING)
        async with asyncio.TaskGroup() as group:
            for number, kind in enumerate(kinds, 1):
                await asyncio.sleep(every)
                await self._served()
                group.create_task(self._strike(number, kind))

    async def _served(self) -> None:
        """Wait, but not for long, until the stack has answered since the last fault: a dead one can't be hurt."""
        if self._load.left:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._load.answered.wait(), _SERVED_SECONDS)
        self._load.answered.clear()

    async def _strike(self, number: int, kind: Kind) -> None:
        # One of its own, so that what is drawn doesn't depend on how long others take.
        generator = random.Random(f"{self._seed}/{number}")  # noqa: S311 - to be repeated, not to be secret
        happened = await self._do(number, kind, generator)
        (self.struck.done if happened else self.struck.missed)[kind] += 1

    async def _do(self, number: int, kind: Kind, generator: random.Random) -> bool:
        match kind:
            case Kind.RESET:
                return await self._reset()
            case Kind.TERMINATE:
                return await self._on_a_run(Moment.OPEN_FIRST_RUN, self._temporal.terminate, self._runs_taken_away)
            case Kind.DELETE:
                return await self._on_a_run(Moment.OPEN_FIRST_RUN, self._temporal.delete, self._runs_taken_away)
            case Kind.PAUSE_ACTIVITY:
                # Sometimes past its time-out, after which Temporal would run a paused body again.
                pause = partial(self._temporal.pause_submit, seconds=generator.choice((0.3, 1.0, SUBMIT_SECONDS + 1)))
                return await self._on_a_run(Moment.BEGUN, pause, set())
            case Kind.PAUSE_PROVIDER:
                return await self._pause_provider(generator)
            case Kind.SENDER_OFF:
                return await self._switch_sender_off(number)
            case Kind.RESOLVE:
                return await self._operator.resolve_some(generator)
            case _:
                return await self._strike_process(number, kind, generator)

    async def _strike_process(self, number: int, kind: Kind, generator: random.Random) -> bool:
        how, _, part = kind.partition("_")
        name = f"worker-{generator.randint(1, WORKERS)}" if part == "worker" else part
        if not await self._runs(name):
            return False
        target = await self._aim(generator, part) if number % _UNAIMED_EVERY else None
        if target and part == "worker" and self._stack.pid(f"worker-{target.worker}"):
            name = f"worker-{target.worker}"
        match how:
            case "kill":
                happened = self._stack.signal(name, signal.SIGKILL)
            case "restart":
                # Postgres would wait for its clients to leave after a SIGTERM, which they don't.
                sign = signal.SIGINT if part == "postgres" else signal.SIGTERM
                happened = self._stack.signal(name, sign)
            case _:
                longer = generator.random() < 1 / 3
                seconds = generator.uniform(0.5, 1.5) + LEASE_SECONDS if longer else generator.uniform(0.3, 2.5)
                with self._stack.stopped(name) as happened:
                    await asyncio.sleep(seconds if happened else 0)
        self.struck.on_processes += happened
        self.struck.aimed += happened and target is not None
        return happened

    async def _aim(self, generator: random.Random, part: str) -> Target | None:
        """Wait for a moment in which an attempt is open: just claimed, begun, or recorded and not yet settled.

        What takes provider events is hit when some are on their way, too.
        """
        moments = [Moment.CLAIMED, Moment.BEGUN, Moment.BEGUN, Moment.RECORDED]
        if part in _TAKES_EVENTS:
            moments += [Moment.JUST_ACCEPTED] * len(moments)
        moment = generator.choice(moments)
        target = await self._looks.target(moment, within=_MOMENT_SECONDS)
        return target or await self._looks.target(Moment.OPEN, within=_MOMENT_SECONDS)

    async def _runs(self, name: str) -> bool:
        """Wait until a part runs; False where it doesn't."""
        for _ in range(round(_RUNS_SECONDS / 0.1)):
            if self._stack.pid(name):
                return True
            await asyncio.sleep(0.1)
        return False

    async def _reset(self) -> bool:
        """Reset a run whose message was accepted, and in turn one whose submit is under way."""
        self._resets += 1
        moment = Moment.ACCEPTED if self._resets % 2 else Moment.BEGUN
        return await self._on_a_run(moment, self._temporal.reset, set())

    async def _on_a_run(self, moment: Moment, operation: Callable[[str], Awaitable[bool]], tried: set[str]) -> bool:
        """Do it to the run of a message in this moment; where the moment is over by then, to another's."""
        within = _ACCEPTED_SECONDS if moment is Moment.ACCEPTED else _TARGET_SECONDS
        for _ in range(_TARGETS):
            target = await self._looks.target(moment, within=within, but=frozenset(tried))
            if target is None:
                return False
            tried.add(target.message_id)
            if await operation(target.workflow_id):
                return True
        return False

    async def _pause_provider(self, generator: random.Random) -> bool:
        async with self._provider_switch:
            paused = await self._operator.switch(paused=True)
            await asyncio.sleep(generator.uniform(0.5, 3) if paused else 0)
            return await self._operator.switch(paused=False) and paused

    async def _switch_sender_off(self, number: int) -> bool:
        """Switch a sender off while messages of it wait, held back by a pause of the provider."""
        sender = waiting_sender(number)
        async with self._provider_switch:
            taken = self._reserved.pop(number, [])
            paused = bool(taken) and await self._operator.switch(paused=True)
            # Where it isn't paused, what was taken goes out as any other.
            of_sender = {"sender": sender} if paused else {}
            held = [
                replace(each, command=each.command | of_sender, replay_after=None, conflict_after=None)
                for each in taken
            ]
            sent = [await self._load.send(each) for each in held]
            disabled = paused and await self._operator.disable(sender)
            resumed = paused and await self._operator.switch(paused=False)
        for each in held:
            await self._load.ask(Asked.REPLAY, each.key, each.command)
        if disabled:
            self.struck.switched_off.update(message_id for message_id in sent if message_id)
        return disabled and resumed


def waiting_sender(number: int) -> str:
    """Name the sender that the fault with this number switches off."""
    return f"waiting-{number}"
