"""The queue's door of provider events: `fencepost events`, a process that takes them from SQS."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Sequence
from typing import Final

import structlog
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from api import sns
from api.aws import AwsError, Queue, QueueMessage, QueueSettings
from api.certificates import Certificates, CertificateUnavailableError
from api.event_intake import EventIntake, Received
from api.sns import EventSettings, NotAnEnvelopeError, UnverifiedError, Verifier
from db import crash_points
from db.engine import DatabaseSettings, UnavailableError, create_engine
from db.event_subscriptions import SubscriptionStore
from db.events import EventStore
from db.fit import Fit, SchemaBehindError
from db.reading import MessageReader
from workflows import logs

#: Between tries while Postgres, a certificate or SQS is away.
_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
#: What SES says through a new topic, as text.
_SET_UP: Final = "Successfully validated SNS topic"

_log = structlog.get_logger("events")


class ConsumerSettings(BaseSettings):
    """What the consumer needs of the API's settings."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_", hide_input_in_errors=True)

    address_key: SecretStr = Field(
        min_length=32, description="Secret, 32 characters or more: hashes addresses for look-ups. Never change it."
    )


class Consumer:
    """Takes events out of a queue: each is deleted once it is committed, and not before.

    What can't be believed or read is left in the queue: its dead-letter queue takes it after as many tries as the
    queue's owner said. While Postgres is away nothing is used up: what was received is held, and tried again.

    Args:
        queue: Where events come from.
        intake: Where they go.
        settings: How the queue is read.

    """

    def __init__(self, queue: Queue, intake: EventIntake, settings: QueueSettings) -> None:
        self._queue = queue
        self._intake = intake
        self._settings = settings

    async def run(self, stop: asyncio.Event) -> None:
        """Take events until `stop`; what was received by then is finished, or given back."""
        async with asyncio.TaskGroup() as receivers:
            for _ in range(self._settings.receivers):
                receivers.create_task(self._receive(stop))

    async def _receive(self, stop: asyncio.Event) -> None:
        pause = _PAUSE
        while not stop.is_set():
            try:
                messages = await self._queue.receive()
            except AwsError as error:
                _log.error("queue_unavailable", error=error.code)
                await _stopped(stop, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _PAUSE
            if messages:
                await self._take(messages, stop)

    async def _take(self, messages: Sequence[QueueMessage], stop: asyncio.Event) -> None:
        """Take what one poll brought, and delete what is done."""
        waiting = set(messages)
        holding = asyncio.create_task(self._hold(waiting))
        try:
            done = await asyncio.gather(*(self._take_one(message, waiting, stop) for message in messages))
        finally:
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
        finished = [message for message, is_done in zip(messages, done, strict=True) if is_done]
        try:
            if finished and (left := await self._queue.delete(finished)):
                _log.warning("events_come_again", count=left)
            if waiting:  # the process stops, and somebody else may have them at once
                await self._queue.hold(sorted(waiting, key=lambda each: each.id), 0)
        except AwsError as error:
            # They come again, and change nothing then.
            _log.warning("events_come_again", count=len(finished), error=error.code)

    async def _take_one(self, message: QueueMessage, waiting: set[QueueMessage], stop: asyncio.Event) -> bool:
        """Take one event; True where it may be deleted. What stays in `waiting` was not tried to the end."""
        told = False
        while True:
            try:
                await self._believed(message)
            except (UnavailableError, CertificateUnavailableError) as error:
                if not told:
                    _log.warning("event_waits", queue_message=message.id, error=type(error).__name__)
                    told = True
                if await _stopped(stop, _PAUSE):
                    return False
                continue
            except (NotAnEnvelopeError, UnverifiedError) as error:
                _log.error("event_left", queue_message=message.id, error=type(error).__name__)
                waiting.discard(message)
                return False
            except Exception as error:  # noqa: BLE001  (whatever it is, the other events go on)
                _log.exception("event_failed", queue_message=message.id, error=type(error).__name__)
                waiting.discard(message)
                return False
            waiting.discard(message)
            return True

    async def _believed(self, message: QueueMessage) -> Received:
        try:
            sns.parse(message.body)
        except NotAnEnvelopeError:
            text = message.body.decode()
            if self._settings.raw and _could_be_from_ses(text):
                return await self._intake.receive_message(text, notification_id=f"sqs:{message.id}")
            raise
        return await self._intake.receive(message.body)

    async def _hold(self, waiting: set[QueueMessage]) -> None:
        """Keep to ourselves what takes long."""
        while True:
            await asyncio.sleep(self._settings.visibility_seconds / 3)
            if waiting:
                with contextlib.suppress(AwsError):
                    await self._queue.hold(list(waiting), self._settings.visibility_seconds)


def _could_be_from_ses(text: str) -> bool:
    if text.startswith(_SET_UP):
        return True
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait for `stop`, at most so long; say whether it came."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()


async def serve() -> None:
    """Take events until SIGTERM or SIGINT; a poll under way is waited for.

    Raises SchemaBehindError, UnavailableError, and AwsError where the queue can't be read.
    """
    crash_points.arm()
    settings, events, queue_settings = ConsumerSettings(), EventSettings(), QueueSettings()
    engine = create_engine(DatabaseSettings(), application="fencepost-events")
    if await MessageReader(engine).schema_fit() is Fit.BEHIND:
        raise SchemaBehindError
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    certificates = Certificates()
    intake = EventIntake(
        EventStore(engine),
        SubscriptionStore(engine),
        # A queue may hold an event for 14 days, and one that comes again changes nothing.
        Verifier(events, certificates, checks_age=False),
        address_key=settings.address_key.get_secret_value().encode(),
    )
    with Queue(queue_settings) as queue:
        if not await queue.gives_up():
            _log.warning("queue_has_no_dead_letter_queue", fix="give it a RedrivePolicy, maxReceiveCount 5 or more")
        _log.info("events_ready")
        await Consumer(queue, intake, queue_settings).run(stop)
    await certificates.aclose()
    await engine.dispose()
    _log.info("events_stopped")


def main() -> None:
    """Run the consumer process."""
    logs.set_up("events")
    asyncio.run(serve())
