"""A tenant's API keys as operators issue, change, rotate and revoke them; with a secret's hash, never with a secret."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncEngine

from db import audit
from db.audit import Action
from db.engine import outages
from db.ids import TenantId
from db.schema import TIME, credentials, tenants
from db.transaction import connected


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecret:
    """What is stored of a key that was just minted."""

    id: str
    secret_hash: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """A tenant's key as an operator may see it."""

    id: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    replaced_by: str | None
    expired: bool


class KeyRefusal(Enum):
    """Why nothing was done to a key."""

    UNKNOWN = auto()  #: no such tenant, or it has no such key
    NOT_ACTIVE = auto()  #: revoked, or (for a rotation) expired or rotated already
    EXPIRY_PASSED = auto()  #: it would have expired already


_ID: Final = sa.bindparam("credential_id", type_=sa.Text)
_TENANT: Final = sa.bindparam("of_tenant", type_=sa.Text)
_EXPIRES_AT: Final = sa.bindparam("wanted_expiry", type_=TIME)
_SCOPES: Final = sa.bindparam("wanted_scopes", type_=ARRAY(sa.Text))
_NEW_ID: Final = sa.bindparam("new_id", type_=sa.Text)
_NEW_HASH: Final = sa.bindparam("new_hash", type_=sa.LargeBinary)
_NOW: Final = sa.func.clock_timestamp()
_EXPIRED: Final = sa.func.coalesce(credentials.c.expires_at <= _NOW, sa.false())
_THIS: Final = (credentials.c.id == _ID, credentials.c.tenant_id == _TENANT)

KEY_COLUMNS: Final = (
    credentials.c.id,
    credentials.c.scopes,
    credentials.c.created_at,
    credentials.c.expires_at,
    credentials.c.revoked_at,
    credentials.c.last_used_at,
    credentials.c.replaced_by,
    _EXPIRED.label("expired"),
)

TENANT: Final = sa.select(tenants.c.id).where(tenants.c.id == _TENANT)

KEY: Final = sa.select(*KEY_COLUMNS).where(*_THIS)

_NEWEST_FIRST: Final = (
    sa.select(*KEY_COLUMNS)
    .where(credentials.c.tenant_id == _TENANT)
    .order_by(credentials.c.created_at.desc(), credentials.c.id.desc())
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)
FIRST_PAGE: Final = _NEWEST_FIRST
NEXT_PAGE: Final = _NEWEST_FIRST.where(
    sa.tuple_(credentials.c.created_at, credentials.c.id)
    < sa.tuple_(sa.bindparam("before_time", type_=TIME), sa.bindparam("before_id", type_=sa.Text))
)

ISSUE: Final = (
    sa.insert(credentials)
    .from_select(
        ["id", "tenant_id", "secret_hash", "scopes", "expires_at"],
        sa.select(_NEW_ID, tenants.c.id, _NEW_HASH, _SCOPES, _EXPIRES_AT).where(
            tenants.c.id == _TENANT, sa.or_(_EXPIRES_AT.is_(None), _EXPIRES_AT > _NOW)
        ),
    )
    .returning(*KEY_COLUMNS)
)
"""Make a key. No row: there is no such tenant, or the key would have expired already."""

LOCK: Final = sa.select(credentials.c.id).where(*_THIS).with_for_update(key_share=True)
"""Take the key's row; what it sends may still come in meanwhile."""

CHANGE_SCOPES: Final = (
    sa.update(credentials)
    .where(
        *_THIS,
        credentials.c.revoked_at.is_(None),
        sa.not_(sa.and_(credentials.c.scopes.contains(_SCOPES), credentials.c.scopes.contained_by(_SCOPES))),
    )
    .values(scopes=_SCOPES)
    .returning(credentials.c.id)
)
"""Replace the scopes. No row: revoked, or it has just these."""

_old: Final = credentials.alias("old")

SUCCEED: Final = (
    sa.insert(credentials)
    .from_select(
        ["id", "tenant_id", "secret_hash", "scopes", "expires_at"],
        sa.select(_NEW_ID, _old.c.tenant_id, _NEW_HASH, _old.c.scopes, _old.c.expires_at).where(
            _old.c.id == _ID,
            _old.c.tenant_id == _TENANT,
            _old.c.revoked_at.is_(None),
            _old.c.replaced_by.is_(None),
            sa.or_(_old.c.expires_at.is_(None), _old.c.expires_at > _NOW),
        ),
    )
    .returning(*KEY_COLUMNS)
)
"""Make the key that follows another, with its scopes and its expiry. No row: revoked, rotated or expired."""

RETIRE: Final = (
    sa.update(credentials)
    .where(*_THIS, credentials.c.replaced_by.is_(None))
    .values(
        replaced_by=_NEW_ID,
        # LEAST leaves NULL out: a key that would never expire does now.
        expires_at=sa.func.least(credentials.c.expires_at, _NOW + sa.bindparam("overlap", type_=sa.Interval)),
    )
    .returning(credentials.c.id)
)
"""Let a key end that another follows. No row: it was rotated already."""

REVOKE: Final = (
    sa.update(credentials)
    .where(*_THIS, credentials.c.revoked_at.is_(None))
    .values(revoked_at=_NOW)
    .returning(credentials.c.id)
)
"""Revoke a key. No row: it is revoked already."""


class TenantKeyStore:
    """Reads and writes tenants' API keys. Raises UnavailableError for any trouble with Postgres.

    What writes says `by` whom, an operator's credential, and leaves open what has happened if Postgres goes away.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def page(
        self, tenant_id: TenantId, *, before: tuple[datetime, str] | None, at_most: int
    ) -> list[KeyView] | None:
        """List a tenant's keys, newest first, from before a key's `created_at` and id. None: no such tenant."""
        values: dict[str, Any] = {"of_tenant": tenant_id, "at_most": at_most}
        async with connected(self._engine) as connection:
            if (await connection.execute(TENANT, values)).one_or_none() is None:
                return None
            if before is None:
                rows = await connection.execute(FIRST_PAGE, values)
            else:
                rows = await connection.execute(NEXT_PAGE, {**values, "before_time": before[0], "before_id": before[1]})
        return [key_view(row) for row in rows]

    async def issue(
        self, tenant_id: TenantId, new: NewSecret, *, scopes: Sequence[str], expires_at: datetime | None, by: str
    ) -> KeyView | KeyRefusal:
        """Store a new key. Refused for an unknown tenant, and for an expiry that has passed by Postgres's clock."""
        values = {
            "of_tenant": tenant_id,
            "new_id": new.id,
            "new_hash": new.secret_hash,
            "wanted_scopes": list(scopes),
            "wanted_expiry": expires_at,
        }
        with outages():
            async with self._engine.begin() as connection:
                if (await connection.execute(TENANT, values)).one_or_none() is None:
                    return KeyRefusal.UNKNOWN
                row = (await connection.execute(ISSUE, values)).one_or_none()
                if row is None:
                    return KeyRefusal.EXPIRY_PASSED
                await audit.note(connection, Action.KEY_ISSUED, by=by, tenant_id=tenant_id, subject=new.id)
                return key_view(row)

    async def change_scopes(
        self, tenant_id: TenantId, key_id: str, scopes: Sequence[str], *, by: str
    ) -> KeyView | KeyRefusal:
        """Replace a key's scopes, at once also for what it queued. Refused for an unknown key, and a revoked one."""
        values = {"of_tenant": tenant_id, "credential_id": key_id, "wanted_scopes": list(scopes)}
        with outages():
            async with self._engine.begin() as connection:
                if (await connection.execute(LOCK, values)).one_or_none() is None:
                    return KeyRefusal.UNKNOWN
                if (await connection.execute(CHANGE_SCOPES, values)).one_or_none() is not None:
                    await audit.note(connection, Action.KEY_SCOPES_CHANGED, by=by, tenant_id=tenant_id, subject=key_id)
                key = key_view((await connection.execute(KEY, values)).one())
        return key if key.revoked_at is None else KeyRefusal.NOT_ACTIVE

    async def rotate(
        self, tenant_id: TenantId, key_id: str, new: NewSecret, *, overlap: timedelta, by: str
    ) -> KeyView | KeyRefusal:
        """Let a new key follow an old one, which goes on for the overlap or until its own expiry; give the new one.

        Refused for an unknown key, and for one that is revoked, expired or rotated already: of many at once, one wins.
        """
        values = {
            "of_tenant": tenant_id,
            "credential_id": key_id,
            "new_id": new.id,
            "new_hash": new.secret_hash,
            "overlap": overlap,
        }
        with outages():
            async with self._engine.begin() as connection:
                if (await connection.execute(LOCK, values)).one_or_none() is None:
                    return KeyRefusal.UNKNOWN
                row = (await connection.execute(SUCCEED, values)).one_or_none()
                if row is None:
                    return KeyRefusal.NOT_ACTIVE
                (await connection.execute(RETIRE, values)).one()
                await audit.note(connection, Action.KEY_ROTATED, by=by, tenant_id=tenant_id, subject=key_id)
                return key_view(row)

    async def revoke(self, tenant_id: TenantId, key_id: str, *, by: str) -> bool:
        """Revoke a key: it opens nothing any more, and nothing goes out that it queued. False: no such key."""
        values = {"of_tenant": tenant_id, "credential_id": key_id}
        with outages():
            async with self._engine.begin() as connection:
                if (await connection.execute(LOCK, values)).one_or_none() is None:
                    return False
                if (await connection.execute(REVOKE, values)).one_or_none() is not None:
                    await audit.note(connection, Action.KEY_REVOKED, by=by, tenant_id=tenant_id, subject=key_id)
        return True


def key_view(row: sa.Row[Any]) -> KeyView:
    """Make a view of a row with `KEY_COLUMNS`."""
    whole = row._asdict()
    return KeyView(scopes=tuple(whole.pop("scopes")), **whole)
