"""The secrets of one stack: made once, then the same over all its starts."""

import dataclasses
import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from dev.files import write_private
from dev.refusals import StartRefused

#: The roles that log in (deploy/roles.sql).
ROLES = ("fencepost_migrate", "fencepost_api", "fencepost_worker", "fencepost_events")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecrets:
    """What a stack must find again at its next start.

    Attributes:
        passwords: Of each database role.
        api_key: The demo tenant's; None until the database was seeded.
        operator_key: The operator's, likewise.

    """

    passwords: dict[str, str] = field(repr=False)
    key_pepper: str = field(repr=False)
    address_key: str = field(repr=False)
    api_key: str | None = field(default=None, repr=False)
    operator_key: str | None = field(default=None, repr=False)


def load(file: Path) -> KeptSecrets:
    """Return what the file holds; where it holds nothing yet, make it.

    Raises:
        StartRefused: The file can't be read.

    """
    if not file.exists():
        made = KeptSecrets(
            passwords={role: secrets.token_urlsafe(24) for role in ROLES},
            key_pepper=secrets.token_hex(32),
            address_key=secrets.token_hex(32),
        )
        store(file, made)
        return made
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return KeptSecrets(
            passwords={role: found["passwords"][role] for role in ROLES},
            key_pepper=found["key_pepper"],
            address_key=found["address_key"],
            api_key=found["api_key"],
            operator_key=found["operator_key"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise StartRefused(f"{file} can't be read; delete its folder to start afresh.") from None


def store(file: Path, kept: KeptSecrets) -> None:
    """Write the secrets, readable for this user only."""
    write_private(file, json.dumps(dataclasses.asdict(kept), indent=2))
