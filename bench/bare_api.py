"""The baseline's API process: FastAPI, one INSERT through asyncpg, and nothing around it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID, uuid4

import asyncpg
import uvicorn
import uvloop
from fastapi import FastAPI, Header
from pydantic import BaseModel

from db.engine import DatabaseSettings

TABLE = """
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE IF NOT EXISTS bench.messages (id uuid PRIMARY KEY, idempotency_key text NOT NULL, command jsonb NOT NULL)
"""
_INSERT = "INSERT INTO bench.messages (id, idempotency_key, command) VALUES ($1, $2, $3)"


class Template(BaseModel):
    """As a send command names it."""

    key: str
    version: int


class Command(BaseModel):
    """A send command, with what the benchmark sends."""

    to: str
    sender: str
    template: Template
    context: dict[str, str]


class Accepted(BaseModel):
    """The answer."""

    id: UUID


def create_app(settings: DatabaseSettings) -> FastAPI:
    """Build the application, with a pool as large as the product's."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        url, size = settings.url.get_secret_value(), settings.pool_size
        # Without a reset after each use, which would be another round trip: nothing here leaves a session changed.
        async with asyncpg.create_pool(url, ssl=False, max_size=size, reset=_nothing) as pool:
            await pool.execute(TABLE)
            app.state.pool = pool
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/v1/messages", status_code=202)
    async def accept(command: Command, idempotency_key: Annotated[str, Header()]) -> Accepted:
        message_id = uuid4()
        await app.state.pool.execute(_INSERT, message_id, idempotency_key, command.model_dump_json())
        return Accepted(id=message_id)

    return app


async def _nothing(_: asyncpg.Connection) -> None:
    pass


def main(port: str) -> None:
    """Serve as `api.app` does, with its settings of uvicorn."""
    config = uvicorn.Config(
        create_app(DatabaseSettings()),
        host="127.0.0.1",
        port=int(port),
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=64 * 1024,
    )
    uvloop.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main(sys.argv[1])
