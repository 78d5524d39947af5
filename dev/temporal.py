"""A Temporal server of our own, for the one-machine stack and the tests."""

import os
import shutil
import signal
import subprocess
import sysconfig
from pathlib import Path

from typing_extensions import override

from dev import child
from dev.refusals import StartRefused
from dev.server import Server

NAMESPACE = "default"
SEARCH_ATTRIBUTES = ("FencepostTenant", "FencepostMessageId")
#: As fast as a database in memory; the file settings by default run at 40 % of that.
PRAGMAS = ("journal_mode=wal", "synchronous=normal")
DYNAMIC_CONFIG = (
    # This server has a single shard, and by default takes 20 tasks a second from each of its queues: each step of a
    # workflow would wait for up to 50 ms as soon as a few messages have gone through in a row.
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    # Off by default; without it one tenant's backlog delays all others.
    "matching.enableFairness=true",
    # Partitions spread a queue over machines. There is one machine.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)
STOP_SECONDS = 10.0


class Temporal(Server):
    """A Temporal server of our own, as a child process. Call `prepare` first.

    Besides its ports it opens some that the system chooses (metrics, HTTP, its inner services), on 127.0.0.1 too.

    Args:
        directory: Where its database and its log are; made if it is missing.
        port: Where it listens, on 127.0.0.1 only.
        ui_port: Where its web pages are; None: without them.
        durable: False to keep everything in memory, and to forget it at the stop.
        dynamic_config: More settings of the server, as `name=value`.

    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int,
        ui_port: int | None = None,
        durable: bool = True,
        dynamic_config: tuple[str, ...] = (),
    ) -> None:
        super().__init__("Temporal", directory.absolute() / "temporal.log")
        self.port = port
        self._directory = directory.absolute()
        self._ui_port = ui_port
        self._durable = durable
        self._dynamic_config = (*DYNAMIC_CONFIG, *dynamic_config)
        self._binary: str | None = None

    @property
    def address(self) -> str:
        """Where clients connect, as `host:port`."""
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Find the binary and make the folder.

        Raises:
            StartRefused: There is no binary.

        """
        beside_python = Path(sysconfig.get_path("scripts")) / "temporal"
        self._binary = str(beside_python) if beside_python.exists() else shutil.which("temporal")
        if self._binary is None:
            raise StartRefused(f"There is no {beside_python}: install requirements-dev.lock again.")
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def command(self) -> list[str]:
        """Return the command line that runs the server in the foreground."""
        if self._binary is None:
            raise RuntimeError("prepare() comes first")
        command = [self._binary, "server", "start-dev", "--disable-config-file", "--disable-config-env"]
        command += ["--log-level", "warn", "--ip", "127.0.0.1", "--port", str(self.port), "--namespace", NAMESPACE]
        if self._ui_port is None:
            command += ["--headless"]
        else:
            command += ["--ui-port", str(self._ui_port), "--ui-disable-news-fetch"]
        if self._durable:
            command += ["--db-filename", str(self._directory / "temporal.db")]
            command += [word for pragma in PRAGMAS for word in ("--sqlite-pragma", pragma)]
        command += [word for setting in self._dynamic_config for word in ("--dynamic-config-value", setting)]
        command += [word for name in SEARCH_ATTRIBUTES for word in ("--search-attribute", f"{name}=Keyword")]
        return command

    def environment(self) -> dict[str, str]:
        """Return the server's environment: nothing of the caller's that could point it elsewhere."""
        # It spends most of its time collecting small garbage otherwise: 3 to 8 % more throughput, for more memory.
        return {"PATH": os.defpath, "GOGC": "400", "TEMPORAL_VERSION_CHECK_DISABLED": "1"}

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server as our child; see `dev.child.start` on which thread may call this."""
        self._child = child.start(self.command(), environment=self.environment(), log=self.log, directory=Path("/"))
        return self._child

    @override
    async def answers(self) -> bool:
        """Tell whether the server answers and knows our search attributes, which it registers last."""
        # The client takes half a second to load, in which the server starts.
        from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest  # noqa: PLC0415
        from temporalio.client import Client  # noqa: PLC0415
        from temporalio.service import RPCError  # noqa: PLC0415

        try:
            client = await Client.connect(self.address, namespace=NAMESPACE)
            found = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=NAMESPACE)
            )
        except (RPCError, RuntimeError):  # RuntimeError: nobody listens yet
            return False
        return set(SEARCH_ATTRIBUTES) <= set(found.custom_attributes)

    def stop(self) -> None:
        """Stop the server that `start` started; one that keeps nothing needs no time for it."""
        if self._child:
            child.stop(self._child, *([(signal.SIGTERM, STOP_SECONDS)] if self._durable else []))
        self._child = None
