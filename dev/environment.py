"""The environment of the stack's own processes."""

from collections.abc import Mapping

from dev.kept import KeptSecrets
from dev.ports import Ports
from dev.temporal import NAMESPACE

#: What would point a child at another database, cloud, server or proxy than the stack's own.
STRAY_PREFIXES = ("AWS_", "PG", "TEMPORAL_")
#: Through which the simulator publishes provider events.
TOPIC_ARN = "arn:aws:sns:us-east-1:000000000000:fencepost-dev"
#: Shorter than in production, so that a person at the screen sees something happen (CONTRACT, times and limits).
TIMES = {
    "FENCEPOST_LEASE_SECONDS": "30",
    "FENCEPOST_SWEEP_SECONDS": "5",
    "FENCEPOST_BACKOFF_BASE_SECONDS": "0.5",
    "FENCEPOST_BACKOFF_CAP_SECONDS": "10",
    "FENCEPOST_PAUSE_LOOK_SECONDS": "5",
}


def inherited(caller: Mapping[str, str]) -> dict[str, str]:
    """Return what children may see of the caller's environment."""
    return {
        name: value
        for name, value in caller.items()
        if not name.startswith(STRAY_PREFIXES) and not name.upper().endswith("_PROXY")
    }


def shared(caller: Mapping[str, str], *, ports: Ports, kept: KeptSecrets) -> dict[str, str]:
    """Return what the API and the workers have in common.

    The caller's own FENCEPOST_ times win, so that a test can have shorter ones; where things are is ours.
    """
    fixed = {
        "PYTHONUNBUFFERED": "1",
        "FENCEPOST_ENVIRONMENT": "test",
        "FENCEPOST_KEY_PEPPER": kept.key_pepper,
        "FENCEPOST_ADDRESS_KEY": kept.address_key,
        "FENCEPOST_SES_ENDPOINT_URL": f"http://127.0.0.1:{ports.ses}",
        "FENCEPOST_SES_REGION": "us-east-1",
        "FENCEPOST_SES_CONFIGURATION_SET": "fencepost-dev",
        # The simulator looks at no signature. The person's own profile must not be read.
        "AWS_ACCESS_KEY_ID": "simulator",
        "AWS_SECRET_ACCESS_KEY": "simulator",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "TEMPORAL_ADDRESS": f"127.0.0.1:{ports.temporal}",
        "TEMPORAL_NAMESPACE": NAMESPACE,
    }
    return TIMES | inherited(caller) | fixed


def role_url(role: str, *, ports: Ports, kept: KeptSecrets) -> str:
    """Return the connection URL of a database role; it holds the password."""
    return f"postgresql://{role}:{kept.passwords[role]}@127.0.0.1:{ports.postgres}/fencepost"
