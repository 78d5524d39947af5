"""Operators' API keys, for somebody who has the database at hand: the first one of a deployment, and its revocation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db import audit
from db.audit import Action
from db.engine import outages
from db.fit import Fit, SchemaBehindError
from db.reading import MessageReader
from db.schema import TIME, credentials
from db.tenant_keys import KEY_COLUMNS, KeyView, NewSecret, key_view

#: SQLSTATE insufficient_privilege.
_NOT_ALLOWED: Final = "42501"


class MissingPrivilegeError(Exception):
    """This database role may not write operators' keys."""


_ID: Final = sa.bindparam("credential_id", type_=sa.Text)
_EXPIRY: Final = sa.bindparam("wanted_expiry", type_=TIME)
_NOW: Final = sa.func.clock_timestamp()
_THIS: Final = (credentials.c.id == _ID, credentials.c.tenant_id.is_(None))

ISSUE: Final = (
    sa.insert(credentials)
    .from_select(
        ["id", "secret_hash", "scopes", "expires_at"],
        sa.select(
            _ID,
            sa.bindparam("new_hash", type_=sa.LargeBinary),
            sa.literal(["operator"], credentials.c.scopes.type),
            _EXPIRY,
        ).where(sa.or_(_EXPIRY.is_(None), _EXPIRY > _NOW)),
    )
    .returning(*KEY_COLUMNS)
)
"""Make an operator's key. No row: it would have expired already."""

KEYS: Final = sa.select(*KEY_COLUMNS).where(credentials.c.tenant_id.is_(None)).order_by(credentials.c.created_at.desc())

LOCK: Final = sa.select(credentials.c.id).where(*_THIS).with_for_update(key_share=True)
"""Take the key's row. No row: there is no such operator's key."""

REVOKE: Final = (
    sa.update(credentials)
    .where(*_THIS, credentials.c.revoked_at.is_(None))
    .values(revoked_at=_NOW)
    .returning(credentials.c.id)
)
"""Revoke an operator's key. No row: it is revoked already."""


class OperatorKeyStore:
    """Reads and writes operators' keys.

    Raises UnavailableError for any trouble with Postgres, SchemaBehindError, and MissingPrivilegeError for a role that
    may not do this.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def issue(self, new: NewSecret, *, expires_at: datetime | None) -> KeyView | None:
        """Store a new key. None: it would have expired already, by Postgres's clock."""
        values = {"credential_id": new.id, "new_hash": new.secret_hash, "wanted_expiry": expires_at}
        async with _transaction(self._engine) as connection:
            row = (await connection.execute(ISSUE, values)).one_or_none()
            if row is None:
                return None
            await audit.note(connection, Action.KEY_ISSUED, by=None, tenant_id=None, subject=new.id)
        return key_view(row)

    async def list(self) -> list[KeyView]:
        """List all operators' keys, newest first."""
        async with _transaction(self._engine) as connection:
            return [key_view(row) for row in await connection.execute(KEYS)]

    async def revoke(self, key_id: str) -> bool:
        """Revoke a key; one that is revoked stays so. False: there is no such operator's key."""
        values = {"credential_id": key_id}
        async with _transaction(self._engine) as connection:
            if (await connection.execute(LOCK, values)).one_or_none() is None:
                return False
            if (await connection.execute(REVOKE, values)).one_or_none() is not None:
                await audit.note(connection, Action.KEY_REVOKED, by=None, tenant_id=None, subject=key_id)
        return True


@asynccontextmanager
async def _transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Begin a transaction on a schema that fits; commit at the end, roll back on any exception."""
    try:
        if await MessageReader(engine).schema_fit() is Fit.BEHIND:
            raise SchemaBehindError
        with outages():
            async with engine.begin() as connection:
                yield connection
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) == _NOT_ALLOWED:
            raise MissingPrivilegeError from None
        raise
