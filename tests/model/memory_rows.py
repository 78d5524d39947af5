"""A message as the simulator keeps it: its row, its attempts, its timeline and its clock."""

from dataclasses import dataclass, field

from db.lifecycle import Actor, Move, State
from db.outcomes import EventType, Outcome, Reason


@dataclass(slots=True)
class Clock:
    """Postgres's clock, in seconds."""

    now: float = 0.0


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A row of attempts, with the events that name it."""

    number: int
    token: int
    claim_id: int
    lease_until: float
    begin_id: int | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    closed: bool = False
    events: set[EventType] = field(default_factory=set)
    late: list[Outcome] = field(default_factory=list)

    def written(self) -> tuple[object, ...]:
        """Give the columns that are written once, None where nothing is written yet."""
        fixed = (self.number, self.token, self.claim_id, self.lease_until)
        return (*fixed, self.begin_id, self.outcome, self.reason, self.closed or None)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the timeline."""

    source: State | None
    goal: State
    move: Move
    actor: Actor


@dataclass(slots=True, kw_only=True)
class Message:
    """The row, and what belongs to it."""

    state: State = State.QUEUED
    token: int = 0
    came_from: State = State.QUEUED
    due_at: float = 0.0
    age_from: float = 0.0
    attempts_used: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    timeline: list[Line] = field(default_factory=list)
    decisions: list[tuple[int, Move]] = field(default_factory=list)  #: the audit: attempt, and what was decided

    def decided(self, move: Move) -> set[int]:
        """Give the attempts about which a person decided so."""
        return {number for number, decision in self.decisions if decision is move}
