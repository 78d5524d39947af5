"""The processes of a stack: what each runs, with which environment, and in which order they stop."""

import os
import signal
import sys
from enum import IntEnum
from pathlib import Path

from dev import environment
from dev.kept import KeptSecrets
from dev.ports import Ports
from dev.postgres import Postgres
from dev.supervisor import Program
from dev.temporal import Temporal

ROOT = Path(__file__).parent.parent
#: Longer than a worker's own grace (30 s), in which a provider call in flight ends and is recorded.
WORKER_GRACE = 35.0
GRACE = 10.0


class Tier(IntEnum):
    """The higher, the earlier it stops: each needs the ones below it until it has ended."""

    DATABASE = 0
    ENGINE = 1
    SIMULATOR = 2
    PRODUCT = 3


def postgres(server: Postgres) -> Program:
    """Return our own Postgres, which must have been prepared."""
    return Program(
        name="postgres",
        command=server.command(),
        environment=server.environment(),
        directory=Path("/"),
        account=server.account,
        tier=Tier.DATABASE,
        # SIGTERM would wait until every client has left.
        stop_signal=signal.SIGINT,
        grace=GRACE,
    )


def temporal(server: Temporal) -> Program:
    """Return our own Temporal, which must have been prepared."""
    return Program(
        name="temporal",
        command=server.command(),
        environment=server.environment(),
        directory=Path("/"),
        tier=Tier.ENGINE,
        grace=GRACE,
    )


def simulator(directory: Path, ports: Ports) -> Program:
    """Return the SES simulator, with its record in `directory`.

    It publishes no provider events where the caller's FENCEPOST_DEV_EVENTS is `off`, as for a benchmark that counts.
    """
    command = [sys.executable, "-m", "dev.simulator", "--port", str(ports.simulator), "--ses-port", str(ports.ses)]
    if os.environ.get("FENCEPOST_DEV_EVENTS") != "off":
        events_url = f"http://127.0.0.1:{ports.api}/v1/provider-events/ses"
        command += ["--events-url", events_url, "--topic-arn", environment.TOPIC_ARN]
    return Program(
        name="ses",
        command=[*command, "--dir", str(directory)],
        environment=environment.inherited(os.environ),
        directory=ROOT,
        tier=Tier.SIMULATOR,
        grace=GRACE,
    )


def api(ports: Ports, kept: KeptSecrets) -> Program:
    """Return the API."""
    own = {
        "FENCEPOST_API_HOST": "127.0.0.1",
        "FENCEPOST_API_PORT": str(ports.api),
        "FENCEPOST_EVENTS_TOPICS": environment.TOPIC_ARN,
        "FENCEPOST_EVENTS_CERTIFICATE_ORIGIN": f"http://127.0.0.1:{ports.simulator}",
    }
    return _product("api", "api", "fencepost_api", own, ports=ports, kept=kept, grace=GRACE)


def worker(number: int, ports: Ports, kept: KeptSecrets) -> Program:
    """Return the worker with this number, counted from 1."""
    name = f"worker-{number}"
    own = {"FENCEPOST_WORKER_NAME": name, "FENCEPOST_WORKER_METRICS_PORT": str(ports.worker_metrics(number))}
    return _product(name, "worker", "fencepost_worker", own, ports=ports, kept=kept, grace=WORKER_GRACE)


def _product(
    name: str, subcommand: str, role: str, own: dict[str, str], *, ports: Ports, kept: KeptSecrets, grace: float
) -> Program:
    shared = environment.shared(os.environ, ports=ports, kept=kept)
    database = {"FENCEPOST_DATABASE_URL": environment.role_url(role, ports=ports, kept=kept)}
    return Program(
        name=name,
        command=[sys.executable, "-m", "cli", subcommand],
        environment=shared | database | own,
        directory=ROOT,
        tier=Tier.PRODUCT,
        grace=grace,
    )
