"""Which provider events an accepted submission brings about, and when.

The recipients are those of AWS's own mailbox simulator (Amazon SES Developer Guide, "Using the mailbox simulator") and
those of CONTRACT.md section 4.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from pydantic import BaseModel, ConfigDict

from dev.simulator.faults import AcceptedFault, Fault, fault_of, unlabelled
from dev.simulator.send_email import addr_spec

AWS_SIMULATOR_DOMAIN: Final = "simulator.amazonses.com"

#: When an event follows, in seconds from the acceptance.
SEND_AFTER: Final = 0.1
DELIVERY_AFTER: Final = 0.4
FEEDBACK_AFTER: Final = 0.7
LATE_BOUNCE_AFTER: Final = 1.4
#: How much later everything comes that must find its message ambiguous.
AMBIGUOUS_SECONDS: Final = 25.0
#: SendEmail's own answer to a slow mail comes then (CONTRACT.md section 4), and its events after it.
SLOW_SECONDS: Final = 2.0
#: Between two events that come out of order.
DISORDER_STEP: Final = 0.1


class EventType(StrEnum):
    """What SES publishes, as it names it in ``eventType``."""

    SEND = "Send"  #: SES has taken the mail and will try
    DELIVERY = "Delivery"  #: the recipient's server took it
    BOUNCE = "Bounce"  #: the recipient's server refused it, at once or later
    COMPLAINT = "Complaint"  #: the recipient called it unwanted
    REJECT = "Reject"  #: SES found a virus after it had taken the mail
    DELIVERY_DELAY = "DeliveryDelay"  #: not delivered yet, and still trying
    RENDERING_FAILURE = "Rendering Failure"  #: a template of SES's own did not fit its data
    OPEN = "Open"  #: a tracking picture was fetched
    CLICK = "Click"  #: a tracked link was followed


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True)


class Bounce(_Stored):
    """What a bounce is put down to; without a status there was no delivery status notification to take one from."""

    type: str = "Permanent"
    sub_type: str = "General"
    status: str | None = "5.1.1"


class Event(_Stored):
    """One provider event: what happened to which of a submission's recipients (bare addresses)."""

    type: EventType
    recipients: tuple[str, ...]
    bounce: Bounce | None = None  #: None unless it is a bounce


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvent:
    """An event to come, in seconds from the acceptance."""

    event: Event
    happens_after: float  #: the time that the event itself tells
    due_after: float  #: when it is published
    copies: int = 1  #: how often the same notification is published


_AWS_BOUNCES: Final = {
    "bounce": Bounce(),
    "ooto": Bounce(type="Transient", status=None),
    "suppressionlist": Bounce(sub_type="OnAccountSuppressionList"),
}
_NEVER_DELIVERED: Final = {"bounce", "suppressionlist"}


def plan(recipients: Iterable[str], fault: AcceptedFault | None) -> tuple[PlannedEvent, ...]:
    """Return the events of a mail to these recipients, whose first fault is `fault`, in the order of publication."""
    addresses = tuple(dict.fromkeys(addr_spec(recipient) for recipient in recipients))
    match fault:
        case Fault.LOST | Fault.SILENT:
            return ()
        case Fault.HANG | Fault.DRIP | Fault.RESET | Fault.GARBAGE | Fault.EMPTY:
            return tuple(_in_order(addresses, AMBIGUOUS_SECONDS))
        case Fault.SLOW:
            return tuple(_in_order(addresses, SLOW_SECONDS))
        case Fault.DISORDER:
            return tuple(_out_of_order(tuple(_in_order(addresses, 0.0))))
        case Fault.LATE_BOUNCE:
            # CONTRACT.md names no Send here: a Delivery is the first that is heard of the mail.
            return tuple(each for each in _in_order(addresses, 0.0) if each.event.type is not EventType.SEND)
        case None:
            return tuple(_in_order(addresses, 0.0))
        case _:
            assert_never(fault)


def _in_order(addresses: tuple[str, ...], start: float) -> Iterator[PlannedEvent]:
    yield _at(start + SEND_AFTER, Event(type=EventType.SEND, recipients=addresses))
    delivered = tuple(address for address in addresses if _aws_name(address) not in _NEVER_DELIVERED)
    if delivered:
        yield _at(start + DELIVERY_AFTER, Event(type=EventType.DELIVERY, recipients=delivered))
    for address in addresses:
        name = _aws_name(address)
        if name == "complaint":
            yield _at(start + FEEDBACK_AFTER, Event(type=EventType.COMPLAINT, recipients=(address,)))
        elif name in _AWS_BOUNCES:
            yield _at(start + FEEDBACK_AFTER, _bounce(address, _AWS_BOUNCES[name]))
        elif fault_of(address) is Fault.DISORDER:
            yield _at(start + FEEDBACK_AFTER, _bounce(address, Bounce()))
        elif fault_of(address) is Fault.LATE_BOUNCE:
            yield _at(start + LATE_BOUNCE_AFTER, _bounce(address, Bounce()))


def _out_of_order(events: tuple[PlannedEvent, ...]) -> Iterator[PlannedEvent]:
    """Publish what has happened backwards, each notification twice, once the last of it has happened."""
    due = max(each.happens_after for each in events)
    for each in reversed(events):
        due += DISORDER_STEP
        yield PlannedEvent(event=each.event, happens_after=each.happens_after, due_after=due, copies=2)


def _at(after: float, event: Event) -> PlannedEvent:
    return PlannedEvent(event=event, happens_after=after, due_after=after)


def _bounce(address: str, bounce: Bounce) -> Event:
    return Event(type=EventType.BOUNCE, recipients=(address,), bounce=bounce)


def _aws_name(address: str) -> str | None:
    """Return the local part of an address of AWS's mailbox simulator, None for any other."""
    local, domain = unlabelled(address)
    return local if domain == AWS_SIMULATOR_DOMAIN else None
