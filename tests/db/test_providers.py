"""The switch of a provider: each change with its line in the audit, and what changes nothing without one."""

import asyncio
from datetime import datetime
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from db.decisions import ClaimAnswer
from db.providers import ProviderStore
from db.store import MessageStore
from tests.db.test_store import LEASE, LIMITS
from tests.factories import make_message, make_tenant

OPERATOR = "operator00000001"


@pytest.fixture
async def name(superuser: asyncpg.Connection) -> str:
    """Make a provider that only this test has."""
    name = f"provider-{uuid4().hex[:8]}"
    await superuser.execute("INSERT INTO providers (name) VALUES ($1)", name)
    await superuser.execute(
        "INSERT INTO credentials (id, secret_hash, scopes) VALUES ($1, '', '{operator}') ON CONFLICT DO NOTHING",
        OPERATOR,
    )
    return name


@pytest.fixture
def store(api_engine: AsyncEngine) -> ProviderStore:
    return ProviderStore(api_engine)


async def stands(connection: asyncpg.Connection, name: str) -> tuple[bool, datetime]:
    row = await connection.fetchrow("SELECT paused, changed_at FROM providers WHERE name = $1", name)
    assert row is not None
    return row["paused"], row["changed_at"]


async def audited(connection: asyncpg.Connection, name: str) -> list[tuple[str, str | None, str | None]]:
    rows = await connection.fetch("SELECT * FROM operator_audit WHERE subject = $1 ORDER BY at", name)
    assert all((row["credential_id"], row["tenant_id"]) == (OPERATOR, None) for row in rows)
    return [(row["action"], row["reason"], row["decision"]) for row in rows]


async def test_a_provider_is_switched_off_and_on_each_with_its_line_in_the_audit(
    store: ProviderStore, superuser: asyncpg.Connection, name: str
) -> None:
    before = await stands(superuser, name)

    off = await store.pause(name, by=OPERATOR, reason="an incident")
    on = await store.resume(name, by=OPERATOR, reason=None)

    assert off is not None
    assert on is not None
    assert (off.name, off.paused, on.paused) == (name, True, False)
    assert before[1] < off.changed_at < on.changed_at
    assert await stands(superuser, name) == (False, on.changed_at)
    assert await audited(superuser, name) == [
        ("provider_paused", "an incident", None),
        ("provider_resumed", None, None),
    ]


async def test_a_switch_that_switches_nothing_leaves_everything_as_it_is(
    store: ProviderStore, superuser: asyncpg.Connection, name: str
) -> None:
    on = await store.resume(name, by=OPERATOR, reason="once")
    untouched = await audited(superuser, name)
    off = await store.pause(name, by=OPERATOR, reason="once")
    again = await store.pause(name, by=OPERATOR, reason="twice")

    assert on is not None
    assert (on.paused, untouched) == (False, [])
    assert again == off
    assert await audited(superuser, name) == [("provider_paused", "once", None)]


async def test_of_many_pauses_at_once_one_is_audited(
    store: ProviderStore, superuser: asyncpg.Connection, name: str
) -> None:
    answers = await asyncio.gather(*(store.pause(name, by=OPERATOR, reason=None) for _ in range(8)))

    assert len(set(answers)) == 1
    assert await audited(superuser, name) == [("provider_paused", None, None)]


async def test_a_provider_that_there_is_not_is_none(store: ProviderStore, superuser: asyncpg.Connection) -> None:
    before = await superuser.fetch("SELECT * FROM providers")

    assert await store.pause("nobody", by=OPERATOR, reason=None) is None
    assert await store.resume("nobody", by=OPERATOR, reason=None) is None

    assert await superuser.fetch("SELECT * FROM providers") == before


async def test_one_provider_is_switched_and_no_other(
    store: ProviderStore, superuser: asyncpg.Connection, name: str
) -> None:
    others = "SELECT * FROM providers WHERE name <> $1 ORDER BY name"
    before = await superuser.fetch(others, name)

    await store.pause(name, by=OPERATOR, reason=None)

    assert await superuser.fetch(others, name) == before


async def test_nothing_is_switched_without_its_line_in_the_audit(
    store: ProviderStore, superuser: asyncpg.Connection, name: str
) -> None:
    before = await stands(superuser, name)

    with pytest.raises(Exception, match="fk_operator_audit_credential_id"):
        await store.pause(name, by="nobody", reason=None)

    assert await stands(superuser, name) == before


async def test_providers_are_listed_by_name_a_page_at_a_time(store: ProviderStore, name: str) -> None:
    whole = [provider.name for provider in await store.page(after="", at_most=100)]

    first = await store.page(after="", at_most=2)
    rest = await store.page(after=first[-1].name, at_most=100)

    assert {name, "ses"} <= set(whole)
    assert whole == sorted(whole) == [provider.name for provider in (*first, *rest)]
    assert len(first) == 2


async def test_no_lease_is_taken_while_the_provider_is_off_and_one_is_once_it_is_on(
    store: ProviderStore, superuser: asyncpg.Connection, worker_engine: AsyncEngine, name: str
) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, provider=name)
    worker = MessageStore(worker_engine)

    async def claim(claim_id: str) -> ClaimAnswer:
        return (await worker.claim(message.id, claim_id=claim_id, owner="w", lease=LEASE, limits=LIMITS)).answer

    await store.pause(name, by=OPERATOR, reason=None)
    off = await claim("off")
    await store.resume(name, by=OPERATOR, reason=None)
    on = await claim("on")

    assert (off, on) == (ClaimAnswer.PAUSED, ClaimAnswer.LEASED)
    assert await superuser.fetchval("SELECT count(*) FROM attempts WHERE message_id = $1", message.id) == 1
