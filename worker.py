"""The worker process: settings, engine, provider and activities, composed into two Temporal workers."""

import asyncio
import os
import secrets
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final, Self

import structlog
import uvloop
from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from temporalio.client import Client
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.claim import ClaimActivity
from activities.finalize import FinalizeActivity
from activities.provider import Provider, Request
from activities.ses import SesProvider, SesSettings
from activities.submit import BEGIN_MARGIN, SubmitActivity
from activities.sweep import SweepActivity
from db import crash_points
from db.decisions import Limits
from db.engine import DatabaseSettings, create_engine
from db.events import EventStore
from db.fit import Fit, SchemaBehindError
from db.reading import MessageReader
from db.records import MessageRef
from db.store import MessageStore
from workflows import logs, policies
from workflows.failures import SanitizeFailures
from workflows.message import MessageWorkflow
from workflows.sweep import SweepWorkflow
from workflows.temporal import check_search_attributes, connect, ensure_sweep_schedule, start_message

#: A body of claim calls the provider, and so does one of submit where it is an activity of its own: none waits for a
#: thread once it has begun.
THREADS_A_SLOT: Final = 2

_log = structlog.get_logger("worker")


class DeliverySettings(BaseSettings):
    """The times and limits of a delivery (CONTRACT: times and limits). The ladder is checked at every start."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_", hide_input_in_errors=True)

    call_budget_seconds: float = Field(default=12, gt=0, description="Wall clock from begin to the end of the call.")
    submit_timeout_seconds: float = Field(default=20, gt=0, description="Start-to-close of submit.")
    lease_seconds: float = Field(default=60, ge=3, description="How long a claim holds a message.")
    shutdown_grace_seconds: float = Field(default=30, gt=0, description="How long a worker may finish calls in flight.")
    sweep_seconds: float = Field(default=10, gt=0, description="How often the sweep runs.")
    attempts: int = Field(default=8, ge=1, description="Attempts that count before a message is dead.")
    backoff_base_seconds: float = Field(default=2, gt=0, description="First backoff, before jitter.")
    backoff_cap_seconds: float = Field(default=300, gt=0, description="Longest backoff.")
    account_wait_seconds: float = Field(
        default=600, gt=0, description="Least wait after SES refused the whole account (quota, pause, credentials)."
    )
    max_age_seconds: float = Field(default=86_400, gt=0, description="Age at which a message gives up.")
    pause_look_seconds: float = Field(
        default=60, gt=0, description="Longest wait between looks while the provider is switched off."
    )

    @model_validator(mode="after")
    def _ladder(self) -> Self:
        rungs = (
            (
                self.call_budget_seconds < self.submit_timeout_seconds,
                "FENCEPOST_CALL_BUDGET_SECONDS must be less than FENCEPOST_SUBMIT_TIMEOUT_SECONDS",
            ),
            (
                self.submit_timeout_seconds < self.lease_seconds,
                "FENCEPOST_SUBMIT_TIMEOUT_SECONDS must be less than FENCEPOST_LEASE_SECONDS",
            ),
            (
                self.call_budget_seconds + BEGIN_MARGIN.total_seconds() < self.lease_seconds,
                "FENCEPOST_LEASE_SECONDS must be more than FENCEPOST_CALL_BUDGET_SECONDS and one second",
            ),
            (
                self.shutdown_grace_seconds >= self.submit_timeout_seconds,
                "FENCEPOST_SHUTDOWN_GRACE_SECONDS must be at least FENCEPOST_SUBMIT_TIMEOUT_SECONDS",
            ),
        )
        broken = [rule for holds, rule in rungs if not holds]
        if broken:
            raise ValueError("; ".join(broken))
        return self

    def limits(self) -> Limits:
        """Give what the decisions need."""
        return Limits(
            attempts=self.attempts,
            max_age=timedelta(seconds=self.max_age_seconds),
            backoff_base=timedelta(seconds=self.backoff_base_seconds),
            backoff_cap=timedelta(seconds=self.backoff_cap_seconds),
            account_wait=timedelta(seconds=self.account_wait_seconds),
        )


class WorkerSettings(BaseSettings):
    """One worker process."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_WORKER_", hide_input_in_errors=True)

    name: str = Field(default="worker", description="Stands in logs and in the owner of a lease.")
    slots: int = Field(default=50, ge=1, description="Attempts at a time; threads are kept for their submissions.")
    claims_per_second: float | None = Field(
        default=None, gt=0, description="Pace of all workers together, to the provider's quota. None: no limit."
    )
    metrics_host: str = Field(default="127.0.0.1", description="Where Temporal's worker metrics are served.")
    metrics_port: int | None = Field(default=None, description="Port of the worker metrics. None: not served.")


def build_sweep(store: MessageStore, client: Client, delivery: DeliverySettings) -> SweepActivity:
    """Compose the sweep, for the worker and for the command line alike."""

    async def start(message: MessageRef) -> None:
        await start_message(client, message)

    overdue = timedelta(seconds=delivery.sweep_seconds)
    return SweepActivity(store, EventStore(store.engine), start=start, limits=delivery.limits(), overdue=overdue)


async def run(stop: asyncio.Event | None = None) -> None:
    """Run until `stop`, or SIGTERM or SIGINT: then take nothing new, and let calls in flight end and be recorded."""
    crash_points.arm()
    settings, delivery, ses = WorkerSettings(), DeliverySettings(), SesSettings()
    # A poll that is cut off at shutdown can lose a task on its way; wait for the last one instead.
    os.environ.setdefault("TEMPORAL_POLL_SHUTDOWN_INTERRUPT_WAIT_MS", "2000")
    engine = create_engine(DatabaseSettings(), application=f"fencepost-{settings.name}")
    store = MessageStore(engine)
    if await MessageReader(engine).schema_fit() is Fit.BEHIND:
        raise SchemaBehindError
    client = await connect(runtime=_runtime(settings))
    await check_search_attributes(client)
    await ensure_sweep_schedule(client, every=timedelta(seconds=delivery.sweep_seconds))
    stopping = stop or _on_signals()
    threads = THREADS_A_SLOT * settings.slots
    with ThreadPoolExecutor(threads, thread_name_prefix="provider") as executor:
        provider = SesProvider(ses, connections=threads)
        workers = build_workers(
            client=client,
            store=store,
            provider=provider,
            executor=executor,
            settings=settings,
            delivery=delivery,
        )
        async with asyncio.TaskGroup() as group:
            for each in workers:
                group.create_task(each.run())
            _log.info("worker_ready", worker=settings.name)
            await stopping.wait()
            _log.info("worker_stopping", worker=settings.name)
            for each in workers:
                group.create_task(each.shutdown())
    await engine.dispose()
    _log.info("worker_stopped", worker=settings.name)


def build_workers(
    *,
    client: Client,
    store: MessageStore,
    provider: Provider[Request],
    executor: ThreadPoolExecutor,
    settings: WorkerSettings,
    delivery: DeliverySettings,
) -> tuple[Worker, Worker]:
    """Compose the two workers: the claim queue, paced and fair, and the queue of everything else."""
    limits = delivery.limits()
    submit_within = timedelta(seconds=delivery.submit_timeout_seconds)
    grace = timedelta(seconds=delivery.shutdown_grace_seconds)
    submit = SubmitActivity(
        store,
        provider,
        executor,
        call_budget=timedelta(seconds=delivery.call_budget_seconds),
        submit_within=submit_within,
        limits=limits,
    )
    finalize = FinalizeActivity(store, limits=limits)
    claim = ClaimActivity(
        store,
        submit,
        # No other process, and no earlier life of this one, has this name.
        owner=f"{settings.name}-{secrets.token_hex(4)}",
        lease=timedelta(seconds=delivery.lease_seconds),
        limits=limits,
        submit_within=submit_within,
        pause_look=timedelta(seconds=delivery.pause_look_seconds),
    )
    sweep = build_sweep(store, client, delivery)
    claims = Worker(
        client,
        task_queue=policies.CLAIM_QUEUE,
        activities=[claim.claim],
        max_concurrent_activities=settings.slots,
        max_task_queue_activities_per_second=settings.claims_per_second,
        graceful_shutdown_timeout=grace,
        interceptors=[SanitizeFailures()],
    )
    messages = Worker(
        client,
        task_queue=policies.MESSAGE_QUEUE,
        workflows=[MessageWorkflow, SweepWorkflow],
        activities=[submit.submit, finalize.finalize, sweep.sweep],
        max_concurrent_activities=settings.slots,
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=policies.STICKY_SCHEDULE_TO_START,
        graceful_shutdown_timeout=grace,
        interceptors=[SanitizeFailures()],
    )
    return claims, messages


def _runtime(settings: WorkerSettings) -> Runtime | None:
    if settings.metrics_port is None:
        return None
    address = f"{settings.metrics_host}:{settings.metrics_port}"
    metrics = PrometheusConfig(
        bind_address=address, counters_total_suffix=True, unit_suffix=True, durations_as_seconds=True
    )
    return Runtime(telemetry=TelemetryConfig(metrics=metrics))


def _on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def main() -> None:
    """Run one worker process."""
    logs.set_up(WorkerSettings().name)
    uvloop.run(run())


if __name__ == "__main__":
    main()
