"""A steady load of messages, as a careful client makes it, and the judgement of what became of each."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import httpx

from db.lifecycle import State
from tests.faults.cell import Cell, Running
from tests.waiting import until

#: So many clients, each of which rests for so long between its messages: with faults or load they ask for less.
CLIENTS = 3
REST_SECONDS = 0.4


@dataclass(slots=True)
class Traffic:
    """What was posted, and all that was answered."""

    ids: list[str] = field(default_factory=list)
    answers: list[httpx.Response] = field(default_factory=list)

    @property
    def refusals(self) -> list[httpx.Response]:
        """Give the answers that were no success."""
        return [answer for answer in self.answers if not answer.is_success]


@asynccontextmanager
async def traffic(cell: Cell) -> AsyncIterator[Traffic]:
    """Post messages while the block runs; at its end each of them has been accepted."""
    made = Traffic()
    over = asyncio.Event()

    async def client() -> None:
        while not over.is_set():
            made.ids.append(await accepted(cell, str(uuid4()), made.answers))
            await asyncio.wait({asyncio.ensure_future(over.wait())}, timeout=REST_SECONDS)

    clients = [asyncio.create_task(client()) for _ in range(CLIENTS)]
    try:
        yield made
    finally:
        over.set()
        await asyncio.gather(*clients)


async def lasts(seconds: float) -> None:
    """Let a fault last."""
    begun = time.monotonic()
    await until(lambda: time.monotonic() - begun > seconds, within=seconds + 60)


async def accepted(cell: Cell, key: str, answers: list[httpx.Response], *, api: Running | None = None) -> str:
    """Post the same command under the same key until it is accepted; keep each answer, and give the message's id."""

    async def is_accepted() -> bool:
        answers.append(answer := await cell.post(cell.command(), key, api=api))
        found.append(answer)
        return answer.is_success

    found: list[httpx.Response] = []
    await until(is_accepted, within=60, every=0.2)
    message_id: str = found[-1].json()["id"]
    return message_id


async def rightly_ended(cell: Cell, ids: Collection[str]) -> Counter[State]:
    """Wait for the ends of messages, hold each against the provider's own record, and count them by state.

    None is lost, none was submitted twice, an accepted one is in the record under the id that Fencepost knows, and
    an ambiguous one at most once (I2, I4 and I8 of the invariants).
    """
    assert len(set(ids)) == len(ids)
    states = await cell.ended(ids)
    rows = await cell.superuser.fetch(
        "SELECT message_id, provider_message_id FROM attempts WHERE outcome = 'accepted' AND message_id = ANY($1)",
        [UUID(each) for each in ids],
    )
    known = {str(row["message_id"]): [row["provider_message_id"]] for row in rows}
    recorded: dict[str, list[str]] = {}
    for submission in await cell.submissions():
        recorded.setdefault(submission["tags"]["fencepost_message"], []).append(submission["ses_message_id"])
    for message_id, state in states.items():
        if state is State.PROVIDER_ACCEPTED:
            assert recorded.get(message_id) == known[message_id], f"{message_id} is accepted"
        else:
            assert state is State.AMBIGUOUS, f"{message_id} is {state}"
            assert len(recorded.get(message_id, [])) <= 1, f"{message_id} was submitted twice"
    return Counter(states.values())
