"""API keys as they are checked: found by their public half, with the hash of their secret."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db.ids import TenantId
from db.schema import credentials, tenants
from db.transaction import reading, rows_of

#: How exact `last_used_at` is: a key that is in use all the time costs one write in this time.
_USE_NOTED_EVERY: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """An API key, to be checked."""

    id: str
    tenant_id: TenantId | None
    tenant_active: bool
    secret_hash: bytes = field(repr=False)
    scopes: frozenset[str]
    expired: bool
    revoked: bool
    use_noted: bool  #: within the last minute


_ID: Final = sa.bindparam("credential_id", type_=sa.Text)
_NOW: Final = sa.func.clock_timestamp()
_USE_NOTED: Final = sa.func.coalesce(
    credentials.c.last_used_at > _NOW - sa.literal(_USE_NOTED_EVERY, sa.Interval), sa.false()
)

CREDENTIAL: Final = (
    sa.select(
        credentials.c.id,
        credentials.c.tenant_id,
        credentials.c.secret_hash,
        credentials.c.scopes,
        sa.func.coalesce(credentials.c.expires_at <= _NOW, sa.false()).label("expired"),
        credentials.c.revoked_at.is_not(None).label("revoked"),
        sa.func.coalesce(tenants.c.state == "active", sa.false()).label("tenant_active"),
        _USE_NOTED.label("use_noted"),
    )
    .join_from(credentials, tenants, tenants.c.id == credentials.c.tenant_id, isouter=True)
    .where(credentials.c.id == _ID)
)

NOTE_USE: Final = (
    sa.update(credentials)
    .where(
        # Of many requests at once, one writes, and none waits for it.
        credentials.c.id
        == sa.select(credentials.c.id)
        .where(credentials.c.id == _ID, sa.not_(_USE_NOTED))
        .with_for_update(skip_locked=True, key_share=True)
        .scalar_subquery()
    )
    .values(last_used_at=_NOW)
)


class CredentialStore:
    """Finds API keys, and notes their use. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, credential_id: str) -> Credential | None:
        """Find an API key by its public half."""
        rows = await rows_of(self._engine, CREDENTIAL, {"credential_id": credential_id})
        if not rows:
            return None
        whole = rows[0]._asdict()
        return Credential(scopes=frozenset(whole.pop("scopes")), **whole)

    async def note_use(self, credential_id: str) -> None:
        """Note that a key was used just now."""
        async with reading(self._engine) as connection:
            await connection.execute(NOTE_USE, {"credential_id": credential_id})
