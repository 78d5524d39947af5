"""What a running stack says of itself: dev.json for programs, a few lines for the person."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from dev.files import write_private
from dev.kept import KeptSecrets
from dev.ports import Ports
from dev.screen import Screen
from dev.temporal import NAMESPACE

TENANT = "demo"


def write(file: Path, *, ports: Ports, database_url: str, kept: KeptSecrets, pids: Mapping[str, int]) -> None:
    """Write dev.json (CONTRACT section 1) whole, for this user only."""
    content = {
        "api_url": _url(ports.api),
        "ses_url": _url(ports.simulator),
        "ses_endpoint_url": _url(ports.ses),
        "temporal_address": f"127.0.0.1:{ports.temporal}",
        "temporal_ui_url": _url(ports.temporal_ui),
        "temporal_namespace": NAMESPACE,
        "database_url": database_url,
        "tenant": TENANT,
        "api_key": kept.api_key,
        "operator_key": kept.operator_key,
        "pids": dict(pids),
    }
    write_private(file, json.dumps(content, indent=2) + "\n")


def tell(screen: Screen, *, ports: Ports, kept: KeptSecrets, directory: Path) -> None:
    """Show the addresses, the key, and a line to copy."""
    command = {
        "to": "Grace <grace@example.com>",
        "sender": "demo",
        "template": {"key": "welcome", "version": 1},
        "context": {"name": "Grace"},
    }
    curl = ["curl", "-sS", f"{_url(ports.api)}/v1/messages", "-H", f"Authorization: Bearer {kept.api_key}"]
    curl += ["-H", "Idempotency-Key: welcome-grace", "-H", "Content-Type: application/json"]
    curl += ["-d", json.dumps(command)]
    screen.say(
        f"""
Fencepost runs.

  API             {_url(ports.api)}   (its documentation: {_url(ports.api)}/docs)
  Mail taken      {_url(ports.simulator)}   (the SES simulator: nothing leaves this machine)
  Temporal UI     {_url(ports.temporal_ui)}
  API key         {kept.api_key}   (tenant {TENANT})
  All of it       {directory / "dev.json"}, logs in {directory / "logs"}

Send a message; the same line again replays it:

{shlex.join(curl)}

Ctrl-C stops everything. The next start goes on with the same data.
"""
    )


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"
