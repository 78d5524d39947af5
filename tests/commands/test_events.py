"""`fencepost events`: the consumer's ways to begin and end, and `events confirm`, against the API."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from db.ids import new_id
from tests.commands.conftest import CommandLine
from tests.conftest import free_port
from tests.dev.running_stack import RunningStack
from tests.publishing import TOPIC
from tests.queueing import CREDENTIALS, SqsQueue, make_queue, sqs_server

NOBODY = "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d"
ADDRESS_KEY = "address-key-address-key-address-key"


@pytest.fixture(scope="module")
def queue() -> Iterator[SqsQueue]:
    with sqs_server() as endpoint:
        yield make_queue(endpoint)


@pytest.fixture
def settings(stack: RunningStack, queue: SqsQueue) -> dict[str, str]:
    """Give what a consumer needs, in full."""
    ours = {f"FENCEPOST_{name}": value for name, value in queue.variables().items()}
    database = {
        "FENCEPOST_DATABASE_URL": stack.describe()["database_url"],
        "FENCEPOST_ADDRESS_KEY": ADDRESS_KEY,
        "FENCEPOST_EVENTS_TOPICS": TOPIC,
    }
    return {**CREDENTIALS, **ours, **database}


@pytest.fixture
async def waiting(psql: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """Begin and end with no subscription."""
    await psql.execute("DELETE FROM event_subscriptions")
    yield psql
    await psql.execute("DELETE FROM event_subscriptions")


async def ask(connection: asyncpg.Connection, topic: str = TOPIC) -> str:
    """Let a topic ask to be confirmed; the token is one that may never be seen."""
    subscription = new_id()
    await connection.execute(
        "INSERT INTO event_subscriptions (id, topic_arn, token) VALUES ($1, $2, $3)",
        subscription,
        topic,
        f"canary{uuid4().hex}",
    )
    return str(subscription)


async def test_the_one_that_waits_is_confirmed_and_then_none_waits(
    line: CommandLine, waiting: asyncpg.Connection
) -> None:
    none = await line.run("events", "confirm")
    older, newer = await ask(waiting), await ask(waiting)

    confirmed = await line.run("events", "confirm")
    listed = await line.run("events", "confirm", "--list")
    await waiting.execute("DELETE FROM event_subscriptions WHERE id = $1", UUID(older))
    none_any_more = await line.run("events", "confirm")

    for refused in (none, none_any_more):
        assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert "no subscription waits for you: subscribe the API's /v1/provider-events/ses" in refused.err
    # SNS sends another token each time that somebody subscribes; the newest is sure to hold.
    assert [row["id"] for row in listed.rows()] == [newer, older]
    assert [bool(row["confirmed_at"]) for row in listed.rows()] == [True, False]
    assert confirmed.rows() == listed.rows()[:1]
    assert (confirmed.status, confirmed.err, confirmed.rows()[0]["topic"]) == (0, "", TOPIC)
    assert "canary" not in confirmed.out + listed.out


async def test_of_several_topics_one_has_to_be_named(line: CommandLine, waiting: asyncpg.Connection) -> None:
    first, second = await ask(waiting), await ask(waiting, f"{TOPIC}-2")

    refused = await line.run("events", "confirm")
    named = await line.run("events", "confirm", first, "--json")
    again = await line.run("events", "confirm", first, "--json")
    listed = await line.run("events", "confirm", "--list", "--json")
    other = await line.run("events", "confirm", "--json")

    assert (refused.status, refused.out) == (1, "")
    assert refused.err.splitlines() == [
        "fencepost: several topics wait: name one",
        f"  {second}  {TOPIC}-2",
        f"  {first}  {TOPIC}",
    ]
    assert (named.status, named.json()["id"], named.json()["topic"]) == (0, first, TOPIC)
    assert again.json() == named.json()
    assert [each["id"] for each in listed.json()["data"]] == [second, first]
    assert listed.json()["data"][1] == named.json()
    assert other.json()["id"] == second


async def test_an_id_that_nothing_has_is_one_line_and_so_is_a_tenants_key(
    line: CommandLine, waiting: asyncpg.Connection
) -> None:
    subscription = await ask(waiting)
    key = (await line.run("key", "issue", "--tenant", "demo", "--scope", "suppressions")).out.strip()

    unknown = [await line.run("events", "confirm", id_) for id_ in (NOBODY, "../x", "ä")]
    forbidden = await line.run("events", "confirm", subscription, FENCEPOST_OPERATOR_KEY=key)

    for refused in unknown:
        assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert "(not_found, request " in refused.err
        assert "`events confirm --list`" in refused.err
    assert (forbidden.status, "an operator's key in FENCEPOST_OPERATOR_KEY" in forbidden.err) == (1, True)
    assert await waiting.fetchval("SELECT confirmed_at FROM event_subscriptions") is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"QUEUE_URL": None}, ["FENCEPOST_EVENTS_QUEUE_URL: missing"]),
        (
            {"QUEUE_URL": "canary", "QUEUE_WAIT_SECONDS": "21"},
            ["QUEUE_URL: it has to look like https://sqs.", "FENCEPOST_EVENTS_QUEUE_WAIT_SECONDS: less_than_equal"],
        ),
        (
            {"TOPICS": f"{TOPIC},canary", "CERTIFICATE_ORIGIN": "http://canary"},
            ["FENCEPOST_EVENTS_TOPICS: number 2 is no ARN of an SNS topic", "unless FENCEPOST_ENVIRONMENT is test"],
        ),
    ],
    ids=["none", "a queue's", "the topics'"],
)
async def test_wrong_settings_are_told_by_their_variable(
    nowhere: CommandLine, settings: dict[str, str], changed: dict[str, str | None], why: list[str]
) -> None:
    all_of_them = settings | {f"FENCEPOST_EVENTS_{name}": value for name, value in changed.items()}

    refused = await nowhere.run_process("events", **{name: value for name, value in all_of_them.items() if value})

    assert (refused.status, refused.out) == (2, ""), refused.err
    assert [text for text in why if text not in refused.err] == []
    assert "canary" not in refused.err


async def test_a_queue_that_cannot_be_read_is_one_line(
    nowhere: CommandLine, settings: dict[str, str], queue: SqsQueue
) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    tries = [
        {"FENCEPOST_EVENTS_QUEUE_URL": f"{queue.url}-gone"},
        {"FENCEPOST_EVENTS_QUEUE_ENDPOINT_URL": away},
        # No region can be read out of such an address.
        {"FENCEPOST_EVENTS_QUEUE_REGION": ""},
    ]
    for changed in tries:
        refused = await nowhere.run_process("events", **(settings | changed))

        assert (refused.status, refused.err.count("\n")) == (1, 1), refused.err
        assert "the queue can't be read: is FENCEPOST_EVENTS_QUEUE_URL right" in refused.err


async def test_a_database_that_cannot_be_reached_is_one_line(nowhere: CommandLine, settings: dict[str, str]) -> None:
    url = f"postgresql://somebody:canary@127.0.0.1:{free_port()}/fencepost"

    refused = await nowhere.run_process("events", **(settings | {"FENCEPOST_DATABASE_URL": url}))

    assert (refused.status, refused.err.count("\n")) == (1, 1), refused.err
    assert "Postgres can't be reached" in refused.err
    assert "canary" not in refused.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_success(
    nowhere: CommandLine, settings: dict[str, str], number: signal.Signals
) -> None:
    consumer = await nowhere.start("events", **settings)
    assert consumer.stderr is not None
    try:
        async with asyncio.timeout(60):
            while "events_ready" not in (logged := (await consumer.stderr.readline()).decode()):
                assert logged, "it ended before it was ready"
            consumer.send_signal(number)
            out, log = await consumer.communicate()
    finally:
        if consumer.returncode is None:
            consumer.kill()

    assert (consumer.returncode, out) == (0, b"")
    assert "events_stopped" in log.decode().splitlines()[-1]
