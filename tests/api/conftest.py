"""The API in this process, on real Postgres, without Temporal: messages are accepted all the same."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from temporalio.client import Client

from api import keys
from api.app import ApiSettings, create_app
from api.certificates import Certificates
from api.sns import EventSettings, Verifier
from db.engine import DatabaseSettings, create_engine
from db.ids import TenantId
from tests.conftest import Database, free_port
from tests.factories import TENANT, make_tenant

PEPPER = "pepper-pepper-pepper-pepper-pepper"
ADDRESS_KEY = "address-key-address-key-address-key"
EVERY_SCOPE = ["messages:send", "messages:read", "senders", "templates"]


async def make_key(
    connection: asyncpg.Connection,
    tenant_id: TenantId | None = TENANT,
    *,
    scopes: list[str] | None = None,
    expired: bool = False,
    revoked: bool = False,
    environment: Literal["live", "test"] = "test",
) -> str:
    """Issue an API key."""
    minted = keys.mint(environment)
    await connection.execute(
        """INSERT INTO credentials (id, tenant_id, secret_hash, scopes, expires_at, revoked_at)
        VALUES ($1, $2, $3, $4, CASE WHEN $5 THEN now() END, CASE WHEN $6 THEN now() END)""",
        minted.key_id,
        tenant_id,
        keys.secret_hash(PEPPER.encode(), minted.secret),
        EVERY_SCOPE if scopes is None else scopes,
        expired,
        revoked,
    )
    return minted.key


COMMAND: dict[str, Any] = {
    "to": "Ada <ada@example.com>",
    "sender": "main",
    "template": {"key": "welcome", "version": 1},
    "context": {"name": "Ada"},
}


@dataclass(slots=True)
class Api:
    """A client of the API with a key of its own."""

    http: httpx.AsyncClient
    key: str = field(repr=False)

    def new_key(self) -> str:
        """Give an idempotency key that was not used yet."""
        return str(uuid4())

    async def send(
        self, command: dict[str, Any] | bytes | None = None, *, key: str | None = None, **changes: Any
    ) -> httpx.Response:
        """Post a command; `changes` replace its members."""
        content = {"content": command} if isinstance(command, bytes) else {"json": (command or COMMAND) | changes}
        headers = {"Idempotency-Key": key or self.new_key(), "Content-Type": "application/json"}
        return await self.http.post("/v1/messages", headers=self.authorized(headers), **content)

    async def read(self, message_id: str) -> httpx.Response:
        return await self.http.get(f"/v1/messages/{message_id}", headers=self.authorized({}))

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Make any call, with a JSON body where one is given; bytes go out as they are."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = self.authorized({} if content is None else {"Content-Type": "application/json"})
        return await self.http.request(method, path, headers=headers, content=content)

    def authorized(self, headers: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}", **headers}


@asynccontextmanager
async def application(database_url: str, *, verifier: Verifier | None = None, **more: Any) -> AsyncIterator[FastAPI]:
    """Make the API on a database, with more settings; nobody answers where Temporal should be."""
    engine = create_engine(DatabaseSettings.model_validate({"url": database_url}), application="tests")
    temporal = await Client.connect(f"127.0.0.1:{free_port()}", lazy=True)
    settings = ApiSettings.model_validate(
        {"key_pepper": PEPPER, "address_key": ADDRESS_KEY, "environment": "test", **more}
    )
    certificates = Certificates()
    yield create_app(settings, engine, temporal, verifier or Verifier(EventSettings(), certificates))
    await certificates.aclose()
    await engine.dispose()


@asynccontextmanager
async def serving(database_url: str, key: str, **more: Any) -> AsyncIterator[Api]:
    """Serve the API in this process, see `application`."""
    async with application(database_url, **more) as app:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://fencepost") as http:
            yield Api(http=http, key=key)


@pytest.fixture
async def api(database: Database, superuser: asyncpg.Connection) -> AsyncIterator[Api]:
    """Serve the API for a tenant's key with every scope."""
    await make_tenant(superuser)
    async with serving(database.url("fencepost_api"), await make_key(superuser)) as api:
        yield api


@pytest.fixture
async def operator(api: Api, superuser: asyncpg.Connection) -> Api:
    """Serve the same API for an operator's key."""
    return Api(http=api.http, key=await make_key(superuser, None, scopes=["operator"]))
