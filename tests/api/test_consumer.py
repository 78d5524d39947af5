"""The queue's door: what is deleted, what is left to the dead-letter queue, and what is held while Postgres is away."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from api.aws import AwsError, Queue
from api.certificates import Certificates
from api.consumer import Consumer
from api.event_intake import EventIntake
from api.sns import EventSettings, Verifier
from db.event_subscriptions import SubscriptionStore
from db.events import EventStore
from db.lifecycle import State
from db.records import MessageRef
from tests.api.conftest import ADDRESS_KEY
from tests.api.sns_signing import tls_sides
from tests.api.trap import Answer, trap
from tests.conftest import Database
from tests.factories import AttemptRow, make_message, make_tenant, state_of
from tests.publishing import ADA, TOPIC, Publisher, address_to
from tests.queueing import CREDENTIALS, SqsQueue, make_queue, sqs_server
from tests.waiting import until

UNKNOWN = AttemptRow(begin_id=uuid4(), outcome="unknown", closed=True)
DAYS = 24 * 3600


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with sqs_server() as address:
        yield address


@dataclass(slots=True)
class Door:
    """A consumer's parts, and SNS in front of its queue."""

    queue: SqsQueue
    intake: EventIntake
    publisher: Publisher
    superuser: asyncpg.Connection

    @asynccontextmanager
    async def consuming(self, **settings: Any) -> AsyncIterator[None]:
        chosen = self.queue.settings(**settings)
        stop = asyncio.Event()
        with Queue(chosen) as queue:
            running = asyncio.create_task(Consumer(queue, self.intake, chosen).run(stop))
            try:
                yield
            finally:
                stop.set()
                await running

    async def left(self, **counts: int) -> None:
        """Wait until there is so much in the queue, and in its dead-letter queue."""
        wanted = {"queue": 0, "dead": 0} | counts

        async def stand_so() -> bool:
            found = await asyncio.to_thread(self.queue.left)
            return {name: found[name] for name in wanted} == wanted

        await until(stand_so, within=40, every=0.2)


@pytest.fixture
async def door(
    database: Database,
    superuser: asyncpg.Connection,
    endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Door]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    await make_tenant(superuser)
    serving_tls, trusting = tls_sides(tmp_path)
    engine = database.engine("fencepost_events")
    async with trap(serving_tls) as caught:
        publisher = Publisher()
        caught.answers[publisher.signer.certificate_path] = Answer(body=publisher.signer.certificate_pem)
        certificates = Certificates(verify=trusting, proxy=caught.proxy_url)
        verifier = Verifier(EventSettings(topics=TOPIC), certificates, checks_age=False)
        intake = EventIntake(EventStore(engine), SubscriptionStore(engine), verifier, address_key=ADDRESS_KEY.encode())
        yield Door(make_queue(endpoint, tries=1), intake, publisher, superuser)
        await certificates.aclose()
    await engine.dispose()


async def ambiguous(door: Door) -> MessageRef:
    message = await make_message(door.superuser, State.AMBIGUOUS, UNKNOWN)
    await address_to(door.superuser, message, ADA, ADDRESS_KEY)
    return message


async def test_events_are_applied_and_deleted_whatever_their_age_and_however_often_they_come(door: Door) -> None:
    messages = [await ambiguous(door) for _ in range(6)]
    bodies = [
        door.publisher.notification(door.publisher.event("delivery", message), age=13 * DAYS) for message in messages
    ]
    bodies.append(door.publisher.confirmation())
    door.queue.send(bodies + bodies)

    async with door.consuming():
        await door.left()

    assert [await state_of(door.superuser, message) for message in messages] == [State.DELIVERED] * len(messages)
    counts = "SELECT count(*) FROM evidence WHERE message_id = ANY($1)"
    assert await door.superuser.fetchval(counts, [message.id for message in messages]) == len(messages)
    assert await door.superuser.fetchval("SELECT count(*) FROM event_subscriptions") == 1


async def test_what_cannot_be_believed_or_read_is_left_to_the_dead_letter_queue(door: Door) -> None:
    message = await ambiguous(door)
    event = door.publisher.event("complaint", message)
    elsewhere = Publisher(topic="arn:aws:sns:us-east-1:999999999999:ses-events")
    left = [
        b"no JSON at all",
        b'{"Type": "Notification"}',
        event.encode(),  # bare: only where the queue is said to be trusted
        elsewhere.notification(event),
        door.publisher.notification(event).replace(b"abuse", b"fraud"),
    ]
    door.queue.send([*left, door.publisher.notification(door.publisher.event("send", message))])

    async with door.consuming(visibility_seconds=5):
        await door.left(dead=len(left))

    assert await state_of(door.superuser, message) is State.PROVIDER_ACCEPTED


async def test_bare_events_are_taken_where_the_queue_is_trusted_and_repeats_are_one(door: Door) -> None:
    message = await ambiguous(door)
    bare = door.publisher.event("delivery", message).encode()
    set_up = b"Successfully validated SNS topic for Amazon SES event publishing."
    door.queue.send([bare, bare, set_up, b"garbage"])

    async with door.consuming(raw=True, visibility_seconds=5):
        await door.left(dead=1)

    assert await state_of(door.superuser, message) is State.DELIVERED
    count = "SELECT count(*) FROM timeline WHERE message_id = $1 AND move IN ('deliver', 'event_delivery')"
    assert await door.superuser.fetchval(count, message.id) == 1


async def test_while_postgres_is_away_events_are_held_past_their_time_and_then_applied(
    door: Door, database: Database
) -> None:
    messages = [await ambiguous(door) for _ in range(12)]
    door.queue.send([door.publisher.notification(door.publisher.event("delivery", each)) for each in messages])
    admin = await asyncpg.connect(database.server.url())
    await admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS false')
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = 'fencepost_events'"
    await admin.execute(kill, database.name)
    try:
        async with door.consuming(visibility_seconds=5):
            # Once they are visible again, the next receive puts them into the dead-letter queue.
            loop = asyncio.get_running_loop()
            late = loop.time() + 8
            await until(lambda: loop.time() > late, within=30, every=0.2)
            assert await asyncio.to_thread(door.queue.left) == {"queue": len(messages), "dead": 0}
            await admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS true')
            await door.left()
    finally:
        await admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS true')
        await admin.close()

    assert {await state_of(door.superuser, message) for message in messages} == {State.DELIVERED}


async def test_a_consumer_that_stops_gives_back_what_it_could_not_finish(
    door: Door, database: Database, endpoint: str
) -> None:
    door.queue = make_queue(endpoint, tries=2)
    door.queue.send([door.publisher.notification(door.publisher.event("delivery", await ambiguous(door)))])
    admin = await asyncpg.connect(database.server.url())
    await admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS false')
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = 'fencepost_events'"
    await admin.execute(kill, database.name)

    def held() -> bool:
        name = "ApproximateNumberOfMessagesNotVisible"
        counts = door.queue.sqs.get_queue_attributes(QueueUrl=door.queue.url, AttributeNames=[name])
        return bool(counts["Attributes"][name] == "1")

    try:
        async with door.consuming(visibility_seconds=600):
            await until(held, within=20, every=0.1)
        assert not held()
    finally:
        await admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS true')
        await admin.close()

    async with door.consuming():
        await door.left()


async def test_a_queue_that_is_not_there_is_said_to_be(door: Door, endpoint: str) -> None:
    settings = door.queue.settings(url=f"{endpoint}/123456789012/nothing")

    with Queue(settings) as queue, pytest.raises(AwsError) as refused:
        await queue.gives_up()

    assert refused.value.refused
    assert "NonExistentQueue" in refused.value.code or "QueueDoesNotExist" in refused.value.code
