"""What boto3 sees of the SES simulator, and what the simulator's record holds of it."""

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from tests.dev.running_simulator import SEND_EMAIL, RunningSimulator, a_request, request_bytes, running_simulator

MESSAGE_ID = re.compile(r"0100[0-9a-f]{12}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-000000")
RFC3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(scope="module")
async def shared_simulator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningSimulator]:
    async with running_simulator(tmp_path_factory.mktemp("simulator")) as running:
        yield running


@pytest.fixture
async def simulator(shared_simulator: RunningSimulator) -> RunningSimulator:
    await shared_simulator.post("/_sim/reset")
    return shared_simulator


async def test_a_submission_is_recorded_with_all_that_it_said(simulator: RunningSimulator) -> None:
    message_id = await simulator.submit(
        "Ada <ada@example.com>",
        cc=["bob@example.com"],
        bcc=["carol@example.com"],
        headers={"X-Order": "17"},
        tags={"fencepost_message": "m1", "fencepost_attempt": "1"},
        subject="Grüße",
    )

    [submission] = await simulator.submissions()
    assert RFC3339_UTC.fullmatch(submission.pop("at"))
    assert isinstance(submission.pop("id"), int)
    assert submission == {
        "tags": {"fencepost_message": "m1", "fencepost_attempt": "1"},
        "to": ["Ada <ada@example.com>"],
        "cc": ["bob@example.com"],
        "bcc": ["carol@example.com"],
        "from": "Demo <hello@demo.example.com>",
        "reply_to": ["help@demo.example.com"],
        "subject": "Grüße",
        "headers": {"X-Order": "17"},
        "answer": "accepted",
        "ses_message_id": message_id,
    }


@pytest.mark.parametrize(
    "recipient",
    [
        "ada@example.com",
        "nobody-special@faults.example.com",
        "hang@example.com",
        "success@simulator.amazonses.com",
        "bounce+label@simulator.amazonses.com",
        "silent@faults.example.com",
        "late-bounce@faults.example.com",
        "disorder@faults.example.com",
    ],
)
async def test_a_mail_without_a_fault_before_acceptance_is_accepted(
    simulator: RunningSimulator, recipient: str
) -> None:
    message_id = await simulator.submit(recipient)

    assert message_id is not None
    assert MESSAGE_ID.fullmatch(message_id)
    [submission] = await simulator.submissions()
    assert (submission["answer"], submission["ses_message_id"]) == ("accepted", message_id)


@pytest.mark.parametrize(
    ("recipient", "status", "code", "answer"),
    [
        ("throttle@faults.example.com", 429, "TooManyRequestsException", "throttled"),
        ("reject@faults.example.com", 400, "MessageRejected", "rejected"),
        ("error500@faults.example.com", 500, "InternalFailure", "failed"),
        ("unavailable@faults.example.com", 503, "ServiceUnavailable", "failed"),
        ("Reject+a+b@Faults.Example.com", 400, "MessageRejected", "rejected"),
        ("Ada <throttle@faults.example.com>", 429, "TooManyRequestsException", "throttled"),
    ],
)
async def test_a_refusal_reaches_boto3_and_the_record(
    simulator: RunningSimulator, recipient: str, status: int, code: str, answer: str
) -> None:
    with pytest.raises(ClientError) as raised:
        await simulator.submit(recipient)

    metadata = raised.value.response["ResponseMetadata"]
    assert (metadata["HTTPStatusCode"], raised.value.response["Error"]["Code"]) == (status, code)
    assert metadata["RequestId"]
    [submission] = await simulator.submissions()
    assert (submission["answer"], submission["ses_message_id"]) == (answer, None)


async def test_a_rejection_names_the_recipient(simulator: RunningSimulator) -> None:
    with pytest.raises(ClientError, match=r"Email address is not verified\..*: reject\+7@faults\.example\.com$"):
        await simulator.submit("ada@example.com", "Ada <reject+7@faults.example.com>")


async def test_the_first_recipient_with_a_fault_decides(simulator: RunningSimulator) -> None:
    with pytest.raises(ClientError) as raised:
        await simulator.submit("ada@example.com", cc=["error500@faults.example.com"], bcc=["reject@faults.example.com"])

    assert raised.value.response["Error"]["Code"] == "InternalFailure"


async def test_each_message_is_throttled_twice_and_then_accepted(simulator: RunningSimulator) -> None:
    answers = []
    for message in ("m1", "m2", "m1", "m2", "m1", "m2", "m1"):
        try:
            await simulator.submit("throttle-twice@faults.example.com", tags={"fencepost_message": message})
            answers.append((message, "accepted"))
        except ClientError as error:
            answers.append((message, error.response["Error"]["Code"]))

    assert [code for message, code in answers if message == "m1"] == 2 * ["TooManyRequestsException"] + 2 * ["accepted"]
    assert [code for message, code in answers if message == "m2"] == 2 * ["TooManyRequestsException"] + ["accepted"]
    assert [row["answer"] for row in await simulator.submissions("fencepost_message:m2")] == [
        "throttled",
        "throttled",
        "accepted",
    ]


async def test_requests_of_one_message_at_once_are_throttled_twice_in_all(simulator: RunningSimulator) -> None:
    submits = [simulator.submit("throttle-twice@faults.example.com", tags={"fencepost_message": "m1"}) for _ in "12345"]

    await asyncio.gather(*submits, return_exceptions=True)

    answers = sorted(row["answer"] for row in await simulator.submissions())
    assert answers == ["accepted", "accepted", "accepted", "throttled", "throttled"]


async def test_without_a_message_tag_each_address_is_throttled_twice(simulator: RunningSimulator) -> None:
    addresses = ("throttle-twice+1@faults.example.com", "throttle-twice+2@faults.example.com")

    for address in 3 * addresses:
        await asyncio.gather(simulator.submit(address), return_exceptions=True)

    answers = [row["answer"] for row in await simulator.submissions()]
    assert answers == 4 * ["throttled"] + 2 * ["accepted"]


async def test_slow_is_answered_after_two_seconds(simulator: RunningSimulator) -> None:
    began = time.monotonic()
    answer = await simulator.endpoint.post(SEND_EMAIL, json=a_request("slow@faults.example.com"))
    took = time.monotonic() - began

    [submission] = await simulator.submissions()
    assert answer.json() == {"MessageId": submission["ses_message_id"]}
    assert 1.9 < took < 4


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("hang", ReadTimeoutError),
        ("lost", ReadTimeoutError),
        ("drip", ReadTimeoutError),
        ("slow", ReadTimeoutError),
        ("reset", ConnectionClosedError),
    ],
)
async def test_an_answer_that_never_comes_whole_leaves_an_accepted_submission(
    simulator: RunningSimulator, fault: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await simulator.submit(f"{fault}+17@faults.example.com")

    [submission] = await simulator.submissions()
    assert submission["answer"] == "accepted"
    assert MESSAGE_ID.fullmatch(submission["ses_message_id"])


async def test_drip_answers_one_byte_a_second(simulator: RunningSimulator) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", simulator.endpoint_port)
    writer.write(request_bytes("drip@faults.example.com"))

    came = []
    arrived = []
    for _ in "HTT":
        came.append(await asyncio.wait_for(reader.read(100), 5))
        arrived.append(time.monotonic())
    writer.close()

    assert came == [b"H", b"T", b"T"]
    assert [round(later - earlier) for earlier, later in itertools.pairwise(arrived)] == [1, 1]
    assert len(await simulator.submissions()) == 1


async def test_reset_before_resets_and_leaves_no_submission(simulator: RunningSimulator) -> None:
    with pytest.raises(ConnectionClosedError):
        await simulator.submit("reset-before@faults.example.com")

    assert await simulator.submissions() == []


@pytest.mark.parametrize("recipient", ["reset@faults.example.com", "reset-before@faults.example.com"])
async def test_a_reset_is_a_tcp_reset_and_no_orderly_end(simulator: RunningSimulator, recipient: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", simulator.endpoint_port)
    writer.write(request_bytes(recipient))

    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 5)
    writer.close()


@pytest.mark.parametrize("fault", ["garbage", "empty"])
async def test_an_answer_without_an_id_is_no_error_to_boto3(simulator: RunningSimulator, fault: str) -> None:
    message_id = await simulator.submit(f"{fault}@faults.example.com")

    assert message_id is None
    [submission] = await simulator.submissions()
    assert submission["answer"] == "accepted"
    assert MESSAGE_ID.fullmatch(submission["ses_message_id"])
