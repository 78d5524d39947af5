"""Who acts in a simulation: runs, submit bodies, the sweep, the provider with its events, operators and policy."""

from collections.abc import Callable, Generator
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar, assert_never

from db.decisions import BeginAnswer, ClaimAnswer, FinalAnswer
from db.lifecycle import Move, State
from db.outcomes import EventType, Outcome, Reason
from db.store import Reread
from tests.model.invariants import Request
from tests.model.memory_store import FINE, MemoryStore
from tests.model.simulation import LEASE, SWEEP_EVERY, Simulation, Steps, UnansweredError

Result = TypeVar("Result")

CALL_BUDGET: Final = 12.0
BEGIN_MARGIN: Final = 1.0
SUBMIT_WITHIN: Final = 20.0
_NEEDS: Final = CALL_BUDGET + BEGIN_MARGIN


class Answer(StrEnum):
    """What a provider does with a request, and what its client sees of it."""

    ACCEPTS = "accepts"
    THROTTLES = "throttles"
    PAUSES_ACCOUNT = "pauses_account"
    REJECTS = "rejects"
    ACCEPTS_SILENTLY = "accepts_silently"  #: accepted, and the answer is lost
    REFUSES_SILENTLY = "refuses_silently"  #: not accepted, and the answer is lost
    UNREACHABLE = "unreachable"  #: no connection: no request


_WEIGHTS: Final = {
    Answer.ACCEPTS: 25,
    Answer.THROTTLES: 25,
    Answer.PAUSES_ACCOUNT: 8,
    Answer.REJECTS: 4,
    Answer.ACCEPTS_SILENTLY: 16,
    Answer.REFUSES_SILENTLY: 10,
    Answer.UNREACHABLE: 12,
}
_SEEN_AS: Final[dict[Answer, tuple[Outcome, Reason | None]]] = {
    Answer.ACCEPTS: (Outcome.ACCEPTED, None),
    Answer.THROTTLES: (Outcome.REFUSED, Reason.THROTTLED),
    Answer.PAUSES_ACCOUNT: (Outcome.REFUSED, Reason.ACCOUNT_PAUSED),
    Answer.REJECTS: (Outcome.REJECTED, Reason.REJECTED),
    Answer.ACCEPTS_SILENTLY: (Outcome.UNKNOWN, Reason.PROVIDER_TIMEOUT),
    Answer.REFUSES_SILENTLY: (Outcome.UNKNOWN, Reason.CONNECTION_LOST),
    Answer.UNREACHABLE: (Outcome.NOT_SUBMITTED, Reason.PROVIDER_UNREACHABLE),
}
_ACCEPTING: Final = (Answer.ACCEPTS, Answer.ACCEPTS_SILENTLY)
_REFUSING: Final = (Answer.THROTTLES, Answer.PAUSES_ACCOUNT, Answer.REJECTS)
_LIVES: Final = (
    (EventType.SEND,),
    (EventType.SEND, EventType.DELIVERY),
    (EventType.DELIVERY, EventType.BOUNCE, EventType.SEND),
    (EventType.SEND, EventType.SOFT_BOUNCE, EventType.DELIVERY, EventType.COMPLAINT),
    (EventType.SEND, EventType.REJECT),
)
_DECISIONS: Final = (Move.RESOLVE_RESEND, Move.RESOLVE_RESEND, Move.RESOLVE_ACCEPTED, Move.RESOLVE_ABANDON)


def simulate(seed: int, store_type: type[MemoryStore] = MemoryStore, *, only: str = "I") -> Simulation:
    """Play one seed to its end; raises BreachError with the whole trace."""
    world = Simulation(seed, store_type, only)
    choices = world.choices
    for _ in range(choices.randint(2, 5)):
        late = choices.choice((0.0, choices.random() * 1.5 * LEASE))
        world.spawn(f"run-{world.fresh()}", run(world), after=late)
    world.spawn("sweep", sweep(world), after=choices.random() * SWEEP_EVERY, mortal=False)
    for _ in range(choices.choice((0, 1, 2, 2))):
        world.spawn("operator", operator(world), mortal=False, meddles=True)
    if choices.random() < 0.3:
        world.spawn("policy", policy(world), mortal=False, meddles=True)
    if choices.random() < 0.3:
        world.spawn("switch", switch(world), mortal=False, meddles=True)
    world.play(choices.randint(30, 160))
    return world


def _answered(
    world: Simulation, what: str, transaction: Callable[[], Result], until: float = float("inf")
) -> Generator[float, None, Result]:
    """Ask with the same arguments until there is an answer, or it is too late to ask."""
    while True:
        yield 0.0
        try:
            return world.transact(what, transaction)
        except UnansweredError:
            if world.clock.now > until:
                raise
        yield 0.2


def run(world: Simulation) -> Steps:
    """Drive the message as the workflow does: claim, submit once, finalize, wait."""
    store, choices = world.store, world.choices
    while True:
        claim_id = world.fresh()
        claimed = yield from _answered(world, f"claim {claim_id}", partial(store.claim, claim_id))
        wait = claimed.wait.total_seconds() if claimed.wait else 5.0
        match claimed.answer:
            case ClaimAnswer.LEASED:
                bodies = 2 if world.faulty and choices.random() < world.faults.twice else 1
                for _ in range(bodies):
                    late = choices.random() * LEASE if world.faulty and choices.random() < world.faults.twice else 0.0
                    body = submit(world, claimed.attempt)
                    world.spawn(f"submit-{claimed.attempt}", body, after=late, wakes=True)
                impatient = world.faulty and choices.random() < world.faults.impatient
                yield choices.random() * SUBMIT_WITHIN if impatient else SUBMIT_WITHIN
                finalized = yield from finalize(world, claimed.attempt)
                if finalized is None:
                    return
                wait = finalized
            case ClaimAnswer.SETTLED | ClaimAnswer.SUPPRESSED | ClaimAnswer.DEAD:
                return
            case ClaimAnswer.BUSY | ClaimAnswer.NOT_DUE | ClaimAnswer.PAUSED | ClaimAnswer.LOST:
                pass
            case _:
                assert_never(claimed.answer)
        yield max(wait, 0.2)


def finalize(world: Simulation, attempt: int) -> Generator[float, None, float | None]:
    """Finalize until the lease is settled; give the wait before the next claim, None where all is done."""
    while True:
        final = yield from _answered(world, f"finalize {attempt}", partial(world.store.finalize, attempt))
        if final.answer is FinalAnswer.SETTLED:
            return None
        if final.answer is FinalAnswer.AGAIN:
            return final.wait.total_seconds()
        yield max(final.wait.total_seconds(), 0.2)


def submit(world: Simulation, attempt: int) -> Steps:
    """Submit as the activity does: begin, call once, record; where begin got no reply, find out what stands."""
    begin_id = world.fresh()
    yield 0.0
    asked_at = world.clock.now
    until = asked_at + SUBMIT_WITHIN
    try:
        may_call = yield from _begin(world, attempt, begin_id, until)
        if may_call is None:
            return
        yield 0.0
        if not may_call or world.clock.now - asked_at > BEGIN_MARGIN:
            outcome: Outcome = Outcome.NOT_SUBMITTED
            reason: Reason | None = Reason.CALL_TOO_LATE
        else:
            yield world.choices.choice((0.0, 0.0, 0.1))  # a freeze here calls long after the check, as a real one may
            outcome, reason = yield from call(world, attempt)

        record = partial(world.store.record, attempt, begin_id, outcome, reason)
        yield from _answered(world, f"record {attempt} {outcome}", record, until)
    except UnansweredError:
        world.say("gives up on Postgres")


def _begin(world: Simulation, attempt: int, begin_id: int, until: float) -> Generator[float, None, bool | None]:
    """Begin; True: call, False: too late to call, None: stop."""
    store = world.store
    try:
        begun = world.transact(f"begin {attempt}", partial(store.begin, attempt, begin_id, _NEEDS))
    except UnansweredError:
        found = yield from _answered(
            world, f"reread {attempt}", partial(store.reread_begin, attempt, begin_id, _NEEDS), until
        )
        return None if found is Reread.STOP else found is Reread.CALL
    return True if begun is BeginAnswer.BEGUN else None


def call(world: Simulation, attempt: int) -> Generator[float, None, tuple[Outcome, Reason | None]]:
    """Make one request; the provider's journal has it, whatever its client sees."""
    choices = world.choices
    answer = choices.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0] if world.faulty else Answer.ACCEPTS
    if answer is not Answer.UNREACHABLE:
        accepted = answer in _ACCEPTING
        world.journal.append(Request(attempt=attempt, accepted=accepted, refused=answer in _REFUSING))
        if accepted and choices.random() < 0.4:
            world.spawn("provider", events(world, attempt, choices.choice(_LIVES)), mortal=False)
    world.say(f"calls for {attempt}: the provider {answer}")
    lost = answer in (Answer.ACCEPTS_SILENTLY, Answer.REFUSES_SILENTLY)
    yield CALL_BUDGET if lost else choices.random() * 2
    return _SEEN_AS[answer]


def events(world: Simulation, attempt: int, life: tuple[EventType, ...]) -> Steps:
    """Tell what became of an accepted request, in any order and some of it twice."""
    choices = world.choices
    told = [*life, *(kind for kind in life if choices.random() < 0.2)]
    choices.shuffle(told)
    for kind in told:
        yield choices.random() * choices.choice((1.0, 30.0, 120.0))
        yield from _answered(world, f"event {kind} for {attempt}", partial(world.store.event, attempt, kind))


def sweep(world: Simulation) -> Steps:
    """Settle what ran out, and start a run where none is at work."""
    store = world.store
    while True:
        for number in store.expired_leases():
            yield 0.0
            try:
                world.transact(f"settle {number}", partial(store.settle_expired, number))
            except UnansweredError:
                continue
        if store.startable(overdue=SWEEP_EVERY) and not world.runs():
            world.spawn(f"run-{world.fresh()}", run(world))
        yield SWEEP_EVERY


def operator(world: Simulation) -> Steps:
    """Decide about what the page showed as ambiguous, some time later, and again where the answer was lost."""
    store, choices = world.store, world.choices
    while True:
        yield choices.random() * 20
        if store.message.state is State.AMBIGUOUS:
            seen, decision = store.current().number, choices.choice(_DECISIONS)
            yield choices.random() * choices.choice((1.0, 100.0))
            yield from _answered(world, f"{decision} {seen}", partial(store.resolve, seen, decision))


def policy(world: Simulation) -> Steps:
    """Let policy turn bad at any moment, and good again."""
    pace = world.choices.choice((1.0, 20.0, 100.0))
    while True:
        yield world.choices.random() * pace
        fine = world.store.policy == FINE
        world.store.policy = replace(FINE, recipient_suppressed=True) if fine else FINE
        world.say("policy turns bad" if fine else "policy is fine again")


def switch(world: Simulation) -> Steps:
    """Switch the provider off and on."""
    pace = world.choices.choice((1.0, 20.0, 100.0))
    while True:
        yield world.choices.random() * pace
        world.store.paused = not world.store.paused
        world.say("the provider is switched " + ("off" if world.store.paused else "on"))
