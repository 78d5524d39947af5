"""The simulator's control calls, its command line, and what its record survives."""

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.dev.running_simulator import (
    SEND_EMAIL,
    RunningSimulator,
    a_request,
    request_bytes,
    running_simulator,
    start,
)
from tests.waiting import until


@pytest.fixture(scope="module")
async def shared_simulator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningSimulator]:
    async with running_simulator(tmp_path_factory.mktemp("simulator")) as running:
        yield running


@pytest.fixture
async def simulator(shared_simulator: RunningSimulator) -> RunningSimulator:
    await shared_simulator.post("/_sim/reset")
    return shared_simulator


async def hang(simulator: RunningSimulator) -> asyncio.StreamWriter:
    """Leave a request hanging on a connection of its own, and return when it is recorded."""
    _, writer = await asyncio.open_connection("127.0.0.1", simulator.endpoint_port)
    writer.write(request_bytes("hang@faults.example.com"))
    await until(lambda: simulator.holds("hang@faults.example.com"), within=5)
    return writer


async def test_submissions_are_listed_oldest_first_and_by_tag(simulator: RunningSimulator) -> None:
    for name, order in (("ada", "17"), ("bob", "18"), ("carol", "17")):
        await simulator.submit(f"{name}@example.com", tags={"order": order, "kind": "receipt"})

    everything = await simulator.submissions()
    assert [row["to"] for row in everything] == [["ada@example.com"], ["bob@example.com"], ["carol@example.com"]]
    assert [row["id"] for row in everything] == sorted(row["id"] for row in everything)
    assert [row["to"] for row in await simulator.submissions("order:17")] == [
        ["ada@example.com"],
        ["carol@example.com"],
    ]
    assert len(await simulator.submissions("kind:receipt")) == 3
    assert await simulator.submissions("order:1") == []
    assert await simulator.submissions("17:order") == []


async def test_a_stopped_endpoint_refuses_connections_until_it_is_started(simulator: RunningSimulator) -> None:
    # This leaves an open connection in boto3's pool.
    await simulator.submit("ada@example.com")

    await simulator.post("/_sim/stop")
    with pytest.raises(EndpointConnectionError):
        await simulator.submit("bob@example.com")
    await simulator.post("/_sim/stop")
    await simulator.post("/_sim/start")
    await simulator.post("/_sim/start")
    await simulator.submit("carol@example.com")

    assert [row["to"] for row in await simulator.submissions()] == [["ada@example.com"], ["carol@example.com"]]


async def test_a_stop_breaks_off_the_answers_under_way(simulator: RunningSimulator) -> None:
    await simulator.post("/_sim/delay", {"ms": 60_000})
    # Not by boto3, whose client here gives up an answer before a busy machine has stopped the simulator.
    submit = asyncio.create_task(simulator.endpoint.post(SEND_EMAIL, json=a_request()))
    await until(lambda: simulator.holds("ada@example.com"), within=5)
    await simulator.post("/_sim/stop")

    with pytest.raises(httpx.TransportError) as broken:
        await submit
    assert not isinstance(broken.value, httpx.TimeoutException)
    assert [row["answer"] for row in await simulator.submissions()] == ["accepted"]


async def test_a_start_says_when_another_program_has_the_port(simulator: RunningSimulator) -> None:
    await simulator.post("/_sim/stop")
    with socket.create_server(("127.0.0.1", simulator.endpoint_port)):
        answer = await simulator.control.post("/_sim/start")

    assert answer.status_code == 503
    assert str(simulator.endpoint_port) in answer.json()["message"]


async def test_a_delay_holds_back_every_answer(simulator: RunningSimulator) -> None:
    await simulator.post("/_sim/delay", {"ms": 300})

    began = time.monotonic()
    await simulator.submit("ada@example.com")
    accepted_after = time.monotonic() - began
    began = time.monotonic()
    with pytest.raises(ClientError):
        await simulator.submit("reject@faults.example.com")
    rejected_after = time.monotonic() - began

    assert 0.29 < accepted_after < 2
    assert 0.29 < rejected_after < 2


async def test_a_reset_forgets_everything(simulator: RunningSimulator) -> None:
    for _ in "12":
        with pytest.raises(ClientError):
            await simulator.submit("throttle-twice@faults.example.com", tags={"fencepost_message": "m1"})
    [last_id] = [row["id"] for row in await simulator.submissions()][1:]
    await simulator.post("/_sim/delay", {"ms": 60_000})
    await simulator.post("/_sim/stop")

    await simulator.post("/_sim/reset")

    assert await simulator.submissions() == []
    with pytest.raises(ClientError, match="TooManyRequestsException"):
        await simulator.submit("throttle-twice@faults.example.com", tags={"fencepost_message": "m1"})
    [submission] = await simulator.submissions("fencepost_message:m1")
    assert submission["id"] > last_id


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/_sim/delay", b""),
        ("/_sim/delay", b"{"),
        ("/_sim/delay", b"{}"),
        ("/_sim/delay", b'{"ms": "50"}'),
        ("/_sim/delay", b'{"ms": -1}'),
        ("/_sim/delay", b'{"ms": 50, "s": 1}'),
    ],
)
async def test_a_wrong_body_is_refused_with_a_message(simulator: RunningSimulator, path: str, body: bytes) -> None:
    answer = await simulator.control.post(path, content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 422
    assert answer.json().keys() == {"message"}
    assert answer.json()["message"].startswith("body")


@pytest.mark.parametrize("tag", ["", "order", ":17", "order:"])
async def test_a_wrong_tag_is_refused_with_a_message(simulator: RunningSimulator, tag: str) -> None:
    answer = await simulator.control.get("/_sim/submissions", params={"tag": tag})

    assert (answer.status_code, answer.json()) == (422, {"message": "tag: give it as NAME:VALUE."})


@pytest.mark.parametrize("path", ["/_sim", "/_sim/nothing", "/nothing", "/docs", "/openapi.json"])
async def test_an_unknown_path_is_not_found(simulator: RunningSimulator, path: str) -> None:
    answer = await simulator.control.get(path)

    assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})


async def test_the_record_survives_a_kill(tmp_path: Path) -> None:
    async with running_simulator(tmp_path) as simulator:
        await simulator.submit("ada@example.com", tags={"order": "17"})
        for _ in "12":
            with pytest.raises(ClientError):
                await simulator.submit("throttle-twice@faults.example.com")
        hanging = await hang(simulator)
        before = await simulator.submissions()
        simulator.process.kill()
        await simulator.process.wait()
        hanging.close()

    async with running_simulator(tmp_path) as simulator:
        after = await simulator.submissions()
        tagged = await simulator.submissions("order:17")
        await simulator.submit("throttle-twice@faults.example.com")

    assert len(before) == 4
    assert after == before
    assert tagged == before[:1]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
async def test_no_connection_keeps_the_process_from_ending(tmp_path: Path, end: signal.Signals) -> None:
    async with running_simulator(tmp_path) as simulator:
        hanging = [await hang(simulator) for _ in "12"]

        began = time.monotonic()
        simulator.process.send_signal(end)
        status = await asyncio.wait_for(simulator.process.wait(), 10)
        took = time.monotonic() - began
        assert simulator.process.stderr is not None
        complaints = await simulator.process.stderr.read()
        for connection in hanging:
            connection.close()

    assert (status, complaints) == (0, b"")
    assert took < 2


async def refused(*arguments: str) -> tuple[int | None, list[str]]:
    """Start a simulator that cannot run; return its exit status and the lines of its standard error."""
    process = await start(*arguments)
    output, complaints = await asyncio.wait_for(process.communicate(), 20)
    assert output == b""
    return process.returncode, complaints.decode().splitlines()


@pytest.mark.parametrize("option", ["--port", "--ses-port"])
async def test_a_port_in_use_is_said_in_one_line(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"--port": "0", "--ses-port": "0"} | {option: str(port)}

        status, [line] = await refused(*(part for pair in ports.items() for part in pair), "--dir", str(tmp_path))

    assert status == 2
    assert f"127.0.0.1:{port}" in line
    assert f"choose another with {option}:" in line


async def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    status, [line] = await refused("--port", "0", "--ses-port", "0", "--dir", str(tmp_path / "file" / "folder"))

    assert status == 2
    assert "cannot keep a record in" in line


async def test_a_file_that_is_no_record_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "submissions.sqlite3").write_bytes(1000 * b"junk")

    status, [line] = await refused("--port", "0", "--ses-port", "0", "--dir", str(tmp_path))

    assert status == 2
    assert "cannot keep a record in" in line


async def test_a_folder_belongs_to_one_simulator_at_a_time(tmp_path: Path) -> None:
    async with running_simulator(tmp_path):
        status, [line] = await refused("--port", "0", "--ses-port", "0", "--dir", str(tmp_path))

    assert status == 2
    assert "cannot keep a record in" in line


async def test_a_port_out_of_range_is_bad_use() -> None:
    status, lines = await refused("--port", "65536", "--dir", "unused")

    assert status == 2
    assert "a port is a number from 0 to 65535" in lines[-1]


@pytest.mark.parametrize("url", ["127.0.0.1:7480", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:x/"])
async def test_an_events_url_that_is_none_is_bad_use(url: str) -> None:
    status, lines = await refused("--events-url", url, "--dir", "unused")

    assert status == 2
    assert "a URL starts with http:// or https://" in lines[-1]


async def test_a_file_that_is_no_key_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "sns.pem").write_text("junk")

    status, [line] = await refused("--events-url", "http://127.0.0.1:1/", "--dir", str(tmp_path))

    assert status == 2
    assert "delete the file to have a new one made" in line


async def test_the_help_text_names_every_option() -> None:
    process = await start("--help")
    output, complaints = await asyncio.wait_for(process.communicate(), 20)

    assert (process.returncode, complaints) == (0, b"")
    assert all(option in output.decode() for option in ("--ses-port", "--dir", "--events-url", "--topic"))
