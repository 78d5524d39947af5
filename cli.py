"""The command `fencepost`: wiring only."""

import asyncio
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, TypeVar, get_args

import typer
from typer.exceptions import TyperException

from api.commands import (
    ambiguous,
    events,
    keys,
    messages,
    providers,
    refusals,
    senders,
    sending,
    suppressions,
    templates,
    tenants,
)
from api.commands.output import Json
from api.commands.refusals import BAD_USE, REFUSED, refuse
from api.commands.surroundings import find_dev_stack

# Each command imports what it runs, and no more: all of it together takes seconds, at every start of every process.
if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

    from activities.contracts import SweepReply

_Result = TypeVar("_Result")

MAIL: Final = "Sending mail"
ADMINISTRATION: Final = "Tenants and keys"
OPERATION: Final = "Running Fencepost"


def settings_kinds() -> tuple[type["BaseSettings"], ...]:
    """Give every class of settings."""
    from activities.ses import SesSettings
    from api.app import ApiSettings
    from api.aws import QueueSettings
    from api.commands.settings import ClientSettings
    from api.consumer import ConsumerSettings
    from api.sns import EventSettings
    from db.crash_points import CrashSettings
    from db.engine import DatabaseSettings
    from worker import DeliverySettings, WorkerSettings

    return (
        DatabaseSettings,
        ApiSettings,
        DeliverySettings,
        WorkerSettings,
        SesSettings,
        EventSettings,
        QueueSettings,
        ConsumerSettings,
        ClientSettings,
        CrashSettings,
    )


app = typer.Typer(
    help="Fencepost: a transactional-email relay that submits each message at most once by itself.",
    epilog="Exit status: 0 done, 1 refused or a finding, 2 bad use. In a checkout with a running `make dev`, commands"
    " find it by themselves.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(rich_help_panel=MAIL)(sending.send)
app.add_typer(messages.app, name="message", rich_help_panel=MAIL)
app.add_typer(templates.app, name="template", rich_help_panel=MAIL)
app.add_typer(senders.app, name="sender", rich_help_panel=MAIL)
app.add_typer(suppressions.app, name="suppression", rich_help_panel=MAIL)
app.add_typer(tenants.app, name="tenant", rich_help_panel=ADMINISTRATION)
app.add_typer(keys.app, name="key", rich_help_panel=ADMINISTRATION)
temporal_commands = typer.Typer(help="What Fencepost needs of a Temporal namespace.", no_args_is_help=True)
app.add_typer(ambiguous.app, name="ambiguous", rich_help_panel=OPERATION)
app.add_typer(providers.app, name="provider", rich_help_panel=OPERATION)
app.add_typer(events.app, name="events", rich_help_panel=OPERATION)
app.add_typer(temporal_commands, name="temporal", rich_help_panel=OPERATION)


def _run(body: Callable[[], _Result]) -> _Result:
    return refusals.run(body, settings_kinds)


@app.command(rich_help_panel=OPERATION)
def api() -> None:
    """Run the API: intake and reading, over HTTP. Settings: FENCEPOST_API_HOST, FENCEPOST_API_PORT, ...

    Example: FENCEPOST_API_PORT=8080 fencepost api
    """
    from api.app import main as run_api

    _run(run_api)


@app.command(rich_help_panel=OPERATION)
def worker() -> None:
    """Run a Temporal worker: claims, submissions, the sweep. SIGTERM lets calls in flight end and be recorded.

    Example: FENCEPOST_WORKER_NAME=worker-1 fencepost worker
    """
    from worker import main as run_worker

    _run(run_worker)


@events.app.callback(invoke_without_command=True)
def consume_events(context: typer.Context) -> None:
    """Take SES's events from an SQS queue, until SIGTERM; or `confirm` that a topic may post them to the API.

    Settings: FENCEPOST_EVENTS_QUEUE_URL, FENCEPOST_EVENTS_TOPICS, ...

    Example: FENCEPOST_EVENTS_QUEUE_URL=https://sqs.us-east-1.amazonaws.com/123456789012/ses-events fencepost events
    """
    if context.invoked_subcommand is None:
        from api.consumer import main as run_consumer

        _run(run_consumer)


@app.command(rich_help_panel=OPERATION)
def migrate() -> None:
    """Bring the database to this version's schema. Safe from several processes at once, and again.

    Needs the role that owns the tables.

    Example: FENCEPOST_DATABASE_URL=postgresql://fencepost_migrate:...@host/fencepost fencepost migrate
    """
    from db import crash_points
    from db.engine import DatabaseSettings
    from db.migrate import migrate as migrate_database

    _run(crash_points.arm)
    _run(lambda: migrate_database(DatabaseSettings().url.get_secret_value()))
    print("The database is at this version's schema.", file=sys.stderr)


@app.command(rich_help_panel=OPERATION)
def sweep(
    *,
    once: Annotated[bool, typer.Option("--once", help="Sweep once and end; the Schedule does it for ever.")] = False,
    as_json: Json = False,
) -> None:
    """Settle leases that ran out, match provider events that came too early, start runs for messages without one.

    Example: fencepost sweep --once --json
    """
    if not once:
        refuse("say --once: Temporal's Schedule is what sweeps for ever", status=BAD_USE)
    find_dev_stack()
    done: SweepReply = _run(lambda: asyncio.run(_sweep_once()))
    result = {"settled": done.settled, "matched": done.matched, "started": done.started, "failed": done.failed}
    print(json.dumps(result) if as_json else ", ".join(f"{name} {count}" for name, count in result.items()))
    if done.failed:
        raise typer.Exit(REFUSED)


async def _sweep_once() -> "SweepReply":
    from db import crash_points
    from db.engine import DatabaseSettings, create_engine
    from db.store import MessageStore
    from worker import DeliverySettings, build_sweep
    from workflows import logs
    from workflows.temporal import connect

    logs.set_up("sweep", level="WARNING")
    crash_points.arm()
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
    find_dev_stack()
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


@app.command(rich_help_panel=OPERATION)
def settings(*, as_json: Json = False) -> None:
    """List every setting: its meaning, its default, its present value and where that comes from.

    Example: fencepost settings --json
    """
    # A variable that several classes read is listed once, as the first of them has it.
    listed = {row["name"]: row for kind in reversed(settings_kinds()) for row in reversed(_rows(kind))}
    rows = list(reversed(listed.values()))
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    # No table: the longest variable alone takes half of a terminal, and a cut name is no use.
    for row in rows:
        default = f"; default {row['default']}" if row["source"] == "environment" and row["default"] else ""
        print(f"{row['name']} = {row['value']}  ({row['source']}{default})\n    {row['meaning']}")


def _rows(kind: type["BaseSettings"]) -> list[dict[str, str]]:
    from pydantic import SecretStr
    from pydantic_core import PydanticUndefined

    rows = []
    for name, field in kind.model_fields.items():
        variable = f"{kind.model_config['env_prefix']}{name}".upper()
        given = os.environ.get(variable)
        default = "" if field.default is PydanticUndefined else str(field.default)
        secret = SecretStr in (field.annotation, *get_args(field.annotation))
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


@app.command(rich_help_panel=OPERATION)
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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; bad use is one line, too."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = app(arguments, prog_name="fencepost", standalone_mode=False)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        # Where a command is missing, the help has been printed in place of a message.
        if message := error.format_message():
            name = context.command_path if context else "fencepost"
            print(f"{name}: {' '.join(message.split())} See `{name} --help`.", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(status)


if __name__ == "__main__":
    main()
