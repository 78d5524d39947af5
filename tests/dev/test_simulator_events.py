"""The simulator's events on their way: signed as SNS signs, tried until they are taken, kept through a kill."""

import asyncio
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature

from tests.dev.running_simulator import SEND_EMAIL, RunningSimulator, a_request, running_simulator
from tests.dev.subscriber import Subscriber, subscriber, verify
from tests.waiting import until

TOPIC = "arn:aws:sns:us-east-1:000000000000:fencepost-dev"
TAGS = {"fencepost_message": "m1", "fencepost_attempt": "1", "order": "17"}


@pytest.fixture(scope="module")
async def shared_subscriber() -> AsyncIterator[Subscriber]:
    async with subscriber() as running:
        yield running


@pytest.fixture(scope="module")
async def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("simulator")


@pytest.fixture(scope="module")
async def shared_simulator(shared_subscriber: Subscriber, directory: Path) -> AsyncIterator[RunningSimulator]:
    async with running_simulator(directory, "--events-url", shared_subscriber.url) as running:
        yield running


@pytest.fixture
async def simulator(shared_simulator: RunningSimulator) -> RunningSimulator:
    await shared_simulator.post("/_sim/reset")
    return shared_simulator


@pytest.fixture
async def subscribed(simulator: RunningSimulator, shared_subscriber: Subscriber) -> Subscriber:
    """What comes from the reset on."""
    assert simulator.process.returncode is None
    shared_subscriber.deliveries.clear()
    shared_subscriber.answer = lambda: 200
    return shared_subscriber


async def accept(simulator: RunningSimulator, to: str) -> str:
    """Submit to a recipient that is answered, and return the SES message id."""
    message_id = await simulator.submit(to, tags=TAGS)
    assert message_id is not None
    return message_id


async def test_mail_is_told_in_order_signed_over_subject_and_everything(
    simulator: RunningSimulator, subscribed: Subscriber, directory: Path
) -> None:
    message_id = await simulator.submit("Ada <ada@example.com>", tags=TAGS, subject="Grüße")
    await until(lambda: len(subscribed.deliveries) == 2, within=10)

    assert subscribed.types("ada@example.com") == ["Send", "Delivery"]
    for delivery in subscribed.deliveries:
        await verify(delivery)
        for name in ("Subject", "Message", "Timestamp", "TopicArn", "MessageId"):
            with pytest.raises(InvalidSignature):
                await verify(delivery, **{name: "another"})
        envelope = delivery.envelope
        assert envelope["TopicArn"] == delivery.headers["x-amz-sns-topic-arn"] == TOPIC
        assert envelope["MessageId"] == delivery.headers["x-amz-sns-message-id"]
        assert envelope["Type"] == delivery.headers["x-amz-sns-message-type"] == "Notification"
        assert (envelope["Subject"], envelope["SignatureVersion"]) == ("Amazon SES Email Event Notification", "2")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", envelope["Timestamp"])
        assert delivery.headers["content-type"] == "text/plain; charset=UTF-8"
        assert delivery.headers["user-agent"] == "Amazon Simple Notification Service Agent"
        assert envelope["SigningCertURL"].startswith(
            f"{simulator.control.base_url}/SimpleNotificationService-".rstrip()
        )
        assert delivery.event["mail"]["messageId"] == message_id
    assert stat.S_IMODE((directory / "sns.pem").stat().st_mode) == 0o600
    wrong_name = await simulator.control.get(f"/SimpleNotificationService-{32 * '0'}.pem")
    assert wrong_name.status_code == 404


async def test_an_event_says_of_its_mail_what_ses_says(simulator: RunningSimulator, subscribed: Subscriber) -> None:
    message_id = await simulator.submit(
        "Ada <ada@example.com>", cc=["bob@example.com"], bcc=["eve@example.com"], tags=TAGS, headers={"X-Order": "17"}
    )
    await until(lambda: len(subscribed.deliveries) == 2, within=10)

    send, delivery = (each.event for each in subscribed.deliveries)
    [submission] = await simulator.submissions()
    assert send == {"eventType": "Send", "mail": send["mail"], "send": {}}
    assert delivery["mail"] == send["mail"]
    headers = {header["name"]: header["value"] for header in send["mail"].pop("headers")}
    assert headers == {
        "From": "Demo <hello@demo.example.com>",
        "Reply-To": "help@demo.example.com",
        "To": "Ada <ada@example.com>",
        "Cc": "bob@example.com",
        "Subject": "Welcome",
        "MIME-Version": "1.0",
        "X-Order": "17",
    }
    assert send["mail"] == {
        "timestamp": submission["at"],
        "source": "Demo <hello@demo.example.com>",
        "sourceArn": "arn:aws:ses:us-east-1:000000000000:identity/hello@demo.example.com",
        "sendingAccountId": "000000000000",
        "messageId": message_id,
        "destination": ["ada@example.com", "bob@example.com", "eve@example.com"],
        "headersTruncated": False,
        "commonHeaders": {
            "from": ["Demo <hello@demo.example.com>"],
            "replyTo": ["help@demo.example.com"],
            "to": ["Ada <ada@example.com>"],
            "cc": ["bob@example.com"],
            "messageId": message_id,
            "subject": "Welcome",
        },
        "tags": {
            "ses:configuration-set": ["fencepost"],
            "ses:source-ip": ["127.0.0.1"],
            "ses:from-domain": ["demo.example.com"],
            "ses:caller-identity": ["simulator"],
            **{name: [value] for name, value in TAGS.items()},
        },
    }
    assert delivery["delivery"].pop("processingTimeMillis") >= 0
    assert delivery["delivery"].pop("timestamp") > submission["at"]
    assert delivery["delivery"] == {
        "recipients": ["ada@example.com", "bob@example.com", "eve@example.com"],
        "smtpResponse": "250 2.6.0 Message received",
        "reportingMTA": "mta.example.com",
    }


async def test_each_special_recipient_is_told_as_planned(simulator: RunningSimulator, subscribed: Subscriber) -> None:
    """All of them at once; the plan has each one's own events."""
    silent = ("lost@faults.example.com", "silent@faults.example.com", "reject@faults.example.com")
    aws = [f"{name}@simulator.amazonses.com" for name in ("bounce", "ooto", "complaint", "suppressionlist")]
    own = [f"{name}@faults.example.com" for name in ("disorder", "late-bounce")]
    later = ("empty@faults.example.com",)
    requests = [simulator.endpoint.post(SEND_EMAIL, json=a_request(to)) for to in (*silent, *aws, *own, *later)]
    asked = [asyncio.create_task(request) for request in requests]
    # 2 + 3 + 3 + 2 of AWS's, and 6 + 2 of our own.
    await until(lambda: len(subscribed.deliveries) == 18, within=20)
    # `lost` is never answered.
    asked[0].cancel()
    await asyncio.gather(*asked, return_exceptions=True)

    bounce, ooto, complaint, suppressed, disorder, late = (subscribed.about(to) for to in (*aws, *own))
    assert [each.type for each in bounce] == ["Send", "Bounce"]
    assert [each.type for each in disorder] == ["Bounce", "Bounce", "Delivery", "Delivery", "Send", "Send"]
    assert [first.body == second.body for first, second in zip(disorder[::2], disorder[1::2], strict=True)] == 3 * [
        True
    ]
    assert [each.type for each in late] == ["Delivery", "Bounce"]
    hard = bounce[-1].event["bounce"]
    assert (hard["bounceType"], hard["bounceSubType"], hard["reportingMTA"]) == (
        "Permanent",
        "General",
        "dsn; mta.example.com",
    )
    assert hard["bouncedRecipients"] == [
        {
            "emailAddress": aws[0],
            "action": "failed",
            "status": "5.1.1",
            "diagnosticCode": f"smtp; 550 5.1.1 <{aws[0]}>: user unknown",
        }
    ]
    away = ooto[-1].event["bounce"]
    assert (away["bounceType"], away["bouncedRecipients"]) == ("Transient", [{"emailAddress": aws[1]}])
    unwanted = complaint[-1].event["complaint"]
    assert unwanted.keys() == {
        "complainedRecipients",
        "timestamp",
        "feedbackId",
        "userAgent",
        "complaintFeedbackType",
        "arrivalDate",
    }
    assert (unwanted["complaintFeedbackType"], unwanted["complainedRecipients"]) == (
        "abuse",
        [{"emailAddress": aws[2]}],
    )
    assert suppressed[-1].event["bounce"]["bounceSubType"] == "OnAccountSuppressionList"
    assert [subscribed.types(to) for to in (*silent, *later)] == 4 * [[]]


async def test_an_event_is_sent_again_the_same_until_it_is_taken(
    simulator: RunningSimulator, subscribed: Subscriber
) -> None:
    answers = iter([None, 503, 302, 403])
    subscribed.answer = lambda: next(answers, 204)

    await accept(simulator, "ada@example.com")
    await until(lambda: [each.answer for each in subscribed.deliveries].count(204) == 2, within=30)

    assert len(subscribed.deliveries) == 6
    for kind in ("Send", "Delivery"):
        assert len({each.body for each in subscribed.deliveries if each.type == kind}) == 1
    [submission] = await simulator.submissions()
    page = (await simulator.control.get(f"/mail/{submission['id']}")).text
    tries = [int(each) for each in re.findall(r"ada@example\.com: taken \(tries: (\d), last answer: 204\)", page)]
    assert (len(tries), sum(tries)) == (2, 6)


async def test_a_subscriber_that_does_not_answer_holds_up_no_mail(
    simulator: RunningSimulator, subscribed: Subscriber
) -> None:
    subscribed.most_waiting = 0
    subscribed.open.clear()
    names = [f"{number}@example.com" for number in range(20)]

    answers = await asyncio.gather(*(simulator.endpoint.post(SEND_EMAIL, json=a_request(name)) for name in names))
    await until(lambda: subscribed.waiting == 8, within=20)
    later = await simulator.endpoint.post(SEND_EMAIL, json=a_request("ada@example.com"))
    subscribed.open.set()
    await until(
        lambda: all(set(subscribed.types(to)) == {"Send", "Delivery"} for to in (*names, "ada@example.com")), within=40
    )

    assert {answer.status_code for answer in (*answers, later)} == {200}
    assert subscribed.most_waiting == 8


async def test_a_reset_forgets_the_events_to_come(simulator: RunningSimulator, subscribed: Subscriber) -> None:
    subscribed.answer = lambda: 503
    message_id = await accept(simulator, "ada@example.com")
    await until(lambda: subscribed.deliveries, within=10)

    await simulator.post("/_sim/reset")
    subscribed.deliveries.clear()
    subscribed.answer = lambda: 200
    # By the time that the two events of a later mail are through, those that were waiting would have come.
    await accept(simulator, "bob@example.com")
    await until(lambda: len(subscribed.about("bob@example.com")) == 2, within=10)
    await accept(simulator, "carol@example.com")
    await until(lambda: len(subscribed.about("carol@example.com")) == 2, within=10)

    assert subscribed.about("ada@example.com") == []
    again = await simulator.control.post("/_sim/events", json={"ses_message_id": message_id, "type": "Send"})
    assert again.status_code == 404


async def test_a_kill_loses_no_event(tmp_path: Path) -> None:
    async with subscriber() as subscribed:
        subscribed.answer = lambda: None
        async with running_simulator(tmp_path, "--events-url", subscribed.url) as simulator:
            for name in ("ada", "bob"):
                await accept(simulator, f"{name}@example.com")
            # One event was tried in vain, and others not at all.
            await until(lambda: subscribed.deliveries, within=10)
            simulator.process.kill()
            await simulator.process.wait()
        before = list(subscribed.deliveries)

        subscribed.answer = lambda: 200
        async with running_simulator(tmp_path, "--events-url", subscribed.url):
            await until(lambda: sum(each.answer == 200 for each in subscribed.deliveries) == 4, within=20)
            for delivery in subscribed.deliveries[len(before) :]:
                await verify(delivery)

    taken = [each for each in subscribed.deliveries if each.answer == 200]
    for name in ("ada", "bob"):
        assert sorted(each.type for each in taken if f"{name}@example.com" in each.event["mail"]["destination"]) == [
            "Delivery",
            "Send",
        ]
    assert {each.envelope["MessageId"] for each in before} <= {each.envelope["MessageId"] for each in taken}


async def test_no_event_keeps_the_process_from_ending(tmp_path: Path) -> None:
    async with subscriber() as subscribed:
        subscribed.open.clear()
        async with running_simulator(tmp_path, "--events-url", subscribed.url) as simulator:
            await accept(simulator, "ada@example.com")
            await until(lambda: subscribed.waiting == 1, within=10)

            simulator.process.terminate()
            status = await asyncio.wait_for(simulator.process.wait(), 10)
            assert simulator.process.stderr is not None
            complaints = await simulator.process.stderr.read()
        await until(lambda: subscribed.waiting == 0, within=10)

    assert (status, complaints) == (0, b"")
