"""Suppressions in Postgres: each statement's guards, and who may do what to the table."""

import asyncio
from uuid import UUID

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine

from db.engine import DatabaseSettings, create_engine
from db.ids import TenantId, new_id
from db.outcomes import SuppressionReason
from db.schema import suppressions
from db.suppressions import FIRST_ID, LAST_ID, OLDEST, PAGE, SuppressedAddress, SuppressionStore
from tests.conftest import Database
from tests.factories import TENANT, make_tenant
from tests.waiting import until

OTHER = TenantId("other")


@pytest.fixture
async def store(api_engine: AsyncEngine, superuser: asyncpg.Connection) -> SuppressionStore:
    for tenant_id in (TENANT, OTHER):
        await make_tenant(superuser, tenant_id)
    await superuser.execute("DELETE FROM suppressions")
    return SuppressionStore(api_engine)


def address(name: str = "ada", scope: str = "all") -> SuppressedAddress:
    return SuppressedAddress(address=f"{name}@example.com", address_hash=name.lower().encode() * 8, scope=scope)


async def test_a_suppression_is_added_once_for_its_tenant_address_and_scope(store: SuppressionStore) -> None:
    first, added = await store.add(TENANT, address())
    again, added_again = await store.add(TENANT, address("ADA"))
    others = [await store.add(OTHER, address()), await store.add(TENANT, address(scope="x"))]

    assert (added, added_again, again) == (True, False, first)
    assert [each for _, each in others] == [True, True]
    assert first.reason is SuppressionReason.MANUAL


@pytest.mark.usefixtures("store")
async def test_whoever_comes_second_waits_and_reads_what_the_first_added(
    database: Database, superuser: asyncpg.Connection
) -> None:
    patient = {"lock_timeout_seconds": 60, "statement_timeout_seconds": 60}
    settings = DatabaseSettings.model_validate({"url": database.url("fencepost_api"), **patient})
    engine = create_engine(settings, application="tests")
    suppression_id = new_id()
    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute(
        """INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason)
        VALUES ($1, $2, 'ada@example.com', $3, 'all', 'complaint')""",
        suppression_id,
        TENANT,
        address().address_hash,
    )
    second = asyncio.create_task(SuppressionStore(engine).add(TENANT, address()))

    async def waits() -> bool:
        return bool(
            await superuser.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
        )

    await until(waits, within=30)
    await transaction.commit()

    found, added = await second
    await engine.dispose()
    assert (found.id, found.reason, added) == (suppression_id, SuppressionReason.COMPLAINT, False)


async def test_addresses_that_are_added_together_are_added_once_each(store: SuppressionStore) -> None:
    await store.add(TENANT, address("ada"))

    added = await store.add_all(TENANT, [address("ada"), address("bob"), address("BOB"), address("bob", "x")])

    assert added == 2
    assert await store.add_all(TENANT, []) == 0
    assert len(await store.oldest(TENANT, after=FIRST_ID, at_most=10)) == 3


async def test_addresses_are_added_in_one_order_whatever_the_list_has(
    store: SuppressionStore, superuser: asyncpg.Connection
) -> None:
    """So that two lists of the same addresses never wait for each other in a ring."""
    orders = []
    for names in ("cabd", "dbac"):
        await store.add_all(TENANT, [address(name) for name in names])
        orders.append(await superuser.fetch("SELECT address FROM suppressions ORDER BY ctid"))
        await superuser.execute("TRUNCATE suppressions CASCADE")

    assert [row["address"][0] for row in orders[0]] == [*"abcd"]
    assert orders[0] == orders[1]


async def test_what_is_given_as_present_is_not_one_that_was_removed(store: SuppressionStore) -> None:
    first, _ = await store.add(TENANT, address())
    await store.remove(TENANT, first.id, reason="gone")
    second, _ = await store.add(TENANT, address())

    assert await store.add(TENANT, address()) == (second, False)


async def test_the_first_reason_of_a_removal_stays(store: SuppressionStore) -> None:
    first, _ = await store.add(TENANT, address())

    assert await store.remove(TENANT, first.id, reason="first")
    removed = await store.find(TENANT, first.id)
    assert await store.remove(TENANT, first.id, reason="second")

    assert removed is not None
    assert removed.removed_reason == "first"
    assert await store.find(TENANT, first.id) == removed
    second, added = await store.add(TENANT, address())
    assert (added, second.id != first.id) == (True, True)


async def test_nothing_is_removed_or_found_for_somebody_else(store: SuppressionStore) -> None:
    first, _ = await store.add(TENANT, address())

    assert not await store.remove(OTHER, first.id, reason="not theirs")
    assert not await store.remove(TENANT, new_id(), reason="nobody's")
    assert await store.find(OTHER, first.id) is None
    assert await store.find(TENANT, first.id) == first


async def test_lists_hold_what_is_active_of_one_tenant_in_the_order_of_ids(store: SuppressionStore) -> None:
    made = [(await store.add(TENANT, address(name)))[0] for name in ("a", "b", "c", "d")]
    await store.add(TENANT, address("d", "x"))
    await store.add(OTHER, address("a"))
    await store.remove(TENANT, made[1].id, reason="gone")

    newest = await store.page(TENANT, address_hash=None, before=LAST_ID, at_most=10)
    oldest = await store.oldest(TENANT, after=FIRST_ID, at_most=10)
    of_one = await store.page(TENANT, address_hash=address("d").address_hash, before=LAST_ID, at_most=10)

    assert newest == oldest[::-1]
    assert [each.id for each in oldest] == sorted(each.id for each in oldest)
    assert len(oldest) == 4
    assert sorted((each.address, each.scope) for each in of_one) == [("d@example.com", "all"), ("d@example.com", "x")]
    assert await store.page(TENANT, address_hash=None, before=newest[1].id, at_most=1) == newest[2:3]
    assert await store.oldest(TENANT, after=oldest[1].id, at_most=1) == oldest[2:3]


#: By role: what it may do to the table as a whole, and which of its columns it may change.
RIGHTS = {
    "fencepost_api": ({"SELECT", "INSERT"}, {"removed_at", "removed_reason"}),
    "fencepost_worker": ({"SELECT", "INSERT"}, set[str]()),
    "fencepost_events": ({"SELECT", "INSERT"}, set[str]()),
}


@pytest.mark.parametrize("role", RIGHTS)
async def test_each_role_may_do_to_suppressions_what_it_does(superuser: asyncpg.Connection, role: str) -> None:
    kinds = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
    whole = {
        kind
        for kind in kinds
        if await superuser.fetchval("SELECT has_table_privilege($1, 'suppressions', $2)", role, kind)
    }
    changed = {
        column.name
        for column in suppressions.c
        if await superuser.fetchval("SELECT has_column_privilege($1, 'suppressions', $2, 'UPDATE')", role, column.name)
    }

    assert (whole, changed) == RIGHTS[role]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM suppressions",
        "UPDATE suppressions SET address_hash = 'x'",
        "UPDATE suppressions SET tenant_id = 'x'",
    ],
)
async def test_the_api_can_neither_delete_nor_redirect_a_suppression(
    store: SuppressionStore, api_engine: AsyncEngine, statement: str
) -> None:
    first, _ = await store.add(TENANT, address())

    with pytest.raises(ProgrammingError, match="permission denied"):
        async with api_engine.begin() as connection:
            await connection.execute(sa.text(statement))

    assert await store.find(TENANT, first.id) == first


@pytest.mark.parametrize(("statement", "place"), [(PAGE, LAST_ID), (OLDEST, FIRST_ID)], ids=["newest", "oldest"])
async def test_a_page_is_read_from_its_index(
    superuser: asyncpg.Connection, statement: sa.Select[tuple[object, ...]], place: UUID
) -> None:
    """Also under a plan for all values, as a prepared statement has it."""
    dialect = asyncpg_dialect.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy gives it no types
    text = str(statement.compile(dialect=dialect))
    async with superuser.transaction():
        await superuser.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        await superuser.execute("SET LOCAL enable_seqscan = off")
        lines = await superuser.fetch(f"EXPLAIN {text}", TENANT, place, 10)

    plan = "\n".join(line[0] for line in lines)
    assert "ix_suppressions_list" in plan
    assert "Sort" not in plan
