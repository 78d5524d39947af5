"""What answers look like: redacted by construction, since these models have no place for anything else."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, PlainSerializer

from db.lifecycle import Actor, State
from db.outcomes import EvidenceKind, Outcome, Reason
from db.reading import AttemptView, ListedMessage, MessageView

#: RFC 3339, UTC, microseconds.
Time = Annotated[
    datetime,
    PlainSerializer(lambda moment: moment.isoformat().replace("+00:00", "Z"), return_type=str),
    Field(json_schema_extra={"format": "date-time"}),
]


def located(what: str) -> dict[str, Any]:
    """Describe for OpenAPI the header that says where something is read."""
    return {
        "Location": {
            "description": f"Where {what} is read.",
            "required": True,
            "schema": {"type": "string", "format": "uri-reference"},
        }
    }


class TemplateBody(BaseModel):
    """The template version of a message."""

    key: str
    version: int


class SenderRefBody(BaseModel):
    """The sender of a message."""

    key: str


class RecipientBody(BaseModel):
    """A recipient, redacted, with an outcome of its own."""

    role: Literal["to", "cc", "bcc"]
    address: str = Field(examples=["a***@example.com"])
    outcome: Literal["delivered", "bounced", "complained", "suppressed", "rejected"] | None


class AttemptBody(BaseModel):
    """One claim's try. Claims that were released or never begun stand here too, and don't count."""

    number: int
    outcome: Literal["accepted", "refused", "unknown", "not_submitted", "not_begun", "released"] | None
    reason: Reason | None
    claimed_at: Time
    begun_at: Time | None
    ended_at: Time | None
    provider: str | None
    provider_message_id: str | None

    @classmethod
    def of(cls, attempt: AttemptView) -> Self:
        """Show an attempt; whether a refusal is final is in the message's state, not here."""
        outcome = Outcome.REFUSED if attempt.outcome == Outcome.REJECTED else attempt.outcome
        return cls.model_validate(
            {
                "number": attempt.number,
                "outcome": outcome,
                "reason": attempt.reason,
                "claimed_at": attempt.claimed_at,
                "begun_at": attempt.begun_at,
                "ended_at": attempt.ended_at,
                "provider": attempt.provider,
                "provider_message_id": attempt.provider_message_id,
            }
        )


class LineBody(BaseModel):
    """A line of the timeline. What moves nothing has `from` and `to` null."""

    seq: int
    at: Time
    from_state: State | None = Field(serialization_alias="from")
    to_state: State | None = Field(serialization_alias="to")
    move: str
    reason: Reason | None
    attempt: int | None
    actor: Actor


class LeaseBody(BaseModel):
    """Who holds the message: an attempt, until its lease ends."""

    attempt: int
    expires_at: Time


class RetryBody(BaseModel):
    """Whether and when the machine tries again."""

    eligible: bool
    due_at: Time | None


class EvidenceBody(BaseModel):
    """What is known of an ambiguous attempt besides its own outcome."""

    kind: EvidenceKind
    at: Time
    provider_message_id: str | None


class AmbiguityBody(BaseModel):
    """What a person has to know who settles an ambiguous message."""

    since: Time
    attempt: int
    evidence: list[EvidenceBody]


class ListedMessageBody(BaseModel):
    """A message as a list shows it. Provider acceptance is not delivery."""

    id: UUID
    state: State
    idempotent_replay: bool = Field(description="Whether this answer is to a command that was accepted before.")
    request_hash: str = Field(pattern="^v1:[0-9a-f]{64}$")
    workflow_id: str
    purpose: str
    template: TemplateBody
    sender: SenderRefBody
    tags: dict[str, str]
    recipients: list[RecipientBody]
    lease: LeaseBody | None
    retry: RetryBody
    ambiguity: AmbiguityBody | None
    provider_accepted_at: Time | None
    delivered_at: Time | None
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, message: ListedMessage) -> Self:
        """Show a message of a list."""
        return cls(**_shown(message, replay=False))


class MessageBody(ListedMessageBody):
    """A message as it stands, with all that happened to it. Provider acceptance is not delivery."""

    attempts: list[AttemptBody]
    timeline: list[LineBody]

    @classmethod
    def of_one(cls, message: MessageView, *, replay: bool) -> Self:
        """Show a message."""
        return cls(
            **_shown(message.listed, replay=replay),
            attempts=[AttemptBody.of(attempt) for attempt in message.attempts],
            timeline=[LineBody.model_validate(line, from_attributes=True) for line in message.timeline],
        )


def _shown(message: ListedMessage, *, replay: bool) -> dict[str, Any]:
    eligible = message.state is State.RETRYABLE
    return {
        "id": message.ref.id,
        "state": message.state,
        "idempotent_replay": replay,
        "request_hash": message.ref.request_hash,
        "workflow_id": message.ref.workflow_id,
        "purpose": message.purpose,
        "template": TemplateBody(key=message.template_key, version=message.template_version),
        "sender": SenderRefBody(key=message.sender_key),
        "tags": dict(message.tags),
        "recipients": [
            {"role": recipient.role, "address": recipient.redacted, "outcome": recipient.outcome}
            for recipient in message.recipients
        ],
        "lease": message.lease and LeaseBody.model_validate(message.lease, from_attributes=True),
        "retry": RetryBody(eligible=eligible, due_at=message.due_at if eligible else None),
        "ambiguity": message.ambiguity and AmbiguityBody.model_validate(message.ambiguity, from_attributes=True),
        "provider_accepted_at": message.provider_accepted_at,
        "delivered_at": message.delivered_at,
        "created_at": message.created_at,
        "updated_at": message.updated_at,
    }
