"""Reading messages as they may be shown: state, attempts, timeline, evidence. Never content, tokens or worker names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncEngine

from db.fit import MIGRATED, REVISION, Fit, compare
from db.ids import MessageId, TenantId
from db.lifecycle import Actor, State
from db.outcomes import EvidenceKind, Outcome, Reason
from db.records import MessageRef
from db.schema import attempts, evidence, messages, recipients, timeline
from db.transaction import connected, rows_of


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


def _belonging(
    table: sa.Table, *names: str, order: Sequence[sa.ColumnElement[Any]], where: Sequence[sa.ColumnElement[bool]] = ()
) -> sa.ColumnElement[Any]:
    """Give these columns of what belongs to a message, as JSON objects in an array: one statement sees one moment."""
    members: list[sa.ColumnElement[Any]] = []
    for name in names:
        members += (sa.literal_column(f"'{name}'"), table.c[name])
    rows = sa.select(sa.func.jsonb_build_object(*members)).where(table.c.message_id == messages.c.id, *where)
    return sa.func.array(rows.order_by(*order).correlate_except(table).scalar_subquery(), type_=ARRAY(JSONB))


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
    _belonging(
        recipients,
        "role",
        "redacted",
        "outcome",
        order=(sa.case({"to": 0, "cc": 1, "bcc": 2}, value=recipients.c.role), recipients.c.position),
    ).label("recipients"),
    _belonging(
        evidence,
        "kind",
        "at",
        "provider_message_id",
        where=[evidence.c.attempt == _ambiguous_line.c.attempt],
        order=(evidence.c.at, evidence.c.id),
    ).label("evidence"),
).select_from(
    messages.outerjoin(
        attempts, sa.and_(attempts.c.message_id == messages.c.id, attempts.c.closed_at.is_(None))
    ).outerjoin(_ambiguous_line, messages.c.state == State.AMBIGUOUS)
)
"""Everybody's messages, with the lease and the attempt that are of interest now."""

MESSAGES: Final = EVERYBODYS_MESSAGES.where(messages.c.tenant_id == _TENANT)
"""A tenant's messages."""

MESSAGE: Final = MESSAGES.where(messages.c.id == _ID).add_columns(
    _belonging(
        attempts,
        "number",
        "outcome",
        "reason",
        "claimed_at",
        "begun_at",
        "ended_at",
        "provider",
        "provider_message_id",
        order=[attempts.c.number],
    ).label("attempts"),
    _belonging(
        timeline,
        "seq",
        "at",
        "from_state",
        "to_state",
        "move",
        "reason",
        "attempt",
        "actor",
        order=[timeline.c.seq],
    ).label("timeline"),
)
"""A tenant's message, with all that happened to it."""


_PLAN_ANEW: Final = sa.text("SET LOCAL plan_cache_mode = force_custom_plan")


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
        asked = {"this_message": message_id, "of_tenant": tenant_id}
        rows = await rows_of(self._engine, MESSAGE, asked)
        if not rows:
            return None
        (row,) = rows
        return MessageView(
            listed=_listed(row),
            attempts=tuple(AttemptView(**_timed(each, "claimed_at", "begun_at", "ended_at")) for each in row.attempts),
            timeline=tuple(LineView(**_timed(each, "at")) for each in row.timeline),
        )

    async def messages(
        self, tenant_id: TenantId, wanted: MessageFilter, *, after: Place | None, limit: int
    ) -> tuple[ListedMessage, ...]:
        """Read a tenant's messages, newest first, from what comes after a place in the list."""
        async with connected(self._engine) as connection:
            # Else Postgres soon takes one plan for all filters, and that one reads everything with a common tag.
            await connection.execute(_PLAN_ANEW)
            rows = await connection.execute(newest_first(wanted, after, limit), {"of_tenant": tenant_id})
            return tuple(_listed(row) for row in rows)

    async def ambiguous(self, *, after: tuple[datetime, MessageId] | None, limit: int) -> tuple[ListedMessage, ...]:
        """Read what waits for a person, whoever's it is, oldest first, from after a message's `updated_at` and id."""
        return tuple(_listed(row) for row in await rows_of(self._engine, oldest_ambiguous(after, limit), {}))

    async def schema_fit(self) -> Fit:
        """Say how the database's schema compares with this version's."""
        async with connected(self._engine) as connection:
            migrated = await connection.scalar(MIGRATED)
            return compare(await connection.scalar(REVISION) if migrated else None)


def _listed(row: sa.Row[Any]) -> ListedMessage:
    return ListedMessage(
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
        recipients=tuple(RecipientView(**each) for each in row.recipients),
        lease=None
        if row.lease_attempt is None
        else LeaseView(attempt=row.lease_attempt, expires_at=row.lease_expires_at),
        ambiguity=None
        if row.ambiguous_since is None
        else AmbiguityView(
            since=row.ambiguous_since,
            attempt=row.ambiguous_attempt,
            evidence=tuple(EvidenceView(**_timed(each, "at")) for each in row.evidence),
        ),
    )


def _timed(stored: dict[str, Any], *names: str) -> dict[str, Any]:
    """Read these times of a JSON object, in which Postgres writes them as text."""
    return stored | {name: datetime.fromisoformat(stored[name]) for name in names if stored[name] is not None}
