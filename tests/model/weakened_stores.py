"""Stores with one guard taken away each, in the decision and in the statement that repeats it."""

from dataclasses import replace

from typing_extensions import override

from db.decisions import BeginAnswer, BeginFacts, ClaimAnswer, ClaimFacts, SettleFacts, Settlement
from db.evidence import EventFacts, EventMoves
from db.lifecycle import State
from db.outcomes import Outcome, Reason
from tests.model.memory_rows import Attempt
from tests.model.memory_store import FINE, MemoryStore


class BeginsWithoutAnyGuard(MemoryStore):
    """A body begins whatever it finds: another's begin, a closed attempt, a lease that is over."""

    @override
    def decide_begin(self, facts: BeginFacts) -> tuple[BeginAnswer, Reason | None]:
        return BeginAnswer.BEGUN, None

    @override
    def may_write_begin(self, attempt: Attempt, needs: float) -> bool:
        return True


class BeginsWithoutPolicy(MemoryStore):
    """Begin believes what the claim saw of policy and of the switch."""

    @override
    def decide_begin(self, facts: BeginFacts) -> tuple[BeginAnswer, Reason | None]:
        return super().decide_begin(replace(facts, policy=FINE, provider_paused=False))


class TakesBegunForNeverBegun(MemoryStore):
    """Settle believes that a body without an outcome made no call."""

    @override
    def decide_settle(self, facts: SettleFacts) -> Settlement:
        attempts = (replace(attempt, begun=attempt.outcome is not None) for attempt in facts.attempts)
        return super().decide_settle(replace(facts, attempts=tuple(attempts)))


class TakesUnknownForAccepted(MemoryStore):
    """Settle is optimistic about what nobody answered."""

    @override
    def decide_settle(self, facts: SettleFacts) -> Settlement:
        attempts = (
            replace(attempt, outcome=Outcome.ACCEPTED) if attempt.outcome is Outcome.UNKNOWN else attempt
            for attempt in facts.attempts
        )
        return super().decide_settle(replace(facts, attempts=tuple(attempts)))


class ClaimsWhatIsLeased(MemoryStore):
    """Claim takes a lease over from whoever holds it."""

    @override
    def decide_claim(self, facts: ClaimFacts) -> tuple[ClaimAnswer, Reason | None]:
        free = State.QUEUED if facts.state is State.LEASED else facts.state
        return super().decide_claim(replace(facts, state=free))

    @override
    def may_take_lease(self) -> bool:
        return True


class RecordsOverWhatStands(MemoryStore):
    """Record writes into an attempt that is closed, or has its outcome."""

    @override
    def may_write_outcome(self, attempt: Attempt, begin_id: int) -> bool:
        return attempt.begin_id is not None


class IsNeverSwept(MemoryStore):
    """The sweep finds no lease that ran out."""

    @override
    def expired_leases(self) -> list[int]:
        return []


class HeedsOnlyTheAttemptOfNow(MemoryStore):
    """An event about an older attempt is kept, and moves nothing."""

    @override
    def decide_event(self, facts: EventFacts) -> EventMoves:
        return super().decide_event(facts) if facts.named == len(facts.attempts) else EventMoves()
