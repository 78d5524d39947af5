"""What a chaos run has seen, as the checker reads it: plain values from several witnesses."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar

#: A message where it is about one, and what is wrong.
Found: TypeAlias = Iterator[tuple[str | None, str]]
#: An operator's action, its message, its attempt and its decision.
Subject: TypeAlias = tuple[str, str | None, int | None, str | None]


class Asked(StrEnum):
    """Why the client asked."""

    COMMAND = "command"  #: the same command under the same key until there is an answer
    REPLAY = "replay"  #: once more, after an answer
    CONFLICT = "conflict"  #: another command under a key that has its answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that the client had to `POST /v1/messages`."""

    key: str
    asked: Asked
    status: int
    message: Mapping[str, Any] | None = None  #: as CONTRACT section 2 has it, where the status is 200 or 202

    @property
    def message_id(self) -> str | None:
        """Which message was answered."""
        return str(self.message["id"]) if self.message else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A call to one of the operator's actions, whatever became of it."""

    action: str  #: as the audit names it
    status: int | None  #: None: no answer came, so it may have happened
    message_id: str | None = None
    attempt: int | None = None
    decision: str | None = None
    due: frozenset[int] = frozenset({200, 201})  #: what CONTRACT section 2 has for it

    @property
    def done(self) -> bool:
        """Whether it was answered as done."""
        return self.status in {200, 201}

    @property
    def subject(self) -> Subject:
        """What was done to what."""
        return self.action, self.message_id, self.attempt, self.decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A row of the operators' audit."""

    action: str
    at: datetime
    message_id: str | None = None
    attempt: int | None = None
    decision: str | None = None

    @property
    def subject(self) -> Subject:
        """What was done to what."""
        return self.action, self.message_id, self.attempt, self.decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that the simulator read whole; in the order of its record."""

    message_id: str
    attempt: int
    at: datetime
    answer: str  #: accepted, rejected, throttled or failed
    ses_message_id: str | None = None
    recipient: str | None = None  #: such as `hang` or `bounce`; None where the simulator treats it as any other


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A provider event that the simulator published, or was to; copies have the same id."""

    id: str
    message_id: str
    attempt: int
    type: str  #: in our own words (db.outcomes.EventType)
    tries: int = 1
    over: bool = True  #: no further try is to come
    taken: bool = True  #: the API answered it with a success


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEvent:
    """A provider event that is kept in Postgres as evidence about an attempt."""

    message_id: str
    attempt: int
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A message's row in Postgres."""

    id: str
    tenant: str
    key: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt's row in Postgres."""

    message_id: str
    number: int
    token: int
    claimed_at: datetime
    begun: bool
    closed: bool
    outcome: str | None = None
    provider_message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A whole run, once everything was continued and had its time to settle.

    Attributes:
        answers: What the client was answered, in order.
        unanswered: Keys of commands that had no answer to the end.
        actions: What the operator asked for.
        messages: What the API says of each message that it was asked about, by id; None: 404.
        rows: Of all messages, in Postgres.
        attempts: Of all messages, in Postgres.
        audit: Of all operators, in Postgres.
        events: The provider events that are evidence about a message, in Postgres.
        requests: The simulator's record: the independent witness.
        notifications: What it published about those that it accepted.
        places: What is written where nothing protected may stand, by the name of the place.
        canaries: What is protected, by what it is.
        switched_off: Messages that waited, with the provider paused, while their sender was switched off.
        read_by_others: Messages that another tenant's key could read.

    """

    answers: tuple[Answer, ...] = ()
    unanswered: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    messages: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    audit: tuple[Audited, ...] = ()
    events: tuple[KeptEvent, ...] = ()
    requests: tuple[Request, ...] = ()
    notifications: tuple[Notification, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict, repr=False)
    canaries: Mapping[str, str] = field(default_factory=dict, repr=False)
    switched_off: frozenset[str] = frozenset()
    read_by_others: frozenset[str] = frozenset()

    def known(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Give the messages that the API knows."""
        return ((message_id, message) for message_id, message in self.messages.items() if message is not None)


class _AboutMessage(Protocol):
    @property
    def message_id(self) -> str | None: ...


_Item = TypeVar("_Item", bound=_AboutMessage)


def by_message(items: Iterable[_Item]) -> Mapping[str, list[_Item]]:
    """Sort by message, in order; a message without any has an empty list."""
    grouped: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        grouped[str(item.message_id)].append(item)
    return grouped
