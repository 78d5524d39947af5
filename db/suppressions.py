"""Suppressions: standing reasons not to mail an address, of each tenant's own."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, UUID as UUID_TYPE, insert
from sqlalchemy.ext.asyncio import AsyncEngine

from db.engine import UnavailableError, outages
from db.ids import MessageId, TenantId, new_id
from db.outcomes import SuppressionReason
from db.schema import suppressions
from db.transaction import connected

#: Before and after every id: where a list begins.
FIRST_ID: Final = UUID(int=0)
LAST_ID: Final = UUID(int=2**128 - 1)
#: How often a suppression that was there, and was removed before it could be read, is tried to be made anew.
_TRIES: Final = 5
#: So many are added in a fraction of the time that one statement may take.
_STATEMENT_ROWS: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressedAddress:
    """An address that is not to be mailed, within a scope: `all`, or one purpose."""

    address: str = field(repr=False)
    address_hash: bytes = field(repr=False)
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """A suppression as it stands."""

    id: UUID
    address: str = field(repr=False)
    scope: str
    reason: SuppressionReason
    message_id: MessageId | None
    created_at: datetime
    removed_at: datetime | None
    removed_reason: str | None = field(repr=False)


_TENANT: Final = sa.bindparam("this_tenant", type_=sa.Text)
_COLUMNS: Final = tuple(column for column in suppressions.c if column.name not in ("tenant_id", "address_hash"))
_THIS: Final = (suppressions.c.tenant_id == _TENANT, suppressions.c.id == sa.bindparam("this_id", type_=UUID_TYPE))
_ACTIVE: Final = suppressions.c.removed_at.is_(None)
_HASH: Final = sa.bindparam("this_hash", type_=sa.LargeBinary)
_AT_MOST: Final = sa.bindparam("at_most", type_=sa.Integer)

_NEW: Final = (
    sa.func.unnest(
        sa.bindparam("ids", type_=ARRAY(UUID_TYPE)),
        sa.bindparam("addresses", type_=ARRAY(sa.Text)),
        sa.bindparam("hashes", type_=ARRAY(sa.LargeBinary)),
        sa.bindparam("scopes", type_=ARRAY(sa.Text)),
    )
    .table_valued("id", "address", "address_hash", "scope", name="added")
    .render_derived()
)

ADD: Final = (
    insert(suppressions)
    .from_select(
        ["id", "tenant_id", "address", "address_hash", "scope", "reason"],
        sa.select(
            _NEW.c.id,
            _TENANT,
            _NEW.c.address,
            _NEW.c.address_hash,
            _NEW.c.scope,
            sa.literal(SuppressionReason.MANUAL, sa.Text),
        ),
    )
    .on_conflict_do_nothing(
        index_elements=[suppressions.c.tenant_id, suppressions.c.address_hash, suppressions.c.scope],
        index_where=_ACTIVE,
    )
    .returning(*_COLUMNS)
)
"""Suppress addresses. No row for one that is suppressed so already, perhaps by a transaction that was waited for."""

ACTIVE: Final = sa.select(*_COLUMNS).where(
    suppressions.c.tenant_id == _TENANT,
    suppressions.c.address_hash == _HASH,
    suppressions.c.scope == sa.bindparam("this_scope", type_=sa.Text),
    _ACTIVE,
)

SUPPRESSION: Final = sa.select(*_COLUMNS).where(*_THIS)
"""One suppression, also one that was removed."""

PAGE: Final = (
    sa.select(*_COLUMNS)
    .where(suppressions.c.tenant_id == _TENANT, _ACTIVE, suppressions.c.id < sa.bindparam("before", type_=UUID_TYPE))
    .order_by(suppressions.c.id.desc())
    .limit(_AT_MOST)
)
"""Newest first: an id is a UUID version 7."""

PAGE_OF_ADDRESS: Final = PAGE.where(suppressions.c.address_hash == _HASH)

OLDEST: Final = (
    sa.select(*_COLUMNS)
    .where(suppressions.c.tenant_id == _TENANT, _ACTIVE, suppressions.c.id > sa.bindparam("after", type_=UUID_TYPE))
    .order_by(suppressions.c.id)
    .limit(_AT_MOST)
)

REMOVE: Final = (
    sa.update(suppressions)
    .where(*_THIS, _ACTIVE)
    .values(removed_at=sa.func.clock_timestamp(), removed_reason=sa.bindparam("why", type_=sa.Text))
    .returning(suppressions.c.id)
)
"""Remove a suppression. No row: there is none, or it is removed already, and the first reason stays."""


class SuppressionStore:
    """Reads and writes suppressions. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add(self, tenant_id: TenantId, new: SuppressedAddress) -> tuple[Suppression, bool]:
        """Suppress an address by hand: give it and True, or what suppresses it in this scope already and False."""
        this = {"this_tenant": tenant_id, "this_hash": new.address_hash, "this_scope": new.scope}
        with outages():
            async with self._engine.begin() as connection:
                for _ in range(_TRIES):
                    added = (await connection.execute(ADD, _rows(tenant_id, [new]))).one_or_none()
                    if added is not None:
                        return _suppression(added), True
                    # A statement of its own sees the row that the insert has waited for.
                    present = (await connection.execute(ACTIVE, this)).one_or_none()
                    if present is not None:
                        return _suppression(present), False
        # Each time it was there, and removed before it could be read.
        raise UnavailableError

    async def add_all(self, tenant_id: TenantId, new: Collection[SuppressedAddress]) -> int:
        """Suppress addresses by hand, all in one transaction; give how many weren't suppressed in their scope."""
        if not new:
            return 0
        # In one order whoever adds them: two imports of the same addresses wait for each other in turn, not in a ring.
        ordered = sorted(new, key=lambda each: (each.address_hash, each.scope))
        with outages():
            async with self._engine.begin() as connection:
                added = 0
                for start in range(0, len(ordered), _STATEMENT_ROWS):
                    rows = _rows(tenant_id, ordered[start : start + _STATEMENT_ROWS])
                    added += len((await connection.execute(ADD, rows)).all())
                return added

    async def find(self, tenant_id: TenantId, suppression_id: UUID) -> Suppression | None:
        """Find a suppression, also one that was removed."""
        this = {"this_tenant": tenant_id, "this_id": suppression_id}
        async with connected(self._engine) as connection:
            row = (await connection.execute(SUPPRESSION, this)).one_or_none()
        return None if row is None else _suppression(row)

    async def page(
        self, tenant_id: TenantId, *, address_hash: bytes | None, before: UUID, at_most: int
    ) -> list[Suppression]:
        """List a tenant's active suppressions, newest first, from before an id.

        With a hash, only those of the address that it is of.
        """
        statement = PAGE if address_hash is None else PAGE_OF_ADDRESS
        values = {"this_tenant": tenant_id, "before": before, "at_most": at_most}
        looked_up = {} if address_hash is None else {"this_hash": address_hash}
        async with connected(self._engine) as connection:
            rows = await connection.execute(statement, values | looked_up)
        return [_suppression(row) for row in rows]

    async def oldest(self, tenant_id: TenantId, *, after: UUID, at_most: int) -> list[Suppression]:
        """List a tenant's active suppressions, oldest first, from after an id."""
        values = {"this_tenant": tenant_id, "after": after, "at_most": at_most}
        async with connected(self._engine) as connection:
            rows = await connection.execute(OLDEST, values)
        return [_suppression(row) for row in rows]

    async def remove(self, tenant_id: TenantId, suppression_id: UUID, *, reason: str) -> bool:
        """Remove a suppression; where it is removed already, nothing changes. False: there is none."""
        this = {"this_tenant": tenant_id, "this_id": suppression_id}
        with outages():
            async with self._engine.begin() as connection:
                if (await connection.execute(REMOVE, {**this, "why": reason})).one_or_none() is not None:
                    return True
                return (await connection.execute(SUPPRESSION, this)).one_or_none() is not None


def _rows(tenant_id: TenantId, new: Sequence[SuppressedAddress]) -> dict[str, Any]:
    return {
        "this_tenant": tenant_id,
        "ids": [new_id() for _ in new],
        "addresses": [each.address for each in new],
        "hashes": [each.address_hash for each in new],
        "scopes": [each.scope for each in new],
    }


def _suppression(row: sa.Row[Any]) -> Suppression:
    return Suppression(
        id=row.id,
        address=row.address,
        scope=row.scope,
        reason=SuppressionReason(row.reason),
        message_id=row.message_id,
        created_at=row.created_at,
        removed_at=row.removed_at,
        removed_reason=row.removed_reason,
    )
