"""Both doors of provider events as real processes that are killed: every event counts once, and none is lost."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from temporalio.client import Client

from db.crash_points import CrashPoint
from db.lifecycle import State
from db.records import MessageRef
from tests.conftest import Database
from tests.factories import AttemptRow, make_message, make_tenant, state_of
from tests.faults.cell import SECRETS, Cell, Running, cell
from tests.publishing import ADA, TOPIC, Publisher, address_to, certificate_server
from tests.queueing import make_queue, sqs_server
from tests.waiting import until

UNKNOWN: Final = AttemptRow(begin_id=uuid4(), outcome="unknown", closed=True)
AT_COMMIT: Final = (CrashPoint.EVENT_UNCOMMITTED, CrashPoint.EVENT_COMMITTED)
#: SNS paces what it delivers, too.
POSTS_AT_ONCE: Final = 8
KINDS: Final = ("send", "delivery", "bounce_permanent_general", "complaint")
ENDS: Final = (State.PROVIDER_ACCEPTED, State.DELIVERED, State.HARD_BOUNCED, State.COMPLAINED)
#: FENCEPOST_EVENT_MESSAGES says how many messages; 530 have some 2,000 events, duplicates counted.
MESSAGES: Final = int(os.environ.get("FENCEPOST_EVENT_MESSAGES", "40"))


@dataclass(slots=True)
class Doors:
    """A cell, SNS in front of it, and a queue."""

    cell: Cell
    publisher: Publisher
    endpoint: str

    async def message(self) -> MessageRef:
        await make_tenant(self.cell.superuser)
        message = await make_message(self.cell.superuser, State.AMBIGUOUS, UNKNOWN)
        await address_to(self.cell.superuser, message, ADA, SECRETS.address_key)
        return message

    def event(self, kind: str, message: MessageRef) -> bytes:
        return self.publisher.notification(self.publisher.event(kind, message))

    async def post(self, api: Running, body: bytes) -> httpx.Response:
        return await self.cell.http.post(f"{api.url}/v1/provider-events/ses", content=body)

    async def moves(self, message: MessageRef) -> list[str]:
        rows = await self.cell.superuser.fetch(
            "SELECT move FROM timeline WHERE message_id = $1 ORDER BY seq", message.id
        )
        return [row["move"] for row in rows][1:]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with sqs_server() as address:
        yield address


@pytest.fixture(scope="module")
async def doors(
    database: Database, temporal_client: Client, tmp_path_factory: pytest.TempPathFactory, endpoint: str
) -> AsyncIterator[Doors]:
    folder = tmp_path_factory.mktemp("doors")
    async with (
        certificate_server() as publisher,
        cell(
            database,
            temporal_client,
            folder,
            EVENTS_TOPICS=TOPIC,
            EVENTS_CERTIFICATE_ORIGIN=publisher.origin,
        ) as made,
    ):
        await made.start_api()
        yield Doors(made, publisher, endpoint)


@pytest.mark.parametrize("point", AT_COMMIT)
async def test_an_api_that_dies_at_an_event_takes_it_once_when_sns_posts_it_again(
    doors: Doors, point: CrashPoint
) -> None:
    message = await doors.message()
    body = doors.event("delivery", message)
    api = await doors.cell.start_api(f"dies-{point}", CRASH_POINT=point)
    with pytest.raises(httpx.HTTPError):
        await doors.post(api, body)
    assert await doors.cell.kill(api.name) == -signal.SIGKILL
    committed = point is CrashPoint.EVENT_COMMITTED
    assert await state_of(doors.cell.superuser, message) is (State.DELIVERED if committed else State.AMBIGUOUS)

    answers = [(await doors.post(doors.cell.running["api"], body)).json()["result"] for _ in range(2)]

    assert answers == ["duplicate" if committed else "applied", "duplicate"]
    assert await doors.moves(message) == ["prove", "deliver"]


@pytest.mark.parametrize("point", AT_COMMIT)
async def test_a_consumer_that_dies_at_an_event_leaves_it_in_the_queue_and_the_next_takes_it_once(
    doors: Doors, point: CrashPoint
) -> None:
    message = await doors.message()
    queue = make_queue(doors.endpoint)
    own = queue.variables() | {"EVENTS_QUEUE_VISIBILITY_SECONDS": "5"}
    await asyncio.to_thread(queue.send, [doors.event("delivery", message)])
    consumer = await doors.cell.start_events(f"dies-{point}-events", CRASH_POINT=point, **own)
    await until(lambda: consumer.child.poll() is not None, within=30)
    assert await doors.cell.kill(consumer.name) == -signal.SIGKILL
    assert (await asyncio.to_thread(queue.left))["queue"] == 1

    await doors.cell.start_events(f"after-{point}-events", **own)
    await _emptied(queue)
    assert await doors.cell.kill(f"after-{point}-events", signal.SIGTERM) == 0

    assert await doors.moves(message) == ["prove", "deliver"]


async def test_shuffled_events_by_both_doors_with_duplicates_and_kills_end_right_and_count_once(doors: Doors) -> None:
    choices = random.Random(5)  # noqa: S311  (the same order each time)
    messages = [(await doors.message(), choices.randint(1, len(KINDS))) for _ in range(MESSAGES)]
    bodies = [doors.event(kind, message) for message, count in messages for kind in KINDS[:count]]
    sent = bodies + choices.sample(bodies, len(bodies) // 2)
    choices.shuffle(sent)
    by_queue, by_post = sent[::2], sent[1::2]
    queue = make_queue(doors.endpoint, tries=10)
    own = queue.variables() | {"EVENTS_QUEUE_VISIBILITY_SECONDS": "5"}
    api = doors.cell.running["api"]
    await asyncio.to_thread(queue.send, by_queue)

    waiting = iter(by_post)

    async def post_one_after_the_other() -> None:
        for body in waiting:
            await post_until_taken(body)

    async def post_until_taken(body: bytes) -> None:
        async def taken() -> bool:
            try:
                return (await doors.post(api, body)).is_success
            except httpx.HTTPError:
                return False

        await until(taken, within=60, every=0.2)

    posting = asyncio.gather(*(post_one_after_the_other() for _ in range(POSTS_AT_ONCE)))
    applied = "SELECT count(*) FROM evidence WHERE kind = 'event'"
    for _ in range(2):
        before = await doors.cell.superuser.fetchval(applied)
        consumer = await doors.cell.start_events("events", **own)

        async def some_applied(before: int = before) -> bool:
            return bool(await doors.cell.superuser.fetchval(applied) > before)

        await until(some_applied, within=60, every=0.02)
        assert await doors.cell.kill(consumer.name) == -signal.SIGKILL
    await doors.cell.start_events("events", **own)
    await posting
    await _emptied(queue)
    await doors.cell.kill("events", signal.SIGTERM)

    wrong: Counter[Any] = Counter()
    for message, count in messages:
        if (state := await state_of(doors.cell.superuser, message)) is not ENDS[count - 1]:
            wrong[ENDS[count - 1], state] += 1
    assert not wrong
    query = "SELECT count(*) FROM evidence WHERE kind = 'event' AND message_id = ANY($1)"
    assert await doors.cell.superuser.fetchval(query, [message.id for message, _ in messages]) == len(bodies)


async def _emptied(queue: Any) -> None:
    async def is_empty() -> bool:
        left = await asyncio.to_thread(queue.left)
        assert left["dead"] == 0
        return bool(left["queue"] == 0)

    await until(is_empty, within=600, every=0.2)
