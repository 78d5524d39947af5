"""The command `fencepost` with a wrong surrounding: one clear line that names the fix, and never a traceback."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from api.auth import Scope
from cli import app
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
        (["api"], {"FENCEPOST_ENVIRONMENT": "canary"}, 2, "FENCEPOST_ENVIRONMENT: it has to be 'live' or 'test'"),
        (["worker"], {"FENCEPOST_CRASH_POINT": "canary"}, 2, "FENCEPOST_CRASH_POINT: it has to be 'intake_"),
        *(
            ([command], {"FENCEPOST_CRASH_POINT": "begin_committed"}, 2, "refused unless FENCEPOST_ENVIRONMENT is test")
            for command in ("api", "worker", "migrate", "events")
        ),
        (["sweep", "--once"], {"FENCEPOST_CRASH_POINT": "sweep_settled"}, 2, "unless FENCEPOST_ENVIRONMENT is test"),
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
    secrets = {f"FENCEPOST_{name}": "canary" * 8 for name in ("KEY_PEPPER", "API_KEY", "OPERATOR_KEY")}

    status, said = await run("settings", "--json", FENCEPOST_LEASE_SECONDS="90", **secrets)

    assert status == 0
    assert "canary" not in said
    assert said.count('"value": "(hidden)"') == 3
    assert '"value": "90"' in said


def every_command(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Give every command with the words that name it."""
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from every_command(each, *words, name)
    else:
        yield words, command


COMMANDS = dict(every_command(get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example_of_itself(words: tuple[str, ...]) -> None:
    _, _, example = COMMANDS[words].help.partition("Example: ")

    assert f"fencepost {' '.join(words)}" in example


@pytest.mark.parametrize("words", [[], ["send"], ["key", "issue"], ["temporal"]], ids=str)
async def test_help_is_shown(words: list[str]) -> None:
    status, said = await run(*words, "--help")

    assert status == 0
    assert "Usage: fencepost" in said
    assert ("Example: " in said) == (words in (["send"], ["key", "issue"]))


async def test_no_words_at_all_are_bad_use_that_shows_the_help() -> None:
    status, said = await run()

    assert status == 2
    assert [panel for panel in ("Sending mail", "Tenants and keys", "Running Fencepost") if panel in said] == [
        "Sending mail",
        "Tenants and keys",
        "Running Fencepost",
    ]


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.OPERATOR])
def test_the_help_of_issue_names_every_scope_of_a_tenant(scope: Scope) -> None:
    (option,) = [each for each in COMMANDS["key", "issue"].params if each.name == "scopes"]

    assert scope in option.help


async def test_a_start_loads_no_more_than_it_needs() -> None:
    program = "import sys, cli; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ("httpx", "rich", "pydantic", "sqlalchemy", "asyncpg", "temporalio", "boto3", "fastapi", "structlog")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, *heavy), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)

    assert (process.returncode, said) == (0, b"[]\n")
