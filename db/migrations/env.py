"""Run migrations, one process at a time: every entry point takes the same session lock first."""

import asyncio
import time
from contextlib import AsyncExitStack

import sqlalchemy as sa
from alembic import context
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from db.crash_points import CrashPoint, passing
from db.engine import driver_url, outages
from db.migrate import MigrationBusyError
from db.schema import metadata

#: Any fixed number; it only has to be the same for everyone who migrates this database.
LOCK = 0x46454E4345
LOCK_WAIT_SECONDS = 60


def _run(connection: sa.Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transaction_per_migration=True,
        on_version_apply=lambda **_: passing(CrashPoint.MIGRATION_UNCOMMITTED),
    )
    with context.begin_transaction():
        context.run_migrations()


async def _take_lock(connection: AsyncConnection) -> None:
    """Wait for the lock on a connection of its own that is in no transaction: Alembic itself takes none."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while not await connection.scalar(sa.text(f"SELECT pg_try_advisory_lock({LOCK})")):
        if time.monotonic() > deadline:
            raise MigrationBusyError
        await asyncio.sleep(0.2)


async def _migrate(url: str) -> None:
    # A migration that waits for a lock stands in everybody's way: it gives up early and may be run again.
    arguments = {"server_settings": {"application_name": "fencepost-migrate", "lock_timeout": "5s"}}
    engine = create_async_engine(driver_url(url), poolclass=NullPool, connect_args=arguments, hide_parameters=True)
    async with AsyncExitStack() as stack:
        with outages():  # of the connection alone: what a migration runs into stays what it is
            holder = await stack.enter_async_context(engine.connect())
        await holder.execution_options(isolation_level="AUTOCOMMIT")
        await _take_lock(holder)
        async with engine.connect() as connection:
            await connection.run_sync(_run)
            await connection.commit()
    await engine.dispose()


asyncio.run(_migrate(context.config.attributes["url"]))
