"""Temporal's operations in any order, used against messages of which nobody knows whether they were submitted."""

import asyncio
import random
from contextlib import suppress
from datetime import timedelta
from typing import Final
from uuid import uuid4

from temporalio.service import RPCError

from activities.contracts import CLAIM
from db.lifecycle import State
from db.outcomes import Outcome, Reason
from db.records import CallResult, MessageRef
from tests.factories import AttemptRow, make_message, snapshot
from tests.fakes import ACCEPTED
from tests.waiting import until
from tests.workflows.delivery import CountingProvider, Delivery
from tests.workflows.temporal_operations import SOON, end_run, none_runs, pause, reset_points, reset_workflow, unpause
from workflows.temporal import start_message

UNKNOWN = CallResult(outcome=Outcome.UNKNOWN, provider="ses", reason=Reason.CONNECTION_LOST)


class Chance:
    """Does to messages what a seed says, one thing after the other; what Temporal refuses is no matter."""

    OPERATIONS: Final = ("sweep", "start", "start", "reset", "terminate", "cancel", "delete", "pause", "unpause")

    def __init__(self, delivery: Delivery, seed: int) -> None:
        self.delivery = delivery
        self.random = random.Random(seed)  # noqa: S311  (chooses what a test does)
        self.done: list[str] = []

    async def operate(self, message: MessageRef) -> None:
        """Do one thing to this message."""
        operation = self.random.choice(self.OPERATIONS)
        self.done.append(operation)
        with suppress(RPCError):  # nothing there to do it to
            await self._do(operation, message)

    async def _do(self, operation: str, message: MessageRef) -> None:
        client = self.delivery.client
        match operation:
            case "sweep":
                await self.delivery.sweep()
            case "start":
                await asyncio.gather(*(start_message(client, message) for _ in range(2)))
            case "reset":
                point = self.random.choice(await reset_points(client, message) or [1])
                await reset_workflow(client, message, point)
            case "pause":
                await pause(client, message, CLAIM)
            case "unpause":
                await unpause(client, message, CLAIM)
            case _:
                await end_run(client, message, operation)


async def test_nothing_but_a_person_brings_an_ambiguous_message_to_a_new_submission(delivery: Delivery) -> None:
    made = [await make_message(delivery.connection) for _ in range(3)]
    over = AttemptRow(begin_id=uuid4(), lease=timedelta(seconds=-1))
    made += [await make_message(delivery.connection, State.LEASED, over) for _ in range(3)]
    provider = CountingProvider(scripts={message.id: [UNKNOWN, ACCEPTED] for message in made})
    chance = Chance(delivery, seed=20_261)

    async with delivery.working(provider):
        await delivery.swept_into(dict.fromkeys(made, State.AMBIGUOUS))
    before = [await snapshot(delivery.connection, message) for message in made]
    calls = len(provider.calls)
    for _ in range(2):  # with no worker, and with another one
        for _ in range(25):
            await chance.operate(chance.random.choice(made))
        async with delivery.working(provider):
            for _ in range(25):
                await chance.operate(chance.random.choice(made))
            for message in made:
                with suppress(RPCError):
                    await unpause(delivery.client, message, CLAIM)
            await until(lambda: none_runs(delivery.client, *made), within=SOON)
            assert [await delivery.run(message) for message in made] == [State.AMBIGUOUS] * len(made)

    assert set(chance.done) == set(Chance.OPERATIONS)
    assert [await snapshot(delivery.connection, message) for message in made] == before
    assert len(provider.calls) == calls == 3
