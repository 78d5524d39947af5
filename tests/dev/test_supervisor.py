"""Children that are kept running, and stopped in order."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from dev.supervisor import HOPELESS, LOG_BYTES, Program, Supervisor
from tests.dev.processes import alive
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SLEEP = ["sleep", "1000"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(999)",
]
SLOW_SCRIPT = """
import signal, threading
asked = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked.set())
print("up")
asked.wait()
threading.Event().wait(0.3)
print("down")
"""
#: Ends a moment after it was asked to, and says when.
SLOW = [sys.executable, "-uc", SLOW_SCRIPT]


def program(name: str, command: list[str], *, tier: int = 0, grace: float = 10) -> Program:
    environment = {"PATH": os.environ["PATH"]}
    return Program(name=name, command=command, environment=environment, directory=ROOT, tier=tier, grace=grace)


class Watched:
    """A supervisor at work, and what it said."""

    def __init__(self, logs: Path) -> None:
        self.said: list[str] = []
        self.changes = 0
        self.hasten = asyncio.Event()
        self.supervisor = Supervisor(logs=logs, say=self.said.append, changed=self._count)

    def _count(self) -> None:
        self.changes += 1

    def pid(self, name: str) -> int:
        return self.supervisor.pids().get(name, 0)

    def said_by(self, name: str) -> str:
        return self.supervisor.log(name).read_text()

    def start(self, name: str, command: list[str], *, tier: int = 0, grace: float = 10) -> int:
        self.supervisor.start(program(name, command, tier=tier, grace=grace))
        return self.pid(name)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    watched = Watched(tmp_path)
    watching = asyncio.create_task(watched.supervisor.watch())
    yield watched
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    watched.hasten.set()
    await watched.supervisor.stop(watched.hasten)


async def test_a_killed_child_is_back_within_two_seconds_under_its_own_name(watched: Watched) -> None:
    first = watched.start("worker-1", SLEEP)

    os.kill(first, signal.SIGKILL)
    await until(lambda: watched.pid("worker-1") not in {0, first}, within=2)

    assert alive(watched.pid("worker-1"))
    assert watched.changes == 1
    (line,) = watched.said
    assert "worker-1" in line
    assert "SIGKILL" in line
    assert "worker-1.log" in line


async def test_a_child_that_keeps_ending_is_tried_again_with_pauses_and_few_words(watched: Watched) -> None:
    watched.start("api", ["sh", "-c", "echo tried; exit 3"])

    await until(lambda: watched.supervisor.hopeless("api"), within=10)

    assert HOPELESS <= watched.said_by("api").count("tried") <= HOPELESS + 1
    assert "status 3" in watched.said[0]
    assert len(watched.said) < HOPELESS


async def test_a_child_that_is_only_stopped_is_left_alone(watched: Watched) -> None:
    stopped = watched.start("worker-1", SLEEP)
    other = watched.start("worker-2", SLEEP)

    os.kill(stopped, signal.SIGSTOP)
    await until(lambda: psutil.Process(stopped).status() == psutil.STATUS_STOPPED, within=2)
    # The other one's return shows that the supervisor has looked at both of them since.
    os.kill(other, signal.SIGKILL)
    await until(lambda: watched.pid("worker-2") not in {0, other}, within=2)

    assert watched.pid("worker-1") == stopped
    assert psutil.Process(stopped).status() == psutil.STATUS_STOPPED


async def test_a_stopped_child_does_not_hang_the_stop(watched: Watched) -> None:
    stopped = watched.start("worker-1", SLOW)
    await until(lambda: "up" in watched.said_by("worker-1"), within=10)
    os.kill(stopped, signal.SIGSTOP)

    await asyncio.wait_for(watched.supervisor.stop(watched.hasten), 5)

    assert "down" in watched.said_by("worker-1")


async def test_a_tier_stops_when_the_higher_ones_have_ended(watched: Watched) -> None:
    watched.start("postgres", SLOW, tier=0)
    watched.start("worker-1", SLOW, tier=3)
    await until(lambda: "up" in watched.said_by("postgres") and "up" in watched.said_by("worker-1"), within=10)

    stopping = asyncio.create_task(watched.supervisor.stop(watched.hasten))
    await until(lambda: "down" in watched.said_by("worker-1"), within=5)
    assert "down" not in watched.said_by("postgres")
    await stopping

    assert "down" in watched.said_by("postgres")


async def test_a_child_that_does_not_hear_is_killed_after_its_grace(watched: Watched) -> None:
    deaf = watched.start("api", DEAF, grace=0.2)
    await until(lambda: watched.said_by("api"), within=10)

    await asyncio.wait_for(watched.supervisor.stop(watched.hasten), 5)

    assert not alive(deaf)


async def test_hurry_cuts_the_grace_short(watched: Watched) -> None:
    deaf = watched.start("api", DEAF, grace=1000)
    await until(lambda: watched.said_by("api"), within=10)

    stopping = asyncio.create_task(watched.supervisor.stop(watched.hasten))
    watched.hasten.set()
    await asyncio.wait_for(stopping, 5)

    assert not alive(deaf)


async def test_children_are_out_of_reach_of_the_terminals_ctrl_c(watched: Watched) -> None:
    pid = watched.start("api", SLEEP)

    assert os.getsid(pid) == pid
    assert os.getpgid(pid) == pid


async def test_a_long_log_is_set_aside_at_a_start(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "api.log").write_bytes(b"x" * (LOG_BYTES + 1))

    watched.start("api", ["echo", "begun"])

    await until(lambda: "begun" in watched.said_by("api"), within=5)
    assert (tmp_path / "api.log.1").stat().st_size == LOG_BYTES + 1


async def test_nobody_outlives_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    """Not even one that is stopped, or deaf to SIGTERM."""
    script = f"""
import asyncio
from pathlib import Path
from dev.supervisor import Supervisor
from tests.dev.test_supervisor import DEAF, SLEEP, program

async def main() -> None:
    supervisor = Supervisor(logs=Path({str(tmp_path)!r}), say=print, changed=lambda: None)
    supervisor.start(program("deaf", DEAF))
    supervisor.start(program("asleep", SLEEP))
    print(*supervisor.pids().values(), flush=True)
    await supervisor.watch()

asyncio.run(main())
"""
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert supervisor.stdout is not None
    deaf, asleep = (int(pid) for pid in (await supervisor.stdout.readline()).split())
    await until((tmp_path / "deaf.log").read_text, within=10)
    os.kill(asleep, signal.SIGSTOP)

    supervisor.kill()
    await supervisor.wait()

    await until(lambda: not alive(deaf) and not alive(asleep), within=5)
