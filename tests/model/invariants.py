"""What must hold after every step of a simulation, whatever went wrong: the invariants of the design, by number."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from db.lifecycle import CLAIMABLE, RANKS, TRANSITIONS, Actor, Move, State
from db.outcomes import Outcome
from tests.model.memory_rows import Message
from tests.model.memory_store import FINE, MemoryStore

#: Nothing of such an attempt is at the provider, and nothing of it can get there.
DEFINITE_NO: Final = (Outcome.REFUSED, Outcome.REJECTED, Outcome.NOT_SUBMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that the provider read whole: a line of its own journal, the independent witness."""

    attempt: int
    accepted: bool
    refused: bool  #: definitely, whoever heard of it


@dataclass(slots=True)
class Watch:
    """Looks at a store and a journal after each step, and remembers what it saw."""

    store: MemoryStore
    journal: list[Request]
    _seen: list[tuple[object, ...]] = field(default_factory=list)
    _counts: tuple[object, ...] = ()
    _lines: int = 0
    _requests: int = 0

    def breaches(self) -> Iterator[str]:
        """Name what the last step broke."""
        message = self.store.message
        events = sum(len(attempt.events) for attempt in message.attempts)
        counts = (len(self.journal), len(message.timeline), len(message.decisions), events, message.state)
        written = [attempt.written() for attempt in message.attempts]
        if counts == self._counts and written == self._seen:
            return
        self._counts = counts
        yield from self._of_new_requests(message)
        yield from self._of_new_lines(message)
        yield from self._of_attempts(message, written)
        yield from _of_the_whole(message, self.journal)
        yield from self._of_evidence(message)

    def _of_new_requests(self, message: Message) -> Iterator[str]:
        journal = self.journal
        if len(journal) == self._requests:
            return
        self._requests = len(journal)
        refused = sum(attempt.outcome in (Outcome.REFUSED, Outcome.REJECTED) for attempt in message.attempts)
        resent = message.decided(Move.RESOLVE_RESEND)
        if len(journal) > 1 + refused + len(resent):
            yield "I2 more requests than definite refusals and resends allow"
        if len(journal) > 1 + sum(request.refused for request in journal[:-1]) + len(resent):
            yield "I2 a request although the provider has one that it did not refuse"
        latest = journal[-1].attempt
        if sum(request.attempt == latest for request in journal) > 1:
            yield "I2 one attempt was requested twice"
        for earlier in message.attempts[: latest - 1]:
            begun = earlier.begin_id is not None
            if begun and earlier.outcome not in DEFINITE_NO and earlier.number not in resent:
                yield "I3 a request after an attempt that nothing refused and nobody resent"

    def _of_new_lines(self, message: Message) -> Iterator[str]:
        for index in range(self._lines, len(message.timeline)):
            line = message.timeline[index]
            transition = TRANSITIONS[line.move]
            if line.source not in (transition.sources or (None,)) or line.goal not in transition.targets:
                yield f"I6 {line.source} -> {line.goal} is no edge of {line.move}"
            if index and line.source is not message.timeline[index - 1].goal:
                yield "I6 the timeline has a gap"
            if line.source is State.AMBIGUOUS and line.actor not in (Actor.PROVIDER, Actor.OPERATOR):
                yield "I3 the machine ended an ambiguity by itself"
        self._lines = len(message.timeline)
        if message.timeline[-1].goal is not message.state:
            yield "I6 the state is not where the timeline ends"

    def _of_attempts(self, message: Message, written: list[tuple[object, ...]]) -> Iterator[str]:
        for index, (before, now) in enumerate(zip(self._seen, written, strict=False)):
            if any(old is not None and old != new for old, new in zip(before, now, strict=True)):
                yield f"I7 attempt {index + 1} was rewritten"
        if len(written) < len(self._seen):
            yield "I7 an attempt is gone"
        for attempt in message.attempts:
            newly = attempt.number > len(self._seen) or self._seen[attempt.number - 1][4] is None
            if attempt.begin_id is not None and newly and (self.store.policy != FINE or self.store.paused):
                yield "I9 begun though policy or the switch says no"
        self._seen = written

    def _of_evidence(self, message: Message) -> Iterator[str]:
        best = self.store.best_rank()
        if message.state in RANKS:
            if message.state is not RANKS[best - 1]:
                yield f"I5 {message.state}, though what is stored says otherwise"
        elif best and not (message.state is State.LEASED and self.store.current().begin_id is not None):
            yield f"I5 {message.state}, though what is stored shows an attempt accepted"


def _of_the_whole(message: Message, journal: list[Request]) -> Iterator[str]:
    held = message.token if message.state is State.LEASED else None
    resent = message.decided(Move.RESOLVE_RESEND)
    for attempt in message.attempts:
        if attempt.closed == (attempt.token == held):
            yield "I7 not exactly the attempt of the lease is open"
        begun = attempt.begin_id is not None
        if begun and message.state in CLAIMABLE and attempt.outcome not in DEFINITE_NO and attempt.number not in resent:
            yield "I3 free to be claimed, though an attempt began and nothing refused it"
        truly = any(request.accepted and request.attempt == attempt.number for request in journal)
        if attempt.outcome is Outcome.ACCEPTED and not truly:
            yield "I4 recorded as accepted, and the provider knows nothing of it"
    vouched = message.decided(Move.RESOLVE_ACCEPTED)
    if message.state in RANKS and not vouched and not any(request.accepted for request in journal):
        yield "I5 accepted, though neither the provider nor a person says so"
