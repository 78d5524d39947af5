"""The store's transactions on one message in memory: the product's decisions and table, with only Postgres left out.

It writes what `db/store.py` and the guards of `db/statements.py` write, each transaction as one step, on a virtual
clock. Events and a person's decisions follow DESIGN's table of the protocol.
"""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Final

from db.decisions import (
    BeginAnswer,
    BeginFacts,
    ClaimAnswer,
    ClaimFacts,
    FinalAnswer,
    Limits,
    Policy,
    SettleAnswer,
    SettleFacts,
    Settlement,
    decide_begin,
    decide_claim,
    decide_settle,
)
from db.evidence import AttemptFacts, EventFacts, EventMoves, decide_event
from db.lifecycle import CLAIMABLE, TRANSITIONS, Move, State, target
from db.outcomes import EventType, Outcome, Reason
from db.store import Claimed, Finalized, Recorded, Reread
from tests.model.memory_rows import Attempt, Clock, Line, Message

FINE: Final = Policy(
    tenant_disabled=False,
    sender_disabled=False,
    credential_revoked=False,
    scope_missing=False,
    recipient_suppressed=False,
)


class GuardError(Exception):
    """A statement did not agree with the decision that led to it; Postgres rolls such a transaction back."""


class MemoryStore:
    """One message, and what its transactions do to it."""

    def __init__(self, clock: Clock, choices: random.Random, *, limits: Limits, lease: float) -> None:
        self._clock = clock
        self._choices = choices
        self._limits = limits
        self._lease = lease
        self.policy = FINE
        self.paused = False
        self.message = Message()
        self._append(Move.INTAKE, None, State.QUEUED)

    def claim(self, claim_id: int) -> Claimed:
        message = self.message
        own = next((attempt for attempt in message.attempts if attempt.claim_id == claim_id), None)
        facts = ClaimFacts(
            state=message.state,
            due=message.due_at <= self._clock.now,
            provider_paused=self.paused,
            policy=self.policy,
            attempts_used=message.attempts_used,
            too_old=message.age_from <= self._clock.now - self._limits.max_age.total_seconds(),
            own_attempt_open=None if own is None else not own.closed,
        )
        answer, _ = self.decide_claim(facts)
        if answer is ClaimAnswer.LEASED and own is not None:
            return Claimed(answer=answer, state=message.state, attempt=own.number)
        if answer is ClaimAnswer.LEASED:
            return self._take_lease(claim_id)
        if answer is ClaimAnswer.SUPPRESSED:
            self._make(Move.SUPPRESS_AT_CLAIM)
        elif answer is ClaimAnswer.DEAD:
            self._make(Move.GIVE_UP)
        wait = None
        if answer is ClaimAnswer.BUSY:
            wait = self._wait(self.current().lease_until)
        elif answer is ClaimAnswer.NOT_DUE:
            wait = self._wait(message.due_at)
        return Claimed(answer=answer, state=message.state, wait=wait)

    def begin(self, number: int, begin_id: int, needs: float) -> BeginAnswer:
        message, attempt = self.message, self.message.attempts[number - 1]
        facts = BeginFacts(
            state=message.state,
            token_is_current=message.token == attempt.token,
            attempt_open=not attempt.closed,
            attempt_begun=attempt.begin_id is not None,
            lease_suffices=attempt.lease_until > self._clock.now + needs,
            provider_paused=self.paused,
            policy=self.policy,
        )
        answer, reason = self.decide_begin(facts)
        if answer is BeginAnswer.SUPPRESSED:
            self._close(attempt, Outcome.NOT_BEGUN, reason)
            self._make(Move.SUPPRESS_AT_BEGIN)
        elif answer is BeginAnswer.RELEASED:
            self._close(attempt, Outcome.RELEASED, reason)
            self._make(Move.RELEASE)
        elif answer is BeginAnswer.BEGUN:
            if not self.may_write_begin(attempt, needs):
                return BeginAnswer.REFUSED
            attempt.begin_id = begin_id
            message.attempts_used += 1
        return answer

    def reread_begin(self, number: int, begin_id: int, needs: float) -> Reread:
        message, attempt = self.message, self.message.attempts[number - 1]
        if attempt.begin_id != begin_id:
            return Reread.STOP
        current = message.token == attempt.token and message.state is State.LEASED and not attempt.closed
        return Reread.CALL if current and attempt.lease_until > self._clock.now + needs else Reread.UNSENT

    def record(self, number: int, begin_id: int, outcome: Outcome, reason: Reason | None) -> Recorded:
        attempt = self.message.attempts[number - 1]
        if self.may_write_outcome(attempt, begin_id):
            attempt.outcome, attempt.reason = outcome, reason
            return Recorded.RECORDED
        if attempt.begin_id != begin_id:
            return Recorded.NOT_OURS
        if attempt.outcome is outcome:
            return Recorded.RECORDED
        attempt.late.append(outcome)
        return Recorded.LATE

    def finalize(self, number: int) -> Finalized:
        settlement = self._settle(number, after_lease_only=False)
        message = self.message
        if settlement.answer is SettleAnswer.WAIT:
            return self._standing(FinalAnswer.WAIT, message.attempts[number - 1].lease_until)
        if message.state is State.LEASED:
            return self._standing(FinalAnswer.AGAIN, self.current().lease_until)
        if message.state in CLAIMABLE:
            return self._standing(FinalAnswer.AGAIN, message.due_at)
        return self._standing(FinalAnswer.SETTLED, self._clock.now)

    def expired_leases(self) -> list[int]:
        now = self._clock.now
        return [
            attempt.number for attempt in self.message.attempts if not attempt.closed and attempt.lease_until <= now
        ]

    def settle_expired(self, number: int) -> bool:
        return self._settle(number, after_lease_only=True).answer is SettleAnswer.MOVED

    def startable(self, overdue: float) -> bool:
        return self.message.state in CLAIMABLE and self.message.due_at <= self._clock.now - overdue

    def event(self, number: int, kind: EventType) -> None:
        """Store an event and apply it, in one transaction; while the current attempt is begun it waits for settle."""
        message = self.message
        message.attempts[number - 1].events.add(kind)
        facts = EventFacts(state=message.state, named=number, attempts=self._known())
        moved = self.decide_event(facts)
        if moved.closes_current:
            self._close(self.current(), Outcome.NOT_BEGUN, None)
        for move, _ in moved.moves:
            self._make(move)

    def resolve(self, seen: int, decision: Move) -> bool:
        """Carry out a person's decision about the attempt that they saw; False where that is not ambiguous any more."""
        message = self.message
        if message.state is not State.AMBIGUOUS or self.current().number != seen:
            return False
        message.decisions.append((seen, decision))
        self._make(decision)
        if decision is Move.RESOLVE_RESEND:
            message.attempts_used = 0
            message.due_at = message.age_from = self._clock.now
        return True

    def current(self) -> Attempt:
        """Give the attempt whose token is the message's."""
        return next(attempt for attempt in reversed(self.message.attempts) if attempt.token == self.message.token)

    def best_rank(self) -> int:
        """Say how far the message got by any of its attempts, and by what people said."""
        return max((attempt.rank() for attempt in self._known()), default=0)

    def _known(self) -> tuple[AttemptFacts, ...]:
        vouched = self.message.decided(Move.RESOLVE_ACCEPTED)
        facts = map(self._facts, self.message.attempts)
        return tuple(replace(attempt, vouched=attempt.number in vouched) for attempt in facts)

    # What a weakened store takes away: the decisions, and the guards that the statements repeat.

    def decide_claim(self, facts: ClaimFacts) -> tuple[ClaimAnswer, Reason | None]:
        return decide_claim(facts, self._limits)

    def decide_begin(self, facts: BeginFacts) -> tuple[BeginAnswer, Reason | None]:
        return decide_begin(facts)

    def decide_settle(self, facts: SettleFacts) -> Settlement:
        return decide_settle(facts, self._limits, jitter=self._choices.random())

    def decide_event(self, facts: EventFacts) -> EventMoves:
        return decide_event(facts)

    def may_take_lease(self) -> bool:
        message = self.message
        free = message.state in TRANSITIONS[Move.CLAIM].sources and message.due_at <= self._clock.now
        return free and all(attempt.closed for attempt in message.attempts)  # the unique index on open attempts

    def may_write_begin(self, attempt: Attempt, needs: float) -> bool:
        if attempt.closed or attempt.begin_id is not None or attempt.lease_until <= self._clock.now + needs:
            return False
        if self.message.state is not State.LEASED or self.message.token != attempt.token:
            raise GuardError("USE_ATTEMPT")
        return True

    def may_write_outcome(self, attempt: Attempt, begin_id: int) -> bool:
        return attempt.begin_id == begin_id and not attempt.closed and attempt.outcome is None

    # The writes.

    def _take_lease(self, claim_id: int) -> Claimed:
        message = self.message
        if not self.may_take_lease():
            return Claimed(answer=ClaimAnswer.BUSY, state=message.state, wait=timedelta())
        source = message.state
        if source in CLAIMABLE:
            message.came_from = source
        message.state, message.token = State.LEASED, message.token + 1
        number = len(message.attempts) + 1
        until = self._clock.now + self._lease
        message.attempts.append(Attempt(number=number, token=message.token, claim_id=claim_id, lease_until=until))
        self._append(Move.CLAIM, source, State.LEASED)
        return Claimed(answer=ClaimAnswer.LEASED, state=State.LEASED, attempt=number)

    def _settle(self, number: int, *, after_lease_only: bool) -> Settlement:
        message, attempt = self.message, self.message.attempts[number - 1]
        settlement = self.decide_settle(
            SettleFacts(
                state=message.state,
                token_is_current=message.token == attempt.token,
                attempts_used=message.attempts_used,
                attempts=tuple(map(self._facts, message.attempts)),
                settle_after_lease_only=after_lease_only,
            )
        )
        if settlement.answer is SettleAnswer.MOVED:
            self._close(attempt, settlement.closes_as, settlement.closes_because)
            for move, _ in settlement.moves:
                self._make(move)
                if move is Move.RETRY:
                    message.due_at = self._clock.now + settlement.delay.total_seconds()
                    message.attempts_used -= settlement.gives_attempt_back
        return settlement

    def _facts(self, attempt: Attempt) -> AttemptFacts:
        return AttemptFacts(
            number=attempt.number,
            is_current=attempt.token == self.message.token,
            begun=attempt.begin_id is not None,
            outcome=attempt.outcome,
            reason=attempt.reason,
            events=frozenset(attempt.events),
            lease_over=attempt.lease_until <= self._clock.now,
        )

    def _make(self, move: Move) -> None:
        message, source = self.message, self.message.state
        if source not in TRANSITIONS[move].sources:
            raise GuardError(move)
        message.state = message.came_from if move is Move.RELEASE else target(move)
        self._append(move, source, message.state)

    def _append(self, move: Move, source: State | None, goal: State) -> None:
        self.message.timeline.append(Line(source, goal, move, TRANSITIONS[move].by))

    def _close(self, attempt: Attempt, closes_as: Outcome | None, closes_because: Reason | None) -> None:
        if attempt.closed:
            raise GuardError("CLOSE")
        attempt.closed = True
        attempt.outcome = attempt.outcome or closes_as
        attempt.reason = attempt.reason or closes_because

    def _standing(self, answer: FinalAnswer, until: float) -> Finalized:
        return Finalized(answer=answer, state=self.message.state, wait=self._wait(until))

    def _wait(self, until: float) -> timedelta:
        return timedelta(seconds=max(until - self._clock.now, 0.0))
