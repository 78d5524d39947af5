"""The baseline's worker process: one workflow, one plain activity that calls the provider, no database."""

import asyncio
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import uvloop
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker, WorkerConfig

from activities.ses import SesProvider, SesSettings
from bench.bare_workflow import TASK_QUEUE, BareWorkflow
from db.engine import DatabaseSettings, create_engine
from db.ids import MessageId
from db.lifecycle import State
from db.outcomes import Outcome
from db.records import Addressee, Submission
from db.store import MessageStore
from worker import DeliverySettings, WorkerSettings, build_workers
from workflows.contracts import MessageInput, MessageResult
from workflows.temporal import connect

#: As the demo template makes it.
_TEXT = "Hello Ada,\n\nthis mail went through Fencepost: submitted once, and never guessed about.\n"
_HTML = f"<p>{_TEXT}</p>"


class BareSubmit:
    """Calls the provider as the product does, in a thread, and does nothing before or after."""

    def __init__(self, provider: SesProvider, executor: ThreadPoolExecutor, *, call_budget: float) -> None:
        self._provider = provider
        self._executor = executor
        self._call_budget = call_budget

    @activity.defn(name="bare-submit")
    async def submit(self, message: MessageInput) -> MessageResult:
        """Submit, and say whether the provider took it."""
        request = self._provider.prepare(_submission(MessageId(UUID(message.message_id))))
        deadline = time.monotonic() + self._call_budget
        result = await asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: self._provider.call(request, deadline=deadline)
        )
        return MessageResult(state=State.PROVIDER_ACCEPTED if result.outcome is Outcome.ACCEPTED else State.DEAD)


def _submission(message_id: MessageId) -> Submission:
    return Submission(
        message_id=message_id,
        attempt=1,
        request_hash="v1:" + "0" * 64,
        sender=Addressee(role="from", address="hello@demo.example.com", name="Demo"),
        recipients=(Addressee(role="to", address="ada@example.com", name="Ada"),),
        reply_to=(),
        subject="Welcome, Ada",
        text=_TEXT,
        html=_HTML,
        headers=(),
        tags={},
    )


def _as_the_product(client: Client, provider: SesProvider, executor: ThreadPoolExecutor) -> WorkerConfig:
    """Give the options of the product's own worker: pollers, slots, sandbox and all. It never runs here."""
    _, product = build_workers(
        client=client,
        store=MessageStore(create_engine(DatabaseSettings(), application="bench")),
        provider=provider,
        executor=executor,
        settings=WorkerSettings(),
        delivery=DeliverySettings(),
    )
    return product.config()


async def run() -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    slots = WorkerSettings().slots
    client = await connect()
    with ThreadPoolExecutor(slots, thread_name_prefix="provider") as executor:
        provider = SesProvider(SesSettings(), connections=slots)
        submit = BareSubmit(provider, executor, call_budget=DeliverySettings().call_budget_seconds)
        options = _as_the_product(client, provider, executor)
        options |= {
            "task_queue": TASK_QUEUE,
            "workflows": [BareWorkflow],
            "activities": [submit.submit],
            "interceptors": [],
        }
        async with Worker(**options):
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            await stop.wait()


if __name__ == "__main__":
    uvloop.run(run())
