"""The command `fencepost` with a wrong surrounding: one clear line that names the fix, and never a traceback."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.conftest import free_port

ROOT = Path(__file__).parents[1]
NOBODY = "postgresql://somebody:canary@127.0.0.1:{port}/fencepost"


async def run(*words: str, **environment: str) -> tuple[int | None, str]:
    """Run a command away from any checkout; give its exit status and all that it says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FENCEPOST_", "TEMPORAL_"))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", *words),
        cwd="/",
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, said.decode()


def away() -> str:
    return NOBODY.format(port=free_port())


@pytest.mark.parametrize(
    ("words", "environment", "status", "fix"),
    [
        (["migrate"], {}, 2, "FENCEPOST_DATABASE_URL: missing"),
        (
            ["migrate"],
            {"FENCEPOST_DATABASE_URL": "canary"},
            2,
            "FENCEPOST_DATABASE_URL: it has to look like postgresql://",
        ),
        (["worker"], {"FENCEPOST_DATABASE_URL": "mysql://canary@x/y"}, 2, "it has to look like postgresql://"),
        (["worker"], {"FENCEPOST_LEASE_SECONDS": "canary"}, 2, "FENCEPOST_LEASE_SECONDS: float_parsing"),
        (["worker"], {"FENCEPOST_LEASE_SECONDS": "5"}, 2, "FENCEPOST_SUBMIT_TIMEOUT_SECONDS must be less than"),
        (["worker"], {"FENCEPOST_CALL_BUDGET_SECONDS": "20"}, 2, "FENCEPOST_CALL_BUDGET_SECONDS must be less than"),
        (
            ["worker"],
            {"FENCEPOST_SHUTDOWN_GRACE_SECONDS": "10"},
            2,
            "SHUTDOWN_GRACE_SECONDS must be at least",
        ),
        (["api"], {"FENCEPOST_KEY_PEPPER": "canary", "FENCEPOST_ADDRESS_KEY": "k" * 32}, 2, "KEY_PEPPER: too_short"),
        (["sweep"], {}, 2, "--once"),
        (["temporal", "setup"], {"TEMPORAL_ADDRESS": "127.0.0.1:1"}, 1, "is TEMPORAL_ADDRESS right?"),
        (["temporal", "setup"], {"TEMPORAL_ADDRESS": "nowhere.invalid:1"}, 1, "is TEMPORAL_ADDRESS right?"),
        (["nonsense"], {}, 2, "No such command"),
        (["dev", "--workers", "0"], {}, 2, "--workers"),
    ],
    ids=str,
)
async def test_a_wrong_surrounding_is_one_line_that_names_the_fix(
    words: list[str], environment: dict[str, str], status: int, fix: str
) -> None:
    found, said = await run(*words, **environment)

    assert (found, fix in said) == (status, True), said
    assert "Traceback" not in said
    assert "canary" not in said.replace("FENCEPOST_", "")


@pytest.mark.parametrize("words", [["migrate"], ["worker"], ["sweep", "--once", "--json"]], ids=str)
async def test_a_database_that_is_away_is_one_line(words: list[str]) -> None:
    status, said = await run(*words, FENCEPOST_DATABASE_URL=away())

    assert (status, "is FENCEPOST_DATABASE_URL right?" in said) == (1, True), said
    assert "Traceback" not in said
    assert "canary" not in said


async def test_every_setting_is_listed_with_its_meaning_and_secrets_hidden() -> None:
    status, said = await run("settings", "--json", FENCEPOST_KEY_PEPPER="canary" * 8, FENCEPOST_LEASE_SECONDS="90")

    assert status == 0
    assert "canary" not in said
    assert '"value": "(hidden)"' in said
    assert '"value": "90"' in said


@pytest.mark.parametrize("words", [[], ["sweep"], ["migrate"], ["dev"], ["temporal", "setup"], ["settings"]], ids=str)
async def test_every_command_has_help(words: list[str]) -> None:
    status, said = await run(*words, "--help")

    assert status == 0
    assert "Usage:" in said
