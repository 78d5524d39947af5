"""A whole stack, and commands in a folder from which they find it by themselves."""

import asyncio
import contextlib
import io
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from cli import main
from tests.acceptance.conftest import TIMES
from tests.activities import scripted_server
from tests.dev.folders import open_folder
from tests.dev.free_ports import free_base
from tests.dev.running_stack import ROOT, RunningStack, running
from tests.publishing import CONFIRMED

#: The demo tenant's sender and template.
SEND = ("send", "--sender", "demo", "--template", "welcome@1", "--context", '{"name": "Ada"}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def rows(self) -> list[dict[str, str]]:
        """Read a table as it stands in a pipe."""
        heading, *lines = [line.split("\t") for line in self.out.splitlines()]
        return [dict(zip(heading, line, strict=True)) for line in lines]


@dataclass(slots=True, kw_only=True)
class CommandLine:
    """Runs commands in a folder; none may ever show a secret."""

    folder: Path
    secrets: tuple[str, ...] = field(default=(), repr=False)

    async def run(self, *words: str, **environment: str) -> Said:
        """Run a command in this process: the same, but for the second that Python takes to start."""
        return self._checked(await asyncio.to_thread(self._run_here, words, environment))

    async def run_process(self, *words: str, **environment: str) -> Said:
        """Run a command as a shell does."""
        return await self.feed(b"", *words, **environment)

    async def feed(self, stdin: bytes, /, *words: str, **environment: str) -> Said:
        """Run a command as a shell does, with this on its standard input."""
        process = await self.start(*words, **environment)
        out, err = await asyncio.wait_for(process.communicate(stdin), 60)
        assert process.returncode is not None
        return self._checked(Said(status=process.returncode, out=out.decode(), err=err.decode()))

    async def start(self, *words: str, **environment: str) -> asyncio.subprocess.Process:
        """Start a command, and don't wait for it."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cli", *words),
            cwd=self.folder,
            env={**_without_ours(), "PYTHONPATH": str(ROOT), **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    def _run_here(self, words: tuple[str, ...], environment: dict[str, str]) -> Said:
        out, err = io.StringIO(), io.StringIO()
        with _surroundings(self.folder, environment), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(words)
            except SystemExit as end:
                status = end.code or 0
        assert isinstance(status, int)
        return Said(status=status, out=out.getvalue(), err=err.getvalue())

    def _checked(self, said: Said) -> Said:
        assert "Traceback" not in said.err, said.err
        assert not [secret for secret in self.secrets if secret in said.out + said.err]
        return said


def _without_ours() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("FENCEPOST_", "TEMPORAL_"))}


@contextlib.contextmanager
def _surroundings(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    before, where = dict(os.environ), Path.cwd()
    kept = _without_ours() | environment
    os.environ.clear()
    os.environ.update(kept)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(where)
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="package")
async def stack() -> AsyncIterator[RunningStack]:
    """Run a stack for all tests of commands."""
    with open_folder() as folder, scripted_server.serving(scripted_server.answer(200, CONFIRMED)) as sns:
        options = ("--port-base", str(free_base()), "--no-first-message")
        environment = {**TIMES, "FENCEPOST_PAUSE_LOOK_SECONDS": "1", "FENCEPOST_SNS_ENDPOINT_URL": sns.url}
        async with running(folder / ".fencepost", *options, environment=environment) as stack:
            yield stack


@pytest.fixture
def line(stack: RunningStack) -> CommandLine:
    """Run commands where somebody stands who has just run `make dev`."""
    kept = json.loads((stack.directory / "secrets.json").read_text())
    secrets = (kept["api_key"], kept["operator_key"], kept["key_pepper"], *kept["passwords"].values())
    folder = stack.directory.parent / "somewhere" / "below"
    folder.mkdir(parents=True, exist_ok=True)
    return CommandLine(folder=folder, secrets=secrets)


@pytest.fixture
def nowhere(tmp_path: Path) -> CommandLine:
    """Run commands where there is no stack."""
    return CommandLine(folder=tmp_path)


@pytest.fixture
async def psql(stack: RunningStack) -> AsyncIterator[asyncpg.Connection]:
    """Connect to the stack's database."""
    connection = await asyncpg.connect(stack.describe()["database_url"])
    yield connection
    await connection.close()


def new_name(kind: str) -> str:
    """Give a name that nothing has yet."""
    return f"{kind}-{uuid4().hex[:8]}"
