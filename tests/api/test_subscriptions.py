"""Subscriptions of SNS: who sees them, and what confirms one; SNS is a scripted server, which boto3 itself asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs
from uuid import uuid4

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.problems import ERRORS, Code
from db.event_subscriptions import SubscriptionStore
from tests.activities import scripted_server as server
from tests.api.conftest import Api, make_key, serving
from tests.conftest import Database, free_port
from tests.factories import make_tenant
from tests.publishing import CONFIRMED, NOT_CONFIRMED, SUBSCRIPTION_ARN, TOPIC

LIST = "/v1/operator/subscriptions"
NOBODY = "01920000-0000-7000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Wish:
    """A subscription that waits, and the token that nobody may see."""

    id: str
    token: str

    @property
    def path(self) -> str:
        return f"{LIST}/{self.id}/confirm"


@dataclass(frozen=True, slots=True)
class Desk:
    """Where an operator sits."""

    database: Database
    superuser: asyncpg.Connection
    store: SubscriptionStore
    operator_key: str

    async def wish(self) -> Wish:
        token = f"canary{uuid4().hex}"
        await self.store.keep(TOPIC, token)
        found = await self.superuser.fetchval("SELECT id FROM event_subscriptions WHERE token = $1", token)
        return Wish(str(found), token)

    @asynccontextmanager
    async def open(self, sns: str) -> AsyncIterator[Api]:
        """Serve the API, with SNS at this address."""
        async with serving(self.database.url("fencepost_api"), self.operator_key, sns_endpoint_url=sns) as api:
            yield api

    async def audited(self, wish: Wish) -> int:
        count = "SELECT count(*) FROM operator_audit WHERE action = 'subscription_confirmed' AND subject = $1"
        return int(await self.superuser.fetchval(count, wish.id))

    async def named(self, wish: Wish) -> str | None:
        """Give what SNS named the subscription, where it is written down as confirmed."""
        row = await self.superuser.fetchrow(
            "SELECT confirmed_at, subscription_arn FROM event_subscriptions WHERE token = $1", wish.token
        )
        assert row is not None
        assert (row["confirmed_at"] is None) == (row["subscription_arn"] is None)
        arn: str | None = row["subscription_arn"]
        return arn


@pytest.fixture
async def desk(database: Database, superuser: asyncpg.Connection, api_engine: AsyncEngine) -> Desk:
    await make_tenant(superuser)
    key = await make_key(superuser, None, scopes=["operator"])
    return Desk(database, superuser, SubscriptionStore(api_engine), key)


def said(answer: httpx.Response, capsys: pytest.CaptureFixture[str]) -> str:
    """Give everything that was answered and logged."""
    printed = capsys.readouterr()
    return answer.text + str(answer.headers) + printed.out + printed.err


async def test_they_are_listed_newest_first_and_without_their_tokens(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = [await desk.wish() for _ in range(3)]
    with server.serving(server.answer(200, CONFIRMED)) as sns:
        async with desk.open(sns.url) as api:
            await api.ask("POST", wishes[2].path)
            first = await api.ask("GET", f"{LIST}?limit=2")
            second = await api.ask("GET", f"{LIST}?limit=1&cursor={first.json()['next_cursor']}")
            unknown = await api.ask("GET", f"{LIST}?state=waiting")

    shown = [*first.json()["data"], *second.json()["data"]]
    assert [each["id"] for each in shown] == [wish.id for wish in reversed(wishes)]
    assert [set(each) for each in shown] == [{"id", "topic", "received_at", "confirmed_at"}] * 3
    assert [each["confirmed_at"] is None for each in shown] == [False, True, True]
    assert {each["topic"] for each in shown} == {TOPIC}
    assert unknown.status_code == 422
    assert "canary" not in said(first, capsys) + second.text


async def test_one_is_confirmed_once_by_giving_sns_its_token_back(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    wish = await desk.wish()
    with server.serving(server.answer(200, CONFIRMED)) as sns:
        async with desk.open(sns.url) as api:
            confirmed = await api.ask("POST", wish.path)
            again = await api.ask("POST", wish.path)

    assert (confirmed.status_code, again.status_code) == (200, 200)
    assert (confirmed.json()["id"], confirmed.json()["topic"]) == (wish.id, TOPIC)
    assert confirmed.json()["confirmed_at"] is not None
    assert again.json() == confirmed.json()
    (request,) = sns.requests
    head, _, body = request.partition(b"\r\n\r\n")
    asked = parse_qs(body.decode())
    assert (asked["Action"], asked["TopicArn"], asked["Token"]) == (["ConfirmSubscription"], [TOPIC], [wish.token])
    # The token is the proof: no credentials of anybody's go out with it.
    assert b"authorization:" not in head.lower()
    assert (await desk.named(wish), await desk.audited(wish)) == (SUBSCRIPTION_ARN, 1)
    assert "canary" not in said(confirmed, capsys)


async def test_of_several_at_once_one_is_in_the_audit(desk: Desk) -> None:
    wish = await desk.wish()
    with server.serving(server.answer(200, CONFIRMED)) as sns:
        async with desk.open(sns.url) as api:
            answers = await asyncio.gather(*(api.ask("POST", wish.path) for _ in range(4)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert await desk.audited(wish) == 1


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, NOT_CONFIRMED, "subscription_refused"),
        (403, NOT_CONFIRMED, "subscription_refused"),
        (429, NOT_CONFIRMED, "unavailable"),
        (500, NOT_CONFIRMED, "unavailable"),
        (503, b"<html>canary</html>", "unavailable"),
        (200, b"canary", "unavailable"),
        (200, b"<Canary xmlns='http://sns.amazonaws.com/doc/2010-03-31/'/>", "unavailable"),
    ],
)
async def test_what_sns_does_not_take_is_not_confirmed_and_may_be_asked_again(
    desk: Desk, capsys: pytest.CaptureFixture[str], status: int, body: bytes, code: str
) -> None:
    wish = await desk.wish()
    with server.serving(server.answer(status, body)) as sns:
        async with desk.open(sns.url) as api:
            refused = await api.ask("POST", wish.path)

    assert (refused.status_code, refused.json()["code"]) == (ERRORS[Code(code)][0], code)
    assert ("retry-after" in refused.headers) == (code == "unavailable")
    assert (await desk.named(wish), await desk.audited(wish)) == (None, 0)
    shown = said(refused, capsys)
    assert "canary" not in shown
    assert "subscription_not_confirmed" in shown
    with server.serving(server.answer(200, CONFIRMED)) as sns:
        async with desk.open(sns.url) as api:
            assert (await api.ask("POST", wish.path)).status_code == 200


async def test_where_sns_cannot_be_reached_it_is_unavailable(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    wish = await desk.wish()
    async with desk.open(f"http://127.0.0.1:{free_port()}") as api:
        away = await api.ask("POST", wish.path)

    assert (away.status_code, away.json()["code"]) == (503, "unavailable")
    assert (await desk.named(wish), await desk.audited(wish)) == (None, 0)
    assert "canary" not in said(away, capsys)


async def test_nobody_but_an_operator_may_and_nothing_else_is_found(desk: Desk) -> None:
    wish = await desk.wish()
    tenants = await make_key(desk.superuser, scopes=["messages:send", "suppressions"])
    with server.serving(server.answer(200, CONFIRMED)) as sns:
        async with desk.open(sns.url) as api:
            unknown = [await api.ask("POST", f"{LIST}/{id_}/confirm") for id_ in (NOBODY, "x", "%00", wish.id[:-1])]
            tenant = Api(http=api.http, key=tenants)
            forbidden = [await tenant.ask("POST", wish.path), await tenant.ask("GET", LIST)]

    assert [(answer.status_code, answer.json()["code"]) for answer in unknown] == [(404, "not_found")] * 4
    assert [(answer.status_code, answer.json()["code"]) for answer in forbidden] == [(403, "forbidden")] * 2
    assert sns.requests == []
    assert await desk.named(wish) is None
