"""Bring a database to the newest schema, and say how a database's schema compares with this version's."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import ProgrammingError

_FOLDER: Final = Path(__file__).parent / "migrations"


class MigrationBusyError(Exception):
    """Somebody else has been migrating this database for a minute; look there, then run it again."""


class MissingRoleError(Exception):
    """A role that the schema grants to does not exist: run deploy/roles.sql as a superuser first."""


class Fit(StrEnum):
    """How a database's schema compares with what this version needs."""

    CURRENT = "current"
    BEHIND = "behind"  #: run `fencepost migrate`
    AHEAD = "ahead"  #: a newer version migrated it; additive changes are fine for this one


def _config(url: str = "") -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["url"] = url
    return config


def migrate(url: str) -> None:
    """Apply every migration that is missing. Safe to run from two processes at once, and again.

    Raises UnavailableError, MigrationBusyError or MissingRoleError; any other failure leaves the database at the last
    whole migration. Must be called outside an event loop.
    """
    try:
        command.upgrade(_config(url), "head")
    except ProgrammingError as error:
        if re.search(r'role "fencepost_\w+" does not exist', str(error.orig)):
            raise MissingRoleError from None
        raise


def fit(connection: sa.Connection) -> Fit:
    """Say whether the database is at this version's schema, behind it, or ahead of it."""
    scripts = ScriptDirectory.from_config(_config())
    present = MigrationContext.configure(connection).get_current_revision()
    if present == scripts.get_current_head():
        return Fit.CURRENT
    known = {script.revision for script in scripts.walk_revisions()}
    return Fit.BEHIND if present is None or present in known else Fit.AHEAD
