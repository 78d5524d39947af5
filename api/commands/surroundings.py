"""Finding a running `make dev` of this checkout, so that commands work in it without any setting."""

import json
import os
from pathlib import Path
from typing import Final

#: What one place is made of, each setting with its name in dev.json: where it is first, then what is only right there.
_PLACES: Final = (
    {"FENCEPOST_API_URL": "api_url", "FENCEPOST_API_KEY": "api_key", "FENCEPOST_OPERATOR_KEY": "operator_key"},
    {"FENCEPOST_DATABASE_URL": "database_url"},
    {"TEMPORAL_ADDRESS": "temporal_address", "TEMPORAL_NAMESPACE": "temporal_namespace"},
)


def find_dev_stack() -> None:
    """Set what the environment lacks from the dev.json of this folder, or of the nearest one above that has one.

    What is set already wins, and with it all that belongs to it: somebody else's API never gets this stack's keys.
    """
    stack = _read("dev.json")
    for place in _PLACES:
        where, *_ = place
        if os.environ.get(where, stack.get(place[where])) == stack.get(place[where]):
            for variable, name in place.items():
                if name in stack:
                    os.environ.setdefault(variable, str(stack[name]))


def find_dev_pepper() -> None:
    """Set what makes this stack's API keys, if the database in use is its own."""
    if os.environ.get("FENCEPOST_DATABASE_URL") == _read("dev.json").get("database_url"):
        kept = _read("secrets.json")
        if "key_pepper" in kept:
            os.environ.setdefault("FENCEPOST_KEY_PEPPER", str(kept["key_pepper"]))
            os.environ.setdefault("FENCEPOST_ENVIRONMENT", "test")


def _read(name: str) -> dict[str, object]:
    """Read a file of the nearest stack that runs; where there is none, that is nothing.

    A stack of another user is none: in a folder that many may write to, it would be given this user's own keys.
    """
    for folder in (Path.cwd(), *Path.cwd().parents):
        stack = folder / ".fencepost"
        try:
            if (stack / "dev.json").stat().st_uid == os.geteuid():
                found = json.loads((stack / name).read_text(encoding="utf-8"))
                return found if isinstance(found, dict) else {}
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return {}
    return {}
