"""What the SES endpoint refuses or doesn't know, and that it speaks HTTP/1.1."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.dev.running_simulator import (
    SEND_EMAIL,
    RunningSimulator,
    a_request,
    request_bytes,
    running_simulator,
)


@pytest.fixture(scope="module")
async def shared_simulator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningSimulator]:
    async with running_simulator(tmp_path_factory.mktemp("simulator")) as running:
        yield running


@pytest.fixture
async def simulator(shared_simulator: RunningSimulator) -> RunningSimulator:
    await shared_simulator.post("/_sim/reset")
    return shared_simulator


@pytest.fixture
async def wire(simulator: RunningSimulator) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", simulator.endpoint_port)
    yield reader, writer
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in a_request().items() if name != key}


def with_header(name: str, value: str, *, times: int = 1) -> dict[str, Any]:
    request = a_request()
    request["Content"]["Simple"]["Headers"] = times * [{"Name": name, "Value": value}]
    return request


@pytest.mark.parametrize(
    "body",
    [
        without("FromEmailAddress"),
        without("Destination"),
        without("Content"),
        a_request() | {"Content": {"Raw": {"Data": "aGVsbG8="}}},
        a_request() | {"Content": {"Simple": {"Subject": {"Data": "Welcome"}, "Body": {}}}},
        a_request() | {"FromEmailAddress": "hello"},
        a_request("ada"),
        a_request("ada lovelace@example.com"),
        a_request("ädä@example.com"),
        a_request() | {"ReplyToAddresses": ["help"]},
        a_request()
        | {"Destination": {"ToAddresses": 25 * ["ada@example.com"], "BccAddresses": 26 * ["b@example.com"]}},
        a_request() | {"EmailTags": [{"Name": "order", "Value": "a b"}]},
        a_request() | {"EmailTags": [{"Name": "", "Value": "17"}]},
        a_request() | {"EmailTags": [{"Name": "order", "Value": 257 * "x"}]},
        with_header("X-Order", "17\r\nBcc: eve@example.com"),
        with_header("X-Order", ""),
        with_header("X Order", "17"),
        with_header("X-Order:", "17"),
        with_header("X-Order", 990 * "x"),
        with_header("X-Order", "17", times=16),
    ],
)
async def test_what_ses_refuses_is_a_bad_request_and_recorded_as_rejected(
    simulator: RunningSimulator, body: dict[str, Any]
) -> None:
    answer = await simulator.endpoint.post(SEND_EMAIL, json=body)

    assert (answer.status_code, answer.headers["x-amzn-ErrorType"]) == (400, "BadRequestException")
    assert answer.json().keys() == {"message"}
    [submission] = await simulator.submissions()
    assert (submission["answer"], submission["ses_message_id"]) == ("rejected", None)


@pytest.mark.parametrize(
    "body",
    [
        with_header("X-Order", "17", times=15),
        with_header("X-Order", 989 * "x"),
        a_request() | {"Destination": {"ToAddresses": 50 * ["ada@example.com"]}},
        a_request() | {"EmailTags": [{"Name": 256 * "n", "Value": 256 * "v"}]},
        a_request() | {"ConfigurationSetName": "anything", "TenantName": "ignored"},
    ],
)
async def test_what_is_just_within_the_limits_is_accepted(simulator: RunningSimulator, body: dict[str, Any]) -> None:
    answer = await simulator.endpoint.post(SEND_EMAIL, json=body)

    assert answer.status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"Content": 1}', b"\xff", b'{"FromEmailAddress": 1}'])
async def test_a_body_of_another_shape_is_refused_and_recorded(simulator: RunningSimulator, body: bytes) -> None:
    answer = await simulator.endpoint.post(SEND_EMAIL, content=body)

    assert (answer.status_code, answer.headers["x-amzn-ErrorType"]) == (400, "SerializationException")
    [submission] = await simulator.submissions()
    assert (submission["answer"], submission["to"], submission["from"]) == ("rejected", [], None)


@pytest.mark.parametrize(
    ("method", "path"),
    [("HEAD", "/"), ("GET", "/"), ("GET", SEND_EMAIL), ("POST", "/v2/email/templates"), ("PUT", SEND_EMAIL)],
)
async def test_any_other_operation_is_unknown_and_not_recorded(
    simulator: RunningSimulator, method: str, path: str
) -> None:
    answers = [await simulator.endpoint.request(method, path) for _ in "12"]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert await simulator.submissions() == []


async def test_a_connection_carries_many_requests(
    simulator: RunningSimulator, wire: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    reader, writer = wire

    writer.write(request_bytes("ada@example.com") + request_bytes("bob@example.com", "Connection: close"))
    answers = await asyncio.wait_for(reader.read(), 5)

    assert answers.count(b"HTTP/1.1 200") == 2
    assert [row["to"] for row in await simulator.submissions()] == [["ada@example.com"], ["bob@example.com"]]


async def test_a_client_that_expects_100_continue_and_chunks_its_body_is_served(
    simulator: RunningSimulator, wire: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    reader, writer = wire
    body = json.dumps(a_request()).encode()

    head = f"POST {SEND_EMAIL} HTTP/1.1\r\nHost: ses\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    writer.write(head.encode())
    go_on = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    writer.write(b"%x\r\n%b\r\n" % (10, body[:10]) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) - 10, body[10:]))
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)

    assert go_on.startswith(b"HTTP/1.1 100")
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(await simulator.submissions()) == 1


async def test_a_body_that_breaks_off_is_not_recorded(
    simulator: RunningSimulator, wire: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    reader, writer = wire

    writer.write(request_bytes("ada@example.com")[:-1])
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 5)

    assert answer.startswith(b"HTTP/1.1 400")
    assert await simulator.submissions() == []


@pytest.mark.parametrize(
    ("junk", "status"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", b"400"),
        (f"POST {SEND_EMAIL} HTTP/1.1\r\nHost: ses\r\nX: {100_000 * 'x'}\r\n\r\n".encode(), b"431"),
    ],
)
@pytest.mark.usefixtures("simulator")
async def test_what_is_not_http_is_answered_and_the_connection_ends(
    wire: tuple[asyncio.StreamReader, asyncio.StreamWriter], junk: bytes, status: bytes
) -> None:
    reader, writer = wire

    writer.write(junk)
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"\r\nConnection: close\r\n" in answer
