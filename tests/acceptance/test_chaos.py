"""The chaos run finds nothing in the product as it is, and finds a second submission once begin guards nothing."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.dev.folders import open_folder
from tests.mutation.mutant import ROOT, Mutant

#: Far beyond a run on a busy machine, with a stack to start and all its parts to be started again.
LONGEST_SECONDS: Final = 400
#: What the run and its stack need of the checkout.
PARTS: Final = (
    "workflows",
    "activities",
    "api",
    "db",
    "dev",
    "bench",
    "deploy",
    "worker.py",
    "cli.py",
    "pyproject.toml",
)
_DECIDED: Final = "    if not may_begin:\n        return BeginAnswer.REFUSED, None\n"
_WRITTEN: Final = """\
                    if begun is None:  # the lease ran short between the decision and the write
                        return Begun(answer=BeginAnswer.REFUSED)
                    await message.one(statements.USE_ATTEMPT, this_token=token)
"""
_USED: Final = "                    await message.first(statements.USE_ATTEMPT, this_token=token)\n"
#: Begin then says yes to every body, and writes what it still can.
WITHOUT_BEGIN: Final = (
    Mutant(name="decision", file="db/decisions.py", text=_DECIDED, becomes="", leaves_out="no facts count", tests=()),
    Mutant(name="write", file="db/store.py", text=_WRITTEN, becomes=_USED, leaves_out="no guard counts", tests=()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended."""

    status: int | None
    said: str
    results: dict[str, Any]

    def broken(self) -> set[str]:
        return {name for name, times in self.results["breaches"].items() if times}


async def chaos(tree: Path, results: Path, *arguments: str) -> Ended:
    """Run chaos in a checkout whose modules come before any that are installed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.chaos", "--results", str(results), *arguments),
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), LONGEST_SECONDS)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    written = results / "chaos.json"
    assert written.exists(), said.decode()
    return Ended(status=process.returncode, said=said.decode(), results=json.loads(written.read_text()))


@pytest.fixture
def copy() -> Iterator[Path]:
    """Make a copy of the checkout that may be changed."""
    with open_folder() as folder:
        for part in PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder)
        yield folder


async def test_a_tormented_stack_breaks_nothing_that_must_hold(tmp_path: Path) -> None:
    ended = await chaos(ROOT, tmp_path, "--messages", "40", "--faults", "8", "--seed", "7")

    assert (ended.status, ended.broken()) == (0, set()), ended.said
    assert (ended.results["twice"], ended.results["lost"], ended.results["stuck"]) == (0, 0, 0)
    assert sum(ended.results["states"].values()) == ended.results["messages"] == 40
    assert sum(ended.results["faults"].values()) >= 4
    assert {"delivered", "hard_bounced", "complained"} <= ended.results["states"].keys()
    assert ended.results["ambiguous"]["ended_by_evidence"] > 0


async def test_without_the_guard_of_begin_a_second_submission_is_found(copy: Path, tmp_path: Path) -> None:
    for mutant in WITHOUT_BEGIN:
        mutant.apply(copy)

    ended = await chaos(copy, tmp_path, "--messages", "30", "--faults", "3", "--seed", "7", "--only", "kill_worker")

    assert ended.status == 1, ended.said
    assert ended.results["twice"] > 0
    assert {"I2", "I3"} <= ended.broken()
