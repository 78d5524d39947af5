"""The baseline with another engine: the same three fenced steps as a DBOS workflow, which keeps its state in Postgres.

A workflow is started directly and not through a DBOS queue, which writes once more to claim each, and polls.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import uvloop
from dbos import DBOS, SetWorkflowID  # type: ignore[import-not-found,unused-ignore]  # only `make bench` installs it

from bench import fenced_steps, orders
from bench.fenced_steps import IN_FLIGHT, FencedSteps
from workflows import logs

#: The variable with the address of DBOS's own database.
SYSTEM_DATABASE_URL: Final = "FENCEPOST_BENCH_DBOS_URL"

Deliver = Callable[[str], Awaitable[str]]


def registered(steps: FencedSteps) -> Deliver:
    """Register the workflow, and return it: it takes a message's id, and gives the state that the message ends in.

    No step is retried: a second submit could be a second mail, if begin did not refuse it.
    """

    async def deliver(message: str) -> str:
        # The workflow's id is the claim's, so that a workflow that DBOS recovers finds its own lease.
        attempt: int = await DBOS.run_step_async({"name": "claim"}, steps.claim, message, message)
        await DBOS.run_step_async({"name": "submit"}, steps.submit, message, attempt)
        state: str = await DBOS.run_step_async({"name": "finalize"}, steps.finalize, message, attempt)
        return state

    workflow: Deliver = DBOS.workflow(name="deliver")(deliver)
    return workflow


async def drive(deliver: Deliver, message_ids: Sequence[str]) -> Counter[str]:
    """Run workflows, as many at once as the product's worker has slots."""
    waiting = iter(message_ids)
    ended: Counter[str] = Counter()

    async def lane(waiting: Iterator[str]) -> None:
        for message in waiting:
            with SetWorkflowID(message):
                state = await deliver(message)
            ended[state] += 1

    await asyncio.gather(*(lane(waiting) for _ in range(IN_FLIGHT)))
    return ended


async def run(port: int) -> None:
    """Run until SIGTERM."""
    async with fenced_steps.opened("dbos") as steps:
        deliver = registered(steps)
        DBOS(
            config={
                "name": "fencepost-bench",
                "system_database_url": os.environ[SYSTEM_DATABASE_URL],
                "log_level": "ERROR",
                "enable_otlp": False,
            }
        )
        DBOS.launch()
        try:
            await orders.serve(port, lambda message_ids: drive(deliver, message_ids))
        finally:
            DBOS.destroy()


if __name__ == "__main__":
    logs.set_up("dbos", level="ERROR")
    uvloop.run(run(int(sys.argv[1])))
