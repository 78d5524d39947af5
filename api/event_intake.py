"""Taking provider events in, whichever door they come by: what SNS signed is read, kept and applied."""

from enum import StrEnum
from typing import Final, assert_never

import structlog

from api import ses_events, sns
from api.sns import EnvelopeType, UnverifiedError, Verifier
from db.event_subscriptions import SubscriptionStore
from db.events import EventStore
from db.records import ProviderEvent

_log = structlog.get_logger("events")


class Received(StrEnum):
    """What became of something that a door received and could believe."""

    APPLIED = "applied"  #: an event, in its message's timeline now
    DUPLICATE = "duplicate"  #: an event that was here before; nothing changed
    UNMATCHED = "unmatched"  #: an event, kept; its message is looked for again
    IGNORED = "ignored"  #: nothing about a mail, such as AWS's text when a topic is set up
    SUBSCRIPTION_KEPT = "subscription_kept"  #: a topic asks to be confirmed: an operator does that


#: Who deletes a subscription says so in its topic; nobody may think that events still come.
_UNSUBSCRIBED: Final = "subscription_ended"


class EventIntake:
    """The path behind both doors.

    Args:
        events: Where events are kept and applied.
        subscriptions: Where wishes of topics are kept.
        verifier: Tells what SNS signed.
        address_key: Keys the hashes of addresses.

    """

    def __init__(
        self, events: EventStore, subscriptions: SubscriptionStore, verifier: Verifier, *, address_key: bytes
    ) -> None:
        self._events = events
        self._subscriptions = subscriptions
        self._verifier = verifier
        self._address_key = address_key

    async def receive(self, body: bytes) -> Received:
        """Take what SNS posts, or puts into a queue.

        Raises NotAnEnvelopeError, UnverifiedError, CertificateUnavailableError, and UnavailableError for any trouble
        with Postgres: after that, taking it again is safe.
        """
        envelope = sns.parse(body)
        try:
            await self._verifier.verify(envelope)
        except UnverifiedError as error:
            # The topic only where it is ours: anybody may write anything else there.
            _log.warning("notification_refused", reason=error.reason.value, type=envelope.type.value)
            raise
        match envelope.type:
            case EnvelopeType.NOTIFICATION:
                return await self.receive_message(envelope.message, notification_id=envelope.message_id)
            case EnvelopeType.SUBSCRIPTION_CONFIRMATION:
                await self._subscriptions.keep(envelope.topic_arn, envelope.token or "")
                _log.warning("subscription_waits", topic=envelope.topic_arn, fix="fencepost events confirm")
                return Received.SUBSCRIPTION_KEPT
            case EnvelopeType.UNSUBSCRIBE_CONFIRMATION:
                _log.error(_UNSUBSCRIBED, topic=envelope.topic_arn)
                return Received.IGNORED
            case _:
                assert_never(envelope.type)

    async def receive_message(self, message: str, *, notification_id: str) -> Received:
        """Take what stands in a notification that is believed already."""
        event = ses_events.read(message, notification_id=notification_id, address_key=self._address_key)
        if event is None:
            _log.info("notification_ignored", notification_id=notification_id)
            return Received.IGNORED
        received = Received((await self._events.take(event)).value)
        _say(event, received)
        return received


def _say(event: ProviderEvent, received: Received) -> None:
    """Log what became of an event; ids and closed words only."""
    _log.info(
        "provider_event",
        result=received.value,
        type=event.type.value,
        notification_id=event.notification_id,
        message_id=event.message_tag if received is not Received.UNMATCHED else None,
        reason=event.reason.value if event.reason else None,
    )
