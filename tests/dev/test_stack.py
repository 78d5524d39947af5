"""The whole stack: what it promises to scripts and to the person at the screen (CONTRACT section 1)."""

import contextlib
import itertools
import os
import shlex
import signal
import socket
import stat
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest

from dev.ports import Ports
from dev.stack import StackOptions, run
from tests.dev.folders import open_folder
from tests.dev.free_ports import free_base
from tests.dev.processes import alive
from tests.dev.running_stack import RunningStack, launch, running
from tests.waiting import until

CHILDREN = ("api", "worker-1", "worker-2", "ses", "temporal", "postgres")


@pytest.fixture(scope="module")
def base() -> int:
    return free_base(workers=2)


@pytest.fixture(scope="module")
async def stack(base: int) -> AsyncIterator[RunningStack]:
    options = ("--port-base", str(base), "--workers", "2")
    with open_folder() as folder:
        async with running(folder / "here", *options) as stack:
            yield stack


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path:
        yield path


async def _first_message_shown(stack: RunningStack) -> str:
    await until(lambda: "Ctrl-C stops everything" in stack.screen.read_text(), within=40)
    return stack.screen.read_text()


def test_dev_json_says_where_everything_is_to_its_owner_only(stack: RunningStack, base: int) -> None:
    found = stack.describe()

    assert found["api_url"] == f"http://127.0.0.1:{base}"
    assert found["ses_url"] == f"http://127.0.0.1:{base + 1}"
    assert found["temporal_address"] == f"127.0.0.1:{base + 2}"
    assert found["temporal_ui_url"] == f"http://127.0.0.1:{base + 3}"
    assert found["ses_endpoint_url"] == f"http://127.0.0.1:{base + 7}"
    assert found["temporal_namespace"] == "default"
    assert found["tenant"] == "demo"
    assert found["api_key"].startswith("fp_test_")
    assert found["operator_key"].startswith("fp_test_")
    assert set(found["pids"]) == set(CHILDREN)
    assert all(alive(pid) for pid in found["pids"].values())
    for name in ("dev.json", "secrets.json"):
        assert stat.S_IMODE((stack.directory / name).stat().st_mode) == 0o600


async def test_its_database_url_is_a_superusers(stack: RunningStack) -> None:
    connection = await asyncpg.connect(stack.describe()["database_url"])
    try:
        assert await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        assert await connection.fetchval("SELECT current_database()") == "fencepost"
    finally:
        await connection.close()


async def test_the_screen_shows_the_first_message_and_a_line_to_copy_that_works(stack: RunningStack) -> None:
    shown = await _first_message_shown(stack)

    assert "is delivered." in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("curl "))
    words = shlex.split(line)
    headers = dict(word.split(": ", 1) for option, word in itertools.pairwise(words) if option == "-H")
    url = next(word for word in words if word.startswith("http"))
    async with httpx.AsyncClient() as client:
        first = await client.post(url, headers=headers, content=words[words.index("-d") + 1])
        again = await client.post(url, headers=headers, content=words[words.index("-d") + 1])
    assert first.status_code == 202
    assert again.status_code == 200


@pytest.mark.parametrize("name", CHILDREN)
async def test_a_killed_child_is_back_within_two_seconds_under_its_own_name(stack: RunningStack, name: str) -> None:
    killed = stack.pid(name)

    os.kill(killed, signal.SIGKILL)
    await until(lambda: stack.pid(name) not in {0, killed}, within=2)

    assert set(stack.describe()["pids"]) == set(CHILDREN)
    assert f"{name} ended by SIGKILL" in stack.screen.read_text()


async def test_postgres_answers_within_ten_seconds_of_a_kill(stack: RunningStack) -> None:
    deadline = time.monotonic() + 10
    os.kill(stack.pid("postgres"), signal.SIGKILL)

    while True:
        assert time.monotonic() < deadline
        try:
            connection = await asyncpg.connect(stack.describe()["database_url"], timeout=1)
            break
        except (OSError, asyncpg.PostgresError):
            continue

    await connection.close()


async def test_a_child_that_is_only_stopped_is_left_alone(stack: RunningStack) -> None:
    # These two need no Postgres, whose kill in another test may have taken a worker that was just starting with it.
    stopped, other = stack.pid("ses"), stack.pid("temporal")

    os.kill(stopped, signal.SIGSTOP)
    # The other one's return shows that the supervisor has looked at both of them since.
    os.kill(other, signal.SIGKILL)
    await until(lambda: stack.pid("temporal") not in {0, other}, within=5)

    assert stack.pid("ses") == stopped
    assert psutil.Process(stopped).status() == psutil.STATUS_STOPPED
    os.kill(stopped, signal.SIGCONT)


def test_a_second_stack_on_the_same_folder_is_refused(stack: RunningStack, capsys: pytest.CaptureFixture[str]) -> None:
    before = stack.describe()

    assert run(StackOptions(directory=stack.directory, port_base=free_base())) == 1

    (line,) = capsys.readouterr().out.splitlines()
    assert f"process {stack.process.pid}" in line
    assert stack.describe() == before


def test_each_port_in_use_is_one_line_and_nothing_is_started(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ports = Ports(base=free_base(workers=2), workers=2)

    with contextlib.ExitStack() as held:
        for port in ports.uses():
            held.enter_context(socket.create_server(("127.0.0.1", port)))
        assert run(StackOptions(directory=folder / "here", port_base=ports.base, workers=2)) == 1

    lines = capsys.readouterr().out.splitlines()
    for port in ports.uses():
        assert sum(f"Port {port}, " in line for line in lines) == 1
    assert "--port-base" in lines[-1]
    assert [path.name for path in (folder / "here").iterdir()] == ["lock"]


async def test_an_interrupt_while_it_starts_leaves_nobody_behind(folder: Path) -> None:
    stack = await launch(folder / "here", "--port-base", str(free_base()))
    await until((folder / "here" / "logs" / "temporal.log").exists, within=30)

    assert await stack.end(signal.SIGINT) == set()
    assert stack.process.returncode == 0


async def test_it_stops_whole_and_goes_on_with_the_same_data(stack: RunningStack, base: int) -> None:
    """By Ctrl-C, by a kill -9 that leaves dev.json behind, and by SIGTERM. The last test that needs `stack` running."""
    directory, options = stack.directory, ("--port-base", str(base))
    keys = {name: stack.describe()[name] for name in ("api_key", "operator_key", "database_url")}
    assert await stack.end(signal.SIGINT) == set()
    assert stack.process.returncode == 0
    assert not (directory / "dev.json").exists()

    began_at = time.monotonic()
    async with running(directory, *options) as second:
        assert time.monotonic() - began_at < 45
        assert {name: second.describe()[name] for name in keys} == keys
        assert "is replayed" in await _first_message_shown(second)
        family = second.family()
        await second.end(signal.SIGKILL)
        await until(lambda: not any(alive(pid) for pid in family), within=5)
        assert (directory / "dev.json").exists()

    async with running(directory, *options, "--no-first-message") as third:
        assert third.pid("api") not in family
        assert await third.end(signal.SIGTERM) == set()
        assert third.process.returncode == 0, third.screen.read_text()
        assert not (directory / "dev.json").exists()
