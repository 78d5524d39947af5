"""Every statement by which a message is claimed, begun, recorded and settled, one UPPER_CASE name each.

From outside, an attempt is named by its message and number; its fencing token never leaves Postgres.

Each transaction runs LOCK first, as a statement of its own: an UPDATE that waited for a lock whose holder changed
nothing doesn't look at its WHERE again, and a subquery keeps the snapshot from before the wait (DESIGN: protocol).
Time is `clock_timestamp()`: `now()` is the start of the transaction, and stale after a wait. The states in the guards
come from `db/lifecycle.py`. No row back from a conditional write means: a guard said no, and nothing was written.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql.dml import ReturningInsert

from db.lifecycle import TRANSITIONS, Move, State, sources
from db.outcomes import EventType, EvidenceKind, RecipientOutcome
from db.schema import (
    attempts,
    credentials,
    evidence,
    message_contents,
    messages,
    providers,
    recipients,
    senders,
    suppressions,
    tenants,
    timeline,
)

_NOW: Final = sa.func.clock_timestamp()
_MESSAGE: Final = sa.bindparam("this_message", type_=messages.c.id.type)
_TOKEN: Final = sa.bindparam("this_token", type_=sa.BigInteger)
_ATTEMPT: Final = sa.bindparam("in_attempt", type_=sa.Integer)


def _seconds_until(moment: sa.ColumnElement[Any]) -> sa.ColumnElement[float]:
    return sa.cast(sa.func.extract("epoch", moment - _NOW), sa.Float)


def written(states: Iterable[State]) -> list[sa.ColumnElement[str]]:
    """Write states into a statement as they are: SQLAlchemy would render a list of values anew each time."""
    return [sa.literal_column(f"'{state.value}'", sa.Text) for state in states]


def _next_seq(message_id: sa.ColumnElement[Any]) -> sa.ScalarSelect[int]:
    """Give the next place in a message's timeline; the row lock makes it nobody else's."""
    return (
        sa.select(sa.func.coalesce(sa.func.max(timeline.c.seq), 0) + 1)
        .where(timeline.c.message_id == message_id)
        .scalar_subquery()
    )


def _appending(rows: sa.Select[Any]) -> ReturningInsert[Any]:
    columns = ["message_id", "seq", "from_state", "to_state", "move", "reason", "attempt", "actor"]
    return sa.insert(timeline).from_select(columns, rows).returning(timeline.c.seq, timeline.c.attempt)


LOCK: Final = sa.select(messages.c.state).where(messages.c.id == _MESSAGE).with_for_update()
"""Take the message row; everything that decides comes in the next statement. No row: there is no such message."""


# What may stop a message or leave somebody out, for claim and for begin alike.
_MATCHED: Final = sa.and_(
    suppressions.c.tenant_id == recipients.c.tenant_id,
    suppressions.c.address_hash == recipients.c.address_hash,
    suppressions.c.removed_at.is_(None),
    suppressions.c.scope.in_(("all", messages.c.purpose)),
)
_SUPPRESSED: Final = sa.exists(
    sa.select(suppressions.c.id)
    .select_from(suppressions.join(recipients, _MATCHED))
    .where(recipients.c.message_id == messages.c.id, recipients.c.role == "to")
    .correlate(messages)
)
_SUPPRESSED_COPIES: Final = sa.func.array(
    sa.select(recipients.c.role + ":" + sa.cast(recipients.c.position, sa.Text))
    .where(
        recipients.c.message_id == messages.c.id,
        recipients.c.role != "to",
        sa.exists(sa.select(suppressions.c.id).where(_MATCHED).correlate(recipients, messages)),
    )
    .correlate(messages)
    .scalar_subquery(),
    type_=ARRAY(sa.Text),
)
_LEFT_OUT_BEFORE: Final = sa.exists(
    sa.select(recipients.c.role)
    .where(
        recipients.c.message_id == messages.c.id,
        recipients.c.role != "to",
        recipients.c.outcome == RecipientOutcome.SUPPRESSED,
    )
    .correlate(messages)
)
_POLICY: Final = (
    (tenants.c.state != "active").label("tenant_disabled"),
    (senders.c.state != "active").label("sender_disabled"),
    credentials.c.revoked_at.is_not(None).label("credential_revoked"),
    sa.not_(sa.literal("messages:send") == sa.any_(credentials.c.scopes)).label("scope_missing"),
    _SUPPRESSED.label("recipient_suppressed"),
    _SUPPRESSED_COPIES.label("suppressed_copies"),
    _LEFT_OUT_BEFORE.label("left_out_before"),
    providers.c.paused.label("provider_paused"),
)
_WITH_POLICY: Final = (
    messages.join(tenants, tenants.c.id == messages.c.tenant_id)
    .join(senders, sa.and_(senders.c.tenant_id == messages.c.tenant_id, senders.c.key == messages.c.sender_key))
    .join(credentials, credentials.c.id == messages.c.credential_id)
    .join(providers, providers.c.name == messages.c.provider)
)

_own: Final = attempts.alias("own")
_open: Final = attempts.alias("open")

CLAIM_FACTS: Final = (
    sa.select(
        messages.c.state,
        messages.c.token,
        messages.c.attempts_used,
        (messages.c.due_at <= _NOW).label("due"),
        _seconds_until(messages.c.due_at).label("due_in"),
        (messages.c.age_from <= _NOW - sa.bindparam("max_age", type_=sa.Interval)).label("too_old"),
        _own.c.token.label("own_token"),
        _own.c.number.label("own_number"),
        sa.case((_own.c.token.is_not(None), _own.c.closed_at.is_(None))).label("own_open"),
        _seconds_until(_open.c.lease_expires_at).label("lease_in"),
        *_POLICY,
    )
    .select_from(
        _WITH_POLICY.outerjoin(
            _own,
            sa.and_(_own.c.message_id == messages.c.id, _own.c.claim_id == sa.bindparam("this_claim", type_=sa.Text)),
        ).outerjoin(_open, sa.and_(_open.c.message_id == messages.c.id, _open.c.closed_at.is_(None)))
    )
    .where(messages.c.id == _MESSAGE)
)
"""What claim decides on."""

_taken: Final = (
    sa.update(messages)
    .where(
        messages.c.id == _MESSAGE,
        messages.c.state.in_(written(sources(Move.CLAIM))),
        messages.c.token == _TOKEN,
        messages.c.due_at <= _NOW,
    )
    .values(state=State.LEASED, came_from=messages.c.state, token=messages.c.token + 1, updated_at=_NOW)
    .returning(messages.c.id, messages.c.token, messages.c.came_from)
    .cte("taken")
)
_opened: Final = (
    sa.insert(attempts)
    .from_select(
        ["message_id", "number", "token", "claim_id", "lease_owner", "lease_expires_at"],
        sa.select(
            _taken.c.id,
            sa.select(sa.func.coalesce(sa.func.max(attempts.c.number), 0) + 1)
            .where(attempts.c.message_id == _MESSAGE)
            .scalar_subquery(),
            _taken.c.token,
            sa.bindparam("this_claim", type_=sa.Text),
            sa.bindparam("owner", type_=sa.Text),
            _NOW + sa.bindparam("lease", type_=sa.Interval),
        ),
    )
    .returning(attempts.c.message_id, attempts.c.number)
    .cte("opened")
)
CLAIM: Final = _appending(
    sa.select(
        _taken.c.id,
        _next_seq(_taken.c.id),
        _taken.c.came_from,
        sa.literal(State.LEASED.value),
        sa.literal(Move.CLAIM.value),
        sa.null(),
        _opened.c.number,
        sa.literal(TRANSITIONS[Move.CLAIM].by.value),
    ).join_from(_taken, _opened, _opened.c.message_id == _taken.c.id)
)
"""Take the lease and raise the fencing token, open the attempt with its lease, and write the timeline, as one.

No row: somebody has it, or it isn't due. The lease is never renewed: it follows from the call's own bound.
"""

BEGIN_FACTS: Final = (
    sa.select(
        messages.c.state,
        messages.c.came_from,
        (messages.c.token == attempts.c.token).label("token_is_current"),
        attempts.c.closed_at.is_(None).label("attempt_open"),
        attempts.c.begun_at.is_not(None).label("attempt_begun"),
        attempts.c.begin_id,
        (attempts.c.lease_expires_at > _NOW + sa.bindparam("needs", type_=sa.Interval)).label("lease_suffices"),
        attempts.c.token,
        *_POLICY,
    )
    .select_from(_WITH_POLICY.join(attempts, attempts.c.message_id == messages.c.id))
    .where(messages.c.id == _MESSAGE, attempts.c.number == _ATTEMPT)
)
"""What begin decides on. No row: no such attempt."""

BEGIN: Final = (
    sa.update(attempts)
    .where(
        attempts.c.message_id == _MESSAGE,
        attempts.c.token == _TOKEN,
        attempts.c.closed_at.is_(None),
        attempts.c.begun_at.is_(None),
        attempts.c.lease_expires_at > _NOW + sa.bindparam("needs", type_=sa.Interval),
    )
    .values(begun_at=_NOW, begin_id=sa.bindparam("this_begin"))
    .returning(attempts.c.number)
)
"""Mark the attempt as begun; committed before the call. No row: closed, begun already, or too little lease."""

USE_ATTEMPT: Final = (
    sa.update(messages)
    .where(messages.c.id == _MESSAGE, messages.c.state == State.LEASED, messages.c.token == _TOKEN)
    .values(attempts_used=messages.c.attempts_used + 1, updated_at=_NOW)
    .returning(messages.c.attempts_used)
)
"""Count the attempt that begins. No row: the token is stale, or the message isn't leased."""

RECORD: Final = (
    sa.update(attempts)
    .where(
        attempts.c.message_id == _MESSAGE,
        attempts.c.number == _ATTEMPT,
        attempts.c.begin_id == sa.bindparam("this_begin", type_=attempts.c.begin_id.type),
        attempts.c.closed_at.is_(None),
        attempts.c.outcome.is_(None),
    )
    .values(
        outcome=sa.bindparam("its_outcome"),
        reason=sa.bindparam("why"),
        provider=sa.bindparam("its_provider"),
        provider_message_id=sa.bindparam("its_provider_id"),
        provider_request_id=sa.bindparam("its_request_id"),
        provider_code=sa.bindparam("its_code"),
        ended_at=_NOW,
    )
    .returning(attempts.c.number)
)
"""Write what came of the call into its own attempt. No row: another body's begin, closed, or recorded already."""

RECORDED: Final = sa.select(
    attempts.c.begin_id, attempts.c.outcome, attempts.c.provider_message_id, attempts.c.closed_at
).where(attempts.c.message_id == _MESSAGE, attempts.c.number == _ATTEMPT)
"""What stands in an attempt that a record did not change."""

KEEP_LATE_RESULT: Final = sa.insert(evidence).values(
    id=sa.bindparam("evidence_id"),
    message_id=_MESSAGE,
    attempt=sa.bindparam("in_attempt"),
    kind=EvidenceKind.LATE_RESULT,
    outcome=sa.bindparam("its_outcome"),
    reason=sa.bindparam("why"),
    provider_message_id=sa.bindparam("its_provider_id"),
)
"""Keep the result of a stale worker as evidence; it moves nothing."""

CLOSE: Final = (
    sa.update(attempts)
    .where(attempts.c.message_id == _MESSAGE, attempts.c.token == _TOKEN, attempts.c.closed_at.is_(None))
    .values(
        closed_at=_NOW,
        outcome=sa.func.coalesce(attempts.c.outcome, sa.bindparam("closes_as", type_=sa.Text)),
        reason=sa.func.coalesce(attempts.c.reason, sa.bindparam("closes_because", type_=sa.Text)),
        ended_at=sa.func.coalesce(attempts.c.ended_at, _NOW),
    )
    .returning(attempts.c.number)
)
"""Close an attempt, in the transaction of the move out of leased: a late body can begin it no more."""

SETTLE_FACTS: Final = (
    sa.select(
        messages.c.state,
        messages.c.token.label("message_token"),
        messages.c.attempts_used,
        attempts.c.token,
        attempts.c.number,
        attempts.c.begun_at.is_not(None).label("begun"),
        attempts.c.outcome,
        attempts.c.reason,
        (attempts.c.lease_expires_at <= _NOW).label("lease_over"),
        _seconds_until(attempts.c.lease_expires_at).label("lease_in"),
        sa.func.array(
            sa.select(evidence.c.event_type)
            .where(
                evidence.c.message_id == attempts.c.message_id,
                evidence.c.attempt == attempts.c.number,
                evidence.c.kind == EvidenceKind.EVENT,
            )
            .scalar_subquery()
        ).label("events"),
        sa.select(evidence.c.reason)
        .where(
            evidence.c.message_id == attempts.c.message_id,
            evidence.c.attempt == attempts.c.number,
            evidence.c.event_type == EventType.BOUNCE,
            evidence.c.reason.is_not(None),
        )
        .limit(1)
        .scalar_subquery()
        .label("bounced_because"),
    )
    .join_from(messages, attempts, attempts.c.message_id == messages.c.id)
    .where(messages.c.id == _MESSAGE)
    .order_by(attempts.c.number)
)
"""What settle decides on: every attempt, with the events that are stored for it."""

STANDING: Final = sa.select(
    messages.c.state,
    _seconds_until(messages.c.due_at).label("due_in"),
    sa.select(_seconds_until(attempts.c.lease_expires_at))
    .where(attempts.c.message_id == messages.c.id, attempts.c.closed_at.is_(None))
    .scalar_subquery()
    .label("lease_in"),
).where(messages.c.id == _MESSAGE)
"""Where a message stands, for a body whose token is stale."""


def _move(move: Move) -> ReturningInsert[Any]:
    """Build the statement that moves a message and writes its timeline, as one: no move goes without its row."""
    by = TRANSITIONS[move].by
    back = move is Move.RELEASE
    values: dict[str, Any] = {"state": messages.c.came_from if back else TRANSITIONS[move].targets[0]}
    if move is Move.RETRY:
        values["due_at"] = _NOW + sa.bindparam("delay", type_=sa.Interval)
        values["attempts_used"] = messages.c.attempts_used - sa.bindparam("gives_back", type_=sa.Integer)
    if move is Move.RESOLVE_RESEND:
        # A fresh count and age; and no sweep waits, as it does where a run was asked for lately.
        values |= {"attempts_used": 0, "age_from": _NOW, "due_at": _NOW, "run_requested_at": None}
    if move in (Move.ACCEPT, Move.PROVE, Move.RESOLVE_ACCEPTED):
        values["provider_accepted_at"] = sa.func.coalesce(messages.c.provider_accepted_at, _NOW)
    if move is Move.DELIVER:
        values["delivered_at"] = _NOW
    moved = (
        sa.update(messages)
        .where(messages.c.id == _MESSAGE, messages.c.state.in_(written(sources(move))), messages.c.token == _TOKEN)
        .values(updated_at=_NOW, **values)
        .returning(messages.c.id, messages.c.state)
        .cte("moved")
    )
    return _appending(
        sa.select(
            moved.c.id,
            _next_seq(moved.c.id),
            sa.bindparam("state_before", type_=sa.Text),
            moved.c.state,
            sa.literal(move.value),
            sa.bindparam("why", type_=sa.Text),
            sa.bindparam("in_attempt", type_=sa.Integer),
            sa.literal(by.value),
        )
    )


#: The moves that a token carries, each with its guard: the move's sources, and the token. CLAIM has a form of its own.
MOVES: Final = MappingProxyType(
    {
        move: _move(move)
        for move in (
            Move.SUPPRESS_AT_CLAIM,
            Move.GIVE_UP,
            Move.ACCEPT,
            Move.REJECT,
            Move.RETRY,
            Move.RELEASE,
            Move.SUPPRESS_AT_BEGIN,
            Move.QUARANTINE,
            Move.PROVE,
            Move.DELIVER,
            Move.BOUNCE,
            Move.COMPLAIN,
            Move.REJECT_LATE,
            Move.RESOLVE_ACCEPTED,
            Move.RESOLVE_RESEND,
            Move.RESOLVE_ABANDON,
        )
    }
)

NOTE: Final = _appending(
    sa.select(
        _MESSAGE,
        _next_seq(_MESSAGE),
        sa.bindparam("state_before", type_=sa.Text),
        sa.bindparam("state_after", type_=sa.Text),
        sa.bindparam("named", type_=sa.Text),
        sa.bindparam("why", type_=sa.Text),
        sa.bindparam("in_attempt", type_=sa.Integer),
        sa.bindparam("by_actor", type_=sa.Text),
    )
)
"""Add a line to a message's timeline, under the lock of its row."""

SUPPRESS_RECIPIENT: Final = (
    sa.update(recipients)
    .where(recipients.c.message_id == _MESSAGE, recipients.c.role == "to", recipients.c.outcome.is_(None))
    .values(outcome="suppressed", outcome_at=_NOW)
)
"""Write the outcome of the primary recipient of a message that suppression stopped."""

_left_out: Final = sa.any_(sa.bindparam("left_out", type_=ARRAY(sa.Text)))
LEAVE_OUT: Final = (
    sa.update(recipients)
    .where(
        recipients.c.message_id == _MESSAGE,
        recipients.c.role != "to",
        sa.or_(recipients.c.outcome.is_(None), recipients.c.outcome == RecipientOutcome.SUPPRESSED),
    )
    .values(
        outcome=sa.case(
            (
                recipients.c.role + ":" + sa.cast(recipients.c.position, sa.Text) == _left_out,
                RecipientOutcome.SUPPRESSED,
            )
        ),
        outcome_at=sa.case(
            (recipients.c.role + ":" + sa.cast(recipients.c.position, sa.Text) == _left_out, _NOW),
        ),
    )
)
"""Write which copies the mail leaves out; a copy whose suppression was removed since an earlier try is in again."""

COPIES: Final = sa.select(_SUPPRESSED_COPIES.label("suppressed_copies")).where(messages.c.id == _MESSAGE)
"""Which copies the mail leaves out, for a body whose begin got no reply."""

_as_written: Final = sa.func.jsonb_build_object(
    sa.literal_column("'role'"),
    recipients.c.role,
    sa.literal_column("'position'"),
    recipients.c.position,
    sa.literal_column("'address'"),
    recipients.c.address,
    sa.literal_column("'name'"),
    recipients.c.name,
)
_addressees: Final = (
    sa.select(
        # Not an array of them: the driver asks Postgres about that type on each new connection.
        sa.func.jsonb_agg(_as_written, type_=JSONB).aggregate_order_by(recipients.c.role, recipients.c.position)
    )
    .where(recipients.c.message_id == messages.c.id)
    .correlate(messages)
    .scalar_subquery()
)
SUBMISSION: Final = (
    sa.select(
        messages.c.request_hash,
        messages.c.sender_address,
        messages.c.sender_name,
        messages.c.tags,
        message_contents.c.subject,
        message_contents.c.text,
        message_contents.c.html,
        message_contents.c.headers,
        message_contents.c.reply_to,
        _addressees.label("addressees"),
    )
    .join_from(messages, message_contents, message_contents.c.message_id == messages.c.id)
    .join(attempts, attempts.c.message_id == messages.c.id)
    .where(messages.c.id == _MESSAGE, attempts.c.number == _ATTEMPT)
)
"""What an attempt submits, and to whom."""
