"""What crosses Temporal between the workflow and its activities: ids, numbers and codes.

Never content, and no fencing token either: an attempt is named by its message and number.

Each activity takes one record and gives one record with an enum as its tag (a union of records would be decoded as
its first member). New fields get defaults, so that a worker of either version reads the other's.
"""

from dataclasses import dataclass

from db.decisions import ClaimAnswer, FinalAnswer
from db.lifecycle import State

#: The wire names: renaming a function must not change a history.
CLAIM = "claim"
SUBMIT = "submit"
FINALIZE = "finalize"
SWEEP = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Take the lease of a message."""

    message_id: str
    claim_id: str  #: unique for each try, the same for each run of it


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReply:
    """What the claim came to, and how far the body that took the lease went on with its attempt.

    A body that only claimed leaves `submitted` empty: then submit and finalize are activities of their own.
    """

    answer: ClaimAnswer
    state: State  #: after the last step that was done
    attempt: int = 0
    wait_seconds: float = 0.0  #: before another look is worth it
    submit_within_seconds: float = 0.0  #: submit's start-to-close: the worker that leases sets the ladder
    submitted: str = ""  #: what submit came to, if it was done; for people who look into Temporal
    final: FinalAnswer | None = None  #: what finalize came to, if it was done


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """Submit an attempt."""

    message_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitReply:
    """What a person sees of it in Temporal; the workflow asks the row, not this."""

    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeRequest:
    """Settle the lease of an attempt."""

    message_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeReply:
    """Where the message stands, and when to look again."""

    answer: FinalAnswer
    state: State
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReply:
    """What a sweep did."""

    settled: int = 0
    started: int = 0
    failed: int = 0
    matched: int = 0  #: provider events whose message was found at last
