"""How a process connects to Postgres: its settings and its engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import asyncpg
import sqlalchemy as sa
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

#: A process's pool of connections, by a name that the layers above may use.
Engine = AsyncEngine


class UnavailableError(Exception):
    """Postgres can't be reached, or doesn't answer in time. Whether a write happened is open: a replay tells."""


class DatabaseSettings(BaseSettings):
    """Where Postgres is, and how long a statement may take."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_DATABASE_", hide_input_in_errors=True)

    url: SecretStr = Field(description="postgresql://role:password@host:port/database")

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: SecretStr) -> SecretStr:
        try:
            backend = sa.make_url(url.get_secret_value()).get_backend_name()
        except (sa.exc.ArgumentError, ValueError):
            backend = ""
        if backend not in ("postgresql", "postgres"):
            raise ValueError("it has to look like postgresql://role:password@host:port/database")
        return url

    pool_size: int = Field(default=20, ge=1, description="Connections that one process may hold.")
    connect_timeout_seconds: float = Field(default=5, gt=0, description="How long a new connection may take.")
    pool_timeout_seconds: float = Field(default=5, gt=0, description="How long to wait for a free connection.")
    statement_timeout_seconds: float = Field(default=5, gt=0, description="How long one statement may take.")
    lock_timeout_seconds: float = Field(default=3, gt=0, description="How long a statement may wait for a row.")


def driver_url(url: str) -> sa.URL:
    """Give a plain postgresql:// address the driver that Fencepost uses."""
    return sa.make_url(url).set(drivername="postgresql+asyncpg")


def create_engine(settings: DatabaseSettings, *, application: str) -> AsyncEngine:
    """Make the engine of one process.

    READ COMMITTED is written down, since the protocol is proven for it (DESIGN: protocol). Parameters stay out of
    errors, since they hold addresses and content.
    """

    def milliseconds(seconds: float) -> str:
        return str(int(timedelta(seconds=seconds) / timedelta(milliseconds=1)))

    engine = create_async_engine(
        driver_url(settings.url.get_secret_value()),
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        pool_size=settings.pool_size,
        max_overflow=0,
        pool_timeout=settings.pool_timeout_seconds,
        connect_args={
            "timeout": settings.connect_timeout_seconds,
            "server_settings": {
                "application_name": application,
                "timezone": "UTC",
                "statement_timeout": milliseconds(settings.statement_timeout_seconds),
                "lock_timeout": milliseconds(settings.lock_timeout_seconds),
                "idle_in_transaction_session_timeout": milliseconds(settings.statement_timeout_seconds),
            },
        },
    )
    sa.event.listen(engine.sync_engine, "checkout", _refuse_closed)
    return engine


def _refuse_closed(connection: DBAPIConnection, _: ConnectionPoolEntry, __: PoolProxiedConnection) -> None:
    """Have the pool open another connection in place of one that Postgres closed, as it does all at a restart.

    The event loop has been told of that by the system, so it costs no round trip, which `pool_pre_ping` would.
    """
    if connection.driver_connection.is_closed():
        raise sa.exc.DisconnectionError


@contextmanager
def outages() -> Iterator[None]:
    """Turn every trouble with Postgres itself into UnavailableError; a mistake of ours stays what it is.

    A connection attempt can fail with the driver's own errors or the system's, which SQLAlchemy does not wrap. No
    error's text goes on: asyncpg's can hold the row.
    """
    try:
        yield
    except (IntegrityError, ProgrammingError, DataError):
        raise
    except (DBAPIError, sa.exc.TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        raise UnavailableError from None
