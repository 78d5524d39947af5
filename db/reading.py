"""Reading messages as they may be shown: state, attempts, timeline, evidence. Never content, tokens or worker names."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db.fit import MIGRATED, REVISION, Fit, compare
from db.ids import MessageId, TenantId
from db.lifecycle import Actor, State
from db.outcomes import EvidenceKind, Outcome, Reason
from db.records import MessageRef
from db.schema import attempts, evidence, messages, recipients, timeline
from db.transaction import connected


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

    kind: EvidenceKind
    at: datetime
    provider_message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseView:
    """Which attempt holds the message, and until when."""

    attempt: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AmbiguityView:
    """Which attempt nobody knows the end of, and what is known about it."""

    since: datetime
    attempt: int
    evidence: tuple[EvidenceView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    """A message as a list shows it."""

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
    lease: LeaseView | None
    ambiguity: AmbiguityView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """A message as one transaction saw it, whole."""

    listed: ListedMessage
    attempts: tuple[AttemptView, ...]
    timeline: tuple[LineView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Which of a tenant's messages are wanted: those for which everything that isn't None holds."""

    state: State | None = None
    purpose: str | None = None
    tag: tuple[str, str] | None = None
    created_after: datetime | None = None  #: inclusive
    created_before: datetime | None = None  #: exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a message stands in the list of its tenant's, newest first."""

    created_at: datetime
    message_id: MessageId


_TENANT: Final = sa.bindparam("of_tenant", type_=sa.Text)
_ID: Final = sa.bindparam("this_message", type_=messages.c.id.type)
_IDS: Final = sa.bindparam("these_messages", type_=ARRAY(messages.c.id.type))

_ambiguous_line: Final = (
    sa.select(timeline.c.at, timeline.c.attempt)
    .where(timeline.c.message_id == messages.c.id, timeline.c.to_state == State.AMBIGUOUS)
    .order_by(timeline.c.seq.desc())
    .limit(1)
    .lateral("ambiguous_line")
)

EVERYBODYS_MESSAGES: Final[sa.Select[Any]] = sa.select(
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
    attempts.c.number.label("lease_attempt"),
    attempts.c.lease_expires_at,
    _ambiguous_line.c.at.label("ambiguous_since"),
    _ambiguous_line.c.attempt.label("ambiguous_attempt"),
).select_from(
    messages.outerjoin(
        attempts, sa.and_(attempts.c.message_id == messages.c.id, attempts.c.closed_at.is_(None))
    ).outerjoin(_ambiguous_line, messages.c.state == State.AMBIGUOUS)
)
"""Everybody's messages, with the lease and the attempt that are of interest now."""

MESSAGES: Final = EVERYBODYS_MESSAGES.where(messages.c.tenant_id == _TENANT)
"""A tenant's messages."""

MESSAGE: Final = MESSAGES.where(messages.c.id == _ID)

RECIPIENTS: Final = (
    sa.select(recipients.c.message_id, recipients.c.role, recipients.c.redacted, recipients.c.outcome)
    .where(recipients.c.message_id == sa.any_(_IDS))
    .order_by(
        recipients.c.message_id,
        sa.case({"to": 0, "cc": 1, "bcc": 2}, value=recipients.c.role),
        recipients.c.position,
    )
)

EVIDENCE: Final = (
    sa.select(evidence.c.message_id, evidence.c.attempt, evidence.c.kind, evidence.c.at, evidence.c.provider_message_id)
    .where(evidence.c.message_id == sa.any_(_IDS))
    .order_by(evidence.c.message_id, evidence.c.at, evidence.c.id)
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


def newest_first(wanted: MessageFilter, after: Place | None, limit: int) -> sa.Select[Any]:
    """Build the statement of one page of a tenant's list."""
    statement = MESSAGES.order_by(messages.c.created_at.desc(), messages.c.id.desc()).limit(limit)
    if wanted.state is not None:
        statement = statement.where(messages.c.state == wanted.state)
    if wanted.purpose is not None:
        statement = statement.where(messages.c.purpose == wanted.purpose)
    if wanted.tag is not None:
        statement = statement.where(messages.c.tags.contains(sa.literal(dict([wanted.tag]), JSONB)))
    if wanted.created_after is not None:
        statement = statement.where(messages.c.created_at >= wanted.created_after)
    if wanted.created_before is not None:
        statement = statement.where(messages.c.created_at < wanted.created_before)
    if after is not None:
        place = sa.tuple_(messages.c.created_at, messages.c.id)
        statement = statement.where(place < sa.tuple_(after.created_at, after.message_id))
    return statement


def oldest_ambiguous(after: tuple[datetime, MessageId] | None, limit: int) -> sa.Select[Any]:
    """Build the statement of one page of what waits for a person, whoever's it is."""
    order = (messages.c.updated_at, messages.c.id)
    # Not bound: a plan for any state could not go by the index of the ambiguous ones.
    statement = EVERYBODYS_MESSAGES.where(messages.c.state == sa.literal_column(f"'{State.AMBIGUOUS}'"))
    if after is not None:
        statement = statement.where(sa.tuple_(*order) > sa.tuple_(*after))
    return statement.order_by(*order).limit(limit)


class MessageReader:
    """Reads for people and programs. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def message(self, tenant_id: TenantId, message_id: MessageId) -> MessageView | None:
        """Read a message of this tenant, whole, as of one moment; None where this tenant has no such message."""
        asked = {"this_message": message_id}
        async with self._snapshot() as connection:
            found = await connection.execute(MESSAGE, {**asked, "of_tenant": tenant_id})
            listed = await _listed(connection, found.all())
            if not listed:
                return None
            tries = (await connection.execute(ATTEMPTS, asked)).all()
            lines = (await connection.execute(TIMELINE, asked)).all()
        return MessageView(
            listed=listed[0],
            attempts=tuple(AttemptView(**each._asdict()) for each in tries),
            timeline=tuple(LineView(**each._asdict()) for each in lines),
        )

    async def messages(
        self, tenant_id: TenantId, wanted: MessageFilter, *, after: Place | None, limit: int
    ) -> tuple[ListedMessage, ...]:
        """Read a tenant's messages, newest first, from what comes after a place in the list."""
        statement = newest_first(wanted, after, limit)
        async with self._snapshot() as connection:
            return await _listed(connection, (await connection.execute(statement, {"of_tenant": tenant_id})).all())

    async def ambiguous(self, *, after: tuple[datetime, MessageId] | None, limit: int) -> tuple[ListedMessage, ...]:
        """Read what waits for a person, whoever's it is, oldest first, from after a message's `updated_at` and id."""
        async with self._snapshot() as connection:
            return await _listed(connection, (await connection.execute(oldest_ambiguous(after, limit))).all())

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Read all that follows as of one moment: a state never stands beside another moment's timeline."""
        async with connected(self._engine) as plain:
            yield await plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    async def schema_fit(self) -> Fit:
        """Say how the database's schema compares with this version's."""
        async with connected(self._engine) as connection:
            migrated = await connection.scalar(MIGRATED)
            return compare(await connection.scalar(REVISION) if migrated else None)


async def _listed(connection: AsyncConnection, rows: Sequence[sa.Row[Any]]) -> tuple[ListedMessage, ...]:
    """Read what belongs to each of these messages, in one statement a kind."""
    if not rows:
        return ()
    to: dict[UUID, list[RecipientView]] = defaultdict(list)
    for each in await connection.execute(RECIPIENTS, {"these_messages": [row.id for row in rows]}):
        to[each.message_id].append(RecipientView(role=each.role, redacted=each.redacted, outcome=each.outcome))
    known: dict[tuple[UUID, int], list[EvidenceView]] = defaultdict(list)
    in_doubt = [row.id for row in rows if row.ambiguous_since is not None]
    if in_doubt:
        for piece in await connection.execute(EVIDENCE, {"these_messages": in_doubt}):
            view = EvidenceView(kind=piece.kind, at=piece.at, provider_message_id=piece.provider_message_id)
            known[piece.message_id, piece.attempt].append(view)
    return tuple(
        ListedMessage(
            ref=MessageRef(id=row.id, tenant_id=row.tenant_id, request_hash=row.request_hash),
            state=State(row.state),
            purpose=row.purpose,
            template_key=row.template_key,
            template_version=row.template_version,
            sender_key=row.sender_key,
            tags=row.tags,
            due_at=row.due_at,
            provider_accepted_at=row.provider_accepted_at,
            delivered_at=row.delivered_at,
            created_at=row.created_at,
            updated_at=row.updated_at,
            recipients=tuple(to[row.id]),
            lease=None
            if row.lease_attempt is None
            else LeaseView(attempt=row.lease_attempt, expires_at=row.lease_expires_at),
            ambiguity=None
            if row.ambiguous_since is None
            else AmbiguityView(
                since=row.ambiguous_since,
                attempt=row.ambiguous_attempt,
                evidence=tuple(known[row.id, row.ambiguous_attempt]),
            ),
        )
        for row in rows
    )
