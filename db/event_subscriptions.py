"""Subscriptions of SNS that wait for an operator: nobody but a person decides that a topic may post to us."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from db import audit
from db.audit import Action
from db.engine import outages
from db.ids import new_id
from db.schema import event_subscriptions as subscriptions
from db.transaction import connected


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A topic's wish to post to us."""

    id: UUID
    topic_arn: str
    token: str = field(repr=False)  #: what SNS wants back; good for three days
    received_at: datetime
    confirmed_at: datetime | None


_COLUMNS: Final = (
    subscriptions.c.id,
    subscriptions.c.topic_arn,
    subscriptions.c.token,
    subscriptions.c.received_at,
    subscriptions.c.confirmed_at,
)
_ID: Final = sa.bindparam("this_subscription", type_=subscriptions.c.id.type)

KEEP: Final = insert(subscriptions).on_conflict_do_nothing()
"""Keep a wish. SNS repeats it until it is confirmed: it is kept once."""

FIND: Final = sa.select(*_COLUMNS).where(subscriptions.c.id == _ID)

NEWEST_FIRST: Final = (
    sa.select(*_COLUMNS)
    .where(
        sa.or_(
            sa.bindparam("after", type_=subscriptions.c.id.type).is_(None),
            subscriptions.c.id < sa.bindparam("after", type_=subscriptions.c.id.type),
        )
    )
    .order_by(subscriptions.c.id.desc())
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)

CONFIRM: Final = (
    sa.update(subscriptions)
    .where(subscriptions.c.id == _ID, subscriptions.c.confirmed_at.is_(None))
    .values(confirmed_at=sa.func.clock_timestamp(), subscription_arn=sa.bindparam("its_arn", type_=sa.Text))
    .returning(*_COLUMNS)
)
"""Write down that SNS took the token back. No row: it is written down already."""


class SubscriptionStore:
    """Keeps subscriptions. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(self, topic_arn: str, token: str) -> None:
        """Keep a verified wish for an operator; a repeat changes nothing."""
        with outages():
            async with self._engine.begin() as connection:
                await connection.execute(KEEP, {"id": new_id(), "topic_arn": topic_arn, "token": token})

    async def page(self, *, after: UUID | None, at_most: int) -> list[Subscription]:
        """List subscriptions, newest first, after an id."""
        async with connected(self._engine) as connection:
            rows = (await connection.execute(NEWEST_FIRST, {"after": after, "at_most": at_most})).all()
        return [Subscription(**row._asdict()) for row in rows]

    async def find(self, subscription_id: UUID) -> Subscription | None:
        """Find a subscription."""
        async with connected(self._engine) as connection:
            row = (await connection.execute(FIND, {"this_subscription": subscription_id})).one_or_none()
        return None if row is None else Subscription(**row._asdict())

    async def confirmed(self, subscription: Subscription, *, subscription_arn: str, by: str) -> Subscription:
        """Write down that SNS confirmed it, once, and in the audit who ordered it."""
        asked = {"this_subscription": subscription.id, "its_arn": subscription_arn}
        with outages():
            async with self._engine.begin() as connection:
                row = (await connection.execute(CONFIRM, asked)).one_or_none()
                if row is not None:
                    await audit.note(
                        connection,
                        Action.SUBSCRIPTION_CONFIRMED,
                        by=by,
                        tenant_id=None,
                        subject=str(subscription.id),
                    )
                else:
                    row = (await connection.execute(FIND, asked)).one()
        return Subscription(**row._asdict())
