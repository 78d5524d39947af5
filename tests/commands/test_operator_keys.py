"""`fencepost key ... --operator`: the first key of a deployment, by somebody with the database at hand."""

import re
from pathlib import Path

import asyncpg
import pytest

from api import keys
from tests.api.conftest import PEPPER, make_key
from tests.commands.conftest import CommandLine
from tests.conftest import ROLE_PASSWORD, Database
from tests.factories import make_tenant

AUDIT = "SELECT action, subject, credential_id, tenant_id FROM operator_audit WHERE subject = $1 ORDER BY at"


@pytest.fixture
def at_the_database(database: Database) -> dict[str, str]:
    """Give what a new deployment has: the role that owns the tables, and what makes keys."""
    return {
        "FENCEPOST_DATABASE_URL": database.url("fencepost_migrate"),
        "FENCEPOST_KEY_PEPPER": PEPPER,
        "FENCEPOST_ENVIRONMENT": "live",
    }


@pytest.fixture
def away(tmp_path: Path) -> CommandLine:
    return CommandLine(folder=tmp_path, secrets=(ROLE_PASSWORD, PEPPER))


async def test_an_operators_key_is_stored_as_a_hash_and_audited(
    away: CommandLine, at_the_database: dict[str, str], superuser: asyncpg.Connection
) -> None:
    issued = await away.run_process("key", "issue", "--operator", **at_the_database)

    key = keys.parse(issued.out.removesuffix("\n"))
    assert (issued.status, key is not None) == (0, True), issued.err
    assert key
    assert key.environment == "live"
    row = await superuser.fetchrow("SELECT tenant_id, scopes, secret_hash FROM credentials WHERE id = $1", key.key_id)
    assert row
    assert tuple(row) == (None, ["operator"], keys.secret_hash(PEPPER.encode(), key.secret))
    assert [tuple(each) for each in await superuser.fetch(AUDIT, key.key_id)] == [
        ("key_issued", key.key_id, None, None)
    ]
    assert key.secret not in issued.err


async def test_a_key_that_would_have_expired_is_not_made(
    away: CommandLine, at_the_database: dict[str, str], superuser: asyncpg.Connection
) -> None:
    before = await superuser.fetchval("SELECT count(*) FROM credentials")

    refused = await away.run("key", "issue", "--operator", "--expires-at", "2020-01-01T00:00:00Z", **at_the_database)

    assert (refused.status, refused.out) == (1, "")
    assert await superuser.fetchval("SELECT count(*) FROM credentials") == before


async def test_a_revoked_operators_key_is_listed_as_such_and_audited_once(
    away: CommandLine, at_the_database: dict[str, str], superuser: asyncpg.Connection
) -> None:
    issued = await away.run("key", "issue", "--operator", "--expires-at", "2060-01-01T00:00:00Z", **at_the_database)
    key = keys.parse(issued.out.strip())
    assert key

    first = await away.run("key", "revoke", "--operator", key.key_id, **at_the_database)
    again = await away.run("key", "revoke", "--operator", key.key_id, **at_the_database)
    listed = await away.run("key", "list", "--operator", "--json", **at_the_database)

    assert (first.status, again.status) == (0, 0)
    (shown,) = [each for each in listed.json()["data"] if each["id"] == key.key_id]
    assert (shown["state"], shown["expires_at"]) == ("revoked", "2060-01-01T00:00:00Z")
    assert listed.json()["next_cursor"] is None
    audited = [each["action"] for each in await superuser.fetch(AUDIT, key.key_id)]
    assert audited == ["key_issued", "key_revoked"]


async def test_a_tenants_key_is_neither_listed_nor_revoked(
    away: CommandLine, at_the_database: dict[str, str], superuser: asyncpg.Connection
) -> None:
    await make_tenant(superuser)
    key = keys.parse(await make_key(superuser))
    assert key

    listed = await away.run("key", "list", "--operator", **at_the_database)
    refused = await away.run("key", "revoke", "--operator", key.key_id, **at_the_database)

    assert key.key_id not in listed.out
    assert (refused.status, "no operator's key has this id" in refused.err) == (1, True)
    assert not await superuser.fetchval("SELECT revoked_at FROM credentials WHERE id = $1", key.key_id)


async def test_a_key_without_its_audit_row_is_not_made(
    away: CommandLine, at_the_database: dict[str, str], superuser: asyncpg.Connection
) -> None:
    before = await superuser.fetchval("SELECT count(*) FROM credentials")
    worker = at_the_database["FENCEPOST_DATABASE_URL"].replace("fencepost_migrate:", "fencepost_worker:")

    refused = await away.run("key", "issue", "--operator", **{**at_the_database, "FENCEPOST_DATABASE_URL": worker})

    assert (refused.status, "use fencepost_migrate's FENCEPOST_DATABASE_URL" in refused.err) == (1, True)
    assert await superuser.fetchval("SELECT count(*) FROM credentials") == before


async def test_nothing_is_done_to_an_operators_key_without_its_row_in_the_audit(
    away: CommandLine, at_the_database: dict[str, str], superuser: asyncpg.Connection
) -> None:
    key_id = (await away.run("key", "issue", "--operator", **at_the_database)).out.split("_")[2]
    before = await superuser.fetch("SELECT * FROM credentials ORDER BY id")
    await superuser.execute("REVOKE INSERT ON operator_audit FROM fencepost_migrate")
    try:
        refused = [
            await away.run("key", "issue", "--operator", **at_the_database),
            await away.run("key", "revoke", "--operator", key_id, **at_the_database),
        ]
    finally:
        await superuser.execute("GRANT INSERT ON operator_audit TO fencepost_migrate")

    assert [(said.status, said.out) for said in refused] == [(1, "")] * 2
    assert await superuser.fetch("SELECT * FROM credentials ORDER BY id") == before


async def test_a_schema_that_is_behind_is_told(
    away: CommandLine, at_the_database: dict[str, str], superuser: asyncpg.Connection
) -> None:
    newest = await superuser.fetchval("UPDATE alembic_version SET version_num = '0001' RETURNING '0002'")

    refused = await away.run("key", "list", "--operator", **at_the_database)

    await superuser.execute("UPDATE alembic_version SET version_num = $1", newest)
    assert (refused.status, "run `fencepost migrate` first" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("changed", "status", "fix"),
    [
        ({"FENCEPOST_DATABASE_URL": "postgresql://x:canary@127.0.0.1:1/x"}, 1, "is FENCEPOST_DATABASE_URL right?"),
        ({"FENCEPOST_DATABASE_URL": "canary"}, 2, "FENCEPOST_DATABASE_URL: it has to look like postgresql://"),
        ({"FENCEPOST_KEY_PEPPER": "canary"}, 2, "FENCEPOST_KEY_PEPPER: too_short"),
        ({"FENCEPOST_ENVIRONMENT": "canary"}, 2, "FENCEPOST_ENVIRONMENT: it has to be 'live' or 'test'"),
    ],
    ids=str,
)
async def test_a_wrong_surrounding_is_told(
    away: CommandLine, at_the_database: dict[str, str], changed: dict[str, str], status: int, fix: str
) -> None:
    refused = await away.run("key", "issue", "--operator", **{**at_the_database, **changed})

    assert (refused.status, fix in refused.err) == (status, True), refused.err
    assert "canary" not in refused.err


async def test_in_a_checkout_the_stacks_own_pepper_is_found_and_the_key_holds(line: CommandLine) -> None:
    issued = await line.run("key", "issue", "--operator")

    assert re.fullmatch("fp_test_[0-9A-Za-z_]+\n", issued.out)
    assert (await line.run("tenant", "list", FENCEPOST_OPERATOR_KEY=issued.out.strip())).status == 0


async def test_an_operators_key_is_shown_like_a_tenants(line: CommandLine) -> None:
    tenant = (await line.run("tenant", "create", "Shown", "--json")).json()["id"]
    issued = (await line.run("key", "issue", "--tenant", tenant, "--scope", "senders", "--json")).json()
    tenants_key = (await line.run("key", "list", "--tenant", tenant, "--json")).json()["data"][0]

    made = (await line.run("key", "issue", "--operator", "--json")).json()
    operators_key = (await line.run("key", "list", "--operator", "--json")).json()["data"][0]

    assert set(made) == set(issued)
    assert set(operators_key) == set(tenants_key)
    assert operators_key["created_at"].endswith("Z")
