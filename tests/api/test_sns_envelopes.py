"""What is an envelope of SNS, and which settings the doors of provider events start with."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from api.sns import MAX_BYTES, EnvelopeType, EventSettings, NotAnEnvelopeError, parse
from tests.api.sns_signing import CHINESE_TOPIC, HOST, TOPIC, confirmation, encoded, notification

#: Every member that a confirmation has to have.
SIGNED = (
    "Type",
    "MessageId",
    "Token",
    "TopicArn",
    "Message",
    "SubscribeURL",
    "Timestamp",
    "SignatureVersion",
    "Signature",
    "SigningCertURL",
)

NO_JSON_OBJECT = [
    b"",
    b"null",
    b"[]",
    b'"Notification"',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"{}",
    b'{"Type": "Notification", "Type": "Notification"}',
    b'{"More": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
]


@pytest.mark.parametrize("number", range(len(NO_JSON_OBJECT)))
def test_what_is_no_strict_json_object_is_no_envelope(number: int) -> None:
    with pytest.raises(NotAnEnvelopeError):
        parse(NO_JSON_OBJECT[number])


@pytest.mark.parametrize(
    "changes",
    [
        {"More": math.nan},
        {"More": math.inf},
        {"More": 10**400},
        {"More": "x" * MAX_BYTES},
        {"Type": "notification"},
        {"Type": ["Notification"]},
        {"Message": {"eventType": "Send"}},
        {"MessageId": 17},
        {"MessageId": ""},
        {"MessageId": "a\nb"},
        {"Subject": 17},
        {"Subject": "a\nb"},
        {"Signature": True},
        {"Timestamp": "yesterday"},
        {"Timestamp": "2026-02-30T00:00:00.000Z"},
        {"Timestamp": "2026-02-03T00:00:00"},
        {"Timestamp": "0001-01-01T00:00:00+14:00"},
        *({name: None} for name in SIGNED if name not in ("Token", "SubscribeURL")),
    ],
)
def test_a_member_of_another_form_makes_it_no_envelope(changes: dict[str, Any]) -> None:
    with pytest.raises(NotAnEnvelopeError) as refused:
        parse(encoded(notification() | changes))

    assert refused.value.__cause__ is None
    assert "eventType" not in str(refused.value)


@pytest.mark.parametrize("name", SIGNED)
def test_a_confirmation_needs_each_of_its_members(name: str) -> None:
    with pytest.raises(NotAnEnvelopeError):
        parse(encoded({key: value for key, value in confirmation().items() if key != name}))


def test_an_envelope_shows_neither_its_message_nor_its_token() -> None:
    told = repr(parse(encoded(notification(message="canary", subject="canary")))) + repr(parse(encoded(confirmation())))

    assert "canary" not in told
    assert "23df" not in told
    assert parse(encoded(confirmation())).type is EnvelopeType.SUBSCRIPTION_CONFIRMATION


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(
    st.binary(max_size=200)
    | st.dictionaries(st.sampled_from([*SIGNED, "Subject"]), _JSON).map(
        lambda changes: json.dumps(confirmation() | changes).encode()
    )
)
def test_whatever_comes_is_an_envelope_or_is_not(body: bytes) -> None:
    try:
        envelope = parse(body)
    except NotAnEnvelopeError:
        return
    assert envelope.type is not EnvelopeType.NOTIFICATION or envelope.token is None


@pytest.mark.parametrize(
    "topics",
    [
        "ses-events",
        f"{TOPIC};{CHINESE_TOPIC}",
        f"{TOPIC},arn:aws:sqs:us-east-1:123456789012:queue",
        f"{TOPIC}:17da4a1e-0b0c-4e9c-8c1b-6c8f7c0c1d2e",
        "arn:aws:sns:s3:123456789012:ses",
        "arn:aws:sns:us-east-1.evil.example/:123456789012:ses",
        "arn:aws:sns:us-east-1:12345:ses",
        "*",
    ],
)
def test_a_topic_that_is_none_refuses_to_start_without_being_repeated(topics: str) -> None:
    with pytest.raises(ValidationError) as refused:
        EventSettings(topics=topics)

    (fault,) = refused.value.errors()
    assert "is no ARN of an SNS topic" in fault["msg"]
    assert topics not in str(refused.value)


def test_topics_come_from_the_environment_with_commas_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_EVENTS_TOPICS", f" {TOPIC},{CHINESE_TOPIC} ,")

    assert [(topic.arn, topic.signer) for topic in EventSettings().allowed_topics] == [
        (TOPIC, f"https://{HOST}"),
        (CHINESE_TOPIC, "https://sns.cn-north-1.amazonaws.com.cn"),
    ]


def test_another_origin_of_certificates_is_for_tests_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_ENVIRONMENT", raising=False)
    with pytest.raises(ValidationError, match="refused unless FENCEPOST_ENVIRONMENT is test"):
        EventSettings(certificate_origin="http://127.0.0.1:7481")

    monkeypatch.setenv("FENCEPOST_ENVIRONMENT", "test")
    EventSettings(certificate_origin="http://127.0.0.1:7481")
    for origin in ("http://127.0.0.1:7481/", "http://a@b", "ftp://127.0.0.1", "127.0.0.1:7481"):
        with pytest.raises(ValidationError, match="has to be an origin"):
            EventSettings(certificate_origin=origin)
