"""Bring a database to the newest schema."""

import re
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy.exc import ProgrammingError

_FOLDER: Final = Path(__file__).parent / "migrations"


class MigrationBusyError(Exception):
    """Somebody else has been migrating this database for a minute; look there, then run it again."""


class MissingRoleError(Exception):
    """A role that the schema grants to does not exist: run deploy/roles.sql as a superuser first."""


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
