"""The one-machine stack that is measured, and the baselines' processes beside it: started here, and ended here."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from dev import child, environment, readiness
from dev.kept import KeptSecrets, load
from dev.ports import Ports, check
from dev.refusals import StartRefused

ROOT: Final = Path(__file__).parent.parent
#: A stack on a slow and busy machine, with a database to make; a baseline's process.
_STACK_SECONDS: Final = 180.0
_BASELINE_SECONDS: Final = 60.0
#: Longer than a worker's grace at shutdown.
_STOP_SECONDS: Final = 60.0
#: Below what Linux gives to outgoing connections, and above what servers usually have.
_FIRST_PORT, _LAST_PORT = 12_000, 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A running stack.

    Attributes:
        ports: Where its parts listen. Two more are the baselines': see `bare_api_port` and `second_baseline_port`.
        kept: Its secrets.
        database_url: A superuser's.
        pids: Its processes, by the names of CONTRACT section 1.
        process: `fencepost dev` itself.

    """

    folder: Path
    ports: Ports
    kept: KeptSecrets = field(repr=False)
    database_url: str = field(repr=False)
    pids: dict[str, int]
    process: subprocess.Popen[bytes] = field(repr=False)

    @classmethod
    def found(cls, folder: Path, chosen: Ports, process: subprocess.Popen[bytes]) -> Self:
        """Read what a stack that answers wrote about itself into `folder`."""
        description = json.loads((folder / "dev.json").read_text(encoding="utf-8"))
        return cls(
            folder=folder,
            ports=chosen,
            kept=load(folder / "secrets.json"),
            database_url=description["database_url"],
            pids=description["pids"],
            process=process,
        )

    @property
    def bare_api_port(self) -> int:
        """A port that no part of a stack has."""
        return self.ports.base + 8

    @property
    def second_baseline_port(self) -> int:
        """Another such, where two baselines listen at a time."""
        return self.ports.base + 9

    def role_url(self, role: str) -> str:
        """Return the connection URL of a database role; it holds the password."""
        return environment.role_url(role, ports=self.ports, kept=self.kept)

    @asynccontextmanager
    async def baseline(
        self, module: str, *, database_url: str, port: int | None = None, settings: Mapping[str, str] | None = None
    ) -> AsyncIterator[int]:
        """Run a baseline's process in the environment of the product's, and give its process id once it is ready.

        It must say `ready` on its output.

        Args:
            module: What it runs.
            database_url: As which role, and where.
            port: Its only argument; `bare_api_port` by default.
            settings: Variables of its own.

        """
        log = self.folder / "logs" / f"{module}.log"
        shared = environment.shared(os.environ, ports=self.ports, kept=self.kept)
        process = child.start(
            [sys.executable, "-m", module, str(port or self.bare_api_port)],
            environment=shared | {"FENCEPOST_DATABASE_URL": database_url} | dict(settings or {}),
            log=log,
            directory=ROOT,
        )

        async def is_ready() -> bool:
            return b"ready" in log.read_bytes()

        try:
            await _until(is_ready, process, name=module, within=_BASELINE_SECONDS, log=log)
            yield process.pid
        finally:
            child.stop(process, (signal.SIGTERM, _STOP_SECONDS))


@asynccontextmanager
async def running(
    folder: Path, *, workers: int = 1, settings: Mapping[str, str] | None = None, events: bool = False
) -> AsyncIterator[Stack]:
    """Run `fencepost dev`, durable as a person has it, on free ports and in a folder of its own.

    Args:
        folder: For its data, logs and dev.json.
        workers: How many worker processes.
        settings: FENCEPOST_ variables in place of the caller's own.
        events: Whether the simulator publishes provider events; what they cost is no part of what is measured.

    Raises:
        StartRefused: It doesn't start.

    """
    chosen = _free_ports(workers)
    directory, log = folder / "stack", folder / "stack.log"
    # Postgres runs as another user where we are root, and keeps its data elsewhere where it can't get there.
    for each in (folder, directory):
        each.mkdir(exist_ok=True)
        each.chmod(0o755)
    command = [sys.executable, "-m", "cli", "dev", "--dir", str(directory), "--no-first-message"]
    caller = environment.inherited(os.environ)
    if settings is not None:
        caller = {name: value for name, value in caller.items() if not name.startswith("FENCEPOST_")} | dict(settings)
    caller["FENCEPOST_DEV_EVENTS"] = "on" if events else "off"
    process = child.start(
        [*command, "--port-base", str(chosen.base), "--workers", str(workers)],
        environment=caller,
        log=log,
        directory=ROOT,
    )

    async def answers() -> bool:
        return (directory / "dev.json").exists()

    try:
        await _until(answers, process, name="The stack", within=_STACK_SECONDS, log=log)
        yield Stack.found(directory, chosen, process)
    finally:
        child.stop(process, (signal.SIGTERM, _STOP_SECONDS))


async def _until(
    answers: Callable[[], Awaitable[bool]],
    process: subprocess.Popen[bytes],
    *,
    name: str,
    within: float,
    log: Path,
) -> None:
    await readiness.until(answers, name=name, within=within, ended=lambda: process.poll() is not None, log=log)


def _free_ports(workers: int) -> Ports:
    """Choose ports at random: others may run benchmarks and tests on this machine."""
    while True:
        chosen = Ports(base=random.randint(_FIRST_PORT, _LAST_PORT), workers=workers)  # noqa: S311 - nothing secret
        with suppress(StartRefused):
            check(chosen)
            return chosen
