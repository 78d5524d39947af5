"""Who may ask, and how they show a key: right, wrong in every way, or none any more."""

import base64
from dataclasses import dataclass, field

import asyncpg

from api import keys
from db.ids import TenantId
from tests.api.conftest import make_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who asks, and how they are to be answered."""

    name: str
    authorization: tuple[bytes, ...] = field(repr=False)
    status: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strangers:
    """Callers who may do nothing, with keys of tenants or of operators."""

    right: str = field(repr=False)  #: a key that is right but for how it is shown
    callers: tuple[Caller, ...]


async def strangers(connection: asyncpg.Connection, tenant_id: TenantId | None, scopes: list[str]) -> Strangers:
    """Make everybody whose key is none, or none any more."""
    right = await make_key(connection, tenant_id, scopes=scopes)
    wrong_secret = await make_key(connection, tenant_id, scopes=scopes)
    await connection.execute("UPDATE credentials SET secret_hash = $1 WHERE id = $2", bytes(32), key_id(wrong_secret))
    shown: dict[str, tuple[str, ...]] = {
        "no Authorization": (),
        "an empty one": ("",),
        "Basic": (f"Basic {base64.b64encode(f'{key_id(right)}:{right}'.encode()).decode()}",),
        "the key alone": (right,),
        "Bearer alone": ("Bearer",),
        "two headers": (f"Bearer {right}", f"Bearer {right}"),
        "two keys in one": (f"Bearer {right}, Bearer {right}",),
        "something after it": (f"Bearer {right} x",),
        "garbage": ("Bearer \xff\xfe\x01",),
        "ten thousand letters": ("Bearer " + "x" * 10_000,),
        "a character changed": (f"Bearer {right[:40]}{'a' if right[40] != 'a' else 'b'}{right[41:]}",),
        "other letter case": (f"Bearer {right.swapcase()}",),
        "another deployment's": (f"Bearer {await make_key(connection, tenant_id, scopes=scopes, environment='live')}",),
        "an unknown key id": (f"Bearer {keys.mint('test').key}",),
        "a wrong secret": (f"Bearer {wrong_secret}",),
        "expired": (f"Bearer {await make_key(connection, tenant_id, scopes=scopes, expired=True)}",),
        "revoked": (f"Bearer {await make_key(connection, tenant_id, scopes=scopes, revoked=True)}",),
    }
    callers = tuple(
        Caller(
            name=name,
            authorization=tuple(value.encode("latin-1") for value in values),
            status=401,
            code="unauthenticated",
        )
        for name, values in shown.items()
    )
    return Strangers(right=right, callers=callers)


def key_id(key: str) -> str:
    return key.split("_")[2]


def bearer(key: str) -> tuple[bytes, ...]:
    return (f"Bearer {key}".encode(),)
