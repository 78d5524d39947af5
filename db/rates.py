"""How often a tenant may ask: one conditional statement in Postgres, so that all API processes count together."""

from datetime import timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from db.ids import TenantId
from db.schema import rate_limits
from db.transaction import connected

_TENANT: Final = sa.bindparam("of_tenant", type_=sa.Text)
_EACH: Final = sa.bindparam("each_takes", type_=sa.Interval)
_BURST: Final = sa.bindparam("burst_takes", type_=sa.Interval)
_NOW: Final = sa.func.clock_timestamp()
_FULL_UNTIL: Final = sa.func.greatest(rate_limits.c.full_until, _NOW) + _EACH

_TAKEN: Final = (
    insert(rate_limits)
    .values(tenant_id=_TENANT, full_until=_NOW + _EACH)
    .on_conflict_do_update(
        index_elements=["tenant_id"], set_={"full_until": _FULL_UNTIL}, where=_FULL_UNTIL - _BURST <= _NOW
    )
    .returning(rate_limits.c.tenant_id)
    .cte("taken")
)

TAKE: Final = sa.select(
    sa.exists(sa.select(_TAKEN.c.tenant_id)).label("taken"),
    sa.select(sa.cast(sa.func.extract("epoch", _FULL_UNTIL - _BURST - _NOW), sa.Float))
    .where(rate_limits.c.tenant_id == _TENANT)
    .scalar_subquery()
    .label("wait"),
)
"""Admit one request, or say in how many seconds the next one may come.

The generic cell rate algorithm (ITU-T I.371): each request fills a bucket for its share of a second, and one that would
make it run over is refused and fills nothing.
"""


class RateLimits:
    """Counts requests by tenant.

    Args:
        engine: Where they are counted.
        per_second: Requests that a tenant may make in the long run.
        burst: Requests that it may make at once.

    """

    def __init__(self, engine: AsyncEngine, *, per_second: float, burst: int) -> None:
        self._engine = engine
        self._each = timedelta(seconds=1 / per_second)
        self._burst = self._each * burst

    async def take(self, tenant_id: TenantId) -> float | None:
        """Count a request: None if it may go on, else the seconds to wait. Raises UnavailableError."""
        values = {"of_tenant": tenant_id, "each_takes": self._each, "burst_takes": self._burst}
        async with connected(self._engine) as plain:
            # One statement is a transaction of its own.
            connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
            row = (await connection.execute(TAKE, values)).one()
        return None if row.taken else max(row.wait or 0.0, 0.0)
