"""Envelopes of SNS: what is read, what is believed, and that nothing is fetched for what is refused before."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.certificates import Certificates, CertificateUnavailableError
from api.sns import (
    EventSettings,
    NotAnEnvelopeError,
    Refusal,
    UnverifiedError,
    Verifier,
    parse,
)
from tests.api.sns_signing import (
    CHINESE_TOPIC,
    HOST,
    PATH,
    TOPIC,
    URL,
    certificate,
    confirmation,
    ec_key,
    encoded,
    notification,
    now,
    rsa_key,
    tls_sides,
)
from tests.api.trap import Answer, Trap, trap

OTHERS_TOPIC = "arn:aws:sns:us-east-1:999999999999:ses-events"
SETTINGS = EventSettings(topics=f"{TOPIC}, {CHINESE_TOPIC}")
LATER = timedelta(hours=3)
#: A digit and, where letter case is ignored, an s.
ARABIC_ZERO, LONG_S = "\u0660", "\u017f"

Make = Callable[[], dict[str, Any]]


@dataclass(slots=True)
class Door:
    """What a notification meets, with the trap as its only way out."""

    trap: Trap
    certificates: Certificates

    async def take(self, body: dict[str, Any], settings: EventSettings = SETTINGS, **options: Any) -> Refusal | None:
        """Return why a body is refused, or None where it is believed."""
        try:
            await Verifier(settings, self.certificates, **options).verify(parse(encoded(body)))
        except UnverifiedError as refused:
            return refused.reason
        return None


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    serving, trusting = tls_sides(tmp_path)
    async with trap(serving) as caught:
        caught.answers[PATH] = Answer(body=certificate(rsa_key()))
        certificates = Certificates(verify=trusting, proxy=caught.proxy_url)
        yield Door(caught, certificates)
        await certificates.aclose()


# What is believed.


# Bodies are made when they are wanted: a signed moment would grow old between collection and its test.
@pytest.mark.parametrize(
    "make",
    [
        notification,
        lambda: notification(subject="Amazon SES Email Event Notification"),
        lambda: notification(subject=""),
        lambda: notification(message="Zwölf\n«Boxkämpfer»\n"),
        lambda: notification(message=""),
        lambda: notification() | {"Subject": None},
        lambda: confirmation("SubscriptionConfirmation"),
        lambda: confirmation("UnsubscribeConfirmation"),
    ],
    ids=["plain", "subject", "empty subject", "lines", "empty", "null subject", "subscribe", "unsubscribe"],
)
async def test_what_sns_signed_is_believed_after_one_fetch_of_the_certificate(door: Door, make: Make) -> None:
    assert await door.take(make()) is None
    assert await door.take(make()) is None

    # A confirmation's SubscribeURL is on the same host: this is the certificate, and nothing else was asked for.
    assert door.trap.connections == [f"CONNECT {HOST}:443 HTTP/1.1"]
    assert door.trap.requests == [f"GET {PATH} HTTP/1.1"]


async def test_version_1_is_believed_only_where_the_deployment_says_so(door: Door) -> None:
    body = notification(version="1", subject="Hello")

    assert await door.take(body) is Refusal.SIGNATURE_VERSION
    assert door.trap.nothing_was_fetched()
    assert await door.take(body, EventSettings(topics=TOPIC, signature_version_1=True)) is None


async def test_a_signature_of_one_version_is_none_of_the_other(door: Door) -> None:
    both = EventSettings(topics=TOPIC, signature_version_1=True)

    assert await door.take(notification(version="2") | {"SignatureVersion": "1"}, both) is Refusal.SIGNATURE
    assert await door.take(notification(version="1") | {"SignatureVersion": "2"}, both) is Refusal.SIGNATURE


async def test_a_queue_may_have_held_a_notification_for_days(door: Door) -> None:
    body = notification(age=timedelta(days=14))

    assert await door.take(body, checks_age=False) is None
    assert await door.take(body) is Refusal.AGE


# What is refused without a fetch.


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: notification(topic=OTHERS_TOPIC), Refusal.TOPIC),
        (lambda: notification(topic=f"{TOPIC}2"), Refusal.TOPIC),
        (lambda: notification(topic=TOPIC.upper()), Refusal.TOPIC),
        (lambda: notification(topic=f"{TOPIC} "), Refusal.TOPIC),
        (lambda: notification(topic=""), Refusal.TOPIC),
        (lambda: notification() | {"SignatureVersion": "3"}, Refusal.SIGNATURE_VERSION),
        (lambda: notification() | {"SignatureVersion": ""}, Refusal.SIGNATURE_VERSION),
        (lambda: notification(age=timedelta(seconds=7260)), Refusal.AGE),
        (lambda: notification(age=timedelta(minutes=-16)), Refusal.AGE),
    ],
    ids=["another account", "longer", "upper case", "space", "no topic", "v3", "no version", "old", "future"],
)
async def test_what_the_envelope_itself_refutes_is_refused_without_a_fetch(
    door: Door, make: Make, reason: Refusal
) -> None:
    assert await door.take(make()) is reason

    assert door.trap.nothing_was_fetched()


@pytest.mark.parametrize("age", [timedelta(seconds=7080), timedelta(minutes=-14)])
async def test_an_hour_of_tries_and_a_clock_that_is_off_are_allowed_for(door: Door, age: timedelta) -> None:
    assert await door.take(notification(age=age)) is None


@pytest.mark.parametrize(
    "url",
    [
        # A bucket named sns, which many patterns in use let through.
        f"https://sns.s3-us-west-2.amazonaws.com{PATH}",
        f"https://sns.s3.amazonaws.com{PATH}",
        f"https://{HOST}.evil.example{PATH}",
        f"https://evil.example/{HOST}{PATH}",
        f"https://evil.example#{HOST}{PATH}",
        f"https://evil-{HOST}{PATH}",
        f"https://x.{HOST}{PATH}",
        f"https://snsXus-east-1.amazonaws.com{PATH}",
        f"https://{HOST}@evil.example{PATH}",
        f"https://user:word@{HOST}{PATH}",
        f"https://{HOST}:443{PATH}",
        f"https://{HOST}:8443{PATH}",
        f"https://{HOST}.{PATH}",
        f"https://sns.eu-west-1.amazonaws.com{PATH}",
        f"https://sns.us-east-1.amazonaws.com.cn{PATH}",
        f"https://SNS.us-east-1.amazonaws.com{PATH}",
        f"HTTPS://{HOST}{PATH}",
        f"http://{HOST}{PATH}",
        f"ftp://{HOST}{PATH}",
        "file:///etc/passwd",
        f"//{HOST}{PATH}",
        f"https:{HOST}{PATH}",
        f"https:\\\\{HOST}{PATH}",
        f"https://evil.example\\@{HOST}{PATH}",
        f"https://{HOST}\\{PATH}",
        f"https://{HOST}/x/..{PATH}",
        f"https://{HOST}/{PATH}",
        f"https://{HOST}/bucket{PATH}",
        f"https://{HOST}{PATH.replace('S', '%53', 1)}",
        f"https://{HOST}{PATH}%00",
        f"https://{HOST}{PATH}?x=1",
        f"https://{HOST}{PATH}?",
        f"https://{HOST}{PATH}#x",
        f"https://{HOST}{PATH}#",
        f"https://{HOST}{PATH}\n",
        f"https://{HOST}{PATH}\r\nX: y",
        f"https://{HOST}\t{PATH}",
        f" https://{HOST}{PATH}",
        f"https://{HOST}{PATH} ",
        f"https://{HOST}{PATH}.pem",
        f"https://{HOST}/SimpleNotificationService-{'0' * 31}.pem",
        f"https://{HOST}/SimpleNotificationService-{'A' * 32}.pem",
        f"https://{HOST}/SimpleNotificationService-{ARABIC_ZERO * 32}.pem",
        f"https://{HOST.replace('s', LONG_S, 1)}{PATH}",
        f"https://{HOST}/",
        f"https://127.0.0.1{PATH}",
        f"https://[::1]{PATH}",
        "",
    ],
)
async def test_an_address_that_only_looks_like_snss_is_not_fetched(door: Door, url: str) -> None:
    assert await door.take(notification(url=url)) is Refusal.CERTIFICATE_ADDRESS

    assert door.trap.nothing_was_fetched()


async def test_each_partition_has_its_own_domain(door: Door) -> None:
    elsewhere = f"https://sns.cn-north-1.amazonaws.com{PATH}"
    at_home = f"https://sns.cn-north-1.amazonaws.com.cn{PATH}"
    assert await door.take(notification(topic=CHINESE_TOPIC, url=elsewhere)) is Refusal.CERTIFICATE_ADDRESS
    assert door.trap.nothing_was_fetched()

    # The trap can't prove that it is this host; that it was asked for is the point.
    with pytest.raises(CertificateUnavailableError):
        await door.take(notification(topic=CHINESE_TOPIC, url=at_home))

    assert door.trap.connections == ["CONNECT sns.cn-north-1.amazonaws.com.cn:443 HTTP/1.1"]


# What is refused by the certificate or the signature.


@pytest.mark.parametrize(
    ("make", "bits"),
    [
        (lambda: certificate(rsa_key(), starts=timedelta(days=-30), ends=timedelta(seconds=-60)), 2048),
        (lambda: certificate(rsa_key(), starts=timedelta(hours=1)), 2048),
        (lambda: certificate(ec_key()), 2048),
        (lambda: certificate(rsa_key(1024), issuer=rsa_key()), 1024),
        (lambda: b"no certificate", 2048),
        (lambda: certificate(rsa_key()) + b" " * 20_000, 2048),
    ],
    ids=["expired", "not yet valid", "EC", "short", "text", "long"],
)
async def test_a_certificate_that_may_not_sign_now_proves_nothing(
    door: Door, make: Callable[[], bytes], bits: int
) -> None:
    door.trap.answers[PATH] = Answer(body=make())

    assert await door.take(notification(key=rsa_key(bits))) is Refusal.CERTIFICATE


async def test_a_redirect_to_a_certificate_is_not_followed(door: Door) -> None:
    door.trap.answers["/good.pem"] = door.trap.answers[PATH]
    door.trap.answers[PATH] = Answer(status=302, headers=(f"Location: https://{HOST}/good.pem",))

    assert await door.take(notification()) is Refusal.CERTIFICATE

    assert door.trap.requests == [f"GET {PATH} HTTP/1.1"]


async def test_a_kept_certificate_that_has_run_out_is_refused(door: Door) -> None:
    door.trap.answers[PATH] = Answer(body=certificate(rsa_key(), ends=timedelta(hours=2)))
    assert await door.take(notification()) is None

    later = (now() + LATER).timestamp()
    body = notification(age=-LATER)

    assert await door.take(body, clock=lambda: later) is Refusal.CERTIFICATE
    assert len(door.trap.requests) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"Message": '{"eventType":"Bounce"}'},
        {"MessageId": "another"},
        {"Subject": "added afterwards"},
        {"Subject": ""},
        {"Type": "UnsubscribeConfirmation", "Token": "23df", "SubscribeURL": "https://x.example"},
        {"Signature": ""},
        {"Signature": "AAAA"},
        {"Signature": "not base64!"},
        {"Signature": "é"},
    ],
    ids=["message", "id", "subject", "empty subject", "type", "none", "short", "rubbish", "not ASCII"],
)
async def test_whatever_is_changed_after_signing_is_refused(door: Door, changes: dict[str, str]) -> None:
    assert await door.take(notification() | changes) is Refusal.SIGNATURE


async def test_what_else_is_signed_cannot_be_changed_or_taken_away_either(door: Door) -> None:
    named = notification(subject="Hello")
    del named["Subject"]
    moved = notification() | {"Timestamp": notification(age=timedelta(minutes=5))["Timestamp"]}
    token, url = confirmation() | {"Token": "other"}, confirmation() | {"SubscribeURL": "https://evil.example"}
    foreign = notification(topic=OTHERS_TOPIC) | {"TopicArn": TOPIC}

    for body in (named, moved, token, url, foreign, notification(key=rsa_key(name="another"))):
        assert await door.take(body) is Refusal.SIGNATURE


async def test_a_message_cannot_be_taken_apart_into_a_message_and_a_subject(door: Door) -> None:
    told = "first\nMessageId\nforged\nSubject\nrest"
    body = notification(message=told)
    apart = body | {"Message": "first", "MessageId": "forged", "Subject": f"rest\nMessageId\n{body['MessageId']}"}
    assert await door.take(body) is None

    with pytest.raises(NotAnEnvelopeError):
        await door.take(apart)


async def test_a_certificate_that_cannot_be_fetched_is_no_refusal(door: Door) -> None:
    door.trap.answers[PATH] = Answer(status=503)

    with pytest.raises(CertificateUnavailableError):
        await door.take(notification())


# Settings.


async def test_without_topics_nobody_is_believed(door: Door) -> None:
    assert await door.take(notification(), EventSettings(topics="")) is Refusal.TOPIC

    assert door.trap.nothing_was_fetched()


async def test_another_origin_replaces_that_of_aws(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_ENVIRONMENT", "test")
    elsewhere = EventSettings(topics=CHINESE_TOPIC, certificate_origin=f"https://{HOST}")

    assert await door.take(notification(topic=CHINESE_TOPIC), elsewhere) is None
    at_home = f"https://sns.cn-north-1.amazonaws.com.cn{PATH}"
    assert await door.take(notification(topic=CHINESE_TOPIC, url=at_home), elsewhere) is Refusal.CERTIFICATE_ADDRESS
    assert door.trap.requests == [f"GET {URL.removeprefix(f'https://{HOST}')} HTTP/1.1"]
