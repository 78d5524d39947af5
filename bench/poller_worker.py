"""The baseline without an engine: one process that polls Postgres for due messages and takes their three steps itself.

As the hardening seed has it: candidates are read without a claim, the conditional claim decides who has one, and the
lease bounds what a crash leaves behind. Nothing here waits durably, paces, is fair between tenants, or shows its work.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid4

import sqlalchemy as sa
import uvloop
from sqlalchemy.dialects.postgresql import ARRAY

from bench import fenced_steps, orders
from bench.fenced_steps import IN_FLIGHT, FencedSteps
from db.lifecycle import CLAIMABLE
from db.schema import messages
from db.transaction import reading
from workflows import logs

#: Between two looks that found nothing, or while all lanes are taken by what the last look found.
POLL_SECONDS: Final = 0.02
#: A look finds work for the lanes and as much again, so that none waits for the next look.
_BATCH: Final = 2 * IN_FLIGHT

_DUE: Final = (
    sa.select(messages.c.id)
    .where(
        messages.c.state.in_(CLAIMABLE),
        messages.c.due_at <= sa.func.clock_timestamp(),
        messages.c.id != sa.all_(sa.bindparam("taken", type_=ARRAY(messages.c.id.type))),
    )
    .order_by(messages.c.due_at, messages.c.id)
    .limit(_BATCH)
    .with_for_update(skip_locked=True)
)
"""What is due and in nobody's hands: neither in this process's own, nor in a transaction of another's."""


class Poller:
    """Polls, and drives what it finds."""

    def __init__(self, steps: FencedSteps) -> None:
        self._steps = steps
        self._found: asyncio.Queue[str] = asyncio.Queue()
        self._taken: set[str] = set()
        self._ended: dict[str, str] = {}

    async def drive(self, message_ids: Sequence[str]) -> Counter[str]:
        """Poll until these messages have ended."""
        lanes = [asyncio.create_task(self._lane()) for _ in range(IN_FLIGHT)]
        looking = asyncio.create_task(self._look_until_ended(message_ids))
        try:
            # A lane never ends by itself, unless by an error.
            done, _ = await asyncio.wait({looking, *lanes}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (looking, *lanes):
                task.cancel()
        return Counter(self._ended[message_id] for message_id in message_ids)

    async def _look_until_ended(self, message_ids: Sequence[str]) -> None:
        while not all(message_id in self._ended for message_id in message_ids):
            if self._found.empty():
                await self._look()
            await asyncio.sleep(POLL_SECONDS)

    async def _look(self) -> None:
        async with reading(self._steps.engine) as connection:
            due = (await connection.execute(_DUE, {"taken": [UUID(each) for each in self._taken]})).scalars()
        for message in map(str, due):
            self._taken.add(message)
            self._found.put_nowait(message)

    async def _lane(self) -> None:
        while True:
            message = await self._found.get()
            self._ended[message] = await self._steps.at_once(message, str(uuid4()))
            self._taken.discard(message)


async def run(port: int) -> None:
    """Run until SIGTERM, and poll while there is an order."""
    async with fenced_steps.opened("poller") as steps:
        await orders.serve(port, Poller(steps).drive)


if __name__ == "__main__":
    logs.set_up("poller", level="ERROR")
    uvloop.run(run(int(sys.argv[1])))
