"""What a new one-machine stack begins with: a tenant, its sender, its template and two API keys."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from api import keys
from api.auth import Scope
from api.rendering import check_template
from api.strict_json import JsonObject
from db.engine import driver_url
from db.schema import credentials, senders, template_versions, tenants

TENANT: Final = "demo"
SENDER: Final = "demo"
TEMPLATE: Final = "welcome"

_SUBJECT: Final = "Welcome, {{ name }}"
_TEXT: Final = "Hello {{ name }},\n\nthis mail went through Fencepost: submitted once, and never guessed about.\n"
_HTML: Final = (
    "<p>Hello {{ name }},</p>\n<p>this mail went through Fencepost: submitted once, and never guessed about.</p>\n"
)
_CONTEXT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 200}},
    "required": ["name"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedKeys:
    """The API keys of a stack; shown to its owner, who runs it on their own machine."""

    api_key: str = field(repr=False)
    operator_key: str = field(repr=False)


async def seed(*, migrate_url: str, key_pepper: str, known: SeedKeys | None) -> SeedKeys:
    """Put the demo tenant and what belongs to it into a migrated database; what is there already stays.

    Args:
        migrate_url: The database, as the role that owns the tables.
        key_pepper: FENCEPOST_KEY_PEPPER of the stack.
        known: The keys of an earlier start, which go on to hold.

    """
    wanted = known or SeedKeys(api_key=keys.mint("test").key, operator_key=keys.mint("test").key)
    # In a thread: checking waits for a process of its own.
    faults = await asyncio.to_thread(check_template, _SUBJECT, _TEXT, _HTML, _CONTEXT_SCHEMA)
    if faults:
        raise ValueError("the demo template can't be used: " + ", ".join(fault.code for fault in faults))
    engine = create_async_engine(driver_url(migrate_url), poolclass=NullPool, hide_parameters=True)
    try:
        async with engine.begin() as connection:
            await _tenant(connection)
            every = sorted(scope for scope in Scope if scope is not Scope.OPERATOR)
            await _credential(connection, wanted.api_key, key_pepper, TENANT, every)
            await _credential(connection, wanted.operator_key, key_pepper, None, [Scope.OPERATOR])
    finally:
        await engine.dispose()
    return wanted


async def _tenant(connection: AsyncConnection) -> None:
    rows = (
        (tenants, {"id": TENANT, "name": TENANT}),
        (
            senders,
            {"tenant_id": TENANT, "key": SENDER, "address": "hello@demo.example.com", "name": "Demo", "reply_to": []},
        ),
        (
            template_versions,
            {
                "tenant_id": TENANT,
                "key": TEMPLATE,
                "version": 1,
                "subject": _SUBJECT,
                "text": _TEXT,
                "html": _HTML,
                "purpose": "transactional",
                "context_schema": _CONTEXT_SCHEMA,
            },
        ),
    )
    for table, row in rows:
        await connection.execute(insert(table).values(row).on_conflict_do_nothing())


async def _credential(
    connection: AsyncConnection, key: str, pepper: str, tenant_id: str | None, scopes: Sequence[Scope]
) -> None:
    parsed = keys.parse(key)
    if parsed is None:
        raise ValueError("a kept API key is damaged: remove the stack's folder to begin anew")
    row = {
        "id": parsed.key_id,
        "tenant_id": tenant_id,
        "secret_hash": keys.secret_hash(pepper.encode(), parsed.secret),
        "scopes": [str(scope) for scope in scopes],
    }
    await connection.execute(insert(credentials).values(row).on_conflict_do_nothing())
