"""What is known about a message's attempts, how far that takes it, and what a provider event makes of it.

Pure functions over facts that were read under the lock of the message row, as in `db/decisions.py`. Whatever the order
in which events come, and however often, the end is the same: it is decided from all that is stored, never from the
event alone (DESIGN: lifecycle; model: PROTOCOL, event).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from db.lifecycle import RANKS, Move, State
from db.outcomes import EventType, Outcome, Reason

#: Of one attempt's events the strongest counts. A rejected mail goes nowhere, so reject outweighs a mere send.
_STRENGTH: Final = {
    EventType.SEND: 1,
    EventType.DELAY: 1,
    EventType.SOFT_BOUNCE: 1,
    EventType.OTHER: 1,
    EventType.REJECT: 2,
    EventType.DELIVERY: 3,
    EventType.BOUNCE: 4,
    EventType.COMPLAINT: 5,
}

#: How far an event says that its attempt got: 1 accepted, 2 delivered, 3 bounced, 4 complained, 0 nowhere.
_RANK: Final = {
    EventType.SEND: 1,
    EventType.DELAY: 1,
    EventType.SOFT_BOUNCE: 1,
    EventType.OTHER: 1,
    EventType.REJECT: 0,
    EventType.DELIVERY: 2,
    EventType.BOUNCE: 3,
    EventType.COMPLAINT: 4,
}

_UPWARD: Final = {State.DELIVERED: Move.DELIVER, State.HARD_BOUNCED: Move.BOUNCE, State.COMPLAINED: Move.COMPLAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """What is stored about one attempt."""

    number: int
    is_current: bool  #: its token is the message's
    begun: bool
    outcome: Outcome | None
    reason: Reason | None
    events: frozenset[EventType]
    lease_over: bool
    bounced_because: Reason | None = None  #: what its bounce event says besides
    vouched: bool = False  #: a person declared it accepted

    def strongest_event(self) -> EventType | None:
        """Give the event that counts."""
        return max(self.events, key=lambda event: _STRENGTH[event], default=None)

    def rank(self) -> int:
        """Say how far this attempt got by what is stored: 0 nowhere known, 1 accepted, up to 4 complained."""
        event = self.strongest_event()
        if event is EventType.REJECT:
            return 0
        return max(_RANK[event] if event else 0, int(self.outcome is Outcome.ACCEPTED or self.vouched))


def best_known(attempts: Iterable[AttemptFacts]) -> AttemptFacts | None:
    """Give the attempt that got furthest, by what is stored; None where none is known to have been accepted."""
    known = [attempt for attempt in attempts if attempt.rank()]
    return max(known, key=AttemptFacts.rank, default=None)


def upwards(state: State, best: AttemptFacts) -> tuple[tuple[Move, Reason | None], ...]:
    """Give the move from an accepted state to the one that an attempt calls for; none where that is no step up."""
    goal = RANKS[best.rank() - 1]
    if RANKS.index(goal) <= RANKS.index(state):
        return ()
    return ((_UPWARD[goal], best.bounced_because if goal is State.HARD_BOUNCED else None),)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """What an event is applied to: read under the lock, and after the event itself was stored."""

    state: State
    named: int  #: the number of the attempt that the event is about
    attempts: tuple[AttemptFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMoves:
    """What an event makes of a message."""

    moves: tuple[tuple[Move, Reason | None], ...] = ()
    closes_current: bool = False  #: the attempt that holds the lease: it has not begun, and now never will


def decide_event(facts: EventFacts) -> EventMoves:
    """Say where the stored events take a message.

    While an attempt is begun they wait: settle reads them, and the provider's own answer, too. An event that shows an
    older attempt accepted ends what a person gave up or ordered to be sent again: the truth wins, and nothing more is
    sent (DESIGN: lifecycle).
    """
    best = best_known(facts.attempts)
    if facts.state is State.LEASED:
        current = next(attempt for attempt in facts.attempts if attempt.is_current)
        if current.begun or best is None:
            return EventMoves()
        return EventMoves(moves=_proven(best), closes_current=True)
    if best is not None:
        return EventMoves(moves=upwards(facts.state, best) if facts.state in RANKS else _proven(best))
    named = next(attempt for attempt in facts.attempts if attempt.number == facts.named)
    if named.strongest_event() is EventType.REJECT:
        if facts.state is State.AMBIGUOUS and named.is_current:
            return EventMoves(moves=((Move.PROVE, None), (Move.REJECT_LATE, Reason.REJECTED)))
        if facts.state is State.PROVIDER_ACCEPTED:
            return EventMoves(moves=((Move.REJECT_LATE, Reason.REJECTED),))
    return EventMoves()


def _proven(best: AttemptFacts) -> tuple[tuple[Move, Reason | None], ...]:
    """Give the moves from a state in which the message was not known to be accepted."""
    return ((Move.PROVE, None), *upwards(State.PROVIDER_ACCEPTED, best))
