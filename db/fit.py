"""How a database's schema compares with what this version needs. Without Alembic, which every process would load."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

import sqlalchemy as sa

VERSIONS: Final = Path(__file__).parent / "migrations" / "versions"
#: Migrations are numbered, and their files begin with the number: `0001_the_whole_schema.py`.
_FILE: Final = re.compile(r"(\d{4})_\w+\.py")


class Fit(StrEnum):
    """How a database's schema compares with what this version needs."""

    CURRENT = "current"
    BEHIND = "behind"  #: run `fencepost migrate`
    AHEAD = "ahead"  #: a newer version migrated it; additive changes are fine for this one


class SchemaBehindError(Exception):
    """The database's schema is older than this version needs: run `fencepost migrate` first."""


def revisions() -> list[str]:
    """Give this version's revisions, oldest first."""
    return sorted(match[1] for path in VERSIONS.iterdir() if (match := _FILE.fullmatch(path.name)))


#: The table is Alembic's own, and not there before the first migration.
MIGRATED: Final = sa.select(sa.func.to_regclass("alembic_version").is_not(None))
REVISION: Final = sa.select(sa.column("version_num", sa.Text)).select_from(sa.table("alembic_version"))


def compare(present: str | None) -> Fit:
    """Say how a database at this revision compares."""
    known = revisions()
    if present == known[-1]:
        return Fit.CURRENT
    return Fit.BEHIND if present is None or present in known else Fit.AHEAD
