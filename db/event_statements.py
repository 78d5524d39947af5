"""Every statement by which a provider event is kept, matched to its attempt and applied.

What it moves is moved by the statements of `db/statements.py`, under the lock of the message row. Nothing is written
about an event that another transaction has written already: a repeat finds it.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert

from db import statements
from db.outcomes import EvidenceKind, RecipientOutcome
from db.schema import (
    attempts,
    evidence,
    messages,
    operator_audit,
    provider_events,
    recipients,
    suppressions,
    unmatched_events as unmatched,
)

_NOW: Final = sa.func.clock_timestamp()
_MESSAGE: Final = sa.bindparam("this_message", type_=messages.c.id.type)
_EVENT: Final = sa.bindparam("this_event", type_=provider_events.c.id.type)

ATTEMPT: Final = sa.select(attempts.c.message_id, attempts.c.number).where(
    attempts.c.message_id == _MESSAGE, attempts.c.number == sa.bindparam("in_attempt", type_=sa.Integer)
)
"""The attempt that an event's tags name. No row: there is none, here or yet."""

ANSWERED: Final = (
    sa.select(attempts.c.message_id, attempts.c.number)
    .where(
        attempts.c.provider == sa.bindparam("its_provider", type_=sa.Text),
        attempts.c.provider_message_id == sa.bindparam("its_provider_id", type_=sa.Text),
    )
    .limit(1)
)
"""The attempt for which the provider gave this id. No row: none, or its result is not recorded yet."""

KEEP: Final = insert(provider_events).on_conflict_do_nothing().returning(provider_events.c.id)
"""Keep an event. No row: this notification is here already, or the same event under another one's id."""

KEPT: Final = (
    sa.select(provider_events.c.id)
    .where(
        provider_events.c.provider == sa.bindparam("its_provider", type_=sa.Text),
        sa.or_(
            provider_events.c.notification_id == sa.bindparam("notification", type_=sa.Text),
            provider_events.c.natural_key == sa.bindparam("natural", type_=sa.Text),
        ),
    )
    .order_by(provider_events.c.id)
    .limit(1)
)
"""The event that KEEP found here already."""

PROVE: Final = (
    insert(evidence)
    .values(
        id=sa.bindparam("evidence_id"),
        message_id=_MESSAGE,
        attempt=sa.bindparam("in_attempt"),
        kind=EvidenceKind.EVENT,
        event_type=sa.bindparam("what"),
        reason=sa.bindparam("why"),
        provider_event_id=_EVENT,
        provider_message_id=sa.bindparam("its_provider_id"),
    )
    .on_conflict_do_nothing(index_elements=["provider_event_id"])
    .returning(evidence.c.id)
)
"""Make an event evidence about its attempt. No row: it is already."""

NAMED: Final = (
    sa.select(
        recipients.c.tenant_id,
        recipients.c.role,
        recipients.c.position,
        recipients.c.address,
        recipients.c.address_hash,
    )
    .where(
        recipients.c.message_id == _MESSAGE,
        sa.or_(
            sa.bindparam("everybody", type_=sa.Boolean),
            recipients.c.address_hash == sa.any_(sa.bindparam("hashes", type_=ARRAY(sa.LargeBinary))),
        ),
    )
    .order_by(recipients.c.role, recipients.c.position)
)
"""The recipients of a message whom an event is about."""

#: Whatever the order of events, the strongest outcome stays. Nobody who was left out or rejected is that for ever: an
#: event about another attempt may prove more.
_WEAKER: Final = {
    RecipientOutcome.REJECTED: (RecipientOutcome.SUPPRESSED,),
    RecipientOutcome.DELIVERED: (RecipientOutcome.SUPPRESSED, RecipientOutcome.REJECTED),
    RecipientOutcome.BOUNCED: (RecipientOutcome.SUPPRESSED, RecipientOutcome.REJECTED, RecipientOutcome.DELIVERED),
    RecipientOutcome.COMPLAINED: (
        RecipientOutcome.SUPPRESSED,
        RecipientOutcome.REJECTED,
        RecipientOutcome.DELIVERED,
        RecipientOutcome.BOUNCED,
    ),
}

OUTCOMES: Final = {
    outcome: sa.update(recipients)
    .where(
        recipients.c.message_id == _MESSAGE,
        recipients.c.role == sa.bindparam("in_role", type_=sa.Text),
        recipients.c.position == sa.bindparam("at_position", type_=sa.SmallInteger),
        sa.or_(recipients.c.outcome.is_(None), recipients.c.outcome.in_(weaker)),
    )
    .values(outcome=outcome, outcome_at=_NOW)
    for outcome, weaker in _WEAKER.items()
}
"""Write what became of one recipient, where nothing stronger stands there."""

SUPPRESS: Final = insert(suppressions).on_conflict_do_nothing()
"""Suppress an address for its tenant. Nothing happens where it is suppressed already."""

FACTS: Final = statements.SETTLE_FACTS.add_columns(
    sa.exists(
        sa.select(operator_audit.c.decision)
        .where(
            operator_audit.c.message_id == attempts.c.message_id,
            operator_audit.c.attempt == attempts.c.number,
            operator_audit.c.decision == "accepted",
        )
        .correlate(attempts)
    ).label("vouched")
)
"""What an event is applied to: what settle decides on, and whether a person declared an attempt accepted."""

WAIT: Final = insert(unmatched).values(event_id=_EVENT).on_conflict_do_nothing()
"""Let an event wait for its message."""

MATCHED: Final = sa.delete(unmatched).where(unmatched.c.event_id == _EVENT)
"""An event waits no more."""

# By itself, and first: Postgres guesses badly how many are due, and would rather read all events.
_due: Final = (
    sa.select(unmatched.c.event_id, unmatched.c.looks, unmatched.c.look_at)
    .where(unmatched.c.look_at <= _NOW)
    .order_by(unmatched.c.look_at)
    .limit(sa.bindparam("most", type_=sa.Integer))
    .subquery("due")
)
WAITING: Final = (
    sa.select(provider_events, _due.c.looks)
    .join_from(_due, provider_events, provider_events.c.id == _due.c.event_id)
    .order_by(_due.c.look_at)
)
"""Events whose message is to be looked for again."""

LOOKED: Final = (
    sa.update(unmatched)
    .where(unmatched.c.event_id == _EVENT)
    .values(
        looks=unmatched.c.looks + 1,
        look_at=sa.case(
            (
                sa.select(provider_events.c.received_at).where(provider_events.c.id == _EVENT).scalar_subquery()
                > _NOW - sa.bindparam("patience", type_=sa.Interval),
                _NOW + sa.bindparam("wait", type_=sa.Interval),
            )
        ),
    )
)
"""Its message wasn't there: look again after a wait, or never again once the event is older than our patience."""
