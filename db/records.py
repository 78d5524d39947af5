"""What comes out of the stores: frozen, and with protected content that no `repr` shows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from db.ids import MessageId, TenantId
from db.outcomes import EventType, Outcome, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """A message as Temporal may know it: ids only."""

    id: MessageId
    tenant_id: TenantId
    request_hash: str

    @property
    def workflow_id(self) -> str:
        """Give the one workflow id of this message: the hash covers the idempotency key (DESIGN: identity)."""
        return f"{self.tenant_id}/{self.request_hash}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredLease:
    """A lease that ran out."""

    message_id: MessageId
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressee:
    """Somebody whom a submission names."""

    role: str
    address: str = field(repr=False)
    name: str | None = field(repr=False)
    position: int = 0

    @property
    def place(self) -> str:
        """Say which recipient of the message this is, such as `cc:0`."""
        return f"{self.role}:{self.position}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One attempt's mail, complete, for the provider alone."""

    message_id: MessageId
    attempt: int
    request_hash: str
    sender: Addressee
    recipients: tuple[Addressee, ...]
    reply_to: tuple[Addressee, ...]
    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str | None = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    tags: Mapping[str, str] = field(repr=False)

    def without(self, places: Collection[str]) -> "Submission":
        """Give the same mail without the recipients at these places."""
        return replace(self, recipients=tuple(to for to in self.recipients if to.place not in places))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What came of one provider call: ids and codes, never the provider's text."""

    outcome: Outcome
    provider: str
    reason: Reason | None = None
    provider_message_id: str | None = None  #: set exactly when accepted
    request_id: str | None = None  #: the provider's own name for the request, for its support
    code: str | None = None  #: the provider's error code


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecipient:
    """Somebody whom a provider event names."""

    address_hash: bytes  #: keyed hash of the folded address; the address itself is not kept
    status: str | None = None  #: the enhanced status code (RFC 3463) that came with it, such as 5.1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEvent:
    """One notification about one submission, verified and reduced: ids, codes and hashes."""

    provider: str
    notification_id: str  #: the provider's name for the notification; a repeat has the same
    natural_key: str  #: a digest of what the event says; the provider may publish the same under another id
    type: EventType
    recipients: tuple[NamedRecipient, ...]  #: whom it is about; empty where it is about the whole mail
    provider_message_id: str | None
    message_tag: str | None  #: `fencepost_message`, as it came back
    attempt_tag: str | None  #: `fencepost_attempt`, likewise
    reason: Reason | None = None
    detail: Mapping[str, str] = field(default_factory=dict)  #: the provider's own classes and codes, closed words only
    occurred_at: datetime | None = None
