"""The chaos run's checker finds each breach in a hand-made record, and nothing in the right one beside it."""

from typing import Any

import pytest

from bench.chaos.checker import check
from bench.chaos.records import Action, Asked
from bench.chaos.submissions import lost, submitted_twice
from db.lifecycle import Move
from tests.bench.chaos_records import (
    ACCEPTED,
    DELIVERED,
    DOUBTED,
    HANGS,
    ID,
    answer,
    at,
    attempt,
    breached,
    ended,
    line,
    message,
    observed,
    ordered,
    request,
    resend,
    row,
    told,
)

RESEND: dict[str, Any] = {"audit": (resend(),), "actions": (ordered(),)}
TWO_ATTEMPTS = (attempt(1, "unknown"), attempt(2))


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
    assert "I4" in breached(observed(attempts=()))


def test_i5_delivered_only_with_its_event() -> None:
    delivered: dict[str, Any] = ended(*DELIVERED, delivered_at="2026") | {"requests": (request(recipient=None),)}
    both = told("send", "delivery")

    assert breached(observed(**delivered, **both)) == set()
    assert breached(observed(**delivered)) == {"I5"}
    assert breached(observed(**delivered, **told("send"))) == {"I5"}
    assert "I5" in breached(observed(**delivered, events=both["events"]))
    assert "I5" in breached(observed(**delivered, notifications=both["notifications"]))
    assert "I5" in breached(observed(**delivered, **told("send", "delivery", taken=False)))


@pytest.mark.parametrize(("move", "state"), [(Move.BOUNCE, "hard_bounced"), (Move.COMPLAIN, "complained")])
def test_i5_bounced_and_complained_only_with_their_events(move: Move, state: str) -> None:
    worse = ended(*ACCEPTED, line(4, move, "provider_accepted", state))

    assert "I5" in breached(observed(**worse, **told("send", "delivery")))


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


@pytest.mark.parametrize(
    ("move", "actor", "wrong"),
    [
        ("event_delay", "provider", False),
        ("event_delay", "machine", True),
        ("event_rain", "provider", True),
        ("late_result", "provider", True),
    ],
)
def test_i6_what_moves_nothing_is_a_late_result_or_an_event_of_the_provider(move: str, actor: str, wrong: bool) -> None:
    note = ACCEPTED[2] | {"seq": 4, "from": None, "to": None, "move": move, "actor": actor}
    noted = message(*ACCEPTED) | {"timeline": [*ACCEPTED, note]}

    assert breached(observed(messages={ID: noted})) == ({"I6"} if wrong else set())


def test_i6_a_provider_event_may_end_what_was_in_doubt_and_nobody_else_can_so() -> None:
    proof = line(4, Move.PROVE, "ambiguous", "provider_accepted")
    proven = (*DOUBTED, proof, line(5, Move.DELIVER, "provider_accepted", "delivered"))
    right: dict[str, Any] = {"attempts": (attempt(outcome="unknown"),), **HANGS, **told("send", "delivery")}

    assert breached(observed(**ended(*proven), **right)) == set()
    by_machine = (*DOUBTED, proof | {"actor": "machine"}, proven[4])
    assert breached(observed(**ended(*by_machine), **right)) == {"I6"}


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
