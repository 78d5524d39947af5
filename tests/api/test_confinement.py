"""Confinement: whatever the function does, each call gets its own answer."""

import asyncio
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from api.confinement import Confinement, ConfinementUnavailableError
from tests.waiting import until


@pytest.fixture(name="confinement", scope="module")
def _confinement() -> Iterator[Confinement]:
    confinement = Confinement("tests.api.hostile:obey")
    yield confinement
    confinement.close()


def _call(confinement: Confinement, argument: bytes) -> bytes | None:
    return confinement.call(argument, cpu_seconds=0.1)


def _pids(confinement: Confinement) -> tuple[int, int]:
    answer = _call(confinement, b"pids")
    assert answer is not None
    worker, keeper = map(int, answer.split())
    return worker, keeper


def test_a_call_returns_what_the_function_returns(confinement: Confinement) -> None:
    assert _call(confinement, b"hello") == b"hello"
    assert _call(confinement, b"") == b""
    assert _call(confinement, b"x" * 10**6) == b"x" * 10**6


@pytest.mark.parametrize("argument", [b"loop", b"swell", b"crash", b"raise", b"exit"])
def test_a_call_out_of_bounds_is_given_up_and_the_next_one_answered(confinement: Confinement, argument: bytes) -> None:
    assert _call(confinement, b"before") == b"before"

    assert _call(confinement, argument) is None

    assert _call(confinement, b"after") == b"after"


def test_a_loop_ends_when_its_cpu_time_is_used_up(confinement: Confinement) -> None:
    _, keeper = _pids(confinement)
    before = psutil.Process(keeper).cpu_times()

    _call(confinement, b"loop")

    after = psutil.Process(keeper).cpu_times()
    used = sum(after[2:4]) - sum(before[2:4])
    assert 0.05 < used < 0.2


def test_only_cpu_time_counts(confinement: Confinement) -> None:
    assert _call(confinement, b"wait") == b"waited"


def test_the_child_knows_nothing_of_our_environment(confinement: Confinement) -> None:
    names = _call(confinement, b"environment")

    # What Python sets itself for a locale is all.
    assert names in (b"", b"LC_CTYPE")


def test_calls_from_several_threads_get_their_own_answers(confinement: Confinement) -> None:
    arguments = [b"loop" if number % 10 == 5 else str(number).encode() for number in range(40)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda argument: _call(confinement, argument), arguments))

    assert answers == [None if argument == b"loop" else argument for argument in arguments]


@pytest.mark.parametrize("victim", ["worker", "keeper"])
def test_a_child_that_somebody_killed_costs_no_call(confinement: Confinement, victim: str) -> None:
    worker, keeper = _pids(confinement)
    killed = psutil.Process(worker if victim == "worker" else keeper)

    killed.kill()

    for number in range(20):
        assert _call(confinement, str(number).encode()) == str(number).encode()


async def test_no_child_is_left_after_close() -> None:
    confinement = Confinement("tests.api.hostile:obey")
    pids = _pids(confinement)

    confinement.close()

    await until(lambda: not any(map(_is_running, pids)), within=5)
    assert _call(confinement, b"again") == b"again"
    confinement.close()


async def test_no_child_is_left_when_we_are_killed() -> None:
    program = (
        "import os, signal\n"
        "from api.confinement import Confinement\n"
        "print(Confinement('tests.api.hostile:obey').call(b'pids', cpu_seconds=0.1).decode(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE
    )
    output, _ = await parent.communicate()
    pids = [int(pid) for pid in output.split()]

    assert len(pids) == 2
    await until(lambda: not any(map(_is_running, pids)), within=5)


def test_a_function_that_is_not_there_is_told_apart_from_one_that_fails() -> None:
    confinement = Confinement("tests.api.hostile:nothing")

    with pytest.raises(ConfinementUnavailableError):
        _call(confinement, b"")


def test_a_call_takes_well_under_a_hundredth_of_a_second(confinement: Confinement) -> None:
    _call(confinement, b"warm")
    started = time.perf_counter()

    for _ in range(100):
        _call(confinement, b"x")

    assert (time.perf_counter() - started) / 100 < 0.01


def _is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
