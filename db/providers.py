"""The switch of each provider: off, no lease is taken for it, and one that has not begun is given back."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db import audit
from db.audit import Action
from db.engine import outages
from db.schema import providers
from db.transaction import connected


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider as it stands."""

    name: str
    paused: bool
    changed_at: datetime  #: when it was last switched


_NAME: Final = sa.bindparam("this_provider", type_=sa.Text)
_PAUSED: Final = sa.bindparam("paused_after", type_=sa.Boolean)
_COLUMNS: Final[tuple[sa.Column[Any], ...]] = (providers.c.name, providers.c.paused, providers.c.changed_at)

PROVIDER: Final = sa.select(*_COLUMNS).where(providers.c.name == _NAME)

PAGE: Final = (
    sa.select(*_COLUMNS)
    .where(providers.c.name > sa.bindparam("after", type_=sa.Text))
    .order_by(providers.c.name)
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)

SWITCH: Final = (
    sa.update(providers)
    .where(providers.c.name == _NAME, providers.c.paused != _PAUSED)
    .values(paused=_PAUSED, changed_at=sa.func.clock_timestamp())
    .returning(providers.c.name)
)
"""Switch it. No row: it stands so already, or there is none of this name."""


class ProviderStore:
    """Reads and switches providers. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def page(self, *, after: str, at_most: int) -> list[Provider]:
        """List providers by name, from after a name (empty: from the first)."""
        async with connected(self._engine) as connection:
            rows = await connection.execute(PAGE, {"after": after, "at_most": at_most})
        return [Provider(**row._asdict()) for row in rows]

    async def pause(self, name: str, *, by: str, reason: str | None) -> Provider | None:
        """Switch a provider off, by an operator's credential; None: there is no such provider.

        One that is off stays as it is: nothing changes, and nothing is audited.
        """
        return await self._switch(name, Action.PROVIDER_PAUSED, by=by, reason=reason)

    async def resume(self, name: str, *, by: str, reason: str | None) -> Provider | None:
        """Switch a provider on again; as with `pause`, one that is on stays as it is."""
        return await self._switch(name, Action.PROVIDER_RESUMED, by=by, reason=reason)

    async def _switch(self, name: str, action: Action, *, by: str, reason: str | None) -> Provider | None:
        this = {"this_provider": name}
        with outages():
            async with self._engine.begin() as connection:
                changed = await connection.execute(SWITCH, {**this, "paused_after": action is Action.PROVIDER_PAUSED})
                if changed.one_or_none() is not None:
                    await audit.note(connection, action, by=by, tenant_id=None, subject=name, reason=reason)
                row = (await connection.execute(PROVIDER, this)).one_or_none()
        return None if row is None else Provider(**row._asdict())
