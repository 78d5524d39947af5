"""How a command ends that can't do what it was asked: one line on stderr that names the fix, and never a traceback."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import typer

from api.commands.output import cell

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_settings import BaseSettings

#: Exit statuses (CONTRACT section 3).
REFUSED: Final = 1
BAD_USE: Final = 2

#: What is wrong, and what mends it, by the kind of trouble. What is not here is a bug, and shows as one.
TROUBLES: Final = {
    "UnavailableError": "Postgres can't be reached: is it running, and is FENCEPOST_DATABASE_URL right?",
    "SchemaBehindError": "the database's schema is older than this version: run `fencepost migrate` first",
    "MissingSearchAttributesError": "Temporal's namespace lacks our search attributes: run `fencepost temporal setup`",
    "MigrationBusyError": "somebody else has been migrating this database for a minute: look there, then run it again",
    "MissingRoleError": "a database role is missing: run deploy/roles.sql as a superuser first",
    "MissingPrivilegeError": "this database role may not do that: use fencepost_migrate's FENCEPOST_DATABASE_URL",
    "AwsError": "the queue can't be read: is FENCEPOST_EVENTS_QUEUE_URL right, and may these AWS credentials receive?",
    "TemporalAwayError": "Temporal can't be reached: is it running, and is TEMPORAL_ADDRESS right?",
}

_Result = TypeVar("_Result")


def say(text: str) -> None:
    """Tell the person something that is no result."""
    print(f"fencepost: {cell(text)}", file=sys.stderr, flush=True)


def refuse(why: str, *details: str, status: int = REFUSED) -> NoReturn:
    """End the command; each of the details is a line of its own."""
    say(why)
    for detail in details:
        print(f"  {cell(detail)}", file=sys.stderr, flush=True)
    raise typer.Exit(status)


def run(body: Callable[[], _Result], kinds: Callable[[], Iterable[type["BaseSettings"]]]) -> _Result:
    """Run a command's body; every expected trouble is one line that names the fix.

    Args:
        body: What to run.
        kinds: Gives the classes of the settings that the body may load.

    """
    from pydantic import ValidationError

    try:
        return body()
    except ValidationError as error:
        _refuse_settings(error, kinds())
    except Exception as error:
        if (trouble := TROUBLES.get(type(error).__name__)) is None:
            raise
        if type(error).__name__ == "TemporalAwayError":
            # Temporal's client still has a thread that looks for the server, and takes a normal exit down with it.
            say(trouble)
            os._exit(REFUSED)
        refuse(trouble)


def _refuse_settings(error: "ValidationError", kinds: Iterable[type["BaseSettings"]]) -> NoReturn:
    """Say which settings are wrong, without their values: the loader's own text shows those beside it, too."""
    prefixes = {kind.__name__: kind.model_config["env_prefix"] for kind in kinds}
    for each in error.errors(include_input=False, include_url=False):
        name = "".join(str(part) for part in each["loc"])
        variable = f"{prefixes.get(error.title, '')}{name}".upper()
        why = each["msg"].removeprefix("Value error, ") if each["type"] == "value_error" else each["type"]
        if each["type"] in ("enum", "literal_error"):
            why = f"it has to be {each['ctx']['expected']}"
        say(f"{variable}: {why}" if name else why)
    refuse("these settings can't be used; `fencepost settings` lists them all", status=BAD_USE)
