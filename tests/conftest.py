"""Real Postgres, real Temporal and a database of its own for each file of tests."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
import structlog
from hypothesis import settings
from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from db.engine import DatabaseSettings, create_engine
from db.migrate import migrate
from dev.postgres import Postgres
from dev.temporal import Temporal
from tests.waiting import until
from workflows.temporal import MissingSearchAttributesError, check_search_attributes, register_search_attributes

settings.register_profile("fencepost", deadline=None, derandomize=True, max_examples=100, print_blob=True)
settings.load_profile("fencepost")

# As plain as in production; structlog's own console draws each exception with all of its locals, in seconds.
structlog.configure(processors=[structlog.processors.add_log_level, structlog.processors.KeyValueRenderer()])

ROLES = ("fencepost_migrate", "fencepost_api", "fencepost_worker", "fencepost_events")
#: Planted: no answer, log or history may ever show it.
ROLE_PASSWORD = "canary-database-password"
ROLES_SQL = (Path(__file__).parents[1] / "deploy" / "roles.sql").read_text()
_numbers = itertools.count(1)


def free_port() -> int:
    """Give a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Database:
    """A migrated database of one test."""

    server: Postgres
    name: str

    def url(self, role: str) -> str:
        return f"postgresql://{role}:{ROLE_PASSWORD}@127.0.0.1:{self.server.port}/{self.name}"

    @property
    def superuser_url(self) -> str:
        return self.server.url(self.name)

    def engine(self, role: str = "fencepost_worker", *, pool_size: int = 20) -> AsyncEngine:
        """Make an engine as a process makes it."""
        return create_engine(
            DatabaseSettings.model_validate({"url": self.url(role), "pool_size": pool_size}), application="tests"
        )


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Run a Postgres of our own for all tests."""
    server = Postgres(tmp_path_factory.mktemp("postgres") / "server", port=free_port(), durable=False)
    server.prepare()
    server.start()
    try:
        server.wait(30)
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
async def roles(postgres: Postgres) -> Postgres:
    """Make the roles, each with a password."""
    connection = await asyncpg.connect(postgres.url())
    await connection.execute(ROLES_SQL)
    for role in ROLES:
        await connection.execute(f"ALTER ROLE {role} PASSWORD '{ROLE_PASSWORD}'")
    await connection.close()
    return postgres


@pytest.fixture(scope="session")
async def template(roles: Postgres) -> str:
    """Migrate one database, of which each test gets a copy."""
    connection = await asyncpg.connect(roles.url())
    await connection.execute("CREATE DATABASE template_fencepost OWNER fencepost_migrate")
    await connection.close()
    await run_migrations(Database(roles, "template_fencepost").url("fencepost_migrate"))
    return "template_fencepost"


async def run_migrations(url: str) -> None:
    """Migrate as the command does, which has a loop of its own."""
    await asyncio.to_thread(migrate, url)


@pytest.fixture(scope="module")
async def database(roles: Postgres, template: str) -> AsyncIterator[Database]:
    """Give a migrated database, fresh for each file of tests: making one takes as long as ten tests."""
    name = f"test_{next(_numbers)}"
    connection = await asyncpg.connect(roles.url())
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} OWNER fencepost_migrate")
    yield Database(roles, name)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.fixture
async def worker_engine(database: Database) -> AsyncIterator[AsyncEngine]:
    """Connect as the worker does."""
    engine = database.engine("fencepost_worker")
    yield engine
    await engine.dispose()


@pytest.fixture
async def api_engine(database: Database) -> AsyncIterator[AsyncEngine]:
    """Connect as the API does."""
    engine = database.engine("fencepost_api")
    yield engine
    await engine.dispose()


@pytest.fixture
async def superuser(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Connect as somebody at a `psql` prompt does."""
    connection = await asyncpg.connect(database.superuser_url)
    yield connection
    await connection.close()


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Temporal]:
    """Run a Temporal of our own for all tests that can share one."""
    server = Temporal(
        tmp_path_factory.mktemp("temporal"),
        port=free_port(),
        durable=False,
        # By default a history may have 4,096 events before the server asks for a new run.
        dynamic_config=("limit.historyCount.suggestContinueAsNew=60",),
    )
    server.prepare()
    server.start()
    try:
        server.wait(60)
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
async def temporal_client(temporal: Temporal) -> Client:
    """Connect to a namespace of its own for each file of tests: the queues' names are the product's, and fixed."""
    namespace = f"tests-{next(_numbers)}"
    client = await Client.connect(temporal.address, namespace=namespace)
    request = RegisterNamespaceRequest(namespace=namespace)
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await client.workflow_service.register_namespace(request)

    async def knows_our_attributes() -> bool:
        try:
            await register_search_attributes(client)
            await check_search_attributes(client)
        except (RPCError, MissingSearchAttributesError):
            return False
        return True

    await until(knows_our_attributes, within=30, every=0.1)
    return client
