"""Reading a message as it may be shown: state, attempts, timeline, evidence. Never content, tokens or worker names."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db.engine import outages
from db.fit import MIGRATED, REVISION, Fit, compare
from db.ids import MessageId, TenantId
from db.lifecycle import Actor, State
from db.outcomes import EvidenceKind, Outcome, Reason
from db.records import MessageRef
from db.schema import attempts, evidence, messages, recipients, timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientView:
    """A recipient, redacted."""

    role: str
    redacted: str
    outcome: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """An attempt, without its token."""

    number: int
    outcome: Outcome | None
    reason: Reason | None
    claimed_at: datetime
    begun_at: datetime | None
    ended_at: datetime | None
    provider: str | None
    provider_message_id: str | None
    lease_expires_at: datetime
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineView:
    """A line of the timeline."""

    seq: int
    at: datetime
    from_state: State | None
    to_state: State | None
    move: str
    reason: Reason | None
    attempt: int | None
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceView:
    """A piece of evidence about an attempt."""

    attempt: int
    kind: EvidenceKind
    at: datetime
    provider_message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """A message as one transaction saw it."""

    ref: MessageRef
    state: State
    purpose: str
    template_key: str
    template_version: int
    sender_key: str
    tags: Mapping[str, str]
    due_at: datetime
    provider_accepted_at: datetime | None
    delivered_at: datetime | None
    created_at: datetime
    updated_at: datetime
    recipients: tuple[RecipientView, ...]
    attempts: tuple[AttemptView, ...]
    timeline: tuple[LineView, ...]
    evidence: tuple[EvidenceView, ...]


_ID: Final = sa.bindparam("message_id", type_=messages.c.id.type)

MESSAGE: Final = sa.select(
    messages.c.id,
    messages.c.tenant_id,
    messages.c.request_hash,
    messages.c.state,
    messages.c.purpose,
    messages.c.template_key,
    messages.c.template_version,
    messages.c.sender_key,
    messages.c.tags,
    messages.c.due_at,
    messages.c.provider_accepted_at,
    messages.c.delivered_at,
    messages.c.created_at,
    messages.c.updated_at,
).where(messages.c.id == _ID, messages.c.tenant_id == sa.bindparam("tenant_id", type_=sa.Text))

RECIPIENTS: Final = (
    sa.select(recipients.c.role, recipients.c.redacted, recipients.c.outcome)
    .where(recipients.c.message_id == _ID)
    .order_by(
        sa.case({"to": 0, "cc": 1, "bcc": 2}, value=recipients.c.role),
        recipients.c.position,
    )
)

ATTEMPTS: Final = (
    sa.select(
        attempts.c.number,
        attempts.c.outcome,
        attempts.c.reason,
        attempts.c.claimed_at,
        attempts.c.begun_at,
        attempts.c.ended_at,
        attempts.c.provider,
        attempts.c.provider_message_id,
        attempts.c.lease_expires_at,
        attempts.c.closed_at.is_(None).label("open"),
    )
    .where(attempts.c.message_id == _ID)
    .order_by(attempts.c.number)
)

TIMELINE: Final = (
    sa.select(
        timeline.c.seq,
        timeline.c.at,
        timeline.c.from_state,
        timeline.c.to_state,
        timeline.c.move,
        timeline.c.reason,
        timeline.c.attempt,
        timeline.c.actor,
    )
    .where(timeline.c.message_id == _ID)
    .order_by(timeline.c.seq)
)

EVIDENCE: Final = (
    sa.select(evidence.c.attempt, evidence.c.kind, evidence.c.at, evidence.c.provider_message_id)
    .where(evidence.c.message_id == _ID)
    .order_by(evidence.c.at, evidence.c.id)
)


class MessageReader:
    """Reads for people and programs. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def message(self, tenant_id: TenantId, message_id: MessageId) -> MessageView | None:
        """Read a message of this tenant, whole, as of one moment; None where this tenant has no such message."""
        asked = {"message_id": message_id}
        with outages():
            async with self._engine.connect() as plain:
                # One snapshot for all of it: a state never stands beside another moment's timeline.
                connection = await plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                row = (await connection.execute(MESSAGE, {**asked, "tenant_id": tenant_id})).one_or_none()
                if row is None:
                    return None
                to = (await connection.execute(RECIPIENTS, asked)).all()
                tries = (await connection.execute(ATTEMPTS, asked)).all()
                lines = (await connection.execute(TIMELINE, asked)).all()
                pieces = (await connection.execute(EVIDENCE, asked)).all()
        whole = row._asdict()
        return MessageView(
            ref=MessageRef(
                id=whole.pop("id"), tenant_id=whole.pop("tenant_id"), request_hash=whole.pop("request_hash")
            ),
            state=State(whole.pop("state")),
            recipients=tuple(RecipientView(**each._asdict()) for each in to),
            attempts=tuple(AttemptView(**each._asdict()) for each in tries),
            timeline=tuple(LineView(**each._asdict()) for each in lines),
            evidence=tuple(EvidenceView(**each._asdict()) for each in pieces),
            **whole,
        )

    async def schema_fit(self) -> Fit:
        """Say how the database's schema compares with this version's."""
        with outages():
            async with self._engine.connect() as connection:
                migrated = await connection.scalar(MIGRATED)
                return compare(await connection.scalar(REVISION) if migrated else None)
