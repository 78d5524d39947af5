"""The control call that publishes one more event, and what it refuses."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.dev.running_simulator import RunningSimulator, running_simulator
from tests.dev.subscriber import Subscriber, subscriber, verify

TAGS = {"fencepost_message": "m1", "fencepost_attempt": "1", "order": "17"}


@pytest.fixture(scope="module")
async def shared_subscriber() -> AsyncIterator[Subscriber]:
    async with subscriber() as running:
        yield running


@pytest.fixture(scope="module")
async def shared_simulator(
    shared_subscriber: Subscriber, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningSimulator]:
    directory = tmp_path_factory.mktemp("simulator")
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


async def publish(simulator: RunningSimulator, **body: object) -> httpx.Response:
    return await simulator.control.post("/_sim/events", json=body)


PARTS: dict[str, tuple[str, set[str]]] = {
    "Send": ("send", set()),
    "Delivery": ("delivery", {"timestamp", "processingTimeMillis", "recipients", "smtpResponse", "reportingMTA"}),
    "Bounce": (
        "bounce",
        {"bounceType", "bounceSubType", "bouncedRecipients", "timestamp", "feedbackId", "reportingMTA"},
    ),
    "Complaint": (
        "complaint",
        {"complainedRecipients", "timestamp", "feedbackId", "userAgent", "complaintFeedbackType", "arrivalDate"},
    ),
    "Reject": ("reject", {"reason"}),
    "DeliveryDelay": ("deliveryDelay", {"timestamp", "delayType", "delayedRecipients", "expirationTime"}),
    "Rendering Failure": ("failure", {"errorMessage", "templateName"}),
    "Open": ("open", {"ipAddress", "timestamp", "userAgent"}),
    "Click": ("click", {"ipAddress", "timestamp", "userAgent", "link", "linkTags"}),
}


async def test_one_more_event_of_each_type_is_published_at_once(
    simulator: RunningSimulator, subscribed: Subscriber
) -> None:
    message_id = await accept(simulator, "silent@faults.example.com")

    for kind, (part, fields) in PARTS.items():
        answer = await publish(simulator, ses_message_id=message_id, type=kind)
        last = subscribed.deliveries[-1]
        assert answer.json() == {"sns_message_id": last.envelope["MessageId"], "status": 200}
        assert (last.type, set(last.event[part])) == (kind, fields)
        assert last.event["mail"]["tags"].items() >= {name: [value] for name, value in TAGS.items()}.items()
        await verify(last)
    assert len(subscribed.deliveries) == len(PARTS)


async def test_one_more_event_says_what_it_was_told_to_and_repeats_it(
    simulator: RunningSimulator, subscribed: Subscriber
) -> None:
    message_id = await accept(simulator, "silent@faults.example.com")
    wanted: dict[str, Any] = {
        "ses_message_id": message_id,
        "type": "Bounce",
        "recipients": ["Bob <bob@example.com>"],
        "bounce_type": "Transient",
        "bounce_sub_type": "MailboxFull",
        "status": "4.2.2",
        "sns_message_id": "3f1c8f64-0000-4000-8000-000000000001",
    }
    answers = iter([503, 200])
    subscribed.answer = lambda: next(answers)

    statuses = [(await publish(simulator, **wanted)).json()["status"] for _ in "12"]
    other = await publish(simulator, **wanted | {"type": "Delivery"})

    first, second = subscribed.deliveries
    assert statuses == [503, 200]
    assert first.body == second.body
    assert first.envelope["MessageId"] == wanted["sns_message_id"]
    bounce = first.event["bounce"]
    assert (bounce["bounceType"], bounce["bounceSubType"]) == ("Transient", "MailboxFull")
    assert [(each["emailAddress"], each["status"]) for each in bounce["bouncedRecipients"]] == [
        ("bob@example.com", "4.2.2")
    ]
    assert other.status_code == 409
    assert "take a new one" in other.json()["message"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "Nothing"},
        {"type": None},
        {"ses_message_id": 7},
        {"recipients": []},
        {"recipients": "ada@example.com"},
        {"status": "bad"},
        {"bounce_type": ""},
        {"sns_message_id": ""},
        {"more": 1},
    ],
)
async def test_a_wrong_event_is_refused(
    simulator: RunningSimulator, subscribed: Subscriber, wrong: dict[str, object]
) -> None:
    answer = await publish(simulator, **{"ses_message_id": "unknown", "type": "Send"} | wrong)

    assert answer.status_code == 422
    assert answer.json()["message"].startswith("body")
    assert subscribed.deliveries == []


async def test_one_more_event_says_when_the_api_does_not_answer(
    simulator: RunningSimulator, subscribed: Subscriber
) -> None:
    message_id = await accept(simulator, "silent@faults.example.com")
    subscribed.answer = lambda: None

    answer = await publish(simulator, ses_message_id=message_id, type="Send")
    unknown = await publish(simulator, ses_message_id="unknown", type="Send")

    assert (answer.status_code, unknown.status_code) == (502, 404)
    assert "start it" in answer.json()["message"]
    assert "/_sim/submissions" in unknown.json()["message"]


async def test_nothing_is_planned_without_an_events_url(tmp_path: Path) -> None:
    async with running_simulator(tmp_path) as simulator:
        message_id = await accept(simulator, "ada@example.com")
        answer = await publish(simulator, ses_message_id=message_id, type="Send")
        [submission] = await simulator.submissions()
        page = (await simulator.control.get(f"/mail/{submission['id']}")).text

    assert answer.status_code == 409
    assert "--events-url" in answer.json()["message"]
    assert "Events" not in page
    assert not (tmp_path / "sns.pem").exists()
