"""Which port of this machine is whose (CONTRACT section 1)."""

import errno
import os
import socket
import time
from dataclasses import dataclass

from dev.refusals import StartRefused

#: Processes of a stack that was killed a moment ago need that long to vanish.
VANISH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of a stack: all counted from `base`, all on 127.0.0.1."""

    base: int
    workers: int

    @property
    def api(self) -> int:
        """The product's HTTP API."""
        return self.base

    @property
    def simulator(self) -> int:
        """The SES simulator's page, record and control."""
        return self.base + 1

    @property
    def temporal(self) -> int:
        """Temporal's gRPC."""
        return self.base + 2

    @property
    def temporal_ui(self) -> int:
        """Temporal's web pages."""
        return self.base + 3

    @property
    def postgres(self) -> int:
        """Our own Postgres."""
        return self.base + 4

    @property
    def ses(self) -> int:
        """The simulator's SES endpoint."""
        return self.base + 7

    def worker_metrics(self, number: int) -> int:
        """Metrics of worker `number`, counted from 1."""
        return self.base + 9 + number

    def uses(self) -> dict[int, str]:
        """Return what each port is for."""
        metrics = {self.worker_metrics(number): f"metrics of worker-{number}" for number in range(1, self.workers + 1)}
        return {
            self.api: "the API",
            self.simulator: "the SES simulator's page",
            self.temporal: "Temporal",
            self.temporal_ui: "Temporal's UI",
            self.postgres: "Postgres",
            self.ses: "the simulator's SES endpoint",
        } | metrics


def check(ports: Ports) -> None:
    """Make sure that every port can be had.

    Raises:
        StartRefused: With one line for each that can't, and the fix.

    """
    highest = max(ports.uses())
    if ports.base < 1 or highest > 65535:  # noqa: PLR2004 - the highest port that there is
        raise StartRefused(f"Ports {ports.base} to {highest} are wanted, which don't all exist; take other ones.")
    deadline = time.monotonic() + VANISH_SECONDS
    while faults := [
        f"Port {port}, for {use}, {fault}." for port, use in ports.uses().items() if (fault := _fault(port))
    ]:
        if time.monotonic() > deadline:
            raise StartRefused("\n".join([*faults, "Take other ports with --port-base N."]))
        time.sleep(0.1)


def _fault(port: int) -> str | None:
    with socket.socket() as probe:
        # As servers do, or a connection that has just been closed would look like a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except OSError as error:
            return "is in use" if error.errno == errno.EADDRINUSE else f"can't be had: {os.strerror(error.errno or 0)}"
    return None
