"""SES's events as AWS documents them, each with what is made of it; and whatever else may come."""

import dataclasses
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from api import addresses, ses_events
from db.outcomes import EventType, Reason
from db.records import ProviderEvent

GOLDEN = Path(__file__).parent / "golden_ses_events"
KEY = b"address-key-address-key-address-key"
MESSAGE_TAG = "0192f0c4-7c1e-7b1a-9d5e-3c8f1f0c2a44"
MAIL_ID = "0100018f2c6b1d6e-5a0a4a6e-7d0b-4a53-9b0e-2f0d6f7c1a11-000000"
OF_MAIL = datetime(2026, 11, 2, 9, 15, 27, 301000, tzinfo=UTC)
OF_EVENT = datetime(2026, 11, 2, 9, 15, 29, 118000, tzinfo=UTC)


def read(message: str, notification_id: str = "sns-1") -> ProviderEvent | None:
    return ses_events.read(message, notification_id=notification_id, address_key=KEY)


def golden(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return event


def event_of(body: dict[str, Any], notification_id: str = "sns-1") -> ProviderEvent:
    event = read(json.dumps(body), notification_id)
    assert event is not None
    return event


def hashed(address: str) -> bytes:
    return addresses.parse(address).hashed(KEY)


@dataclass(frozen=True, slots=True)
class Expected:
    type: EventType
    detail: dict[str, str] = field(default_factory=dict)
    recipients: tuple[tuple[str, str | None], ...] = ()
    reason: Reason | None = None
    at: datetime = OF_EVENT
    tagged: bool = True


def bounced(
    kind: EventType, classes: tuple[str, str], status: str | None, reason: Reason | None = None, *, tagged: bool = True
) -> Expected:
    detail = dict(zip(("bounce_type", "bounce_sub_type"), classes, strict=True))
    return Expected(kind, detail, (("ada@example.com", status),), reason, tagged=tagged)


HARD, SOFT, ON_LIST = EventType.BOUNCE, EventType.SOFT_BOUNCE, Reason.PROVIDER_SUPPRESSION_LIST
ADA = (("ada@example.com", None),)

EXPECTED = {
    "send": Expected(EventType.SEND, at=OF_MAIL),
    "delivery": Expected(EventType.DELIVERY, {}, (*ADA, ("grace@example.com", None))),
    "bounce_permanent_general": bounced(HARD, ("Permanent", "General"), "5.1.1"),
    "bounce_permanent_no_email": bounced(HARD, ("Permanent", "NoEmail"), "5.1.1"),
    "bounce_permanent_suppressed": bounced(HARD, ("Permanent", "Suppressed"), "5.1.1", ON_LIST),
    "bounce_permanent_on_account_suppression_list": bounced(
        HARD, ("Permanent", "OnAccountSuppressionList"), "5.1.1", ON_LIST
    ),
    "bounce_transient_general": bounced(SOFT, ("Transient", "General"), "4.4.7"),
    "bounce_out_of_office": bounced(SOFT, ("Transient", "General"), None),
    "bounce_transient_mailbox_full": bounced(SOFT, ("Transient", "MailboxFull"), "5.2.2"),
    "bounce_undetermined": bounced(SOFT, ("Undetermined", "Undetermined"), None),
    "complaint": Expected(EventType.COMPLAINT, {"complaint_type": "abuse"}, ADA),
    "complaint_on_account_suppression_list": Expected(
        HARD, {"complaint_sub_type": "OnAccountSuppressionList"}, ADA, ON_LIST
    ),
    "reject": Expected(EventType.REJECT, {"type": "Reject"}, reason=Reason.REJECTED, at=OF_MAIL),
    "rendering_failure": Expected(EventType.REJECT, {"type": "Rendering Failure"}, reason=Reason.REJECTED, at=OF_MAIL),
    "delivery_delay": Expected(
        EventType.DELAY, {"delay_type": "TransientCommunicationFailure"}, (("ada@example.com", "4.4.1"),)
    ),
    "open": Expected(EventType.OTHER, {"type": "Open"}),
    "click": Expected(EventType.OTHER, {"type": "Click"}),
    "subscription": Expected(EventType.OTHER, {"type": "Subscription"}),
    "identity_notification_bounce": bounced(HARD, ("Permanent", "General"), "5.1.1", tagged=False),
}


def test_every_golden_body_has_its_expected_result() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_event_as_aws_documents_it_becomes_ours(name: str) -> None:
    expected = EXPECTED[name]

    event = event_of(golden(name))

    assert event == ProviderEvent(
        provider="ses",
        notification_id="sns-1",
        natural_key=event.natural_key,
        type=expected.type,
        recipients=event.recipients,
        provider_message_id=MAIL_ID,
        message_tag=MESSAGE_TAG if expected.tagged else None,
        attempt_tag="1" if expected.tagged else None,
        reason=expected.reason,
        detail=expected.detail,
        occurred_at=expected.at,
    )
    named = [(recipient.address_hash, recipient.status) for recipient in event.recipients]
    assert named == [(hashed(address), status) for address, status in expected.recipients]


# What an event is about.


@pytest.mark.parametrize(
    "text",
    ["ADA@Bücher.Example.com", "Ada <ada@xn--bcher-kva.example.com>", 'Lovelace, Ada "x" <Ada@BÜCHER.example.com>'],
)
def test_an_address_is_found_however_it_is_written(text: str) -> None:
    body = golden("bounce_permanent_general")
    body["bounce"]["bouncedRecipients"][0]["emailAddress"] = text

    (named,) = event_of(body).recipients

    assert named.address_hash == hashed("ada@xn--bcher-kva.example.com")


def test_what_can_be_no_address_is_left_out_and_the_same_one_counts_once() -> None:
    body = golden("bounce_permanent_general")
    body["bounce"]["bouncedRecipients"] = [
        {"emailAddress": "no address"},
        {"emailAddress": 17},
        "ada@example.com",
        None,
        {},
        {"emailAddress": "<>"},
        {"emailAddress": "ADA@example.com", "status": "5.1.1"},
        {"emailAddress": "grace@example.com", "status": "5.1.1 (no such user)"},
        {"emailAddress": "joan@example.com", "status": "5.1.1\n"},
    ]

    named = event_of(body).recipients

    assert [each.address_hash for each in named] == [
        hashed(f"{local}@example.com") for local in ("ada", "grace", "joan")
    ]
    assert [each.status for each in named] == [None, None, None]


@pytest.mark.parametrize("wrong", [None, 17, "text", [], {}, [{"fencepost_message": ["x"]}]])
@pytest.mark.parametrize("member", ["bounce", "tags", "messageId", "timestamp"])
def test_a_known_member_of_a_wrong_type_is_a_missing_one(member: str, wrong: Any) -> None:
    body = golden("bounce_permanent_general")
    (body if member == "bounce" else body["mail"])[member] = wrong

    event = event_of(body)

    assert event.type is (EventType.SOFT_BOUNCE if member == "bounce" else EventType.BOUNCE)
    assert event.message_tag == (None if member == "tags" else MESSAGE_TAG)
    assert event.provider_message_id == (MAIL_ID if member != "messageId" else "text" if wrong == "text" else None)


@pytest.mark.parametrize("values", ["x", [], [17], [None], ["with space"], ["x" * 257], ["ada\n"], {"0": "x"}])
def test_a_tag_that_ses_cannot_carry_is_no_tag(values: Any) -> None:
    body = golden("send")
    body["mail"]["tags"]["fencepost_message"] = values

    event = event_of(body)

    assert (event.message_tag, event.attempt_tag) == (None, "1")


def test_a_type_that_aws_may_add_proves_that_the_provider_took_the_mail() -> None:
    body = golden("send") | {"eventType": "Mail Archived", "archived": {"timestamp": "2026-11-02T09:15:29.118Z"}}

    event = event_of(body)

    assert (event.type, event.detail) == (EventType.OTHER, {"type": "Mail Archived"})
    assert event.message_tag == MESSAGE_TAG
    assert event_of(body | {"eventType": "ada@example.com"}).detail == {}


def test_headers_that_are_no_good_text_do_not_lose_the_event() -> None:
    body = json.dumps(golden("bounce_permanent_general")).replace("Welcome, Ada", "\\ud800 \\u0000")

    event = read(body)

    assert event is not None
    assert (event.type, event.message_tag) == (EventType.BOUNCE, MESSAGE_TAG)


# What is no event.


@pytest.mark.parametrize(
    "message",
    [
        "Successfully validated SNS topic for Amazon SES event publishing.",
        '{"notificationType": "AmazonSnsSubscriptionSucceeded", "message": "You have subscribed your topic."}',
        "",
        "null",
        "17",
        '"eventType"',
        "[]",
        "{}",
        '{"eventType": "Send"}',
        '{"eventType": "Send", "mail": "x"}',
        '{"eventType": ["Send"], "mail": {}}',
        '{"mail": {}}',
        '{"AlarmName": "too many bounces", "NewStateValue": "ALARM"}',
        '{"eventType": "Send", "mail": {}',
    ],
)
def test_what_is_no_event_of_a_mail_is_none(message: str) -> None:
    assert read(message) is None


@pytest.mark.parametrize("depth", [33, 1_000, 100_000])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_deep_json_is_none(depth: int, opens: str, closes: str) -> None:
    assert read('{"eventType": "Send", "mail": {"x": ' + opens * depth + "1" + closes * depth + "}}") is None


def test_long_json_is_none() -> None:
    body = json.dumps(golden("send") | {"more": "x" * ses_events.MAX_LENGTH})

    assert read(body) is None
    assert read('{"eventType": "Send", "mail": {}, "more": ' + "9" * 10_000 + "}") is None


# The natural key.


@pytest.mark.parametrize("name", EXPECTED)
def test_the_same_event_under_another_notification_has_the_same_key(name: str) -> None:
    first = golden(name)
    again = json.loads(json.dumps(dict(reversed(first.items()))))

    assert event_of(first, "sns-1").natural_key == event_of(again, "sns-2").natural_key


def test_every_other_event_has_another_key() -> None:
    bodies = [golden(name) for name in EXPECTED]
    for member, value in (("messageId", "another"), ("tags", {"fencepost_message": [MESSAGE_TAG]})):
        other = golden("send")
        other["mail"][member] = value
        bodies.append(other)
    later = golden("delivery_delay")
    later["deliveryDelay"]["timestamp"] = "2026-11-02T10:15:29.118Z"
    bodies.append(later)

    assert len({event_of(body).natural_key for body in bodies}) == len(bodies)


def test_the_key_cannot_be_guessed_without_the_address_key() -> None:
    body = json.dumps(golden("complaint"))
    other = ses_events.read(body, notification_id="sns-1", address_key=KEY[::-1])

    assert other is not None
    assert other.natural_key != event_of(golden("complaint")).natural_key


# Whatever comes.

CANARY = "canary-address@example.com; 550 <canary>"


def planted(value: Any) -> Any:
    """Return the same JSON with the canary at the end of every text but the types."""
    match value:
        case dict():
            return {name: value[name] if name.endswith("Type") else planted(value[name]) for name in value}
        case list():
            return [planted(each) for each in value]
        case str():
            return f"{value} {CANARY}"
        case _:
            return value


@pytest.mark.parametrize("name", EXPECTED)
def test_no_text_of_an_event_comes_out_of_it(name: str) -> None:
    body = planted(golden(name))
    body["mail"]["headers"].append({"name": "X-Canary", "value": CANARY})

    event = event_of(body)

    assert event.type is EXPECTED[name].type
    shown = repr(event) + repr(dataclasses.asdict(event))
    assert "canary" not in shown
    assert "example.com" not in shown


@pytest.mark.parametrize("name", EXPECTED)
def test_no_class_of_an_event_may_be_a_text_either(name: str) -> None:
    body = golden(name)
    for own in body.values():
        if isinstance(own, dict):
            own.update({member: CANARY for member in own if member.endswith("Type")})

    assert "canary" not in repr(event_of(body))


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=10) | st.just("ada@example.com"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def _changed(draw: st.DrawFn) -> str:
    """Draw a golden body in which a few members, at any depth, are something else."""
    body = golden(draw(st.sampled_from(sorted(EXPECTED))))
    for _ in range(draw(st.integers(1, 3))):
        place: Any = body
        while True:
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not place[key] or not isinstance(place[key], dict | list) or draw(st.booleans()):
                break
            place = place[key]
        place[key] = draw(_JSON)
    return json.dumps(body)


@settings(max_examples=150)
@given(_changed() | st.text(max_size=50) | _JSON.map(json.dumps))
def test_whatever_comes_is_an_event_or_none(message: str) -> None:
    event = read(message)

    assert event is None or event.provider == "ses"
