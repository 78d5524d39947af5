"""Senders: whom a tenant's mail comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypedDict

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from db.engine import outages
from db.ids import TenantId
from db.schema import senders
from db.transaction import connected


class SenderState(StrEnum):
    """Whether mail may come from a sender."""

    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderDefaults:
    """What a message takes from its sender, parsed and in normal form: `reply_to` as `{"address", "name"}` each."""

    address: str = field(repr=False)
    name: str | None = field(repr=False)
    reply_to: Sequence[Mapping[str, str | None]] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderView:
    """A sender as it stands."""

    key: str
    defaults: SenderDefaults
    state: SenderState
    created_at: datetime
    updated_at: datetime


class SenderChange(TypedDict, total=False):
    """What is to change of a sender; a member that is absent stays."""

    address: str
    name: str | None
    reply_to: Sequence[Mapping[str, str | None]]
    state: SenderState


_TENANT: Final = sa.bindparam("this_tenant", type_=sa.Text)
_KEY: Final = sa.bindparam("this_key", type_=sa.Text)
_THIS: Final = (senders.c.tenant_id == _TENANT, senders.c.key == _KEY)
_COLUMNS: Final = tuple(column for column in senders.c if column is not senders.c.tenant_id)

CREATE: Final = insert(senders).on_conflict_do_nothing().returning(*_COLUMNS)
"""Make a sender. No row: its key is taken, perhaps by a transaction that this one has waited for."""

SENDER: Final = sa.select(*_COLUMNS).where(*_THIS)

PAGE: Final = (
    sa.select(*_COLUMNS)
    .where(senders.c.tenant_id == _TENANT, senders.c.key > sa.bindparam("after", type_=sa.Text))
    .order_by(senders.c.key)
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)

LOCK: Final = sa.select(senders.c.key).where(*_THIS).with_for_update(key_share=True)
"""Take the sender's row; messages that name it may still come in meanwhile."""


def _update(change: SenderChange) -> sa.Update:
    """Build the update of some columns; it writes nothing where they hold these values already."""
    bound = {name: sa.bindparam(f"{name}_after", value, type_=senders.c[name].type) for name, value in change.items()}
    differs = sa.or_(*(senders.c[name].is_distinct_from(value) for name, value in bound.items()))
    return sa.update(senders).where(*_THIS, differs).values(**bound, updated_at=sa.func.clock_timestamp())


class SenderStore:
    """Reads and writes senders. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(self, tenant_id: TenantId, key: str, defaults: SenderDefaults) -> tuple[SenderView, bool]:
        """Make a sender: give it and True, or the one that has its key already and False."""
        row = {
            "tenant_id": tenant_id,
            "key": key,
            "address": defaults.address,
            "name": defaults.name,
            "reply_to": defaults.reply_to,
        }
        with outages():
            async with self._engine.begin() as connection:
                created = (await connection.execute(CREATE, row)).one_or_none()
                if created is not None:
                    return _sender(created), True
                # A statement of its own sees the row that the insert has waited for; senders are never deleted.
                present = await connection.execute(SENDER, {"this_tenant": tenant_id, "this_key": key})
                return _sender(present.one()), False

    async def find(self, tenant_id: TenantId, key: str) -> SenderView | None:
        """Find a sender."""
        async with connected(self._engine) as connection:
            row = (await connection.execute(SENDER, {"this_tenant": tenant_id, "this_key": key})).one_or_none()
        return None if row is None else _sender(row)

    async def page(self, tenant_id: TenantId, *, after: str, at_most: int) -> list[SenderView]:
        """List a tenant's senders by key, from after a key (empty: from the first)."""
        async with connected(self._engine) as connection:
            rows = await connection.execute(PAGE, {"this_tenant": tenant_id, "after": after, "at_most": at_most})
        return [_sender(row) for row in rows]

    async def change(self, tenant_id: TenantId, key: str, change: SenderChange) -> SenderView | None:
        """Change a sender; what is so already is no change. None: there is no such sender."""
        this = {"this_tenant": tenant_id, "this_key": key}
        with outages():
            async with self._engine.begin() as connection:
                if (await connection.execute(LOCK, this)).one_or_none() is None:
                    return None
                if change:
                    await connection.execute(_update(change), this)
                return _sender((await connection.execute(SENDER, this)).one())


def _sender(row: sa.Row[Any]) -> SenderView:
    return SenderView(
        key=row.key,
        defaults=SenderDefaults(address=row.address, name=row.name, reply_to=row.reply_to),
        state=SenderState(row.state),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
