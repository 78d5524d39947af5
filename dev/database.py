"""The database of a stack: its roles, its tables, and what it begins with.

Import this late: what it needs of the product takes seconds to load.
"""

import asyncio
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import asyncpg

from db.migrate import migrate
from dev.environment import role_url
from dev.kept import KeptSecrets
from dev.ports import Ports
from dev.seed import SeedKeys, seed

ROLES_SQL = Path(__file__).parent.parent / "deploy" / "roles.sql"


async def prepare(superuser_url: str, ports: Ports, kept: KeptSecrets) -> KeptSecrets:
    """Make whatever is missing, and return the secrets with the API keys that hold from now on."""
    await _make_roles(superuser_url, kept.passwords)
    url = role_url("fencepost_migrate", ports=ports, kept=kept)
    await asyncio.to_thread(migrate, url)
    known = None
    if kept.api_key and kept.operator_key:
        known = SeedKeys(api_key=kept.api_key, operator_key=kept.operator_key)
    keys = await seed(migrate_url=url, key_pepper=kept.key_pepper, known=known)
    return dataclasses.replace(kept, api_key=keys.api_key, operator_key=keys.operator_key)


async def _make_roles(superuser_url: str, passwords: Mapping[str, str]) -> None:
    """Make the database `fencepost` and its roles where they are missing, and give each role its password."""
    # A statement that fails would otherwise be repeated in the server's log, with the password in it.
    quiet = {"log_min_error_statement": "panic"}
    connection = await asyncpg.connect(superuser_url, ssl=False, server_settings=quiet)
    try:
        await connection.execute(ROLES_SQL.read_text(encoding="utf-8"))
        for role, password in passwords.items():
            statement = await connection.fetchval(
                "SELECT format('ALTER ROLE %I PASSWORD %L', $1::text, $2::text)", role, password
            )
            await connection.execute(statement)
        if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'fencepost')"):
            await connection.execute("CREATE DATABASE fencepost OWNER fencepost_migrate")
    finally:
        await connection.close()
