"""Running the tests of one mutant in a copy of the checkout, and saying what they showed."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.mutation.mutant import ROOT, Mutant

#: What the tests of the guards need of the checkout.
_PARTS: Final = (
    "workflows",
    "activities",
    "api",
    "db",
    "dev",
    "tests",
    "deploy",
    "docs",
    "worker.py",
    "cli.py",
    "pyproject.toml",
)
#: Far beyond the tests of one mutant; without its timer, one lets an answer drip for fifty seconds.
_LONGEST_SECONDS: Final = 300
#: For the tests of all mutants, without any.
_LONGEST_WHOLE_SECONDS: Final = 1200
#: pytest ends the servers that it started, then itself.
_GRACE_SECONDS: Final = 60
#: pytest gives 1 where a test failed, and other numbers where it could not run them.
_FAILED: Final = 1
_FIRST_FAILURE: Final = re.compile(r"^FAILED \S+::(?P<test>\w+(\[.*?\])?)(?: - .*)?$", re.MULTILINE)


class Verdict(StrEnum):
    """What became of a mutant."""

    CAUGHT = "caught"
    STOOD_IN = "no test, since"  #: as the list says
    NOT_CAUGHT = "NOT CAUGHT"
    BROKEN = "BROKEN"  #: its tests did not run, which shows nothing


@dataclass(frozen=True, slots=True)
class Shown:
    """What the tests showed."""

    verdict: Verdict
    what: str  #: the first test that failed, or what stands in, or how it broke


class Checkout:
    """A copy of the checkout as it was at the start, of which each mutant gets one of its own.

    A copy for each leaves nothing behind of the one before, not even bytecode.
    """

    def __init__(self, folder: Path) -> None:
        self._pristine = folder / "pristine"
        self._mutated = folder / "mutated"
        for part in _PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, self._pristine / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, self._pristine)

    def lacking(self, mutants: Iterable[Mutant]) -> list[str]:
        """Say which guards don't stand in this checkout as the list has them."""
        found = []
        for mutant in mutants:
            try:
                mutant.mutated((self._pristine / mutant.file).read_text(encoding="utf-8"))
            except ValueError as error:
                found.append(str(error))
        return found

    def trouble(self, tests: Iterable[str]) -> str:
        """Run tests without any mutant, and say how they fail; nothing where they pass."""
        code, output = _pytest(self._pristine, tests, within=_LONGEST_WHOLE_SECONDS)
        return _tail(output) if code else ""

    def try_out(self, mutant: Mutant) -> Shown:
        """Run the tests that are named for a mutant, until the first fails."""
        shutil.rmtree(self._mutated, ignore_errors=True)
        shutil.copytree(self._pristine, self._mutated, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        mutant.apply(self._mutated)
        code, output = _pytest(self._mutated, mutant.tests, within=_LONGEST_SECONDS)
        failure = _FIRST_FAILURE.search(output)
        if code == _FAILED and failure:
            return Shown(Verdict.CAUGHT, failure["test"])
        if code == 0 and mutant.stands_in:
            return Shown(Verdict.STOOD_IN, mutant.stands_in)
        if code == 0:
            return Shown(Verdict.NOT_CAUGHT, "")
        return Shown(Verdict.BROKEN, _tail(output))


def _pytest(tree: Path, tests: Iterable[str], *, within: float) -> tuple[int, str]:
    """Run pytest in a tree whose modules come before any that are installed; give its status and its output."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, cwd=tree, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output, _ = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return -1, f"did not end within {within} s"
    return process.returncode, output


def _tail(output: str) -> str:
    return " / ".join(line for line in output.strip().splitlines()[-3:] if line)
