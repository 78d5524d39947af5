"""What claim, begin and settle decide, fact by fact. A condition that is taken out of a decision fails here by name."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from db.decisions import (
    BeginAnswer,
    BeginFacts,
    ClaimAnswer,
    ClaimFacts,
    Limits,
    Policy,
    SettleAnswer,
    SettleFacts,
    Settlement,
    backoff,
    decide_begin,
    decide_claim,
    decide_settle,
)
from db.evidence import AttemptFacts
from db.lifecycle import CLAIMABLE, Move, State, sources, target
from db.outcomes import ACCOUNT_REASONS, EventType, Outcome, Reason

LIMITS = Limits(
    attempts=3,
    max_age=timedelta(hours=24),
    backoff_base=timedelta(seconds=2),
    backoff_cap=timedelta(seconds=300),
    account_wait=timedelta(minutes=10),
)
FINE = Policy(
    tenant_disabled=False,
    sender_disabled=False,
    credential_revoked=False,
    scope_missing=False,
    recipient_suppressed=False,
)
REFUSALS = {
    "tenant_disabled": Reason.TENANT_DISABLED,
    "sender_disabled": Reason.SENDER_DISABLED,
    "credential_revoked": Reason.CREDENTIAL_REVOKED,
    "scope_missing": Reason.SCOPE_MISSING,
    "recipient_suppressed": Reason.RECIPIENT_SUPPRESSED,
}
CLAIM = ClaimFacts(
    state=State.QUEUED,
    due=True,
    provider_paused=False,
    policy=FINE,
    attempts_used=0,
    too_old=False,
    own_attempt_open=None,
)
BEGIN = BeginFacts(
    state=State.LEASED,
    token_is_current=True,
    attempt_open=True,
    attempt_begun=False,
    lease_suffices=True,
    provider_paused=False,
    policy=FINE,
)


@pytest.mark.parametrize("state", CLAIMABLE)
def test_a_free_due_message_is_leased(state: State) -> None:
    assert decide_claim(replace(CLAIM, state=state), LIMITS) == (ClaimAnswer.LEASED, None)


def test_a_repeated_claim_finds_its_own_lease() -> None:
    facts = replace(CLAIM, state=State.LEASED, own_attempt_open=True)

    assert decide_claim(facts, LIMITS) == (ClaimAnswer.LEASED, None)


@pytest.mark.parametrize("state", State)
def test_a_repeated_claim_whose_lease_is_over_is_lost_and_takes_none_anew(state: State) -> None:
    facts = replace(CLAIM, state=state, own_attempt_open=False)

    assert decide_claim(facts, LIMITS) == (ClaimAnswer.LOST, None)


def test_a_leased_message_is_busy() -> None:
    assert decide_claim(replace(CLAIM, state=State.LEASED), LIMITS) == (ClaimAnswer.BUSY, None)


@pytest.mark.parametrize("state", [state for state in State if state not in (*CLAIMABLE, State.LEASED)])
def test_a_message_in_any_other_state_is_settled(state: State) -> None:
    assert decide_claim(replace(CLAIM, state=state), LIMITS) == (ClaimAnswer.SETTLED, None)


def test_a_message_that_is_not_due_waits() -> None:
    assert decide_claim(replace(CLAIM, due=False), LIMITS)[0] is ClaimAnswer.NOT_DUE


def test_no_lease_is_taken_while_the_provider_is_switched_off() -> None:
    facts = replace(CLAIM, provider_paused=True, attempts_used=3)

    assert decide_claim(facts, LIMITS) == (ClaimAnswer.PAUSED, Reason.PROVIDER_PAUSED)


@pytest.mark.parametrize("fault", REFUSALS)
def test_policy_stops_a_claim(fault: str) -> None:
    facts = replace(CLAIM, policy=replace(FINE, **{fault: True}))

    assert decide_claim(facts, LIMITS) == (ClaimAnswer.SUPPRESSED, REFUSALS[fault])


@pytest.mark.parametrize(("used", "answer"), [(2, ClaimAnswer.LEASED), (3, ClaimAnswer.DEAD), (4, ClaimAnswer.DEAD)])
def test_a_message_whose_attempts_are_used_up_is_dead(used: int, answer: ClaimAnswer) -> None:
    assert decide_claim(replace(CLAIM, attempts_used=used), LIMITS)[0] is answer


def test_a_message_that_is_too_old_is_dead() -> None:
    assert decide_claim(replace(CLAIM, too_old=True), LIMITS) == (ClaimAnswer.DEAD, Reason.EXPIRED)


def test_begin_begins() -> None:
    assert decide_begin(BEGIN) == (BeginAnswer.BEGUN, None)


@pytest.mark.parametrize("state", [state for state in State if state is not State.LEASED])
def test_begin_refuses_a_message_that_is_not_leased(state: State) -> None:
    assert decide_begin(replace(BEGIN, state=state)) == (BeginAnswer.REFUSED, None)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"token_is_current": False}, id="stale token"),
        pytest.param({"attempt_open": False}, id="closed attempt"),
        pytest.param({"attempt_begun": True}, id="begun already"),
        pytest.param({"lease_suffices": False}, id="too little lease"),
    ],
)
def test_begin_refuses_a(change: dict[str, Any]) -> None:
    assert decide_begin(replace(BEGIN, **change)) == (BeginAnswer.REFUSED, None)


@pytest.mark.parametrize("change", [{"token_is_current": False}, {"attempt_open": False}, {"attempt_begun": True}])
def test_a_stale_begin_neither_suppresses_nor_releases(change: dict[str, Any]) -> None:
    facts = replace(BEGIN, **change, provider_paused=True, policy=replace(FINE, tenant_disabled=True))

    assert decide_begin(facts) == (BeginAnswer.REFUSED, None)


@pytest.mark.parametrize("fault", REFUSALS)
def test_policy_stops_a_begin(fault: str) -> None:
    assert decide_begin(replace(BEGIN, policy=replace(FINE, **{fault: True}))) == (
        BeginAnswer.SUPPRESSED,
        REFUSALS[fault],
    )


def test_a_begin_is_released_while_the_provider_is_switched_off() -> None:
    assert decide_begin(replace(BEGIN, provider_paused=True)) == (BeginAnswer.RELEASED, Reason.PROVIDER_PAUSED)


def attempt(
    outcome: Outcome | None = None,
    reason: Reason | None = None,
    *events: EventType,
    begun: bool = True,
    over: bool = False,
    current: bool = True,
    number: int = 1,
) -> AttemptFacts:
    return AttemptFacts(
        number=number,
        is_current=current,
        begun=begun,
        outcome=outcome,
        reason=reason,
        events=frozenset(events),
        lease_over=over,
    )


def settle(*attempts: AttemptFacts, used: int = 1, state: State = State.LEASED, current: bool = True) -> Settlement:
    facts = SettleFacts(state=state, token_is_current=current, attempts_used=used, attempts=attempts)
    return decide_settle(facts, LIMITS, jitter=1.0)


def made(settlement: Settlement) -> list[Move]:
    assert settlement.answer is SettleAnswer.MOVED
    return [move for move, _ in settlement.moves]


def test_an_accepted_attempt_is_provider_accepted() -> None:
    assert made(settle(attempt(Outcome.ACCEPTED))) == [Move.ACCEPT]


def test_a_final_no_is_dead_with_its_reason() -> None:
    assert settle(attempt(Outcome.REJECTED, Reason.REJECTED)).moves == ((Move.REJECT, Reason.REJECTED),)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.NOT_SUBMITTED])
def test_a_no_that_may_change_is_retryable(outcome: Outcome) -> None:
    settlement = settle(attempt(outcome, Reason.THROTTLED), used=2)

    assert settlement.moves == ((Move.RETRY, Reason.THROTTLED),)
    assert settlement.delay == timedelta(seconds=4)
    assert not settlement.gives_attempt_back


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.NOT_SUBMITTED])
def test_a_no_to_the_last_attempt_is_dead(outcome: Outcome) -> None:
    assert settle(attempt(outcome, Reason.THROTTLED), used=3).moves == ((Move.REJECT, Reason.ATTEMPTS_EXHAUSTED),)


@pytest.mark.parametrize("reason", sorted(ACCOUNT_REASONS))
def test_a_refusal_of_the_whole_account_uses_up_no_attempt_and_waits_long(reason: Reason) -> None:
    settlement = settle(attempt(Outcome.REFUSED, reason), used=3)

    assert settlement.moves == ((Move.RETRY, reason),)
    assert settlement.gives_attempt_back
    assert settlement.delay >= LIMITS.account_wait


@pytest.mark.parametrize("over", [False, True])
def test_an_attempt_that_never_began_is_retryable_and_closed(over: bool) -> None:
    settlement = settle(attempt(begun=False, over=over), used=3)

    assert made(settlement) == [Move.RETRY]
    assert settlement.closes_as is Outcome.NOT_BEGUN


def test_each_lease_that_ends_before_anything_began_makes_the_wait_longer() -> None:
    began_once = attempt(Outcome.REFUSED, Reason.THROTTLED, current=False)
    in_vain = [attempt(Outcome.NOT_BEGUN, begun=False, current=False, number=number) for number in (2, 3)]

    settlement = settle(began_once, *in_vain, attempt(begun=False, number=4))

    assert settlement.delay == LIMITS.backoff_base * 4


def test_an_unknown_outcome_is_ambiguous_at_once() -> None:
    assert settle(attempt(Outcome.UNKNOWN, Reason.PROVIDER_TIMEOUT)).moves == (
        (Move.QUARANTINE, Reason.PROVIDER_TIMEOUT),
    )


def test_a_begun_attempt_without_an_outcome_waits_for_the_end_of_its_lease() -> None:
    assert settle(attempt()).answer is SettleAnswer.WAIT


def test_a_begun_attempt_without_an_outcome_is_ambiguous_when_its_lease_is_over() -> None:
    settlement = settle(attempt(over=True))

    assert settlement.moves == ((Move.QUARANTINE, Reason.LEASE_EXPIRED),)
    assert settlement.closes_as is Outcome.UNKNOWN


@pytest.mark.parametrize("state", [state for state in State if state is not State.LEASED])
def test_settle_changes_nothing_unless_the_message_is_leased(state: State) -> None:
    assert settle(attempt(Outcome.ACCEPTED), state=state).answer is SettleAnswer.STALE


def test_settle_changes_nothing_under_a_stale_token() -> None:
    assert settle(attempt(Outcome.ACCEPTED), current=False).answer is SettleAnswer.STALE


@pytest.mark.parametrize("facts", [attempt(), attempt(Outcome.ACCEPTED), attempt(begun=False)])
def test_the_sweep_leaves_a_lease_alone_that_still_runs(facts: AttemptFacts) -> None:
    running = SettleFacts(
        state=State.LEASED, token_is_current=True, attempts_used=1, attempts=(facts,), settle_after_lease_only=True
    )

    assert decide_settle(running, LIMITS).answer is SettleAnswer.STALE


@pytest.mark.parametrize(
    ("event", "moves"),
    [
        (EventType.SEND, [Move.PROVE]),
        (EventType.DELAY, [Move.PROVE]),
        (EventType.SOFT_BOUNCE, [Move.PROVE]),
        (EventType.DELIVERY, [Move.PROVE, Move.DELIVER]),
        (EventType.BOUNCE, [Move.PROVE, Move.BOUNCE]),
        (EventType.COMPLAINT, [Move.PROVE, Move.COMPLAIN]),
        (EventType.REJECT, [Move.PROVE, Move.REJECT_LATE]),
    ],
)
@pytest.mark.parametrize("outcome", [None, Outcome.UNKNOWN])
def test_an_event_that_came_before_finalize_is_applied_by_it(
    event: EventType, moves: list[Move], outcome: Outcome | None
) -> None:
    assert made(settle(attempt(outcome, None, event, over=outcome is None))) == moves


def test_of_one_attempts_events_the_strongest_counts() -> None:
    events = (EventType.DELIVERY, EventType.COMPLAINT, EventType.SEND, EventType.BOUNCE)

    assert made(settle(attempt(Outcome.ACCEPTED, None, *events))) == [Move.ACCEPT, Move.COMPLAIN]


def test_a_rejection_outweighs_the_acceptance_of_its_own_attempt() -> None:
    settlement = settle(attempt(Outcome.ACCEPTED, None, EventType.REJECT))

    assert made(settlement) == [Move.PROVE, Move.REJECT_LATE]


def test_an_older_attempt_that_was_accepted_after_all_ends_a_lease_that_has_not_begun() -> None:
    older = attempt(Outcome.UNKNOWN, None, EventType.SEND, current=False)

    assert made(settle(older, attempt(begun=False, number=2))) == [Move.PROVE]


def test_an_older_acceptance_does_not_end_a_call_that_is_still_under_way() -> None:
    older = attempt(Outcome.UNKNOWN, None, EventType.SEND, current=False)

    assert settle(older, attempt(number=2)).answer is SettleAnswer.WAIT


def test_an_older_acceptance_counts_when_the_lease_of_a_silent_call_is_over() -> None:
    older = attempt(Outcome.UNKNOWN, None, EventType.SEND, current=False)

    assert made(settle(older, attempt(number=2, over=True))) == [Move.PROVE]


def test_a_rejection_of_an_older_attempt_says_nothing_of_this_one() -> None:
    older = attempt(Outcome.UNKNOWN, None, EventType.REJECT, current=False)

    assert made(settle(older, attempt(Outcome.ACCEPTED, number=2))) == [Move.ACCEPT]


attempts = st.builds(
    AttemptFacts,
    number=st.just(1),
    is_current=st.just(True),
    begun=st.booleans(),
    outcome=st.none() | st.sampled_from([Outcome.ACCEPTED, Outcome.REFUSED, Outcome.REJECTED, Outcome.UNKNOWN]),
    reason=st.none() | st.sampled_from(Reason),
    events=st.frozensets(st.sampled_from(EventType)),
    lease_over=st.booleans(),
)


@given(attempts, st.integers(0, 9))
def test_whatever_is_stored_settle_goes_along_the_table_only(facts: AttemptFacts, used: int) -> None:
    settlement = settle(facts, used=used)

    state = State.LEASED
    for move, _ in settlement.moves:
        assert state in sources(move)
        state = target(move)
    if settlement.answer is SettleAnswer.MOVED:
        assert state is not State.LEASED


@given(attempts, st.integers(0, 9))
def test_nothing_that_may_have_been_submitted_is_ever_free_to_be_claimed_again(facts: AttemptFacts, used: int) -> None:
    moves = [move for move, _ in settle(facts, used=used).moves]

    if Move.RETRY in moves:
        assert not facts.begun or facts.outcome in (Outcome.REFUSED, Outcome.NOT_SUBMITTED)


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_backoff_is_full_jitter_below_a_cap(used: int, jitter: float) -> None:
    delay = backoff(LIMITS, used, jitter)

    assert timedelta() <= delay <= LIMITS.backoff_cap
    assert backoff(LIMITS, used, 1.0) >= delay


def test_messages_that_were_refused_together_do_not_come_back_together() -> None:
    refused = SettleFacts(
        state=State.LEASED, token_is_current=True, attempts_used=1, attempts=(attempt(Outcome.REFUSED),)
    )

    assert len({decide_settle(refused, LIMITS).delay for _ in range(20)}) > 1


def test_backoff_doubles_up_to_its_cap() -> None:
    delays = [backoff(LIMITS, used, 1.0).total_seconds() for used in range(1, 11)]

    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
