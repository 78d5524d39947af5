"""A cell: Fencepost as real processes, each behind proxies of its own, on the tests' Postgres and Temporal.

    async with cell(database, temporal_client, folder, ATTEMPTS="4") as c:  # FENCEPOST_ATTEMPTS, for all processes
        api = await c.start_api()                           # ("api-2", **environment for this process alone)
        worker = await c.start_worker("worker-1")           # the same; under=("env", "X=1") goes before the command
        await c.start_events("events", **queue.variables()) # the same, of tests/queueing.py
        ids = [await c.send() for _ in range(10)]           # what must be accepted; gives message ids
        answer = await c.post(c.command(), key="k")         # whatever comes, as httpx has it
        await worker.postgres.swallow(Way.TO_CLIENT)        # tests/faults/proxy.py; so .temporal and .provider
        await worker.postgres.heal()                        # or c.heal(), for all
        await c.kill("worker-1")                            # (name, another signal); waits for the end
        await c.suspend("worker-1"), c.resume("worker-1")   # SIGSTOP, SIGCONT
        states = await c.ended(ids)                         # waits; {id: State}, from the database
        message = await c.read(ids[0])                      # as the API shows it
        record = await c.submissions(ids[0])                # the simulator's record of it; () for all
        await c.superuser.fetchval("SELECT 1")              # the database, to look in
        c.logged("worker-1"), c.log("worker-1")             # its log lines as objects; the file

`post`, `send` and `read` talk to the API that is named `api`, or to `api=`. A name may be used again once its process
has ended; its log goes on. All processes are killed at the end of the block, by their own ids.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import psutil
from temporalio.client import Client

from db.lifecycle import State
from dev import child, environment
from dev.kept import KeptSecrets
from dev.ports import Ports
from dev.seed import SENDER, TEMPLATE, SeedKeys, seed
from tests.conftest import ROLE_PASSWORD, ROLES, Database
from tests.dev.free_ports import free_port
from tests.dev.running_simulator import ROOT, RunningSimulator, running_simulator
from tests.faults.proxy import FaultProxy, fault_proxy
from tests.waiting import until

#: The ladder of CONTRACT in as few seconds as it holds: call budget < start-to-close < lease.
LEASE_SECONDS = 5.0
SWEEP_SECONDS = 1.0
TIMES = {
    "CALL_BUDGET_SECONDS": "1.5",
    "SUBMIT_TIMEOUT_SECONDS": "2.5",
    "LEASE_SECONDS": str(LEASE_SECONDS),
    "SHUTDOWN_GRACE_SECONDS": "3",
    "SWEEP_SECONDS": str(SWEEP_SECONDS),
    "SES_CONNECT_TIMEOUT_SECONDS": "0.5",
    "SES_READ_TIMEOUT_SECONDS": "1.2",
    "BACKOFF_BASE_SECONDS": "0.2",
    "BACKOFF_CAP_SECONDS": "1",
    "DATABASE_CONNECT_TIMEOUT_SECONDS": "2",
    "DATABASE_STATEMENT_TIMEOUT_SECONDS": "3",
    "DATABASE_LOCK_TIMEOUT_SECONDS": "2",
}
#: A lease, its sweeps, a try of Temporal's that was lost, and what a busy machine takes besides.
ENDED_WITHIN = 60.0
STARTED_WITHIN = 60.0
#: States in which the machine has nothing more to do.
ENDS = frozenset({State.PROVIDER_ACCEPTED, State.DELIVERED, State.AMBIGUOUS, State.DEAD, State.SUPPRESSED})
SECRETS = KeptSecrets(
    passwords=dict.fromkeys(ROLES, ROLE_PASSWORD), key_pepper="pepper" * 8, address_key="address-key" * 4
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A process of the cell, and the proxies that only it goes through."""

    name: str
    child: subprocess.Popen[bytes]
    postgres: FaultProxy
    temporal: FaultProxy
    provider: FaultProxy
    url: str = ""  #: of an API

    @property
    def proxies(self) -> tuple[FaultProxy, FaultProxy, FaultProxy]:
        return self.postgres, self.temporal, self.provider


@dataclass(slots=True, kw_only=True)
class Cell:
    """The processes of a cell, a client of its API, and ways to look into it."""

    database: Database
    temporal: Client
    simulator: RunningSimulator
    superuser: asyncpg.Connection
    http: httpx.AsyncClient
    keys: SeedKeys
    folder: Path
    environment: dict[str, str]
    running: dict[str, Running] = field(default_factory=dict)
    _proxies: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start_api(self, name: str = "api", *, under: Sequence[str] = (), **environment: str) -> Running:
        """Start an API, as the last words of a command that becomes it, and wait until it says that it is ready."""
        port = free_port()
        own = {"API_HOST": "127.0.0.1", "API_PORT": str(port), **environment}
        api = await self._start(name, "api", own, under=under, url=f"http://127.0.0.1:{port}")

        async def is_ready() -> bool:
            assert api.child.poll() is None, f"{name} has ended, see {self.log(name)}"
            try:
                return (await self.http.get(f"{api.url}/readyz")).is_success
            except httpx.HTTPError:
                return False

        await until(is_ready, within=STARTED_WITHIN, every=0.05)
        return api

    async def start_worker(self, name: str = "worker-1", *, under: Sequence[str] = (), **environment: str) -> Running:
        """Start a worker, likewise."""
        before = self.count_logged(name)["worker_ready"]
        worker = await self._start(name, "worker", {"WORKER_NAME": name, **environment}, under=under)
        await self._said(worker, "worker_ready", before)
        return worker

    async def start_events(self, name: str = "events", **environment: str) -> Running:
        """Start a consumer of a queue, likewise; its settings say which."""
        before = self.count_logged(name)["events_ready"]
        consumer = await self._start(name, "events", environment, under=())
        await self._said(consumer, "events_ready", before)
        return consumer

    async def _said(self, running: Running, event: str, before: int) -> None:
        def is_ready() -> bool:
            assert running.child.poll() is None, f"{running.name} has ended, see {self.log(running.name)}"
            return self.count_logged(running.name)[event] > before

        await until(is_ready, within=STARTED_WITHIN, every=0.05)

    async def kill(self, name: str, sign: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal by which a process ends, wait until it has, and give its return code."""
        running = self.running.pop(name)
        running.child.send_signal(sign)
        await until(lambda: running.child.poll() is not None, within=30)
        return running.child.wait()

    async def suspend(self, name: str) -> None:
        """Stop a process where it stands, and wait until it does."""
        stopped = self.running[name].child
        stopped.send_signal(signal.SIGSTOP)
        await until(lambda: psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED, within=10)

    def resume(self, name: str) -> None:
        """Let a suspended process go on."""
        self.running[name].child.send_signal(signal.SIGCONT)

    async def heal(self) -> None:
        """Heal all proxies of all processes."""
        for running in self.running.values():
            for proxy in running.proxies:
                await proxy.heal()

    def command(self, to: str = "silent@faults.example.com", **changes: Any) -> dict[str, Any]:
        """Make a command; by default to somebody of whom no event follows."""
        template = {"key": TEMPLATE, "version": 1}
        return {"to": to, "sender": SENDER, "template": template, "context": {"name": "Ada"}, **changes}

    async def post(
        self, command: dict[str, Any], key: str | None = None, *, api: Running | None = None
    ) -> httpx.Response:
        """Post a command and give any answer."""
        headers = {**self._authorized(), "Idempotency-Key": key or str(uuid4())}
        return await self.http.post(f"{self._url(api)}/v1/messages", json=command, headers=headers)

    async def send(self, to: str = "silent@faults.example.com", **changes: Any) -> str:
        """Post a new message that must be accepted, and give its id."""
        answer = await self.post(self.command(to, **changes))
        assert answer.status_code == 202, answer.text
        message_id: str = answer.json()["id"]
        return message_id

    async def read(self, message_id: str, *, api: Running | None = None) -> dict[str, Any]:
        """Give a message as the API shows it."""
        answer = await self.http.get(f"{self._url(api)}/v1/messages/{message_id}", headers=self._authorized())
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def states(self, ids: Iterable[str]) -> dict[str, State]:
        """Read where messages stand, from the database."""
        rows = await self.superuser.fetch(
            "SELECT id, state FROM messages WHERE id = ANY($1)", [UUID(id_) for id_ in ids]
        )
        return {str(row["id"]): State(row["state"]) for row in rows}

    async def ended(self, ids: Iterable[str], *, within: float = ENDED_WITHIN) -> dict[str, State]:
        """Wait until the machine has nothing more to do with any of these messages, and give their states."""
        wanted = set(ids)
        found: dict[str, State] = {}

        async def have_ended() -> bool:
            found.update(await self.states(wanted))
            return len(found) == len(wanted) and ENDS.issuperset(found.values())

        try:
            await until(have_ended, within=within, every=0.1)
        except AssertionError:
            raise AssertionError(f"not within {within} s: {Counter(found.values())}") from None
        return found

    async def submissions(self, message_id: str | None = None) -> list[dict[str, Any]]:
        """Give what the provider read to the last byte, oldest first."""
        return await self.simulator.submissions(None if message_id is None else f"fencepost_message:{message_id}")

    async def times_submitted(self) -> Counter[str]:
        """Count the submissions of each message."""
        return Counter(submission["tags"]["fencepost_message"] for submission in await self.submissions())

    def log(self, name: str) -> Path:
        """Name the file with what a process wrote."""
        return self.folder / f"{name}.log"

    def logged(self, name: str) -> list[dict[str, Any]]:
        """Give the log lines of all processes that had this name; what is no JSON is left out."""
        if not self.log(name).exists():
            return []
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def count_logged(self, name: str) -> Counter[str]:
        """Count log lines by their event."""
        return Counter(str(line.get("event")) for line in self.logged(name))

    async def close(self) -> None:
        """Kill every process, then end the proxies."""
        for running in self.running.values():
            running.child.kill()
        for running in self.running.values():
            running.child.wait()
        await self._proxies.aclose()

    def _url(self, api: Running | None) -> str:
        return (api or self.running["api"]).url

    def _authorized(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys.api_key}"}

    async def _start(
        self, name: str, subcommand: str, own: dict[str, str], *, under: Sequence[str], url: str = ""
    ) -> Running:
        assert name not in self.running, f"{name} runs already"
        temporal_port = int(str(self.temporal.service_client.config.target_host).rpartition(":")[2])
        enter = self._proxies.enter_async_context
        postgres = await enter(fault_proxy(self.database.server.port, postgres=True))
        temporal = await enter(fault_proxy(temporal_port))
        provider = await enter(fault_proxy(self.simulator.endpoint_port))
        values = {
            "DATABASE_URL": postgres.url(self.database.url(f"fencepost_{subcommand}")),
            "SES_ENDPOINT_URL": provider.url(self.simulator.endpoint_url),
        }
        prefixed = {f"FENCEPOST_{key}": value for key, value in (TIMES | self.environment | values | own).items()}
        addresses = {"TEMPORAL_ADDRESS": f"127.0.0.1:{temporal.port}", "TEMPORAL_NAMESPACE": self.temporal.namespace}
        shared = environment.shared(os.environ, ports=Ports(base=1, workers=1), kept=SECRETS)
        process = child.start(
            [*under, sys.executable, "-m", "cli", subcommand],
            environment=shared | addresses | prefixed,
            log=self.log(name),
            directory=ROOT,
        )
        running = Running(name=name, child=process, postgres=postgres, temporal=temporal, provider=provider, url=url)
        self.running[name] = running
        return running


@asynccontextmanager
async def cell(database: Database, temporal: Client, folder: Path, **environment: str) -> AsyncIterator[Cell]:
    """Make a cell on a migrated database and a namespace, both for it alone; its processes are still to be started.

    Args:
        database: Fresh; gets the demo tenant.
        temporal: A client of the namespace.
        folder: For logs and the simulator's record; private ones will do.
        environment: Settings of all its processes, without their prefix FENCEPOST_.

    """
    keys = await seed(migrate_url=database.url("fencepost_migrate"), key_pepper=SECRETS.key_pepper, known=None)
    superuser = await asyncpg.connect(database.superuser_url)
    # Each request on a connection of its own: a kept one may be closed by the server just as it is used again.
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
    try:
        async with (
            running_simulator(folder / "simulator") as simulator,
            httpx.AsyncClient(timeout=30, trust_env=False, limits=limits) as http,
        ):
            made = Cell(
                database=database,
                temporal=temporal,
                simulator=simulator,
                superuser=superuser,
                http=http,
                keys=keys,
                folder=folder,
                environment=environment,
            )
            try:
                yield made
            finally:
                await made.close()
    finally:
        await superuser.close()
