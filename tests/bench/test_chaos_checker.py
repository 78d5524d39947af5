"""The chaos run's checker finds each breach in a hand-made record, and nothing in the right one beside it."""

from typing import Any

import pytest

from bench.chaos.checker import check
from bench.chaos.records import Action, Asked, Observed
from bench.chaos.submissions import lost, submitted_twice
from db.lifecycle import Move
from tests.bench.chaos_records import (
    ACCEPTED,
    ID,
    answer,
    at,
    attempt,
    line,
    message,
    observed,
    ordered,
    request,
    resend,
    row,
)

RESEND: dict[str, Any] = {"audit": (resend(),), "actions": (ordered(),)}
TWO_ATTEMPTS = (attempt(1, "unknown"), attempt(2))


def breached(run: Observed) -> set[str]:
    return {finding.invariant for finding in check(run)}


def test_a_right_run_has_no_breach() -> None:
    run = observed()

    assert check(run) == []
    assert submitted_twice(run) == lost(run) == set()


@pytest.mark.parametrize(
    "bent",
    [
        {"rows": (row(), row(id="another"))},
        {"rows": (row(), row(id="another", key="nobody's"))},
        {"answers": (answer(), answer(200, Asked.REPLAY, id="another"))},
        {"answers": (answer(), answer(202))},
        {"answers": (answer(), answer(202, Asked.REPLAY))},
        {"answers": (answer(), answer(200, Asked.CONFLICT))},
        {"answers": (answer(422),), "rows": ()},
    ],
    ids=["two rows", "a row of nobody", "another id", "new twice", "not a replay", "no conflict", "refused"],
)
def test_i1_one_message_a_key(bent: dict[str, Any]) -> None:
    assert "I1" in breached(observed(**bent))
    assert "I1" not in breached(observed(unanswered=("other",), rows=(row(), row(id="another", key="other"))))


def test_i2_no_more_requests_than_refusals_and_resends_allow() -> None:
    throttled = (request(1, "throttled"), request(2))
    refused = (attempt(1, "refused"), attempt(2))
    failed = (request(1, "failed"), request(2))

    assert breached(observed(requests=throttled, attempts=refused)) == set()
    assert breached(observed(requests=failed, attempts=TWO_ATTEMPTS, **RESEND)) == set()
    assert "I2" in breached(observed(requests=failed, attempts=TWO_ATTEMPTS))
    assert "I2" in breached(observed(requests=(*throttled, request(3)), attempts=(*refused, attempt(3))))


def test_i3_nothing_follows_an_open_end_without_an_order() -> None:
    unrecorded = (request(2),)  # the first attempt's connection was reset before it counted as read
    first_comes_late = (request(2, "failed"), request(1))

    assert breached(observed(requests=unrecorded, attempts=TWO_ATTEMPTS, **RESEND)) == set()
    assert "I3" not in breached(observed(requests=first_comes_late, attempts=TWO_ATTEMPTS, **RESEND))
    assert breached(observed(requests=unrecorded, attempts=TWO_ATTEMPTS)) == {"I3"}
    too_late = {"audit": (resend(seconds=30),), "actions": RESEND["actions"]}
    assert breached(observed(requests=unrecorded, attempts=TWO_ATTEMPTS, **too_late)) == {"I3"}
    about_another = {"audit": (resend(2),), "actions": (ordered(2),)}
    assert breached(observed(requests=unrecorded, attempts=TWO_ATTEMPTS, **about_another)) == {"I3"}


def test_i3_one_attempt_is_one_request_whatever_is_ordered_later() -> None:
    again = (request(1, seconds=12), request(1, seconds=16))

    assert {"I3"} <= breached(observed(requests=again, **RESEND))
    assert {"I2", "I3"} <= breached(observed(requests=again))


@pytest.mark.parametrize(
    ("outcome", "answers"),
    [
        ("accepted", ["throttled"]),
        ("accepted", []),
        ("refused", ["accepted"]),
        ("not_submitted", ["accepted"]),
        ("not_begun", ["failed"]),
    ],
)
def test_i4_outcomes_agree_with_the_record(outcome: str, answers: list[str]) -> None:
    bent = observed(attempts=(attempt(outcome=outcome),), requests=tuple(request(answer=each) for each in answers))

    assert "I4" in breached(bent)
    assert "I4" not in breached(observed(attempts=(attempt(outcome="unknown"),), requests=()))


def test_i4_an_accepted_attempt_has_the_records_id() -> None:
    assert breached(observed(attempts=(attempt(provider_message_id="other"),))) == {"I4"}
    assert breached(observed(attempts=())) == {"I4"}


def test_i5_delivered_only_with_its_event() -> None:
    delivered = message(*ACCEPTED, line(4, Move.DELIVER, "provider_accepted", "delivered"), delivered_at="2026")
    bent = {"messages": {ID: delivered}, "rows": (row("delivered"),)}

    assert breached(observed(**bent)) == {"I5"}
    assert breached(observed(**bent, events={ID: frozenset({"send"})})) == {"I5"}
    assert breached(observed(**bent, events={ID: frozenset({"send", "delivery"})})) == set()


@pytest.mark.parametrize(
    "timeline",
    [
        (ACCEPTED[0], ACCEPTED[2] | {"seq": 2}),
        (*ACCEPTED[:2], ACCEPTED[2] | {"seq": 4}),
        (*ACCEPTED[:2], line(3, Move.RESOLVE_RESEND, "leased", "queued")),
        (*ACCEPTED[:2], ACCEPTED[2] | {"move": "wonder"}),
        (*ACCEPTED[:2], ACCEPTED[2] | {"actor": "client"}),
        ACCEPTED[1:],
    ],
    ids=["a gap", "a number left out", "no edge", "no move", "another actor", "no beginning"],
)
def test_i6_only_edges_of_the_lifecycle(timeline: tuple[dict[str, Any], ...]) -> None:
    late_result = line(4, Move.ACCEPT, None, "") | {"to": None, "move": "late_result"}
    settled = message(*ACCEPTED) | {"timeline": [*ACCEPTED, late_result]}

    assert "I6" in breached(observed(messages={ID: message(*timeline)}))
    assert breached(observed(messages={ID: settled})) == set()


def test_i6_the_state_is_where_the_timeline_ends() -> None:
    assert "I6" in breached(observed(messages={ID: message(*ACCEPTED, state="ambiguous")}))


@pytest.mark.parametrize(
    "attempts",
    [
        (attempt(2),),
        (attempt(1, "refused"), attempt(2, token=1)),
        (attempt(1, "refused"), attempt(2, claimed_at=at(0))),
        (attempt(1, None), attempt(2, None)),
        (attempt(1, None),),
    ],
    ids=["not from 1", "no newer token", "claimed before", "two open", "open and not leased"],
)
def test_i7_attempts_only_grow(attempts: tuple[Any, ...]) -> None:
    assert "I7" in breached(observed(attempts=attempts))
    assert "I7" not in breached(observed(attempts=(attempt(1, None),), rows=(row("leased"),)))


def test_i7_what_was_shown_of_an_attempt_stays() -> None:
    shown = {"number": 1, "outcome": None, "begun_at": None}

    assert breached(observed(answers=(answer(attempts=[shown]),))) == set()
    assert breached(observed(answers=(answer(attempts=[shown | {"outcome": "refused"}]),))) == {"I7"}
    assert breached(observed(answers=(answer(attempts=[shown, shown | {"number": 2}]),))) == {"I7"}


@pytest.mark.parametrize("state", ["queued", "leased", "retryable"])
def test_i8_nothing_is_stuck(state: str) -> None:
    assert "I8" in breached(observed(rows=(row(state),)))
    assert breached(observed(unanswered=("k",))) == {"I8"}
    assert "I8" not in breached(observed(rows=(row("ambiguous"),)))


def test_i9_what_was_switched_off_has_no_request() -> None:
    suppressed = message(ACCEPTED[0], line(2, Move.SUPPRESS_AT_CLAIM, "queued", "suppressed"), attempts=[])
    right = {"messages": {ID: suppressed}, "rows": (row("suppressed"),), "attempts": (), "requests": ()}

    assert breached(observed(**right, switched_off=frozenset({ID}))) == set()
    assert "I9" in breached(observed(**{**right, "requests": (request(),)}))
    assert breached(observed(switched_off=frozenset({ID}))) == {"I9"}


def test_i10_nothing_protected_is_written_anywhere() -> None:
    assert breached(observed(places={"a log": "row: CANARY"})) == {"I10"}


@pytest.mark.parametrize(
    ("action", "audit"),
    [
        (ordered(), ()),
        (ordered(status=409, due=409), (resend(),)),
        (ordered(status=404, due=409), ()),
        (ordered(status=None), (resend(), resend())),
        (ordered(due=403), (resend(),)),
    ],
    ids=[
        "done, not audited",
        "refused, audited",
        "refused otherwise",
        "once, audited twice",
        "done, though it had to be refused",
    ],
)
def test_i11_what_is_done_is_audited_once(action: Action, audit: tuple[Any, ...]) -> None:
    unanswered = ordered(status=None)

    assert breached(observed(actions=(action,), audit=audit)) == {"I11"}
    assert breached(observed(**RESEND)) == set()
    assert breached(observed(actions=(unanswered,), audit=(resend(),))) == set()
    assert breached(observed(actions=(unanswered,))) == set()


def test_i12_tenants_are_apart() -> None:
    assert breached(observed(read_by_others=frozenset({ID}))) == {"I12"}


def test_twice_counts_what_was_accepted_again_without_an_order() -> None:
    again = (request(1), request(2))

    assert submitted_twice(observed(requests=again)) == {ID}
    assert submitted_twice(observed(requests=again, **RESEND)) == set()


def test_lost_counts_what_is_gone_and_what_was_never_taken() -> None:
    assert lost(observed(messages={ID: None})) == {ID}
    assert lost(observed(requests=())) == {ID}
