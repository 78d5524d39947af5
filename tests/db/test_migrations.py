"""Migrating: the schema that comes out of it, and what two at once, a second one and a wrong surrounding do."""

import ast
import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from db.fit import VERSIONS, Fit, revisions
from db.reading import MessageReader
from dev.check_schema import build, catalog, differences
from dev.postgres import Postgres
from tests.conftest import Database, free_port, run_migrations
from tests.waiting import until

ROOT = Path(__file__).parents[2]
_numbers = itertools.count(1)


@asynccontextmanager
async def empty_database(server: Postgres) -> AsyncIterator[Database]:
    """Give a database that nobody has migrated."""
    name = f"empty_{next(_numbers)}"
    connection = await asyncpg.connect(server.url())
    await connection.execute(f"CREATE DATABASE {name} OWNER fencepost_migrate")
    try:
        yield Database(server, name)
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()


@pytest.fixture
async def empty(roles: Postgres) -> AsyncIterator[Database]:
    async with empty_database(roles) as database:
        yield database


@pytest.fixture
async def built(roles: Postgres) -> AsyncIterator[Database]:
    """Give a database whose schema comes from the code alone."""
    async with empty_database(roles) as database:
        await build(database.superuser_url)
        yield database


@pytest.fixture
def server_without_roles(tmp_path: Path) -> Iterator[Postgres]:
    server = Postgres(tmp_path / "server", port=free_port(), durable=False)
    server.prepare()
    server.start()
    try:
        server.wait(30)
        yield server
    finally:
        server.remove()


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    status: int
    said: str


async def start_migrate(url: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", "migrate"),
        cwd=ROOT,
        env={"PATH": os.defpath, "FENCEPOST_DATABASE_URL": url, **environment},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )


async def end_of(process: asyncio.subprocess.Process) -> Ended:
    _, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return Ended(process.returncode, said.decode())


async def migrate(url: str) -> Ended:
    """Migrate as people do it."""
    return await end_of(await start_migrate(url))


def migration_lock() -> int:
    """Read the lock's number; importing the file that has it would migrate."""
    tree = ast.parse((ROOT / "db" / "migrations" / "env.py").read_text())
    (number,) = (
        ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "LOCK"
    )
    return int(number)


async def fit_of(database: Database) -> Fit:
    engine = database.engine("fencepost_api", pool_size=1)
    try:
        return await MessageReader(engine).schema_fit()
    finally:
        await engine.dispose()


async def test_a_migration_that_dies_is_done_whole_by_the_next(empty: Database) -> None:
    url = empty.url("fencepost_migrate")
    dies = {"FENCEPOST_ENVIRONMENT": "test", "FENCEPOST_CRASH_POINT": "migration_uncommitted"}

    died = await end_of(await start_migrate(url, **dies))
    connection = await asyncpg.connect(empty.superuser_url)
    left = await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
    await connection.close()
    again = await migrate(url)

    assert died.status == -signal.SIGKILL
    assert left <= 1  # Alembic's own table, which it makes first
    assert again.status == 0, again.said
    assert await fit_of(empty) is Fit.CURRENT


async def test_the_migrations_make_the_schema_that_the_code_describes(database: Database, built: Database) -> None:
    assert await differences(database.superuser_url, built.superuser_url) == []


@pytest.mark.parametrize(
    ("statement", "about"),
    [
        ("ALTER TABLE messages ADD COLUMN extra text", "column messages.extra"),
        ("ALTER TABLE messages ALTER COLUMN purpose DROP NOT NULL", "column messages.purpose"),
        ("ALTER TABLE messages ALTER COLUMN token SET DEFAULT 1", "column messages.token"),
        ("ALTER TABLE attempts ALTER COLUMN number TYPE bigint", "column attempts.number"),
        ("ALTER TABLE messages DROP CONSTRAINT ck_messages_state", "constraint messages.ck_messages_state"),
        ("DROP INDEX uq_attempts_open", "index uq_attempts_open"),
        (
            "CREATE OR REPLACE FUNCTION fencepost_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "function fencepost_refuse",
        ),
        ("ALTER TABLE attempts DISABLE TRIGGER attempts_write_once", "trigger attempts.attempts_write_once"),
        ("DROP TRIGGER timeline_insert_only ON timeline", "trigger timeline.timeline_insert_only"),
    ],
)
async def test_the_comparison_finds(roles: Postgres, built: Database, statement: str, about: str) -> None:
    async with empty_database(roles) as other:
        await build(other.superuser_url)
        connection = await asyncpg.connect(other.superuser_url)
        await connection.execute(statement)
        await connection.close()

        found = await differences(other.superuser_url, built.superuser_url)

    assert about in [difference.splitlines()[0] for difference in found]


async def test_two_processes_that_migrate_at_once_both_succeed(empty: Database) -> None:
    ended = await asyncio.gather(*(migrate(empty.url("fencepost_migrate")) for _ in range(2)))

    assert [each.status for each in ended] == [0, 0], [each.said for each in ended]
    assert await fit_of(empty) is Fit.CURRENT


async def test_a_second_migrate_changes_nothing(database: Database, superuser: asyncpg.Connection) -> None:
    providers = "SELECT array_agg(p) FROM providers p"
    before = await catalog(database.superuser_url), await superuser.fetchval(providers)

    await run_migrations(database.url("fencepost_migrate"))

    assert (await catalog(database.superuser_url), await superuser.fetchval(providers)) == before


async def test_a_missing_role_is_one_line_that_names_the_fix(server_without_roles: Postgres) -> None:
    ended = await migrate(server_without_roles.url())

    assert ended.status == 1
    (line,) = ended.said.splitlines()
    assert "deploy/roles.sql" in line
    assert await catalog(server_without_roles.url()) == {}


@pytest.mark.parametrize("wrong", ["port", "password"])
async def test_a_database_that_is_not_to_be_had_is_one_line_without_the_password(empty: Database, wrong: str) -> None:
    url = empty.url("fencepost_migrate")
    changed = {
        "port": url.replace(str(empty.server.port), str(free_port())),
        "password": url.replace("canary", "canary-wrong"),
    }

    ended = await migrate(changed[wrong])

    assert ended.status == 1
    (line,) = ended.said.splitlines()
    assert "FENCEPOST_DATABASE_URL" in line
    assert "canary" not in line


async def test_a_migrate_waits_while_another_one_holds_the_lock(empty: Database) -> None:
    holder = await asyncpg.connect(empty.url("fencepost_migrate"))
    await holder.execute(f"SELECT pg_advisory_lock({migration_lock()})")
    asked: set[object] = set()

    async def asked_twice() -> bool:
        asked.add(
            await holder.fetchval(
                """SELECT query_start FROM pg_stat_activity WHERE datname = current_database()
                AND application_name = 'fencepost-migrate' AND query LIKE '%pg_try_advisory_lock%'"""
            )
        )
        return len(asked - {None}) >= 2

    process = await start_migrate(empty.url("fencepost_migrate"))
    try:
        await until(asked_twice, within=30)
        assert process.returncode is None
        assert await catalog(empty.superuser_url) == {}
    finally:
        await holder.close()

    assert (await end_of(process)).status == 0
    assert await fit_of(empty) is Fit.CURRENT


async def test_a_database_at_this_versions_schema_is_current(database: Database) -> None:
    assert await fit_of(database) is Fit.CURRENT


async def test_an_empty_database_is_behind(empty: Database) -> None:
    assert await fit_of(empty) is Fit.BEHIND


async def test_a_database_at_a_revision_that_this_version_does_not_know_is_ahead(empty: Database) -> None:
    await run_migrations(empty.url("fencepost_migrate"))
    connection = await asyncpg.connect(empty.superuser_url)
    await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    await connection.close()

    assert await fit_of(empty) is Fit.AHEAD


def test_the_files_of_the_migrations_are_named_by_their_revisions() -> None:
    """What says whether a schema fits goes by the files' names, and Alembic by what stands in them."""
    config = Config()
    config.set_main_option("script_location", str(VERSIONS.parent))
    walked = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]

    assert revisions() == walked[::-1]
