"""The recipients that make the simulator misbehave, and what each of them brings about."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal

from dev.simulator.send_email import addr_spec

FAULT_DOMAIN: Final = "faults.example.com"


class Fault(StrEnum):
    """A misbehaviour, named by the recipient's local part (CONTRACT.md section 4)."""

    THROTTLE = "throttle"  #: 429, always
    THROTTLE_TWICE = "throttle-twice"  #: 429 twice for one message, then accepted
    REJECT = "reject"  #: 400 MessageRejected, whose text names the recipient
    ERROR500 = "error500"  #: 500, not accepted
    UNAVAILABLE = "unavailable"  #: 503, not accepted
    SLOW = "slow"  #: accepted, and answered after two seconds
    HANG = "hang"  #: accepted, and never answered
    DRIP = "drip"  #: accepted, and answered one byte a second
    RESET = "reset"  #: accepted, and the connection is reset instead of an answer
    RESET_BEFORE = "reset-before"  #: the connection is reset before the request counts as read
    GARBAGE = "garbage"  #: accepted, and answered with 200 and HTML
    EMPTY = "empty"  #: accepted, and answered with 200 and no message id
    LOST = "lost"  #: accepted, never answered, and no event ever tells
    SILENT = "silent"  #: accepted and answered; no event follows
    LATE_BOUNCE = "late-bounce"  #: accepted and answered; delivered, then bounced
    DISORDER = "disorder"  #: accepted and answered; its events come twice and out of order


#: The faults that only begin after the mail was accepted.
AcceptedFault = Literal[
    Fault.SLOW,
    Fault.HANG,
    Fault.DRIP,
    Fault.RESET,
    Fault.GARBAGE,
    Fault.EMPTY,
    Fault.LOST,
    Fault.SILENT,
    Fault.LATE_BOUNCE,
    Fault.DISORDER,
]

_BY_NAME: Final = {fault.value: fault for fault in Fault}


def first_fault(recipients: Iterable[str]) -> tuple[Fault, str] | None:
    """Return the fault of the first recipient that has one, and that recipient's bare address; None without any.

    Letter case and what follows a ``+`` in the local part make no difference.
    """
    for recipient in recipients:
        address = addr_spec(recipient)
        fault = fault_of(address)
        if fault is not None:
            return fault, address
    return None


def fault_of(address: str) -> Fault | None:
    """Return the fault that this bare address brings about; None where it is like any other."""
    local, domain = unlabelled(address)
    return _BY_NAME.get(local) if domain == FAULT_DOMAIN else None


def unlabelled(address: str) -> tuple[str, str]:
    """Return a bare address' local part without what follows a ``+``, and its domain, both in lower case."""
    local, _, domain = address.lower().rpartition("@")
    return local.partition("+")[0], domain
