"""The rate limit's one statement: what it admits, what it refuses, and for how long."""

import asyncio
import itertools

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from db.engine import DatabaseSettings, UnavailableError, create_engine
from db.ids import TenantId
from db.rates import RateLimits
from tests.conftest import free_port
from tests.factories import make_tenant

#: So slow that nothing comes back while a test runs.
HOURLY = 1 / 3600
HOUR = 3600.0
_numbers = itertools.count(1)


@pytest.fixture
async def tenant(superuser: asyncpg.Connection) -> TenantId:
    tenant_id = TenantId(f"rated-{next(_numbers)}")
    await make_tenant(superuser, tenant_id)
    return tenant_id


async def admitted(rates: RateLimits, tenant: TenantId, asked: int) -> int:
    return sum([await rates.take(tenant) is None for _ in range(asked)])


async def set_full(connection: asyncpg.Connection, tenant: TenantId, until: str) -> None:
    """Set when all that was admitted has drained, from now."""
    await connection.execute(
        f"UPDATE rate_limits SET full_until = clock_timestamp() + interval '{until}' WHERE tenant_id = $1", tenant
    )


@pytest.mark.parametrize("burst", [1, 2, 5])
async def test_a_burst_is_admitted_exactly(api_engine: AsyncEngine, tenant: TenantId, burst: int) -> None:
    rates = RateLimits(api_engine, per_second=HOURLY, burst=burst)

    assert await admitted(rates, tenant, 2 * burst) == burst


async def test_the_wait_is_until_one_has_drained(api_engine: AsyncEngine, tenant: TenantId) -> None:
    rates = RateLimits(api_engine, per_second=HOURLY, burst=2)
    await admitted(rates, tenant, 2)

    wait = await rates.take(tenant)

    assert wait is not None
    assert HOUR - 60 < wait <= HOUR


@pytest.mark.parametrize(
    ("full", "expected"),
    [("3 hours", 0), ("2 hours 1 minute", 0), ("119 minutes", 1), ("59 minutes", 2), ("-1 minute", 3), ("-9 days", 3)],
)
async def test_what_drains_makes_room_and_idleness_saves_nothing_up(
    api_engine: AsyncEngine, superuser: asyncpg.Connection, tenant: TenantId, full: str, expected: int
) -> None:
    rates = RateLimits(api_engine, per_second=HOURLY, burst=3)
    await rates.take(tenant)
    await set_full(superuser, tenant, full)

    assert await admitted(rates, tenant, 6) == expected


async def test_a_refusal_writes_nothing(
    api_engine: AsyncEngine, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    rates = RateLimits(api_engine, per_second=HOURLY, burst=1)
    await rates.take(tenant)
    row = "SELECT full_until, xmin::text FROM rate_limits WHERE tenant_id = $1"
    before = await superuser.fetchrow(row, tenant)

    assert await admitted(rates, tenant, 5) == 0
    assert await superuser.fetchrow(row, tenant) == before


async def test_tenants_are_counted_apart(
    api_engine: AsyncEngine, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    other = TenantId(f"{tenant}-other")
    await make_tenant(superuser, other)
    rates = RateLimits(api_engine, per_second=HOURLY, burst=2)

    assert await admitted(rates, tenant, 3) == await admitted(rates, other, 3) == 2


async def test_of_many_at_once_a_burst_is_admitted_exactly(api_engine: AsyncEngine, tenant: TenantId) -> None:
    """From the very first one on, when there is no row to wait for."""
    rates = RateLimits(api_engine, per_second=HOURLY, burst=7)

    waits = await asyncio.gather(*(rates.take(tenant) for _ in range(20)))

    assert waits.count(None) == 7


async def test_a_rate_that_is_quick_enough_refuses_nobody(api_engine: AsyncEngine, tenant: TenantId) -> None:
    rates = RateLimits(api_engine, per_second=100_000, burst=1)

    assert await admitted(rates, tenant, 10) == 10


async def test_without_postgres_it_says_so() -> None:
    url = f"postgresql://fencepost_api:x@127.0.0.1:{free_port()}/fencepost"
    engine = create_engine(DatabaseSettings.model_validate({"url": url}), application="tests")

    with pytest.raises(UnavailableError):
        await RateLimits(engine, per_second=1, burst=1).take(TenantId("acme"))
