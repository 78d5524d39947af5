"""API keys in the store: how their use is noted, how one follows another, and what becomes of what they queued."""

import asyncio
import itertools
from collections.abc import Mapping
from datetime import datetime, timedelta

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db import tenant_keys
from db.credentials import CredentialStore
from db.decisions import BeginAnswer, ClaimAnswer
from db.ids import TenantId
from db.lifecycle import State
from db.records import MessageRef
from db.store import MessageStore
from db.tenant_keys import KeyRefusal, KeyView, NewSecret, TenantKeyStore
from tests.db.test_store import BEGIN_ID, NEEDS, claim
from tests.factories import credential_of, make_message, make_tenant, state_of

_numbers = itertools.count(1)


@pytest.fixture
async def tenant(superuser: asyncpg.Connection) -> TenantId:
    tenant_id = TenantId(f"keys-{next(_numbers)}")
    await make_tenant(superuser, tenant_id)
    await superuser.execute(
        "INSERT INTO credentials (id, secret_hash, scopes) VALUES ('operator', '', '{operator}') ON CONFLICT DO NOTHING"
    )
    return tenant_id


@pytest.fixture
def credentials(api_engine: AsyncEngine) -> CredentialStore:
    return CredentialStore(api_engine)


@pytest.fixture
def keys(api_engine: AsyncEngine) -> TenantKeyStore:
    return TenantKeyStore(api_engine)


@pytest.fixture
def messages(worker_engine: AsyncEngine) -> MessageStore:
    return MessageStore(worker_engine)


def secret() -> NewSecret:
    return NewSecret(id=f"new{next(_numbers)}", secret_hash=b"n" * 32)


async def used_at(connection: asyncpg.Connection, key_id: str) -> datetime | None:
    moment: datetime | None = await connection.fetchval("SELECT last_used_at FROM credentials WHERE id = $1", key_id)
    return moment


async def test_a_key_is_found_with_all_that_decides_on_it(
    credentials: CredentialStore, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    found = await credentials.find(credential_of(tenant))
    await superuser.execute(
        """UPDATE credentials SET revoked_at = clock_timestamp(), expires_at = clock_timestamp(),
            last_used_at = clock_timestamp() WHERE tenant_id = $1""",
        tenant,
    )
    await superuser.execute("UPDATE tenants SET state = 'disabled' WHERE id = $1", tenant)
    later = await credentials.find(credential_of(tenant))

    assert found is not None
    assert later is not None
    assert (found.tenant_id, found.secret_hash, found.scopes) == (tenant, b"x" * 32, frozenset({"messages:send"}))
    assert (found.tenant_active, found.expired, found.revoked, found.use_noted) == (True, False, False, False)
    assert (later.tenant_active, later.expired, later.revoked, later.use_noted) == (False, True, True, True)
    assert "xxx" not in f"{found!r} {NewSecret(id='x', secret_hash=b'xxx')!r}"
    assert await credentials.find("nobody") is None


async def test_a_use_is_noted_once_a_minute(
    credentials: CredentialStore, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    key_id = credential_of(tenant)
    await credentials.note_use(key_id)
    first = await used_at(superuser, key_id)
    await credentials.note_use(key_id)

    assert first is not None
    assert await used_at(superuser, key_id) == first
    await superuser.execute(
        "UPDATE credentials SET last_used_at = last_used_at - interval '1 minute' WHERE id = $1", key_id
    )
    await credentials.note_use(key_id)
    again = await used_at(superuser, key_id)
    assert again is not None
    assert again > first


async def test_of_many_uses_at_once_none_waits_for_another(
    credentials: CredentialStore, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    key_id = credential_of(tenant)
    async with superuser.transaction():
        await superuser.execute("SELECT FROM credentials WHERE id = $1 FOR NO KEY UPDATE", key_id)
        async with asyncio.timeout(2):
            await asyncio.gather(*(credentials.note_use(key_id) for _ in range(10)))

    assert await used_at(superuser, key_id) is None


async def test_a_rotation_gives_the_key_that_follows(
    keys: TenantKeyStore, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    new = secret()

    followed = await keys.rotate(tenant, credential_of(tenant), new, overlap=timedelta(hours=1), by="operator")

    assert isinstance(followed, KeyView)
    assert (followed.id, followed.scopes, followed.expires_at) == (new.id, ("messages:send",), None)
    row = await superuser.fetchrow("SELECT * FROM credentials WHERE id = $1", new.id)
    assert row is not None
    assert (row["tenant_id"], row["secret_hash"]) == (tenant, b"n" * 32)


@pytest.mark.parametrize(
    "state", ["revoked_at = clock_timestamp()", "expires_at = clock_timestamp()", "replaced_by = id"]
)
async def test_the_statement_itself_lets_no_key_follow_one_that_is_not_active(
    api_engine: AsyncEngine, superuser: asyncpg.Connection, tenant: TenantId, state: str
) -> None:
    await superuser.execute(f"UPDATE credentials SET {state} WHERE tenant_id = $1", tenant)
    values = {"of_tenant": tenant, "credential_id": credential_of(tenant), "new_id": "x", "new_hash": b""}

    assert await _rows(api_engine, tenant_keys.SUCCEED, values) == 0


async def test_the_statement_itself_lets_no_key_follow_somebody_elses(
    api_engine: AsyncEngine, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    other = TenantId(f"{tenant}-other")
    await make_tenant(superuser, other)
    values = {"of_tenant": tenant, "new_id": "x", "new_hash": b""}

    theirs = await _rows(api_engine, tenant_keys.SUCCEED, {**values, "credential_id": credential_of(other)})
    own = await _rows(api_engine, tenant_keys.SUCCEED, {**values, "credential_id": credential_of(tenant)})

    assert (theirs, own) == (0, 1)


async def test_the_statements_themselves_write_once(
    api_engine: AsyncEngine, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    await superuser.execute(
        "UPDATE credentials SET revoked_at = clock_timestamp(), replaced_by = id WHERE tenant_id = $1", tenant
    )
    this = {"of_tenant": tenant, "credential_id": credential_of(tenant)}

    assert await _rows(api_engine, tenant_keys.RETIRE, {**this, "new_id": "operator", "overlap": timedelta(0)}) == 0
    assert await _rows(api_engine, tenant_keys.REVOKE, this) == 0
    assert await _rows(api_engine, tenant_keys.CHANGE_SCOPES, {**this, "wanted_scopes": ["senders"]}) == 0


async def _rows(engine: AsyncEngine, statement: sa.Executable, values: Mapping[str, object]) -> int:
    """Run a statement on its own and roll it back; give how many rows it wrote."""
    async with engine.connect() as connection:
        return len((await connection.execute(statement, values)).all())


async def changed(keys: TenantKeyStore, connection: asyncpg.Connection, tenant: TenantId, change: str) -> None:
    """Let something happen to the tenant's key."""
    key_id = credential_of(tenant)
    match change:
        case "rotated":
            done = await keys.rotate(tenant, key_id, secret(), overlap=timedelta(0), by="operator")
            assert isinstance(done, KeyView)
        case "expired":
            await connection.execute("UPDATE credentials SET expires_at = clock_timestamp() WHERE id = $1", key_id)
        case "revoked":
            assert await keys.revoke(tenant, key_id, by="operator")
        case _:
            done = await keys.change_scopes(tenant, key_id, ["senders"], by="operator")
            assert isinstance(done, KeyView)


@pytest.mark.parametrize("change", ["rotated", "expired"])
async def test_what_a_key_queued_goes_out_also_after_its_rotation_or_expiry(
    keys: TenantKeyStore, messages: MessageStore, superuser: asyncpg.Connection, tenant: TenantId, change: str
) -> None:
    queued, leased = [await make_message(superuser, tenant_id=tenant) for _ in range(2)]
    attempt = (await claim(messages, leased)).attempt

    await changed(keys, superuser, tenant, change)

    assert (await claim(messages, queued)).answer is ClaimAnswer.LEASED
    assert await _begin(messages, leased, attempt) is BeginAnswer.BEGUN


@pytest.mark.parametrize("change", ["revoked", "without its scope"])
async def test_what_a_key_queued_does_not_go_out_after_its_revocation_or_without_its_scope(
    keys: TenantKeyStore, messages: MessageStore, superuser: asyncpg.Connection, tenant: TenantId, change: str
) -> None:
    queued, leased = [await make_message(superuser, tenant_id=tenant) for _ in range(2)]
    attempt = (await claim(messages, leased)).attempt

    await changed(keys, superuser, tenant, change)

    assert (await claim(messages, queued)).answer is ClaimAnswer.SUPPRESSED
    assert await _begin(messages, leased, attempt) is BeginAnswer.SUPPRESSED
    assert [await state_of(superuser, message) for message in (queued, leased)] == [State.SUPPRESSED] * 2


async def _begin(messages: MessageStore, message: MessageRef, attempt: int) -> BeginAnswer:
    return (await messages.begin(message.id, attempt, begin_id=BEGIN_ID, needs=NEEDS)).answer


async def test_nothing_is_done_to_somebody_elses_key(
    keys: TenantKeyStore, superuser: asyncpg.Connection, tenant: TenantId
) -> None:
    other = TenantId(f"{tenant}-other")
    await make_tenant(superuser, other)
    before = await superuser.fetch("SELECT * FROM credentials ORDER BY id")
    theirs = credential_of(other)

    assert await keys.rotate(tenant, theirs, secret(), overlap=timedelta(0), by="operator") is KeyRefusal.UNKNOWN
    assert await keys.change_scopes(tenant, theirs, ["senders"], by="operator") is KeyRefusal.UNKNOWN
    assert not await keys.revoke(tenant, theirs, by="operator")
    assert await superuser.fetch("SELECT * FROM credentials ORDER BY id") == before
