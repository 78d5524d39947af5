"""How an attempt ended and why: the closed lists that the API shows and the decisions rest on."""

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """How an attempt ended."""

    ACCEPTED = "accepted"  #: the provider answered yes, with a message id
    REFUSED = "refused"  #: the provider definitely did not take it, and may take it later
    REJECTED = "rejected"  #: the provider definitely did not take it, and never will; shown as `refused`
    UNKNOWN = "unknown"  #: the request may have reached the provider, and its answer is not known
    NOT_SUBMITTED = "not_submitted"  #: begun, and provably nothing reached the provider
    NOT_BEGUN = "not_begun"  #: closed before it began: no call was made, none can be made any more
    RELEASED = "released"  #: given back at begin, because the provider was switched off


#: What `record` may write: each is a definite result of submit, or its honest "I don't know".
RECORDABLE: Final = (
    Outcome.ACCEPTED,
    Outcome.REFUSED,
    Outcome.REJECTED,
    Outcome.UNKNOWN,
    Outcome.NOT_SUBMITTED,
)


class Reason(StrEnum):
    """Why something happened: a closed list, safe to show."""

    PROVIDER_TIMEOUT = "provider_timeout"  #: no answer within the call budget
    CONNECTION_LOST = "connection_lost"  #: the connection broke before an answer was read
    PROVIDER_ERROR = "provider_error"  #: an answer that says neither yes nor no (5xx, 3xx, unknown codes)
    RESPONSE_UNREADABLE = "response_unreadable"  #: a success without a message id, or nothing that parses
    THROTTLED = "throttled"  #: too fast for the provider
    QUOTA_EXCEEDED = "quota_exceeded"  #: the account's daily quota is used up
    ACCOUNT_PAUSED = "account_paused"  #: the provider paused or suspended the account
    CREDENTIALS_REFUSED = "credentials_refused"  #: the provider refused our credentials, or there are none
    REJECTED = "rejected"  #: the provider refused this message for good
    REQUEST_INVALID = "request_invalid"  #: the client library refused the request: a bug, intake should have seen it
    PROVIDER_UNREACHABLE = "provider_unreachable"  #: no connection came about; nothing was submitted
    CALL_TOO_LATE = "call_too_late"  #: the call budget was over before the first byte; nothing was submitted
    RECIPIENT_SUPPRESSED = "recipient_suppressed"
    PROVIDER_SUPPRESSION_LIST = "provider_suppression_list"
    TENANT_DISABLED = "tenant_disabled"
    SENDER_DISABLED = "sender_disabled"
    CREDENTIAL_REVOKED = "credential_revoked"
    SCOPE_MISSING = "scope_missing"
    PROVIDER_PAUSED = "provider_paused"  #: an operator switched the provider off
    EXPIRED = "expired"  #: older than the age after which a message gives up
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    LEASE_EXPIRED = "lease_expired"
    OPERATOR = "operator"


#: Refusals of the whole account: they use up no attempt, and only age ends them, or one bad night would kill a backlog.
ACCOUNT_REASONS: Final = frozenset({Reason.QUOTA_EXCEEDED, Reason.ACCOUNT_PAUSED, Reason.CREDENTIALS_REFUSED})


class EventType(StrEnum):
    """A provider's event about one attempt, in the project's own words."""

    SEND = "send"
    REJECT = "reject"  #: taken, and then not sent: a virus, or a template that couldn't be rendered
    DELIVERY = "delivery"
    BOUNCE = "bounce"  #: permanent
    COMPLAINT = "complaint"
    DELAY = "delay"
    SOFT_BOUNCE = "soft_bounce"  #: transient or undetermined, or an automatic answer such as an out-of-office reply
    OTHER = "other"  #: anything else: it only shows that the provider took the mail


class EvidenceKind(StrEnum):
    """Where a piece of evidence about an attempt comes from."""

    EVENT = "event"  #: a provider event that names the attempt
    LATE_RESULT = "late_result"  #: what a worker wanted to record after its attempt was closed


class SuppressionReason(StrEnum):
    """Why an address is suppressed."""

    HARD_BOUNCE = "hard_bounce"
    COMPLAINT = "complaint"
    MANUAL = "manual"


class RecipientOutcome(StrEnum):
    """What became of one recipient."""

    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    SUPPRESSED = "suppressed"
    REJECTED = "rejected"
