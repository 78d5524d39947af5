"""Template versions in Postgres: numbered without gaps, whoever publishes at once, and never twice in a row."""

import asyncio
import dataclasses
from itertools import pairwise
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db import templates
from db.engine import UnavailableError
from db.ids import TenantId
from db.intake import TemplateVersion
from db.templates import TemplateStore
from tests.conftest import Database
from tests.factories import TENANT, make_tenant
from tests.waiting import somebody_waits

RACERS = 10
CONTENT = TemplateVersion(
    subject="Hello", text="Dear", html="<p>Dear</p>", purpose="transactional", context_schema={"minimum": 1}
)


def content(**changes: Any) -> TemplateVersion:
    return dataclasses.replace(CONTENT, **changes)


@pytest.fixture
async def store(api_engine: AsyncEngine, superuser: asyncpg.Connection) -> TemplateStore:
    await make_tenant(superuser)
    return TemplateStore(api_engine)


async def test_versions_are_numbered_from_one(store: TemplateStore) -> None:
    first, first_is_new = await store.publish(TENANT, "numbered", CONTENT)
    second, second_is_new = await store.publish(TENANT, "numbered", content(text=None))
    other, _ = await store.publish(TENANT, "numbered-too", CONTENT)

    assert (first.version, second.version, other.version) == (1, 2, 1)
    assert first_is_new
    assert second_is_new
    assert (first.key, first.content, second.content.text) == ("numbered", CONTENT, None)
    assert second.created_at > first.created_at
    assert await store.version(TENANT, "numbered", 2) == second


async def test_what_is_identical_to_the_newest_is_the_newest(store: TemplateStore) -> None:
    first, _ = await store.publish(TENANT, "same", CONTENT)

    assert await store.publish(TENANT, "same", CONTENT) == (first, False)
    # 1 and 1.0 are one number in JSON.
    assert await store.publish(TENANT, "same", content(context_schema={"minimum": 1.0})) == (first, False)


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "Hello "},
        {"text": None},
        {"html": None},
        {"purpose": "receipt"},
        {"context_schema": {"minimum": True}},
        {"context_schema": {}},
    ],
    ids=str,
)
async def test_what_differs_in_one_thing_is_a_version(store: TemplateStore, changes: dict[str, Any]) -> None:
    key = f"differs-{uuid4().hex}"
    await store.publish(TENANT, key, CONTENT)

    assert (await store.publish(TENANT, key, content(**changes)))[0].version == 2
    # An older one that comes again is no replay.
    assert (await store.publish(TENANT, key, CONTENT))[0].version == 3


async def test_the_parts_that_are_absent_are_compared_too(store: TemplateStore) -> None:
    for changes in ({"text": None}, {"html": None}):
        await store.publish(TENANT, "absent", content(**changes))
        assert not (await store.publish(TENANT, "absent", content(**changes)))[1]


async def test_of_many_who_publish_the_same_at_once_one_makes_the_version(store: TemplateStore) -> None:
    answers = await asyncio.gather(*(store.publish(TENANT, "race", CONTENT) for _ in range(RACERS)))

    assert {published.version for published, _ in answers} == {1}
    assert [new for _, new in answers].count(True) == 1


async def test_of_many_who_publish_at_once_each_gets_a_number_of_its_own(store: TemplateStore) -> None:
    answers = await asyncio.gather(
        *(store.publish(TENANT, "fight", content(subject=f"Hello {number}")) for number in range(RACERS))
    )

    assert sorted(published.version for published, _ in answers) == list(range(1, RACERS + 1))
    assert all(new for _, new in answers)
    for published, _ in answers:
        assert await store.version(TENANT, "fight", published.version) == published


async def test_of_two_contents_published_by_many_at_once_none_has_two_versions_in_a_row(
    store: TemplateStore, superuser: asyncpg.Connection
) -> None:
    answers = await asyncio.gather(
        *(store.publish(TENANT, "mixed", content(subject=f"Hello {number % 2}")) for number in range(2 * RACERS))
    )

    rows = await superuser.fetch("SELECT version, subject FROM template_versions WHERE key = 'mixed' ORDER BY version")
    subjects = [row["subject"] for row in rows]
    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(one != after for one, after in pairwise(subjects))
    assert [new for _, new in answers].count(True) == len(rows)


async def test_who_waited_for_another_publisher_sees_what_it_has_published(
    store: TemplateStore, superuser: asyncpg.Connection
) -> None:
    """One statement would keep the snapshot from before its wait."""
    async with superuser.transaction():
        await superuser.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('template ' || $1 || '/waited', 0))", TENANT
        )
        publishing = asyncio.create_task(store.publish(TENANT, "waited", CONTENT))
        await somebody_waits(superuser)
        await superuser.execute(
            """INSERT INTO template_versions (tenant_id, key, version, subject, text, purpose, context_schema)
            VALUES ($1, 'waited', 1, 'Hello', 'Dear', 'transactional', '{}')""",
            TENANT,
        )

    published, new = await publishing
    assert (published.version, new) == (2, True)


async def test_who_waits_too_long_for_another_publisher_is_told_that_nothing_is_known(
    database: Database, superuser: asyncpg.Connection
) -> None:
    await make_tenant(superuser)
    engine = database.engine("fencepost_api", pool_size=1)
    store = TemplateStore(engine)
    async with engine.connect() as connection:
        await connection.exec_driver_sql("SET lock_timeout = 50")
        await connection.commit()
    async with superuser.transaction():
        await superuser.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('template ' || $1 || '/held', 0))", TENANT
        )
        with pytest.raises(UnavailableError):
            await store.publish(TENANT, "held", CONTENT)
        other, _ = await store.publish(TENANT, "not-held", CONTENT)
    await engine.dispose()

    assert other.version == 1


async def test_a_tenant_finds_only_its_own(store: TemplateStore, superuser: asyncpg.Connection) -> None:
    neighbour = TenantId("neighbour")
    await make_tenant(superuser, neighbour)
    await store.publish(TENANT, "mine", CONTENT)
    theirs, _ = await store.publish(neighbour, "theirs", CONTENT)

    assert await store.version(TENANT, "theirs", 1) is None
    assert await store.version(TENANT, "mine", 2) is None
    assert [each.key for each in await store.page(neighbour, after="", at_most=10)] == ["theirs", "welcome"]
    # One key of two tenants is two templates.
    assert (await store.publish(TENANT, "theirs", content(subject="Mine")))[0].version == 1
    assert await store.version(neighbour, "theirs", 1) == theirs


async def test_a_list_has_each_template_once_by_key_with_its_newest_version(
    store: TemplateStore, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("listed")
    await make_tenant(superuser, tenant_id)
    for key in ("b", "a", "zz", "c"):
        for number in range(3 if key == "b" else 1):
            await store.publish(tenant_id, key, content(subject=f"Hello {number}", purpose=f"p{number}"))
    neighbour = TenantId("listed-too")
    await make_tenant(superuser, neighbour)
    for key in ("aa", "b", "b", "b", "b"):
        await store.publish(neighbour, key, content(subject=f"Theirs {uuid4()}"))

    first = await store.page(tenant_id, after="", at_most=3)
    rest = await store.page(tenant_id, after=first[-1].key, at_most=3)

    assert [(each.key, each.version, each.purpose) for each in (*first, *rest)] == [
        ("a", 1, "p0"),
        ("b", 3, "p2"),
        ("c", 1, "p0"),
        ("welcome", 1, "transactional"),
        ("zz", 1, "p0"),
    ]


@pytest.mark.parametrize("name", ["NEWEST", "VERSION", "PAGE"])
async def test_each_statement_has_an_index_to_go_by(
    store: TemplateStore, api_engine: AsyncEngine, superuser: asyncpg.Connection, name: str
) -> None:
    """Of thirty templates with a hundred versions each, none is read as a whole."""
    del store
    many = TenantId("many")
    await make_tenant(superuser, many)
    await superuser.execute(
        """INSERT INTO template_versions (tenant_id, key, version, subject, text, purpose, context_schema)
        SELECT $1, 'key-' || key, version, 'a', 'a', 'a', '{}'
        FROM generate_series(1, 30) AS key, generate_series(1, 100) AS version ON CONFLICT DO NOTHING""",
        many,
    )
    await superuser.execute("ANALYZE template_versions")
    offered = {f"new_{part}": value for part, value in dataclasses.asdict(CONTENT).items()}
    values = {"this_tenant": many, "this_key": "key-7", "this_version": 7, "after": "key-2", "at_most": 5}
    async with api_engine.connect() as connection:
        ran: list[tuple[str, tuple[Any, ...]]] = []
        sa.event.listen(
            connection.sync_connection, "before_cursor_execute", lambda *seen: ran.append((seen[2], seen[3]))
        )
        await connection.execute(getattr(templates, name), {**values, **offered})
        sql, bound = ran[-1]
        plan = [str(row[0]) for row in await connection.exec_driver_sql(f"EXPLAIN {sql}", bound)]

    assert not [line for line in plan if "Seq Scan" in line], plan
