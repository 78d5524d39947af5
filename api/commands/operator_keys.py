"""Operators' keys, directly on the database: nobody can ask the API for the first one."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

from pydantic_settings import BaseSettings

from api import keys
from api.commands.refusals import refuse, run
from api.commands.settings import KeyMakingSettings
from api.commands.surroundings import find_dev_pepper, find_dev_stack
from db.engine import DatabaseSettings, create_engine
from db.operator_keys import OperatorKeyStore
from db.tenant_keys import KeyView, NewSecret

_Result = TypeVar("_Result")


def issue(expires_at: str | None) -> dict[str, Any]:
    """Make a key, and give what the API gives for a tenant's."""
    find_dev_stack()
    find_dev_pepper()
    settings = run(KeyMakingSettings, _settings_kinds)
    minted = keys.mint(settings.environment)
    pepper = settings.key_pepper.get_secret_value().encode()
    new = NewSecret(id=minted.key_id, secret_hash=keys.secret_hash(pepper, minted.secret))
    until = None if expires_at is None else datetime.fromisoformat(expires_at)
    made = _with_store(lambda store: store.issue(new, expires_at=until))
    if made is None:
        refuse("this key would have expired already")
    return {"id": made.id, "key": minted.key, "scopes": list(made.scopes), "expires_at": _time(made.expires_at)}


def list_all() -> list[dict[str, Any]]:
    """List all operators' keys, each as the API shows a tenant's."""
    find_dev_stack()
    return [_shown(view) for view in _with_store(lambda store: store.list())]


def revoke(key_id: str) -> None:
    """Revoke a key."""
    find_dev_stack()
    if not _with_store(lambda store: store.revoke(key_id)):
        refuse("no operator's key has this id: `fencepost key list --operator` shows them")


def _with_store(use: Callable[[OperatorKeyStore], Awaitable[_Result]]) -> _Result:
    async def body() -> _Result:
        engine = create_engine(DatabaseSettings(), application="fencepost-key")
        try:
            return await use(OperatorKeyStore(engine))
        finally:
            await engine.dispose()

    return run(lambda: asyncio.run(body()), _settings_kinds)


def _settings_kinds() -> tuple[type[BaseSettings], ...]:
    return (KeyMakingSettings, DatabaseSettings)


def _shown(view: KeyView) -> dict[str, Any]:
    """Show a key with the members that the API shows of a tenant's."""
    unrevoked = "expired" if view.expired else "active"
    return {
        "id": view.id,
        "scopes": list(view.scopes),
        "state": unrevoked if view.revoked_at is None else "revoked",
        "created_at": _time(view.created_at),
        "expires_at": _time(view.expires_at),
        "revoked_at": _time(view.revoked_at),
        "last_used_at": _time(view.last_used_at),
        "replaced_by": view.replaced_by,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
