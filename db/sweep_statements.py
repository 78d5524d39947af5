"""What a sweep looks for, and how it keeps out of others' way: any number of sweeps may run at once, anywhere.

Nothing here decides. A lease that is found is settled by the statements of `db/statements.py` under the row lock, and a
run that is asked for twice is one run.
"""

from typing import Final

import sqlalchemy as sa

from db.lifecycle import CLAIMABLE
from db.schema import attempts, messages, providers
from db.statements import written

_NOW: Final = sa.func.clock_timestamp()
_MESSAGE: Final = sa.bindparam("this_message", type_=messages.c.id.type)

LOCK_IF_FREE: Final = sa.select(messages.c.state).where(messages.c.id == _MESSAGE).with_for_update(skip_locked=True)
"""Take the message row unless somebody has it: who has it is settling it, and waiting would hold up all the others."""

EXPIRED_LEASES: Final = (
    sa.select(attempts.c.message_id, attempts.c.number)
    .where(attempts.c.closed_at.is_(None), attempts.c.lease_expires_at <= _NOW)
    .order_by(attempts.c.lease_expires_at)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
"""Leases that ran out and that nobody finalized."""

STARTABLE: Final = (
    sa.select(messages.c.id, messages.c.tenant_id, messages.c.request_hash)
    .join_from(messages, providers, providers.c.name == messages.c.provider)
    .where(
        messages.c.state.in_(written(CLAIMABLE)),
        sa.not_(providers.c.paused),
        messages.c.due_at <= _NOW - sa.bindparam("overdue", type_=sa.Interval),
        sa.or_(
            messages.c.run_requested_at.is_(None),
            messages.c.run_requested_at <= _NOW - sa.bindparam("again_after", type_=sa.Interval),
        ),
    )
    .order_by(messages.c.run_requested_at.nulls_first(), messages.c.due_at, messages.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
"""Messages that a run should have claimed by now, and for which none was asked lately.

Those for which none was ever asked come first: what only waits its turn in a backlog, and has its run, holds up no
message that has none.

While the provider is switched off none should: their runs look again by themselves, and a sweep that asked for all of
them would do nothing else.
"""

RUN_REQUESTED: Final = (
    sa.update(messages)
    .where(messages.c.id == _MESSAGE, messages.c.state.in_(written(CLAIMABLE)))
    .values(run_requested_at=_NOW)
)
"""Remember that Temporal took the request for a run, so that the next sweeps leave it alone for a while."""
