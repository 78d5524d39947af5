"""The command `fencepost`: wiring only."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from pydantic import SecretStr, ValidationError
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings
from rich.console import Console
from rich.table import Table
from temporalio.service import RPCError

import worker as worker_process
from activities.contracts import SweepReply
from activities.ses import SesSettings
from api import app as api_process
from db.engine import DatabaseSettings, UnavailableError, create_engine
from db.migrate import MigrationBusyError, MissingRoleError, migrate as migrate_database
from db.store import MessageStore
from dev.stack import StackOptions, run as run_dev_stack
from workflows import logs
from workflows.temporal import (
    MissingSearchAttributesError,
    connect,
    ensure_sweep_schedule,
    register_search_attributes,
)

BAD_USE: Final = 2
REFUSED: Final = 1

SETTINGS: Final[tuple[type[BaseSettings], ...]] = (
    DatabaseSettings,
    api_process.ApiSettings,
    worker_process.DeliverySettings,
    worker_process.WorkerSettings,
    SesSettings,
)

app = typer.Typer(
    help="Fencepost: a transactional-email relay that submits each message at most once by itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
temporal_commands = typer.Typer(help="What Fencepost needs of a Temporal namespace.", no_args_is_help=True)
app.add_typer(temporal_commands, name="temporal")

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _refuse(why: str, *, status: int = REFUSED) -> NoReturn:
    print(f"fencepost: {why}", file=sys.stderr)
    raise typer.Exit(status)


def _run(body: Callable[[], Any]) -> Any:  # noqa: ANN401  (whatever the body gives)
    """Run a command; every expected trouble is one line that names the fix."""
    try:
        return body()
    except ValidationError as error:
        # The loader's own text shows values beside the one that is wrong.
        for each in error.errors(include_input=False, include_url=False, include_context=False):
            prefix = next((kind.model_config["env_prefix"] for kind in SETTINGS if kind.__name__ == error.title), "")
            name = "".join(str(part) for part in each["loc"])
            told = f"{prefix}{name}".upper() if name else each["msg"].removeprefix("Value error, ")
            print(f"fencepost: {told}{': ' + each['type'] if name else ''}", file=sys.stderr)
        _refuse("these settings can't be used; `fencepost settings` lists them all", status=BAD_USE)
    except UnavailableError:
        _refuse("Postgres can't be reached: is it running, and is FENCEPOST_DATABASE_URL right?")
    except worker_process.SchemaBehindError:
        _refuse("the database's schema is older than this version: run `fencepost migrate` first")
    except MissingSearchAttributesError:
        _refuse("the Temporal namespace lacks our search attributes: run `fencepost temporal setup` first")
    except MigrationBusyError:
        _refuse("somebody else has been migrating this database for a minute: look there, then run it again")
    except MissingRoleError:
        _refuse("a database role is missing: run deploy/roles.sql as a superuser first")
    except (RPCError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "connect" not in str(error):
            raise
        _refuse("Temporal can't be reached: is it running, and is TEMPORAL_ADDRESS right?")


def _find_dev_stack() -> None:
    """In a checkout with a running `make dev`, find its database and Temporal; what is set already wins."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        told = folder / ".fencepost" / "dev.json"
        if told.is_file():
            stack = json.loads(told.read_text())
            os.environ.setdefault("FENCEPOST_DATABASE_URL", stack["database_url"])
            os.environ.setdefault("TEMPORAL_ADDRESS", stack["temporal_address"])
            os.environ.setdefault("TEMPORAL_NAMESPACE", stack["temporal_namespace"])
            return


@app.command()
def api() -> None:
    """Run the API: intake and reading, over HTTP. Settings: FENCEPOST_API_HOST, FENCEPOST_API_PORT, ..."""
    _run(api_process.main)


@app.command()
def worker() -> None:
    """Run a Temporal worker: claims, submissions, the sweep. SIGTERM lets calls in flight end and be recorded."""
    _run(worker_process.main)


@app.command()
def migrate() -> None:
    """Bring the database to this version's schema. Safe from several processes at once, and again.

    Needs the role that owns the tables: FENCEPOST_DATABASE_URL=postgresql://fencepost_migrate:...@host/fencepost
    """
    _run(lambda: migrate_database(DatabaseSettings().url.get_secret_value()))
    print("The database is at this version's schema.", file=sys.stderr)


@app.command()
def sweep(
    *,
    once: Annotated[bool, typer.Option("--once", help="Sweep once and end; the Schedule does it for ever.")] = False,
    as_json: Json = False,
) -> None:
    """Settle leases that ran out, and start runs for messages that have none.

    Example: fencepost sweep --once --json
    """
    if not once:
        _refuse("say --once: Temporal's Schedule is what sweeps for ever", status=BAD_USE)
    _find_dev_stack()
    done: SweepReply = _run(lambda: asyncio.run(_sweep_once()))
    result = {"settled": done.settled, "started": done.started, "failed": done.failed}
    print(json.dumps(result) if as_json else f"settled {done.settled}, started {done.started}, failed {done.failed}")
    if done.failed:
        raise typer.Exit(REFUSED)


async def _sweep_once() -> SweepReply:
    logs.set_up("sweep", level="WARNING")
    engine = create_engine(DatabaseSettings(), application="fencepost-sweep")
    try:
        client = await connect(lazy=True)
        return await worker_process.build_sweep(MessageStore(engine), client, worker_process.DeliverySettings()).sweep()
    finally:
        await engine.dispose()


@temporal_commands.command("setup")
def temporal_setup() -> None:
    """Register the search attributes and the sweep's schedule with the namespace. Safe to run again.

    Example: TEMPORAL_ADDRESS=127.0.0.1:7233 fencepost temporal setup
    """
    _find_dev_stack()
    _run(lambda: asyncio.run(_set_up_temporal()))
    print("The namespace has the search attributes and the sweep's schedule.", file=sys.stderr)


async def _set_up_temporal() -> None:
    client = await connect()
    await register_search_attributes(client)
    every = timedelta(seconds=worker_process.DeliverySettings().sweep_seconds)
    await ensure_sweep_schedule(client, every=every)


@app.command()
def settings(*, as_json: Json = False) -> None:
    """List every setting: its meaning, its default, its present value and where that comes from."""
    rows = [row for kind in SETTINGS for row in _rows(kind)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("variable", "present", "from", "default", "meaning")
    for row in rows:
        table.add_row(row["name"], row["value"], row["source"], row["default"], row["meaning"])
    Console(soft_wrap=not sys.stdout.isatty()).print(table)


def _rows(kind: type[BaseSettings]) -> list[dict[str, str]]:
    rows = []
    for name, field in kind.model_fields.items():
        variable = f"{kind.model_config['env_prefix']}{name}".upper()
        given = os.environ.get(variable)
        default = "" if field.default is PydanticUndefined else str(field.default)
        secret = field.annotation is SecretStr
        present = default if given is None else ("(hidden)" if secret else given)
        rows.append(
            {
                "name": variable,
                "value": present,
                "source": "environment" if given is not None else ("default" if default else "missing"),
                "default": default,
                "meaning": field.description or "",
            }
        )
    return rows


@app.command()
def dev(
    *,
    directory: Annotated[Path, typer.Option("--dir", help="Where the data, logs and dev.json live.")] = Path(
        ".fencepost"
    ),
    port_base: Annotated[int, typer.Option(help="The API's port; the others follow it.")] = 7480,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    first_message: Annotated[
        bool, typer.Option("--first-message/--no-first-message", help="Send one message through it and show it.")
    ] = True,
) -> None:
    """Run the whole of Fencepost on this machine, in the foreground; Ctrl-C stops it, and keeps the data.

    Example: fencepost dev --dir .fencepost --port-base 7480 --workers 2
    """
    options = StackOptions(directory=directory, port_base=port_base, workers=workers, first_message=first_message)
    raise typer.Exit(run_dev_stack(options))


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
