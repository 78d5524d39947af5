"""What intake answers when Postgres breaks in the middle of it."""

import asyncio

import asyncpg
import pytest

from db.engine import DatabaseSettings
from tests.api.conftest import Api, make_key, serving
from tests.api.test_messages import messages_of, problem
from tests.conftest import Database, free_port
from tests.factories import make_message, make_tenant
from tests.faults.proxy import FaultProxy, Loss, fault_proxy
from tests.waiting import somebody_waits


@pytest.fixture
async def key(superuser: asyncpg.Connection) -> str:
    await make_tenant(superuser)
    return await make_key(superuser)


def through(proxy: FaultProxy, database: Database) -> str:
    return proxy.url(database.url("fencepost_api"))


async def warm(api: Api) -> None:
    """Let the first connection do what it does once."""
    await api.send(key="warm")


async def test_a_commit_whose_reply_was_lost_is_found_to_have_happened(
    database: Database, superuser: asyncpg.Connection, key: str
) -> None:
    async with fault_proxy(database.server.port, postgres=True) as proxy, serving(through(proxy, database), key) as api:
        await warm(api)
        proxy.lose(Loss.REPLY)
        first = await api.send(key="lost")
        again = await api.send(key="lost")

    assert proxy.lost == 1
    assert first.status_code == 202
    assert first.json()["idempotent_replay"] is False
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert await superuser.fetchval("SELECT count(*) FROM messages WHERE idempotency_key = 'lost'") == 1


async def test_a_commit_that_never_arrived_is_unavailable_and_a_replay_is_the_first(
    database: Database, superuser: asyncpg.Connection, key: str
) -> None:
    async with fault_proxy(database.server.port, postgres=True) as proxy, serving(through(proxy, database), key) as api:
        await warm(api)
        before = await messages_of(superuser)
        proxy.lose(Loss.COMMIT)
        first = await api.send(key="never")
        between = await messages_of(superuser)
        again = await api.send(key="never")

    assert problem(first) == (503, "unavailable")
    assert int(first.headers["retry-after"]) > 0
    assert between == before
    assert again.status_code == 202


@pytest.mark.parametrize(("name", "status"), [("Ada", 200), ("Bob", 409)])
async def test_a_command_whose_commit_never_arrived_is_judged_against_the_one_that_took_its_key_meanwhile(
    database: Database, superuser: asyncpg.Connection, key: str, name: str, status: int
) -> None:
    async with (
        fault_proxy(database.server.port, postgres=True) as proxy,
        serving(through(proxy, database), key) as api,
        serving(database.url("fencepost_api"), key) as other,
    ):
        await warm(api)
        proxy.lose(Loss.COMMIT, meanwhile=lambda: other.send(key=f"taken by {name}", context={"name": name}))
        answer = await api.send(key=f"taken by {name}")

    assert answer.status_code == status
    stored = "SELECT count(*) FROM messages WHERE idempotency_key = $1"
    assert await superuser.fetchval(stored, f"taken by {name}") == 1


async def test_without_postgres_every_answer_is_unavailable(key: str) -> None:
    gone = DatabaseSettings.model_validate({"url": f"postgresql://fencepost_api:x@127.0.0.1:{free_port()}/fencepost"})
    async with serving(gone.url.get_secret_value(), key) as api:
        sent = await api.send()
        read = await api.read("0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d")
        ready = await api.http.get("/readyz")
        alive = await api.http.get("/healthz")

    assert problem(sent) == (503, "unavailable")
    assert problem(read) == (503, "unavailable")
    assert (ready.status_code, ready.json()["database"]) == (503, "unreachable")
    assert alive.status_code == 200


async def test_many_first_commands_at_once_make_one_message(api: Api, superuser: asyncpg.Connection) -> None:
    answers = await asyncio.gather(*(api.send(key="race") for _ in range(50)))

    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await superuser.fetchval("SELECT count(*) FROM messages WHERE idempotency_key = 'race'") == 1


async def test_of_two_commands_under_one_key_one_wins(api: Api, superuser: asyncpg.Connection) -> None:
    answers = await asyncio.gather(
        *(api.send(key="fight", context={"name": "Ada" if number % 2 else "Bob"}) for number in range(50))
    )

    statuses = [answer.status_code for answer in answers]
    assert statuses.count(202) == 1
    assert statuses.count(200) == 24
    assert statuses.count(409) == 25
    assert await superuser.fetchval("SELECT count(*) FROM messages WHERE idempotency_key = 'fight'") == 1


async def test_a_command_that_waited_for_anothers_insert_is_judged_against_it(
    api: Api, superuser: asyncpg.Connection
) -> None:
    """The unique index makes an insert wait for the one that came first and is not committed yet."""
    async with superuser.transaction():
        await make_message(superuser, idempotency_key="waited")
        sending = asyncio.create_task(api.send(key="waited"))
        await somebody_waits(superuser)

    assert problem(await sending) == (409, "idempotency_conflict")


async def test_a_slow_lock_is_unavailable_and_not_an_error(api: Api, superuser: asyncpg.Connection) -> None:
    """Somebody's first insert under this key is not committed yet, for longer than a statement may wait."""
    async with superuser.transaction():
        await superuser.execute("LOCK TABLE messages IN ACCESS EXCLUSIVE MODE")
        answer = await api.send()

    assert problem(answer) == (503, "unavailable")
