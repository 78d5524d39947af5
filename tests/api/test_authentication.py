"""Who asks: what a key is refused for looks the same from outside, and when its use is noted."""

import hmac
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any

import asyncpg
import httpx
import pytest

from api import keys
from tests.api.conftest import PEPPER, Api, make_key, serving
from tests.api.test_messages import problem
from tests.conftest import free_port
from tests.factories import TENANT


async def key_with_another_secret(connection: asyncpg.Connection) -> str:
    """Give a whole key, under whose id another secret is stored."""
    minted, other = keys.mint("test"), keys.mint("test")
    await connection.execute(
        "INSERT INTO credentials (id, tenant_id, secret_hash, scopes) VALUES ($1, $2, $3, '{messages:read}')",
        minted.key_id,
        TENANT,
        keys.secret_hash(PEPPER.encode(), other.secret),
    )
    return minted.key


def mistyped(key: str) -> str:
    return key[:30] + ("a" if key[30] != "a" else "b") + key[31:]


async def read(api: Api, *headers: tuple[str, str]) -> httpx.Response:
    return await api.http.get("/v1/messages", headers=list(headers))


async def used_at(connection: asyncpg.Connection, key: str) -> datetime | None:
    moment: datetime | None = await connection.fetchval(
        "SELECT last_used_at FROM credentials WHERE id = $1", key.split("_")[2]
    )
    return moment


async def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(api: Api, superuser: asyncpg.Connection) -> None:
    wrong = [
        keys.mint("test").key,
        await key_with_another_secret(superuser),
        await make_key(superuser, revoked=True),
        await make_key(superuser, expired=True),
        await make_key(superuser, environment="live"),
        mistyped(api.key),
        "nonsense",
    ]

    answers = [await read(api, ("Authorization", f"Bearer {key}")) for key in wrong]
    answers += [
        await read(api),
        await read(api, ("Authorization", f"Basic {api.key}")),
        await read(api, ("Authorization", api.key)),
        await read(api, *[("Authorization", f"Bearer {api.key}")] * 2),
    ]

    assert {problem(answer) for answer in answers} == {(401, "unauthenticated")}
    looks = {
        (answer.text.replace(answer.json()["request_id"], ""), str(sorted(answer.headers.items())[:-1]))
        for answer in answers
    }
    assert len(looks) == 1
    assert (await read(api, ("Authorization", f"Bearer {api.key}"))).status_code == 200


async def test_a_key_that_was_never_made_is_refused_without_a_query(api: Api) -> None:
    gone = f"postgresql://fencepost_api:x@127.0.0.1:{free_port()}/fencepost"
    async with serving(gone, api.key) as without_postgres:
        typo = await read(without_postgres, ("Authorization", f"Bearer {mistyped(api.key)}"))
        elsewhere = await read(without_postgres, ("Authorization", f"Bearer {keys.mint('live').key}"))
        whole = await read(without_postgres, ("Authorization", f"Bearer {api.key}"))

    assert [problem(answer) for answer in (typo, elsewhere)] == [(401, "unauthenticated")] * 2
    assert problem(whole) == (503, "unavailable")


@contextmanager
def comparisons() -> Iterator[list[object]]:
    """Note each comparison that takes as long whatever is compared."""
    seen: list[object] = []

    def look(_: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called is hmac.compare_digest:
            seen.append(called)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(before)


async def test_a_secret_is_compared_in_the_same_time_also_where_there_is_none(
    api: Api, superuser: asyncpg.Connection
) -> None:
    for key in (
        api.key,
        keys.mint("test").key,
        await key_with_another_secret(superuser),
        await make_key(superuser, revoked=True),
        await make_key(superuser, expired=True),
    ):
        with comparisons() as seen:
            await read(api, ("Authorization", f"Bearer {key}"))
        assert len(seen) == 1


async def test_the_use_of_a_key_is_noted_once_a_minute(api: Api, superuser: asyncpg.Connection) -> None:
    before = await superuser.fetchval("SELECT clock_timestamp()")

    await api.ask("GET", "/v1/messages")
    first = await used_at(superuser, api.key)
    await api.ask("GET", "/v1/messages")
    second = await used_at(superuser, api.key)
    await superuser.execute(
        "UPDATE credentials SET last_used_at = last_used_at - interval '61 seconds' WHERE id = $1",
        api.key.split("_")[2],
    )
    await api.ask("GET", "/v1/messages")
    third = await used_at(superuser, api.key)

    assert first is not None
    assert third is not None
    assert first == second
    assert before < first < third


async def test_the_use_of_a_key_that_was_refused_is_not_noted(api: Api, superuser: asyncpg.Connection) -> None:
    refused = [
        await key_with_another_secret(superuser),
        await make_key(superuser, revoked=True),
        await make_key(superuser, expired=True),
    ]

    for key in refused:
        await read(api, ("Authorization", f"Bearer {key}"))

    assert [await used_at(superuser, key) for key in refused] == [None] * 3


async def test_no_call_fails_because_a_use_could_not_be_noted(api: Api, superuser: asyncpg.Connection) -> None:
    async with superuser.transaction():
        await superuser.execute("LOCK TABLE credentials IN EXCLUSIVE MODE")
        answer = await api.ask("GET", "/v1/messages")

    assert answer.status_code == 200
    assert await used_at(superuser, api.key) is None


@pytest.mark.parametrize("kind", ["bearer", "BEARER", "Bearer "])
async def test_the_word_before_the_key_has_no_letter_case(api: Api, kind: str) -> None:
    assert (await read(api, ("Authorization", f"{kind} {api.key}"))).status_code == 200
