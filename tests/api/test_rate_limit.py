"""How often a tenant may ask: where it is judged, what counts, and whom it touches."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import asyncpg
import pytest

from db.ids import TenantId
from tests.api.conftest import COMMAND, Api, make_key, serving
from tests.api.test_messages import messages_of, problem
from tests.conftest import Database
from tests.factories import make_tenant
from tests.waiting import until

#: So slow that nothing comes back while a test runs.
HOURLY = 1 / 3600
BURST = 3
SENDER = {"key": "main", "address": "hello@acme.example.com", "name": "Acme"}
_numbers = itertools.count(1)


@pytest.fixture
async def tenant(superuser: asyncpg.Connection) -> TenantId:
    tenant_id = TenantId(f"rated-{next(_numbers)}")
    await make_tenant(superuser, tenant_id)
    return tenant_id


@asynccontextmanager
async def rated(database: Database, key: str, *, per_second: float = HOURLY, burst: int = BURST) -> AsyncIterator[Api]:
    async with serving(database.url("fencepost_api"), key, rate_per_second=per_second, rate_burst=burst) as api:
        yield api


@pytest.fixture
async def api(database: Database, superuser: asyncpg.Connection, tenant: TenantId) -> AsyncIterator[Api]:
    """Serve the API to a tenant of this test's own, at a rate."""
    async with rated(database, await make_key(superuser, tenant)) as api:
        yield api


async def write(api: Api) -> int:
    """Make the cheapest call that counts: the tenant's sender, which is there already; give the status."""
    return (await api.ask("POST", "/v1/senders", SENDER)).status_code


async def exhaust(api: Api) -> None:
    assert [await write(api) for _ in range(BURST)] == [200] * BURST


async def full_until(connection: asyncpg.Connection, tenant: TenantId) -> datetime | None:
    moment: datetime | None = await connection.fetchval(
        "SELECT full_until FROM rate_limits WHERE tenant_id = $1", tenant
    )
    return moment


async def test_a_burst_is_admitted_exactly_and_then_told_when_to_come_again(api: Api) -> None:
    await exhaust(api)

    answer = await api.ask("POST", "/v1/senders", SENDER)

    assert problem(answer) == (429, "rate_limited")
    assert answer.headers["retry-after"].isdecimal()
    assert 3500 < int(answer.headers["retry-after"]) <= 3600


async def test_an_idempotency_key_is_not_used_up(api: Api, database: Database, superuser: asyncpg.Connection) -> None:
    await exhaust(api)
    before = await messages_of(superuser)

    refused = await api.send(key="later")

    assert problem(refused) == (429, "rate_limited")
    assert await messages_of(superuser) == before
    async with serving(database.url("fencepost_api"), api.key) as unrated:
        assert (await unrated.send(key="later", context={"name": "Bob"})).status_code == 202


async def test_it_is_judged_before_the_key_and_the_body(api: Api) -> None:
    await exhaust(api)

    answers = [
        await api.http.post("/v1/messages", headers=api.authorized({}), json=COMMAND),
        await api.send(b"not even JSON"),
        await api.send(b"{}", key=""),
        await api.http.post("/v1/senders", headers=api.authorized({"Content-Type": "text/plain"}), content=b"x"),
        await api.ask("PATCH", "/v1/senders/nobody", {"surprise": 1}),
    ]

    assert [problem(answer) for answer in answers] == [(429, "rate_limited")] * 5


async def test_it_is_judged_after_the_credential_and_the_scope_and_these_count_for_nothing(
    api: Api, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    reader = Api(http=api.http, key=await make_key(superuser, tenant, scopes=["messages:read"]))
    revoked = Api(http=api.http, key=await make_key(superuser, tenant, revoked=True))

    before = [await write(somebody) for somebody in (reader, revoked) for _ in range(2 * BURST)]
    await exhaust(api)
    after = [await write(somebody) for somebody in (reader, revoked)]

    assert before == [403] * 2 * BURST + [401] * 2 * BURST
    assert after == [403, 401]


async def test_a_tenant_has_one_rate_for_all_its_keys_and_calls(
    api: Api, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    await exhaust(api)

    api.key = await make_key(superuser, tenant)

    assert await write(api) == 429
    assert (await api.send()).status_code == 429
    assert (await api.ask("PATCH", "/v1/senders/main", {})).status_code == 429


async def test_another_tenant_is_not_touched(api: Api, superuser: asyncpg.Connection, tenant: TenantId) -> None:
    await exhaust(api)
    other = TenantId(f"{tenant}-other")
    await make_tenant(superuser, other)

    api.key = await make_key(superuser, other)

    await exhaust(api)
    assert await write(api) == 429


async def test_reading_is_neither_counted_nor_refused(api: Api) -> None:
    before = [(await api.ask("GET", "/v1/senders")).status_code for _ in range(2 * BURST)]
    await exhaust(api)

    assert before == [200] * 2 * BURST
    assert (await api.ask("GET", "/v1/senders/main")).status_code == 200
    assert (await api.ask("GET", "/v1/messages")).status_code == 200


async def test_replays_and_refused_bodies_count_too(api: Api) -> None:
    first = await api.send(key="counted")
    replay = await api.send(key="counted")
    malformed = await api.send(b"{")

    assert [answer.status_code for answer in (first, replay, malformed)] == [202, 200, 422]
    assert problem(await api.send(key="counted")) == (429, "rate_limited")


async def test_operators_are_not_counted(api: Api, superuser: asyncpg.Connection, tenant: TenantId) -> None:
    await exhaust(api)
    api.key = await make_key(superuser, None, scopes=["operator"])

    changes = [{"state": state} for state in ("disabled", "active") * BURST]
    answers = [await api.ask("PATCH", f"/v1/tenants/{tenant}", change) for change in changes]

    assert {answer.status_code for answer in answers} == {200}


async def test_a_flood_writes_nothing(api: Api, superuser: asyncpg.Connection, tenant: TenantId) -> None:
    await exhaust(api)
    before = await full_until(superuser, tenant)

    flood = await asyncio.gather(*(write(api) for _ in range(20)))

    assert set(flood) == {429}
    assert before is not None
    assert await full_until(superuser, tenant) == before


async def test_processes_count_together_and_admit_a_burst_exactly(
    database: Database, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    key = await make_key(superuser, tenant)
    async with rated(database, key, burst=7) as one, rated(database, key, burst=7) as other:
        statuses = await asyncio.gather(*(write(api) for _ in range(15) for api in (one, other)))

    assert sorted(statuses) == [200] * 7 + [429] * 23


async def test_after_the_wait_the_next_one_is_admitted(
    database: Database, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    async with rated(database, await make_key(superuser, tenant), per_second=0.5, burst=1) as api:
        first = await write(api)
        refused = await api.ask("POST", "/v1/senders", SENDER)

        async def admitted() -> bool:
            return await write(api) == 200

        await until(admitted, within=20, every=0.1)

    assert first == 200
    assert problem(refused) == (429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 2


async def test_without_a_rate_nothing_is_counted(
    database: Database, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    async with serving(database.url("fencepost_api"), await make_key(superuser, tenant)) as api:
        statuses = [await write(api) for _ in range(2 * BURST)]

    assert statuses == [200] * 2 * BURST
    assert await full_until(superuser, tenant) is None
