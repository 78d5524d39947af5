"""What comes out of the stores: frozen, and with protected content that no `repr` shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from db.ids import MessageId, TenantId
from db.outcomes import Outcome, Reason


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What came of one provider call: ids and codes, never the provider's text."""

    outcome: Outcome
    provider: str
    reason: Reason | None = None
    provider_message_id: str | None = None  #: set exactly when accepted
    request_id: str | None = None  #: the provider's own name for the request, for its support
    code: str | None = None  #: the provider's error code
