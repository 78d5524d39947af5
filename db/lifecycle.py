"""The lifecycle of a message: every state, every move, and from where to where. Nowhere else is a state pair written.

The WHERE guards in `db/statements.py`, the CHECKs and triggers in `db/schema.py` and `db/guards.py`, the diagram in
ARCHITECTURE.md and the property tests derive from the table below.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class State(StrEnum):
    """Where a message stands."""

    QUEUED = "queued"  #: committed, and free to be claimed
    LEASED = "leased"  #: held by one fencing token until the lease expires
    RETRYABLE = "retryable"  #: refused, or provably not submitted; free to be claimed when due
    AMBIGUOUS = "ambiguous"  #: the provider may have accepted it; only evidence or a person ends this
    PROVIDER_ACCEPTED = "provider_accepted"  #: the provider took it, with an id; this is not delivery
    DELIVERED = "delivered"  #: a provider event said that the recipient's server took it
    HARD_BOUNCED = "hard_bounced"  #: a provider event said that it can't be delivered
    COMPLAINED = "complained"  #: the recipient called it spam; nothing follows
    SUPPRESSED = "suppressed"  #: policy said no before the provider was asked
    DEAD = "dead"  #: refused for good, given up, or rejected after acceptance


class Actor(StrEnum):
    """Who moves a message."""

    CLIENT = "client"
    MACHINE = "machine"
    PROVIDER = "provider"
    OPERATOR = "operator"


class Move(StrEnum):
    """What happens to a message; the name stands in its timeline."""

    INTAKE = "intake"
    CLAIM = "claim"
    SUPPRESS_AT_CLAIM = "suppress_at_claim"
    GIVE_UP = "give_up"
    ACCEPT = "accept"
    REJECT = "reject"
    RETRY = "retry"
    RELEASE = "release"
    SUPPRESS_AT_BEGIN = "suppress_at_begin"
    QUARANTINE = "quarantine"
    PROVE = "prove"
    DELIVER = "deliver"
    BOUNCE = "bounce"
    COMPLAIN = "complain"
    REJECT_LATE = "reject_late"
    RESOLVE_ACCEPTED = "resolve_accepted"
    RESOLVE_RESEND = "resolve_resend"
    RESOLVE_ABANDON = "resolve_abandon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """From where to where a move leads, who makes it, and why."""

    sources: tuple[State, ...]  #: empty: the message comes into being
    targets: tuple[State, ...]
    by: Actor
    why: str


#: What may be claimed: nothing is leased, and no attempt that was begun is without a definite refusal.
CLAIMABLE: Final = (State.QUEUED, State.RETRYABLE)

TRANSITIONS: Final = MappingProxyType(
    {
        Move.INTAKE: Transition(sources=(), targets=(State.QUEUED,), by=Actor.CLIENT, why="command accepted"),
        Move.CLAIM: Transition(sources=CLAIMABLE, targets=(State.LEASED,), by=Actor.MACHINE, why="lease taken"),
        Move.SUPPRESS_AT_CLAIM: Transition(
            sources=CLAIMABLE, targets=(State.SUPPRESSED,), by=Actor.MACHINE, why="policy says no"
        ),
        Move.GIVE_UP: Transition(
            sources=CLAIMABLE, targets=(State.DEAD,), by=Actor.MACHINE, why="too old, or attempts used up"
        ),
        Move.ACCEPT: Transition(
            sources=(State.LEASED,), targets=(State.PROVIDER_ACCEPTED,), by=Actor.MACHINE, why="the provider said yes"
        ),
        Move.REJECT: Transition(
            sources=(State.LEASED,), targets=(State.DEAD,), by=Actor.MACHINE, why="a final no, or the last attempt"
        ),
        Move.RETRY: Transition(
            sources=(State.LEASED,),
            targets=(State.RETRYABLE,),
            by=Actor.MACHINE,
            why="a no that may change, or provably not submitted",
        ),
        Move.RELEASE: Transition(
            sources=(State.LEASED,), targets=CLAIMABLE, by=Actor.MACHINE, why="provider switched off before begin"
        ),
        Move.SUPPRESS_AT_BEGIN: Transition(
            sources=(State.LEASED,), targets=(State.SUPPRESSED,), by=Actor.MACHINE, why="policy says no before the call"
        ),
        Move.QUARANTINE: Transition(
            sources=(State.LEASED,), targets=(State.AMBIGUOUS,), by=Actor.MACHINE, why="begun, and nobody can know"
        ),
        # An event may prove that an attempt which was given up was accepted after all: the truth wins.
        Move.PROVE: Transition(
            sources=(
                State.AMBIGUOUS,
                State.QUEUED,
                State.RETRYABLE,
                State.LEASED,
                State.SUPPRESSED,
                State.DEAD,
            ),
            targets=(State.PROVIDER_ACCEPTED,),
            by=Actor.PROVIDER,
            why="an event proves acceptance",
        ),
        Move.DELIVER: Transition(
            sources=(State.PROVIDER_ACCEPTED,), targets=(State.DELIVERED,), by=Actor.PROVIDER, why="delivery event"
        ),
        Move.BOUNCE: Transition(
            sources=(State.PROVIDER_ACCEPTED, State.DELIVERED),
            targets=(State.HARD_BOUNCED,),
            by=Actor.PROVIDER,
            why="permanent bounce, also a late one",
        ),
        Move.COMPLAIN: Transition(
            sources=(State.PROVIDER_ACCEPTED, State.DELIVERED, State.HARD_BOUNCED),
            targets=(State.COMPLAINED,),
            by=Actor.PROVIDER,
            why="complaint",
        ),
        Move.REJECT_LATE: Transition(
            sources=(State.PROVIDER_ACCEPTED,),
            targets=(State.DEAD,),
            by=Actor.PROVIDER,
            why="rejected after acceptance",
        ),
        Move.RESOLVE_ACCEPTED: Transition(
            sources=(State.AMBIGUOUS,), targets=(State.PROVIDER_ACCEPTED,), by=Actor.OPERATOR, why="decided: accepted"
        ),
        Move.RESOLVE_RESEND: Transition(
            sources=(State.AMBIGUOUS,), targets=(State.QUEUED,), by=Actor.OPERATOR, why="decided: resend"
        ),
        Move.RESOLVE_ABANDON: Transition(
            sources=(State.AMBIGUOUS,), targets=(State.DEAD,), by=Actor.OPERATOR, why="decided: abandon"
        ),
    }
)

#: How far an accepted message got; whatever the order of events, the highest rank wins (DESIGN: lifecycle).
RANKS: Final = (State.PROVIDER_ACCEPTED, State.DELIVERED, State.HARD_BOUNCED, State.COMPLAINED)


def sources(move: Move) -> tuple[State, ...]:
    """Give the states from which a move may start."""
    return TRANSITIONS[move].sources


def target(move: Move) -> State:
    """Give the one state to which a move leads; RELEASE, which goes back to where its claim came from, has none."""
    (only,) = TRANSITIONS[move].targets
    return only


def pairs() -> tuple[tuple[State, State], ...]:
    """Give every permitted pair of states, for the trigger that refuses any other."""
    found = {
        (source, goal)
        for transition in TRANSITIONS.values()
        for source in transition.sources
        for goal in transition.targets
    }
    return tuple(sorted(found))


def diagram() -> str:
    """Draw the table as a Mermaid state diagram, one arrow a pair and actor."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for move, transition in TRANSITIONS.items():
        for source in transition.sources or ("[*]",):
            for goal in transition.targets:
                arrows.setdefault((str(source), str(goal)), []).append(f"{move} ({transition.by})")
    lines = [f"    {source} --> {goal}: {', '.join(moves)}" for (source, goal), moves in arrows.items()]
    return "\n".join(["stateDiagram-v2", *lines])
