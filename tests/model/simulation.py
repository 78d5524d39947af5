"""Many logical workers on a virtual clock, and everything that can go wrong between them, from one seed.

An actor is a generator: each `yield` gives the seconds until it goes on, and is a point where anybody else may come in
between, where it may stop for ever, or freeze. A transaction happens within one step.
"""

import random
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeVar

from db.decisions import Limits
from db.lifecycle import CLAIMABLE, State
from tests.model.invariants import Request, Watch
from tests.model.memory_rows import Clock
from tests.model.memory_store import GuardError, MemoryStore

Result = TypeVar("Result")
Steps = Generator[float, None, None]

LEASE: Final = 60.0
SWEEP_EVERY: Final = 10.0
LIMITS: Final = Limits(
    attempts=3,
    max_age=timedelta(minutes=3),
    backoff_base=timedelta(seconds=2),
    backoff_cap=timedelta(seconds=40),
    account_wait=timedelta(seconds=60),
)
#: After the last fault every lease of before is over and two sweeps have come.
_CALM_AFTER: Final = LEASE + 2 * SWEEP_EVERY
#: Far more than every wait that is left can take; a message that is not settled by then never is.
_END_WITHIN: Final = 40 * LEASE


class BreachError(AssertionError):
    """An invariant did not hold; its text has the seed and the whole trace."""

    def __init__(self, seed: int, names: Iterable[str], trace: Iterable[str]) -> None:
        self.names = tuple(names)
        story = "\n".join(trace)
        super().__init__(f"seed {seed}: {'; '.join(self.names)}\n{story}")


class UnansweredError(Exception):
    """A transaction's reply was lost: it happened, or it did not."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How often things go wrong; each seed draws its own: some see much of one thing and none of another."""

    crash: float  #: an actor stops for ever at a step
    freeze: float  #: an actor stands still, mostly past its lease
    lose: float  #: a reply is lost, before or after the COMMIT
    twice: float  #: Temporal runs a body again (reset, unpause)
    impatient: float  #: Temporal gives a body up early

    @classmethod
    def drawn(cls, choices: random.Random) -> "Faults":
        rates = (0.0, 0.03, 0.15)
        crash, freeze, lose = (choices.choice(rates) for _ in range(3))
        return cls(crash, freeze, lose, choices.choice((0.0, 0.3)), choices.choice((0.0, 0.3)))


@dataclass(slots=True, eq=False)
class ActorTask:
    """An actor at work."""

    name: str
    steps: Steps
    wake: float
    mortal: bool  #: may crash or freeze: it stands for a process of ours
    meddles: bool  #: goes with the faults
    waits_for_it: "ActorTask | None" = None
    held_up: bool = False  #: frozen, or started late; ends with the faults


@dataclass(slots=True, eq=False)
class Simulation:
    """One message, its actors, and the scheduler that picks who comes next."""

    seed: int
    store_type: type[MemoryStore] = MemoryStore
    only: str = "I"  #: heed only these invariants, by the beginning of their names; I8 always ends a story
    choices: random.Random = field(init=False)
    clock: Clock = field(init=False, default_factory=Clock)
    store: MemoryStore = field(init=False)
    faults: Faults = field(init=False)
    faulty: bool = field(init=False, default=True)
    journal: list[Request] = field(init=False, default_factory=list)
    actors: list[ActorTask] = field(init=False, default_factory=list)
    trace: list[str] = field(init=False, default_factory=list)
    acting: ActorTask | None = field(init=False, default=None)
    _names: int = field(init=False, default=0)
    _watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.choices = random.Random(self.seed)  # noqa: S311  (to be repeated, not to be secret)
        self.faults = Faults.drawn(self.choices)
        self.store = self.store_type(self.clock, self.choices, limits=LIMITS, lease=LEASE)
        self._watch = Watch(self.store, self.journal)

    def spawn(
        self,
        name: str,
        steps: Steps,
        *,
        after: float = 0.0,
        mortal: bool = True,
        meddles: bool = False,
        wakes: bool = False,
    ) -> None:
        """Add an actor; where it `wakes`, its end ends the wait of the one who made it."""
        waiting = self.acting if wakes else None
        late = mortal and after > 0
        self.actors.append(ActorTask(name, steps, self.clock.now + after, mortal, meddles, waiting, late))

    def fresh(self) -> int:
        """Give an id that nobody has."""
        self._names += 1
        return self._names

    def say(self, what: str) -> None:
        """Write a line of the trace."""
        name = self.acting.name if self.acting else "scheduler"
        self.trace.append(f"{self.clock.now:9.2f}  {name:<10} {what}  [{self.store.message.state}]")

    def transact(self, what: str, transaction: Callable[[], Result]) -> Result:
        """Do a transaction, or lose its reply: then it happened, or it did not."""
        fate = self.choices.random() if self.faulty else 1.0
        if fate < self.faults.lose / 2:
            self.say(f"{what}: no answer, not done")
            raise UnansweredError
        result = transaction()
        if fate < self.faults.lose:
            self.say(f"{what}: no answer, done: {result}")
            raise UnansweredError
        self.say(f"{what}: {getattr(result, 'answer', result)}")
        return result

    def runs(self) -> int:
        """Count the workflow runs at work."""
        return sum(actor.name.startswith("run") for actor in self.actors)

    def play(self, steps: int) -> None:
        """Let faults happen for so many steps, then end them and see the message settled."""
        for _ in range(steps):
            self._step()
        self.faulty = False
        self.store.paused = False
        calm_from = self.clock.now
        self.actors = [actor for actor in self.actors if not actor.meddles]
        for actor in self.actors:
            if actor.held_up:
                actor.wake = calm_from
        self.trace.append(f"{calm_from:9.2f}  scheduler  no more faults")
        while self.store.message.state in (*CLAIMABLE, State.LEASED):
            self._step()
            self._check(self._stuck(calm_from))

    def _step(self) -> None:
        now = self.clock.now
        ready = [actor for actor in self.actors if actor.wake <= now]
        if not ready:
            self.clock.now = min(actor.wake for actor in self.actors)
            ready = [actor for actor in self.actors if actor.wake <= self.clock.now]
        actor = ready[int(self.choices.random() * len(ready))]
        fate = self.choices.random()
        if self.faulty and actor.mortal and fate < self.faults.crash:
            self._end(actor, "crashes")
        elif self.faulty and actor.mortal and fate < self.faults.crash + self.faults.freeze:
            actor.wake = self.clock.now + self.choices.uniform(0.1, 1.5) * LEASE
            actor.held_up = True
            self.trace.append(f"{self.clock.now:9.2f}  {actor.name:<10} freezes until {actor.wake:.2f}")
        else:
            self._go_on(actor)
        self.clock.now += self.choices.random() * 0.5

    def _go_on(self, actor: ActorTask) -> None:
        self.acting = actor
        actor.held_up = False
        try:
            actor.wake = self.clock.now + next(actor.steps)
        except StopIteration:
            self._end(actor, "ends")
        except GuardError as refused:
            raise BreachError(self.seed, [f"a statement refuses what was decided: {refused}"], self.trace) from refused
        self.acting = None
        self._check(self._watch.breaches())

    def _end(self, actor: ActorTask, how: str) -> None:
        self.trace.append(f"{self.clock.now:9.2f}  {actor.name:<10} {how}")
        actor.steps.close()
        self.actors.remove(actor)
        if how == "ends" and actor.waits_for_it is not None:
            actor.waits_for_it.wake = min(actor.waits_for_it.wake, self.clock.now)

    def _stuck(self, calm_from: float) -> Iterable[str]:
        message, now = self.store.message, self.clock.now
        if now < calm_from + _CALM_AFTER:
            return
        if message.state in CLAIMABLE and message.due_at <= now - _CALM_AFTER:
            yield f"I8 {message.state} and due, and nobody claims it"
        if message.state is State.LEASED and self.store.current().lease_until <= now - 2 * SWEEP_EVERY:
            yield "I8 leased, and nobody settles it"
        if now > calm_from + _END_WITHIN:
            yield "I8 never settled"

    def _check(self, names: Iterable[str]) -> None:
        if broken := tuple(name for name in names if name.startswith((self.only, "I8"))):
            raise BreachError(self.seed, broken, self.trace)
