"""The command `fencepost`: wiring only."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from pydantic import SecretStr, ValidationError
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

# Each command imports what it runs, and no more: all of it together takes seconds, at every start of every process.
if TYPE_CHECKING:
    from activities.contracts import SweepReply

BAD_USE: Final = 2
REFUSED: Final = 1

#: What is wrong, and what mends it, by the kind of trouble. What is not here is a bug, and shows as one.
TROUBLES: Final = {
    "UnavailableError": "Postgres can't be reached: is it running, and is FENCEPOST_DATABASE_URL right?",
    "SchemaBehindError": "the database's schema is older than this version: run `fencepost migrate` first",
    "MissingSearchAttributesError": "Temporal's namespace lacks our search attributes: run `fencepost temporal setup`",
    "MigrationBusyError": "somebody else has been migrating this database for a minute: look there, then run it again",
    "MissingRoleError": "a database role is missing: run deploy/roles.sql as a superuser first",
    "TemporalAwayError": "Temporal can't be reached: is it running, and is TEMPORAL_ADDRESS right?",
}


def settings_kinds() -> tuple[type[BaseSettings], ...]:
    """Give every class of settings."""
    from activities.ses import SesSettings
    from api.app import ApiSettings
    from db.engine import DatabaseSettings
    from worker import DeliverySettings, WorkerSettings

    return (DatabaseSettings, ApiSettings, DeliverySettings, WorkerSettings, SesSettings)


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
        _refuse_settings(error)
    except Exception as error:
        if (trouble := TROUBLES.get(type(error).__name__)) is None:
            raise
        if type(error).__name__ == "TemporalAwayError":
            # Temporal's client still has a thread that looks for the server, and takes a normal exit down with it.
            print(f"fencepost: {trouble}", file=sys.stderr, flush=True)
            os._exit(REFUSED)
        _refuse(trouble)


def _refuse_settings(error: ValidationError) -> NoReturn:
    """Say which settings are wrong, without their values: the loader's own text shows those beside it, too."""
    prefixes = {kind.__name__: kind.model_config["env_prefix"] for kind in settings_kinds()}
    for each in error.errors(include_input=False, include_url=False, include_context=False):
        name = "".join(str(part) for part in each["loc"])
        variable = f"{prefixes.get(error.title, '')}{name}".upper()
        why = each["msg"].removeprefix("Value error, ") if each["type"] == "value_error" else each["type"]
        print(f"fencepost: {variable}: {why}" if name else f"fencepost: {why}", file=sys.stderr)
    _refuse("these settings can't be used; `fencepost settings` lists them all", status=BAD_USE)


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
    from api.app import main as run_api

    _run(run_api)


@app.command()
def worker() -> None:
    """Run a Temporal worker: claims, submissions, the sweep. SIGTERM lets calls in flight end and be recorded."""
    from worker import main as run_worker

    _run(run_worker)


@app.command()
def migrate() -> None:
    """Bring the database to this version's schema. Safe from several processes at once, and again.

    Needs the role that owns the tables: FENCEPOST_DATABASE_URL=postgresql://fencepost_migrate:...@host/fencepost
    """
    from db.engine import DatabaseSettings
    from db.migrate import migrate as migrate_database

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


async def _sweep_once() -> "SweepReply":
    from db.engine import DatabaseSettings, create_engine
    from db.store import MessageStore
    from worker import DeliverySettings, build_sweep
    from workflows import logs
    from workflows.temporal import connect

    logs.set_up("sweep", level="WARNING")
    engine = create_engine(DatabaseSettings(), application="fencepost-sweep")
    try:
        sweep_activity = build_sweep(MessageStore(engine), await connect(lazy=True), DeliverySettings())
        return await sweep_activity.sweep()
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
    from worker import DeliverySettings
    from workflows.temporal import connect, ensure_sweep_schedule, register_search_attributes

    client = await connect()
    await register_search_attributes(client)
    # A worker brings the schedule to its own interval when it starts; what runs already is left alone here.
    every = timedelta(seconds=DeliverySettings().sweep_seconds)
    await ensure_sweep_schedule(client, every=every, update=False)


@app.command()
def settings(*, as_json: Json = False) -> None:
    """List every setting: its meaning, its default, its present value and where that comes from."""
    rows = [row for kind in settings_kinds() for row in _rows(kind)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    # No table: the longest variable alone takes half of a terminal, and a cut name is no use.
    for row in rows:
        default = f"; default {row['default']}" if row["source"] == "environment" and row["default"] else ""
        print(f"{row['name']} = {row['value']}  ({row['source']}{default})\n    {row['meaning']}")


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
    from dev.stack import StackOptions, run as run_dev_stack

    options = StackOptions(directory=directory, port_base=port_base, workers=workers, first_message=first_message)
    raise typer.Exit(run_dev_stack(options))


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
