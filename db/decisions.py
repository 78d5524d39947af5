"""What claim, begin and settle decide, as pure functions over the facts that their transaction has read.

Each fact was read after the message row was locked, in a statement of its own (DESIGN: protocol, "lock first, decide
in the next statement"), with Postgres's clock. The conditional writes in `db/statements.py` repeat the guards that a
move rests on: a decision that is wrong here still moves nothing that the lifecycle forbids.
"""

import random
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import takewhile

from db.evidence import AttemptFacts, best_known, upwards
from db.lifecycle import CLAIMABLE, Move, State
from db.outcomes import ACCOUNT_REASONS, EventType, Outcome, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a message is tried again, and when it is given up (CONTRACT: times and limits)."""

    attempts: int  #: attempts that count
    max_age: timedelta  #: since intake or the last resend
    backoff_base: timedelta
    backoff_cap: timedelta
    account_wait: timedelta  #: the least wait after the provider refused the whole account


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may stop a message, read again in the claim and in begin (DESIGN: promise 4)."""

    tenant_disabled: bool
    sender_disabled: bool
    credential_revoked: bool
    scope_missing: bool
    recipient_suppressed: bool

    def refusal(self) -> Reason | None:
        """Give the reason for which the message may not go out, or None."""
        reasons = (
            (self.tenant_disabled, Reason.TENANT_DISABLED),
            (self.sender_disabled, Reason.SENDER_DISABLED),
            (self.credential_revoked, Reason.CREDENTIAL_REVOKED),
            (self.scope_missing, Reason.SCOPE_MISSING),
            (self.recipient_suppressed, Reason.RECIPIENT_SUPPRESSED),
        )
        return next((reason for holds, reason in reasons if holds), None)


class ClaimAnswer(StrEnum):
    """What a claim answers."""

    LEASED = "leased"
    LOST = "lost"  #: this claim's own lease is over; claim anew under a new id
    BUSY = "busy"  #: somebody else holds the lease
    SETTLED = "settled"  #: nothing to do in this state
    NOT_DUE = "not_due"
    PAUSED = "paused"  #: the provider is switched off; nothing is used up
    SUPPRESSED = "suppressed"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFacts:
    """What claim reads under the lock."""

    state: State
    due: bool
    provider_paused: bool
    policy: Policy
    attempts_used: int
    too_old: bool
    own_attempt_open: bool | None  #: of the attempt that this claim id opened; None: it opened none


def decide_claim(facts: ClaimFacts, limits: Limits) -> tuple[ClaimAnswer, Reason | None]:
    """Say whether the message may be leased now. The order is the protocol's: a repeated claim finds its own first."""
    if facts.own_attempt_open is not None:
        return (ClaimAnswer.LEASED if facts.own_attempt_open else ClaimAnswer.LOST), None
    if facts.state is State.LEASED:
        return ClaimAnswer.BUSY, None
    if facts.state not in CLAIMABLE:
        return ClaimAnswer.SETTLED, None
    if not facts.due:
        return ClaimAnswer.NOT_DUE, None
    if facts.provider_paused:
        return ClaimAnswer.PAUSED, Reason.PROVIDER_PAUSED
    if refusal := facts.policy.refusal():
        return ClaimAnswer.SUPPRESSED, refusal
    if facts.attempts_used >= limits.attempts:
        return ClaimAnswer.DEAD, Reason.ATTEMPTS_EXHAUSTED
    if facts.too_old:
        return ClaimAnswer.DEAD, Reason.EXPIRED
    return ClaimAnswer.LEASED, None


class BeginAnswer(StrEnum):
    """What begin answers."""

    BEGUN = "begun"
    REFUSED = "refused"  #: stale token, closed, begun already, or too little of the lease left: no call, no write
    SUPPRESSED = "suppressed"
    RELEASED = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginFacts:
    """What begin reads under the lock; the attempt is the one of its token."""

    state: State
    token_is_current: bool
    attempt_open: bool
    attempt_begun: bool
    lease_suffices: bool  #: the whole call budget and a margin are left
    provider_paused: bool
    policy: Policy


def decide_begin(facts: BeginFacts) -> tuple[BeginAnswer, Reason | None]:
    """Say whether the provider may be called now.

    Begin is safe by *open* with every move closing, or by *token and leased*: leaving out two of these at a time sends
    twice (model: PROTOCOL). All are kept.
    """
    may_begin = (
        facts.token_is_current
        and facts.state is State.LEASED
        and facts.attempt_open
        and not facts.attempt_begun
        and facts.lease_suffices
    )
    if not may_begin:
        return BeginAnswer.REFUSED, None
    if refusal := facts.policy.refusal():
        return BeginAnswer.SUPPRESSED, refusal
    if facts.provider_paused:
        return BeginAnswer.RELEASED, Reason.PROVIDER_PAUSED
    return BeginAnswer.BEGUN, None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleFacts:
    """What settle reads under the lock."""

    state: State
    token_is_current: bool
    attempts_used: int
    attempts: tuple[AttemptFacts, ...]
    settle_after_lease_only: bool = False  #: the sweep: it leaves a lease that has not run out alone


class SettleAnswer(StrEnum):
    """What settle answers."""

    STALE = "stale"  #: not this token's lease any more: nothing was changed
    WAIT = "wait"  #: begun, nothing recorded, and the lease still runs
    MOVED = "moved"


class FinalAnswer(StrEnum):
    """What finalize answers."""

    SETTLED = "settled"  #: the machine has nothing more to do
    AGAIN = "again"  #: claim anew after the wait
    WAIT = "wait"  #: begun and nothing recorded: finalize anew when the lease is over


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What becomes of a leased message."""

    answer: SettleAnswer
    moves: tuple[tuple[Move, Reason | None], ...] = ()
    closes_as: Outcome | None = None  #: for an attempt without a recorded outcome
    closes_because: Reason | None = None
    gives_attempt_back: bool = False
    delay: timedelta = timedelta()  #: before it is due again


def backoff(limits: Limits, tries: int, jitter: float) -> timedelta:
    """Give a delay by exponential backoff with full jitter: anywhere between 0 and min(cap, base * 2^(tries-1)).

    `jitter` is a number from 0 to 1, so that many messages which failed together don't come back together.
    """
    exponent = min(max(tries, 1) - 1, 32)
    grown: timedelta = limits.backoff_base * 2**exponent
    return min(limits.backoff_cap, grown) * jitter


def decide_settle(facts: SettleFacts, limits: Limits, jitter: float | None = None) -> Settlement:
    """Say what a leased message becomes: one decision, for finalize and for the sweep (model: PROTOCOL, settle)."""
    if not facts.token_is_current or facts.state is not State.LEASED:
        return Settlement(answer=SettleAnswer.STALE)
    current = next(attempt for attempt in facts.attempts if attempt.is_current)
    if facts.settle_after_lease_only and not current.lease_over:
        return Settlement(answer=SettleAnswer.STALE)
    spread = random.random() if jitter is None else jitter  # noqa: S311  (spreads load, guards nothing)
    best = best_known(facts.attempts)
    event = current.strongest_event()
    heard = current.outcome is not None or event is not None
    if best is not None and (heard or not current.begun or current.lease_over):
        first = Move.ACCEPT if current.outcome is Outcome.ACCEPTED else Move.PROVE
        return _moved(current, (first, None), *upwards(State.PROVIDER_ACCEPTED, best))
    if event is EventType.REJECT:
        return _moved(current, (Move.PROVE, None), (Move.REJECT_LATE, Reason.REJECTED))
    if current.outcome is Outcome.REJECTED:
        return _moved(current, (Move.REJECT, current.reason))
    if current.outcome in (Outcome.REFUSED, Outcome.NOT_SUBMITTED):
        return _after_definite_no(current, facts.attempts_used, limits, spread)
    if not current.begun:
        # Leases that end before anything begins mean overload: the wait grows with each, or all would only claim.
        in_vain = len(list(takewhile(lambda attempt: not attempt.begun, reversed(facts.attempts))))
        reason = Reason.LEASE_EXPIRED if current.lease_over else None
        return _moved(current, (Move.RETRY, reason), delay=backoff(limits, in_vain, spread))
    if current.outcome is Outcome.UNKNOWN or current.lease_over:
        return _moved(current, (Move.QUARANTINE, current.reason or Reason.LEASE_EXPIRED))
    return Settlement(answer=SettleAnswer.WAIT)


def _moved(
    current: AttemptFacts,
    *moves: tuple[Move, Reason | None],
    delay: timedelta = timedelta(),
    gives_attempt_back: bool = False,
) -> Settlement:
    """Build a settlement; an attempt without a recorded outcome is closed as unknown, or as never begun."""
    closes_as = closes_because = None
    if current.outcome is None:
        closes_as = Outcome.UNKNOWN if current.begun else Outcome.NOT_BEGUN
        closes_because = Reason.LEASE_EXPIRED if current.lease_over else None
    return Settlement(
        answer=SettleAnswer.MOVED,
        moves=moves,
        closes_as=closes_as,
        closes_because=closes_because,
        gives_attempt_back=gives_attempt_back,
        delay=delay,
    )


def _after_definite_no(current: AttemptFacts, used: int, limits: Limits, spread: float) -> Settlement:
    """Settle a refusal that may change, or a call that provably reached nobody."""
    if current.reason in ACCOUNT_REASONS:
        delay = limits.account_wait * (1 + spread)
        return _moved(current, (Move.RETRY, current.reason), delay=delay, gives_attempt_back=True)
    if used >= limits.attempts:
        return _moved(current, (Move.REJECT, Reason.ATTEMPTS_EXHAUSTED))
    return _moved(current, (Move.RETRY, current.reason), delay=backoff(limits, used, spread))
