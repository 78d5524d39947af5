"""The chaos run's checker finds each event that was not taken or kept, and each message that ends elsewhere."""

from typing import Any

import pytest

from db.lifecycle import Move
from tests.bench.chaos_records import (
    ACCEPTED,
    DOUBTED,
    HANGS,
    attempt,
    breached,
    decided,
    ended,
    line,
    observed,
    request,
    told,
)


def test_i13_every_event_is_taken() -> None:
    assert breached(observed(**told("send", taken=False))) == {"I13"}


def test_i13_every_event_is_kept_once_and_about_its_attempt() -> None:
    send = told("send")
    copies = send["notifications"] * 2

    assert breached(observed(**send)) == set()
    assert breached(observed(notifications=copies, events=send["events"])) == set()
    assert breached(observed(notifications=copies, events=send["events"] * 2)) == {"I13"}
    assert breached(observed(notifications=copies)) == {"I13"}
    assert breached(observed(events=send["events"])) == {"I13"}
    assert breached(observed(notifications=copies, events=told("send", number=2)["events"])) == {"I13"}
    assert breached(observed(notifications=copies, events=told("other")["events"])) == {"I13"}


@pytest.mark.parametrize(
    ("recipient", "move", "state"),
    [
        (None, Move.DELIVER, "delivered"),
        ("hang", Move.DELIVER, "delivered"),
        ("ooto", Move.DELIVER, "delivered"),
        ("bounce", Move.BOUNCE, "hard_bounced"),
        ("suppressionlist", Move.BOUNCE, "hard_bounced"),
        ("late-bounce", Move.BOUNCE, "hard_bounced"),
        ("disorder", Move.BOUNCE, "hard_bounced"),
        ("complaint", Move.COMPLAIN, "complained"),
    ],
)
def test_i13_a_message_ends_where_the_events_about_its_recipient_put_it(
    recipient: str | None, move: Move, state: str
) -> None:
    events = told("send", "delivery", "bounce", "complaint")
    rest: dict[str, Any] = {"requests": (request(recipient=recipient),), **events}
    other = ended(*ACCEPTED, line(4, Move.BOUNCE, "provider_accepted", "hard_bounced"))

    assert breached(observed(**ended(*ACCEPTED, line(4, move, "provider_accepted", state)), **rest)) == set()
    assert breached(observed(**rest)) == {"I13"}
    assert ("I13" in breached(observed(**other, **rest))) == (state != "hard_bounced")


@pytest.mark.parametrize(
    ("requests", "right"),
    [
        ((), True),
        ((request(answer="failed"),), True),
        ((request(recipient="lost"),), True),
        ((request(recipient="silent"),), True),
        ((request(recipient="hang"),), False),
        ((request(recipient=None),), False),
    ],
    ids=["a kill before the submission", "not accepted", "lost", "silent, not recorded", "hang", "ordinary"],
)
def test_i13_only_what_nobody_tells_of_is_left_in_doubt(requests: tuple[Any, ...], right: bool) -> None:
    doubted = {**ended(*DOUBTED), "attempts": (attempt(outcome="unknown"),), "requests": requests}

    assert breached(observed(**doubted)) == (set() if right else {"I13"})


def test_i13_what_was_answered_and_recorded_is_not_in_doubt() -> None:
    assert breached(observed(**ended(*DOUBTED))) == {"I13"}
    assert breached(observed(**ended(*DOUBTED), requests=(request(recipient="lost"),))) == set()


@pytest.mark.parametrize(
    ("decision", "move", "state"),
    [("accepted", Move.RESOLVE_ACCEPTED, "provider_accepted"), ("abandon", Move.RESOLVE_ABANDON, "dead")],
)
@pytest.mark.parametrize("requests", [(), (request(recipient="lost"),)], ids=["not accepted", "lost"])
def test_i13_a_person_may_decide_what_nobody_tells_of(
    decision: str, move: Move, state: str, requests: tuple[Any, ...]
) -> None:
    resolved = ended(*DOUBTED, line(4, move, "ambiguous", state))
    doubted: dict[str, Any] = {"attempts": (attempt(outcome="unknown"),), "requests": requests}

    assert breached(observed(**resolved, **doubted, **decided(decision))) == set()
    if requests or state == "provider_accepted":
        assert "I13" in breached(observed(**resolved, **doubted))
        other = {"accepted": "abandon", "abandon": "accepted"}[decision]
        assert "I13" in breached(observed(**resolved, **doubted, **decided(other)))


def test_i13_no_decision_keeps_a_message_from_the_end_that_its_events_tell() -> None:
    abandoned = ended(*DOUBTED, line(4, Move.RESOLVE_ABANDON, "ambiguous", "dead"))
    doubted: dict[str, Any] = {"attempts": (attempt(outcome="unknown"),), **HANGS, **told("send", "delivery")}

    assert breached(observed(**abandoned, **doubted, **decided("abandon"))) == {"I13"}
