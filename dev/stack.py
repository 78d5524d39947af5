"""The whole of Fencepost on one machine, in the foreground: `make dev`."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from dev import description, first_message, kept, lock, ports, programs, readiness
from dev.interrupts import Interrupts
from dev.postgres import Postgres
from dev.refusals import StartRefused
from dev.screen import Screen
from dev.supervisor import Supervisor
from dev.temporal import Temporal
from dev.tether import tie

#: How long a server may take until it answers, on a slow and busy machine.
ANSWER_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """The options of `make dev` (CONTRACT section 1).

    Attributes:
        directory: Where data, logs and dev.json live; may be relative.
        port_base: From which all ports are counted.
        workers: How many worker processes.
        first_message: Whether to send one message at the start.

    """

    directory: Path = Path(".fencepost")
    port_base: int = 7480
    workers: int = 1
    first_message: bool = True


def run(options: StackOptions) -> int:
    """Run the stack until SIGINT, SIGTERM or SIGHUP, and return the exit status.

    Call it in the main thread: the children live as long as the thread that starts them.
    """
    if "MAKELEVEL" in os.environ:
        # To whoever kills `make dev`, make and the stack are one thing.
        tie(signal.SIGTERM)
    screen = Screen()
    directory = options.directory.absolute()
    try:
        with lock.held(directory):
            # Left by a stack that was killed.
            (directory / "dev.json").unlink(missing_ok=True)
            chosen = ports.Ports(base=options.port_base, workers=options.workers)
            ports.check(chosen)
            asyncio.run(_Stack(options, directory, chosen, screen).run())
    except StartRefused as refusal:
        screen.say(f"fencepost dev: {refusal}")
        return 1
    return 0


class _Stack:
    def __init__(self, options: StackOptions, directory: Path, chosen: ports.Ports, screen: Screen) -> None:
        self._options = options
        self._directory = directory
        self._ports = chosen
        self._screen = screen
        self._kept = kept.load(directory / "secrets.json")
        self._postgres = Postgres(directory / "postgres", port=chosen.postgres)
        self._temporal = Temporal(directory / "temporal", port=chosen.temporal, ui_port=chosen.temporal_ui)
        logs = directory / "logs"
        logs.mkdir(mode=0o700, exist_ok=True)
        self._supervisor = Supervisor(logs=logs, say=screen.say, changed=self._describe)
        #: From then on, dev.json is there.
        self._answered = False

    async def run(self) -> None:
        """Bring everything up, keep it running, and stop it in order, whatever happens meanwhile."""
        interrupts = Interrupts()
        watching = asyncio.create_task(self._supervisor.watch())
        starting = asyncio.create_task(self._bring_up())
        stopping = asyncio.create_task(interrupts.stop.wait())
        try:
            await asyncio.wait({watching, starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                await watching
        finally:
            for task in (watching, starting, stopping):
                task.cancel()
            await asyncio.gather(watching, starting, stopping, return_exceptions=True)
            (self._directory / "dev.json").unlink(missing_ok=True)
            with self._screen.step("Stopping (Ctrl-C again to hurry)"):
                await self._supervisor.stop(interrupts.hasten)

    async def _bring_up(self) -> None:
        with self._screen.step("Starting Postgres, Temporal and the SES simulator"):
            await self._start_servers()
        with self._screen.step("Preparing the database"):
            await self._prepare_database()
        with self._screen.step("Starting the API and the worker" + ("s" if self._options.workers > 1 else "")):
            await self._start_product()
        self._answered = True
        self._describe()
        if self._options.first_message:
            await first_message.send(
                self._screen, api_url=f"http://127.0.0.1:{self._ports.api}", api_key=str(self._kept.api_key)
            )
        description.tell(self._screen, ports=self._ports, kept=self._kept, directory=self._directory)

    async def _start_servers(self) -> None:
        self._temporal.prepare()
        self._supervisor.start(programs.temporal(self._temporal))
        self._supervisor.start(programs.simulator(self._directory / "ses", self._ports))
        await asyncio.to_thread(self._postgres.prepare)
        self._supervisor.start(programs.postgres(self._postgres))
        await self._until("postgres", self._postgres.answers)
        await self._until("temporal", self._temporal.answers)

    async def _prepare_database(self) -> None:
        # Not before the servers are on their way: this import alone takes seconds.
        from dev import database  # noqa: PLC0415

        kept_now = await database.prepare(self._postgres.url(), self._ports, self._kept)
        if kept_now != self._kept:
            kept.store(self._directory / "secrets.json", kept_now)
            self._kept = kept_now

    async def _start_product(self) -> None:
        numbers = range(1, self._options.workers + 1)
        self._supervisor.start(programs.api(self._ports, self._kept))
        for number in numbers:
            self._supervisor.start(programs.worker(number, self._ports, self._kept))
        await self._until("ses", _page(self._ports.simulator, "/"))
        await self._until("api", _page(self._ports.api, "/readyz"))
        for number in numbers:
            await self._until(f"worker-{number}", _page(self._ports.worker_metrics(number), "/metrics"))

    async def _until(self, name: str, answers: Callable[[], Awaitable[bool]]) -> None:
        await readiness.until(
            answers,
            name=name,
            within=ANSWER_SECONDS,
            ended=lambda: self._supervisor.hopeless(name),
            log=self._supervisor.log(name),
        )

    def _describe(self) -> None:
        if not self._answered:
            return
        try:
            description.write(
                self._directory / "dev.json",
                ports=self._ports,
                database_url=self._postgres.url("fencepost"),
                kept=self._kept,
                pids=self._supervisor.pids(),
            )
        except OSError as error:
            self._screen.say(f"dev.json could not be written: {error.strerror}.")


def _page(port: int, path: str) -> Callable[[], Awaitable[bool]]:
    """Return a look at whether `path` answers 200 on this machine's `port`."""

    async def answers() -> bool:
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
                found = await client.get(f"http://127.0.0.1:{port}{path}")
        except httpx.HTTPError:
            return False
        return found.is_success

    return answers
