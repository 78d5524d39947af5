"""Tenants: making, listing, naming them, and switching them off and on."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db import audit
from db.audit import Action
from db.engine import outages
from db.ids import TenantId, new_tenant_id
from db.schema import tenants
from db.transaction import connected


class TenantState(StrEnum):
    """Whether a tenant may make anything new, and whether its mail goes out."""

    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant as it stands."""

    id: TenantId
    name: str = field(repr=False)
    state: TenantState
    created_at: datetime


_ID: Final = sa.bindparam("this_tenant", type_=sa.Text)
_COLUMNS: Final[tuple[sa.Column[Any], ...]] = (tenants.c.id, tenants.c.name, tenants.c.state, tenants.c.created_at)

CREATE: Final = sa.insert(tenants).returning(*_COLUMNS)

TENANT: Final = sa.select(*_COLUMNS).where(tenants.c.id == _ID)

PAGE: Final = (
    sa.select(*_COLUMNS)
    .where(tenants.c.id > sa.bindparam("after", type_=sa.Text))
    .order_by(tenants.c.id)
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)

LOCK: Final = sa.select(tenants.c.id).where(tenants.c.id == _ID).with_for_update(key_share=True)
"""Take the tenant's row; what refers to it may still come in meanwhile."""

SWITCH: Final = (
    sa.update(tenants)
    .where(tenants.c.id == _ID, tenants.c.state != sa.bindparam("state_after", type_=sa.Text))
    .values(state=sa.bindparam("state_after", type_=sa.Text))
    .returning(tenants.c.id)
)
"""Change the state. No row: it is so already."""

RENAME: Final = (
    sa.update(tenants)
    .where(tenants.c.id == _ID, tenants.c.name != sa.bindparam("name_after", type_=sa.Text))
    .values(name=sa.bindparam("name_after", type_=sa.Text))
    .returning(tenants.c.id)
)
"""Change the name. No row: it is so already."""

_SWITCHED: Final = {TenantState.ACTIVE: Action.TENANT_ENABLED, TenantState.DISABLED: Action.TENANT_DISABLED}


class TenantStore:
    """Reads and writes tenants. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(self, name: str, *, by: str) -> Tenant:
        """Make a tenant; `by` is the operator's credential. UnavailableError leaves open whether it was made."""
        with outages():
            async with self._engine.begin() as connection:
                row = (await connection.execute(CREATE, {"id": new_tenant_id(), "name": name})).one()
                await audit.note(connection, Action.TENANT_CREATED, by=by, tenant_id=row.id, subject=row.id)
        return _tenant(row)

    async def find(self, tenant_id: TenantId) -> Tenant | None:
        """Find a tenant."""
        async with connected(self._engine) as connection:
            row = (await connection.execute(TENANT, {"this_tenant": tenant_id})).one_or_none()
        return None if row is None else _tenant(row)

    async def page(self, *, after: str, at_most: int) -> list[Tenant]:
        """List tenants by id, which is the order of their making, from after an id (empty: from the first)."""
        async with connected(self._engine) as connection:
            rows = await connection.execute(PAGE, {"after": after, "at_most": at_most})
        return [_tenant(row) for row in rows]

    async def change(
        self, tenant_id: TenantId, *, name: str | None, state: TenantState | None, by: str
    ) -> Tenant | None:
        """Change what is not None, by an operator's credential; what is so already is no change. None: no tenant."""
        values = {"this_tenant": tenant_id}
        with outages():
            async with self._engine.begin() as connection:
                if (await connection.execute(LOCK, values)).one_or_none() is None:
                    return None
                if state is not None:
                    await _change(connection, SWITCH, _SWITCHED[state], by=by, state_after=state, **values)
                if name is not None:
                    await _change(connection, RENAME, Action.TENANT_RENAMED, by=by, name_after=name, **values)
                return _tenant((await connection.execute(TENANT, values)).one())


async def _change(
    connection: AsyncConnection, statement: sa.Update, action: Action, *, by: str, this_tenant: TenantId, **value: str
) -> None:
    changed = await connection.execute(statement, {"this_tenant": this_tenant, **value})
    if changed.one_or_none() is not None:
        await audit.note(connection, action, by=by, tenant_id=this_tenant, subject=this_tenant)


def _tenant(row: sa.Row[Any]) -> Tenant:
    return Tenant(id=TenantId(row.id), name=row.name, state=TenantState(row.state), created_at=row.created_at)
