"""Resolving: what a person decides about a message of which no machine can know whether the provider took it."""

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db.audit import Action
from db.crash_points import CrashPoint, passing
from db.ids import MessageId, new_id
from db.lifecycle import Move, State
from db.outcomes import Reason
from db.records import MessageRef
from db.schema import attempts, messages, operator_audit
from db.transaction import UnknownMessageError, locked


class Decision(StrEnum):
    """What a person decides about an attempt whose end nobody knows."""

    ACCEPTED = "accepted"  #: the provider took it; nothing more is sent
    RESEND = "resend"  #: it is sent again, with a fresh count and age; that may be a second mail
    ABANDON = "abandon"  #: nothing more is sent; the mail may have gone out, or not


MOVES: Final = MappingProxyType(
    {
        Decision.ACCEPTED: Move.RESOLVE_ACCEPTED,
        Decision.RESEND: Move.RESOLVE_RESEND,
        Decision.ABANDON: Move.RESOLVE_ABANDON,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A decision, about the attempt that the person saw."""

    attempt: int
    decision: Decision
    reason: str = field(repr=False)  #: in the person's words; for the audit alone
    provider_message_id: str | None = None  #: where the person found it at the provider; for the audit alone
    by: str  #: the operator's credential
    id: UUID = field(default_factory=new_id)  #: made beforehand, to ask for it where the COMMIT got no reply


class ResolutionRefusal(StrEnum):
    """Why a message is not resolved."""

    UNKNOWN = "unknown"  #: there is no such message
    NOT_AMBIGUOUS = "not_ambiguous"  #: not, or not any more, or the attempt in doubt is another one


_MESSAGE: Final = sa.bindparam("this_message", type_=messages.c.id.type)

FACTS: Final = sa.select(
    messages.c.tenant_id,
    messages.c.request_hash,
    messages.c.state,
    messages.c.token,
    sa.exists()
    .where(
        attempts.c.message_id == messages.c.id,
        attempts.c.number == sa.bindparam("in_attempt", type_=sa.Integer),
        attempts.c.token == messages.c.token,
    )
    .label("attempt_is_present"),
).where(messages.c.id == _MESSAGE)
"""What a resolution rests on."""

AUDITED: Final = sa.select(operator_audit.c.id).where(
    operator_audit.c.id == sa.bindparam("this_resolution", type_=operator_audit.c.id.type)
)
"""The line of a resolution in the audit. No row: it never happened."""


class ResolutionStore:
    """Resolves ambiguous messages. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def resolve(self, message_id: MessageId, resolution: Resolution) -> MessageRef | ResolutionRefusal:
        """Move an ambiguous message as a person decided, once: of many decisions about an attempt, one is taken.

        The line in the audit and the move are one transaction (CONTRACT section 2; DESIGN: evidence). UnavailableError
        leaves open whether it happened; `reread` tells.
        """
        try:
            async with locked(self._engine, message_id) as message:
                facts = await message.one(FACTS, in_attempt=resolution.attempt)
                if facts.state != State.AMBIGUOUS or not facts.attempt_is_present:
                    return ResolutionRefusal.NOT_AMBIGUOUS
                ref = MessageRef(id=message_id, tenant_id=facts.tenant_id, request_hash=facts.request_hash)
                await message.connection.execute(sa.insert(operator_audit), _line(ref, resolution))
                await message.make(
                    MOVES[resolution.decision],
                    token=facts.token,
                    from_state=State.AMBIGUOUS,
                    reason=Reason.OPERATOR,
                    attempt=resolution.attempt,
                )
                passing(CrashPoint.RESOLUTION_UNCOMMITTED)
        except UnknownMessageError:
            return ResolutionRefusal.UNKNOWN
        passing(CrashPoint.RESOLUTION_COMMITTED)
        return ref

    async def reread(self, message_id: MessageId, resolution: Resolution) -> MessageRef | None:
        """Say whether a resolution whose COMMIT got no reply has happened; None: it hasn't, and never will.

        The row lock waits for a transaction that is still about to end.
        """
        async with locked(self._engine, message_id) as message:
            facts = await message.one(FACTS, in_attempt=resolution.attempt)
            if await message.first(AUDITED, this_resolution=resolution.id) is None:
                return None
        return MessageRef(id=message_id, tenant_id=facts.tenant_id, request_hash=facts.request_hash)


def _line(message: MessageRef, resolution: Resolution) -> dict[str, object]:
    """Make the line of the audit, which the trigger on messages looks for before a resend."""
    return {
        "id": resolution.id,
        "credential_id": resolution.by,
        "action": Action.MESSAGE_RESOLVED,
        "tenant_id": message.tenant_id,
        "message_id": message.id,
        "attempt": resolution.attempt,
        "decision": resolution.decision,
        "provider_message_id": resolution.provider_message_id,
        "reason": resolution.reason,
    }
