"""Which events each recipient brings about, and when (CONTRACT section 4)."""

import pytest

from dev.simulator.events import PlannedEvent, plan
from dev.simulator.faults import AcceptedFault, Fault, first_fault

Told = list[tuple[str, tuple[str, ...]]]


def planned_for(*recipients: str) -> tuple[PlannedEvent, ...]:
    fault, _ = first_fault(recipients) or (None, "")
    # A fault that throttles or refuses is over by the time that a mail is accepted.
    accepted: AcceptedFault | None
    match fault:
        case (
            Fault.THROTTLE
            | Fault.THROTTLE_TWICE
            | Fault.REJECT
            | Fault.ERROR500
            | Fault.UNAVAILABLE
            | Fault.RESET_BEFORE
        ):
            accepted = None
        case _:
            accepted = fault
    return plan(recipients, accepted)


def told(events: tuple[PlannedEvent, ...]) -> list[str]:
    return [each.event.type.value for each in events for _ in range(each.copies)]


def whom(events: tuple[PlannedEvent, ...]) -> Told:
    return [(each.event.type.value, each.event.recipients) for each in events]


@pytest.mark.parametrize(
    ("recipient", "types"),
    [
        ("ada@example.com", ["Send", "Delivery"]),
        ("bounce@example.com", ["Send", "Delivery"]),
        ("nobody-special@faults.example.com", ["Send", "Delivery"]),
        ("throttle-twice@faults.example.com", ["Send", "Delivery"]),
        ("success@simulator.amazonses.com", ["Send", "Delivery"]),
        ("bounce@simulator.amazonses.com", ["Send", "Bounce"]),
        ("Ada <BOUNCE+7+8@Simulator.AmazonSES.com>", ["Send", "Bounce"]),
        ("ooto@simulator.amazonses.com", ["Send", "Delivery", "Bounce"]),
        ("complaint@simulator.amazonses.com", ["Send", "Delivery", "Complaint"]),
        ("suppressionlist@simulator.amazonses.com", ["Send", "Bounce"]),
        ("lost@faults.example.com", []),
        ("silent+7@faults.example.com", []),
        ("late-bounce@faults.example.com", ["Delivery", "Bounce"]),
        ("disorder@faults.example.com", ["Bounce", "Bounce", "Delivery", "Delivery", "Send", "Send"]),
    ],
)
def test_each_recipient_has_its_events(recipient: str, types: list[str]) -> None:
    events = planned_for(recipient)

    assert told(events) == types
    assert [each.due_after for each in events] == sorted(each.due_after for each in events)


@pytest.mark.parametrize("fault", ["hang", "drip", "reset", "garbage", "empty"])
def test_what_must_be_ambiguous_first_is_told_after_25_seconds(fault: str) -> None:
    events = planned_for(f"{fault}+7@faults.example.com")

    assert told(events) == ["Send", "Delivery"]
    assert all(25 <= each.due_after < 26 for each in events)


def test_ordinary_mail_is_told_within_a_second_and_slow_mail_after_its_answer() -> None:
    ordinary, slow = planned_for("ada@example.com"), planned_for("slow@faults.example.com")

    assert all(each.due_after < 0.8 for each in ordinary)
    assert told(slow) == ["Send", "Delivery"]
    assert all(2 < each.due_after < 3 for each in slow)


@pytest.mark.parametrize(
    ("name", "bounce"),
    [
        ("bounce", ("Permanent", "General", "5.1.1")),
        ("ooto", ("Transient", "General", None)),
        ("suppressionlist", ("Permanent", "OnAccountSuppressionList", "5.1.1")),
    ],
)
def test_each_bounce_has_awss_own_reason(name: str, bounce: tuple[str, str, str | None]) -> None:
    [found] = [each.event.bounce for each in planned_for(f"{name}@simulator.amazonses.com") if each.event.bounce]

    assert (found.type, found.sub_type, found.status) == bounce


def test_feedback_names_nobody_else() -> None:
    bounce, complaint, late = "bounce@simulator.amazonses.com", "complaint@simulator.amazonses.com", "ada@example.com"
    events = planned_for(f"Ada <{late}>", bounce, complaint, late)

    assert whom(events) == [
        ("Send", (late, bounce, complaint)),
        ("Delivery", (late, complaint)),
        ("Bounce", (bounce,)),
        ("Complaint", (complaint,)),
    ]


def test_disorder_tells_in_times_of_their_own_what_came_first() -> None:
    bounce, delivery, send = planned_for("disorder@faults.example.com")

    assert send.happens_after < delivery.happens_after < bounce.happens_after < bounce.due_after
    assert bounce.due_after < delivery.due_after < send.due_after
