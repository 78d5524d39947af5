"""Provider events: kept once, matched to the attempt that they are about, and applied to its message.

Storing and applying are one transaction under the lock of the message row; a repeat applies again, and changes nothing
more (model: PROTOCOL, event). An event without a message waits in `unmatched_events`, and is looked at again by the
sweep. Whom a hard bounce or a complaint names is suppressed for the tenant whose mail it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db import event_statements
from db.crash_points import CrashPoint, passing
from db.engine import outages
from db.evidence import EventFacts, EventMoves, decide_event
from db.ids import MessageId, TenantId, new_id
from db.lifecycle import Actor, State, target
from db.outcomes import EventType, Outcome, Reason, RecipientOutcome, SuppressionReason
from db.records import NamedRecipient, ProviderEvent
from db.store import attempt_facts
from db.transaction import LockedMessage, UnknownMessageError, connected, locked

#: Of mail that is not ours, on a topic that it shares with us, there may be any amount: each is looked at some dozen
#: times, and then kept without a look.
_PATIENCE: Final = timedelta(days=7)
_FIRST_WAIT: Final = timedelta(seconds=2)
_LONGEST_WAIT: Final = timedelta(hours=12)

#: What an event says about whom it names.
_OUTCOME: Final = {
    EventType.DELIVERY: RecipientOutcome.DELIVERED,
    EventType.BOUNCE: RecipientOutcome.BOUNCED,
    EventType.COMPLAINT: RecipientOutcome.COMPLAINED,
    EventType.REJECT: RecipientOutcome.REJECTED,
}
#: What suppresses whom it names, and for which reason.
_SUPPRESSES: Final = {
    EventType.BOUNCE: SuppressionReason.HARD_BOUNCE,
    EventType.COMPLAINT: SuppressionReason.COMPLAINT,
}


class Taken(StrEnum):
    """What taking an event came to."""

    APPLIED = "applied"  #: it stands in its message's timeline, whether it moved the message or not
    DUPLICATE = "duplicate"  #: it did so before
    UNMATCHED = "unmatched"  #: kept; its message is looked for again


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """The attempt that an event is about."""

    message_id: MessageId
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEvent:
    """An event without a message."""

    id: UUID
    looks: int
    event: ProviderEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipient:
    """A recipient whom an event is about."""

    tenant_id: TenantId
    role: str
    position: int
    address: str = field(repr=False)
    address_hash: bytes = field(repr=False)


class EventStore:
    """Takes provider events. Raises UnavailableError for any trouble with Postgres; taking one again is always safe."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def take(self, event: ProviderEvent) -> Taken:
        """Keep an event and apply it, or let it wait for its message. Whatever was said once stays said."""
        new = await self._applied(event, None)
        if new is None:
            taken = await self._let_wait(event)
        else:
            taken = Taken.APPLIED if new else Taken.DUPLICATE
        passing(CrashPoint.EVENT_COMMITTED)
        return taken

    async def waiting(self, most: int) -> list[WaitingEvent]:
        """List events without a message for which it is time to look again, at most `most`."""
        async with connected(self._engine) as connection:
            rows = (await connection.execute(event_statements.WAITING, {"most": most})).all()
        return [WaitingEvent(id=row.id, looks=row.looks, event=_read(row)) for row in rows]

    async def match(self, waiting: WaitingEvent) -> bool:
        """Look again for the message of an event that waits; apply it, or say False and let it wait longer."""
        if await self._applied(waiting.event, waiting.id) is not None:
            return True
        wait = min(_FIRST_WAIT * 2 ** min(waiting.looks, 32), _LONGEST_WAIT)
        asked = {"this_event": waiting.id, "patience": _PATIENCE, "wait": wait}
        with outages():
            async with self._engine.begin() as connection:
                await connection.execute(event_statements.LOOKED, asked)
        return False

    async def _applied(self, event: ProviderEvent, kept: UUID | None) -> bool | None:
        """Apply an event to the attempt that our tags name, or else the provider's id (DESIGN: evidence).

        Returns whether it is new there, and None where there is no such attempt. `kept` is its id where it waited.
        """
        tagged = _tags(event)
        if tagged is not None and (new := await self._applied_to(tagged, event, kept)) is not None:
            return new
        if event.provider_message_id is None:
            return None
        given = {"its_provider": event.provider, "its_provider_id": event.provider_message_id}
        async with connected(self._engine) as connection:
            row = (await connection.execute(event_statements.ANSWERED, given)).one_or_none()
        if row is None:
            return None
        return await self._applied_to(_Named(message_id=row.message_id, attempt=row.number), event, kept)

    async def _applied_to(self, named: _Named, event: ProviderEvent, kept: UUID | None) -> bool | None:
        try:
            async with locked(self._engine, named.message_id) as message:
                if await message.first(event_statements.ATTEMPT, in_attempt=named.attempt) is None:
                    return None
                new = await _apply(message, named, event, kept or await _keep(message.connection, event))
                passing(CrashPoint.EVENT_UNCOMMITTED)
        except UnknownMessageError:
            return None
        return new

    async def _let_wait(self, event: ProviderEvent) -> Taken:
        with outages():
            async with self._engine.begin() as connection:
                kept = (await connection.execute(event_statements.KEEP, _row(event))).one_or_none()
                if kept is None:
                    return Taken.DUPLICATE
                await connection.execute(event_statements.WAIT, {"this_event": kept.id})
        return Taken.UNMATCHED


def _tags(event: ProviderEvent) -> _Named | None:
    """Read our tags; None where they are missing, or nothing that we wrote."""
    try:
        message_id = MessageId(UUID(event.message_tag or ""))
        attempt = int(event.attempt_tag or "")
    except ValueError:
        return None
    return _Named(message_id=message_id, attempt=attempt) if 0 < attempt < 2**31 else None


async def _keep(connection: AsyncConnection, event: ProviderEvent) -> UUID:
    """Keep an event, once; give its id, or that of the one that is here already."""
    kept = (await connection.execute(event_statements.KEEP, _row(event))).one_or_none()
    if kept is None:
        asked = {
            "its_provider": event.provider,
            "notification": event.notification_id,
            "natural": event.natural_key,
        }
        kept = (await connection.execute(event_statements.KEPT, asked)).one()
    event_id: UUID = kept.id
    return event_id


async def _apply(message: LockedMessage, named: _Named, event: ProviderEvent, event_id: UUID) -> bool:
    """Make an event evidence, and move its message to where all evidence takes it. False: it was evidence before."""
    hashes = [to.address_hash for to in event.recipients]
    asked = {"this_message": message.message_id, "everybody": not event.recipients, "hashes": hashes}
    about = [_Recipient(**row._asdict()) for row in await message.connection.execute(event_statements.NAMED, asked)]
    proof = await message.first(
        event_statements.PROVE,
        evidence_id=new_id(),
        in_attempt=named.attempt,
        this_event=event_id,
        what=_about_the_primary(event.type, about),
        why=event.reason,
        its_provider_id=event.provider_message_id,
    )
    new = proof is not None
    await message.connection.execute(event_statements.MATCHED, {"this_event": event_id})
    rows = (await message.connection.execute(event_statements.FACTS, {"this_message": message.message_id})).all()
    if new:
        await _write_outcomes(message, event.type, about)
        await _suppress(message, event.type, about)
    state = State(rows[0].state)
    attempts = tuple(attempt_facts(row) for row in rows)
    moved = decide_event(EventFacts(state=state, named=named.attempt, attempts=attempts))
    await _move(message, moved, state=state, token=rows[0].message_token, attempt=named.attempt)
    if new and not moved.moves:
        await message.note(f"event_{event.type}", attempt=named.attempt, reason=event.reason, by=Actor.PROVIDER)
    return new


async def _move(message: LockedMessage, moved: EventMoves, *, state: State, token: int, attempt: int) -> None:
    if moved.closes_current:
        await message.close(token, Outcome.NOT_BEGUN, None)
    for move, reason in moved.moves:
        await message.make(move, token=token, from_state=state, reason=reason, attempt=attempt)
        state = target(move)


def _about_the_primary(event: EventType, about: Sequence[_Recipient]) -> EventType:
    """Say what an event says about the primary recipient, whom the state follows.

    One that names only copies, or nobody whom we know, proves that the provider took the mail, and no more.
    """
    if event in _OUTCOME and not any(to.role == "to" for to in about):
        return EventType.OTHER
    return event


async def _write_outcomes(message: LockedMessage, event: EventType, about: Sequence[_Recipient]) -> None:
    outcome = _OUTCOME.get(event)
    if outcome is not None:
        for to in about:
            asked = {"this_message": message.message_id, "in_role": to.role, "at_position": to.position}
            await message.connection.execute(event_statements.OUTCOMES[outcome], asked)


async def _suppress(message: LockedMessage, event: EventType, about: Sequence[_Recipient]) -> None:
    """Suppress whom a hard bounce or a complaint names, for this tenant, whatever the purpose (delivery seed)."""
    reason = _SUPPRESSES.get(event)
    # In one order everywhere: two events that name the same people would otherwise wait for each other.
    for to in sorted(about, key=lambda each: each.address_hash) if reason is not None else ():
        row = {
            "id": new_id(),
            "tenant_id": to.tenant_id,
            "address": to.address,
            "address_hash": to.address_hash,
            "scope": "all",
            "reason": reason,
            "message_id": message.message_id,
        }
        await message.connection.execute(event_statements.SUPPRESS, row)


def _row(event: ProviderEvent) -> dict[str, Any]:
    named = [{"hash": to.address_hash.hex(), "status": to.status} for to in event.recipients]
    return {
        "id": new_id(),
        "provider": event.provider,
        "notification_id": event.notification_id,
        "natural_key": event.natural_key,
        "type": event.type,
        "provider_message_id": event.provider_message_id,
        "message_tag": event.message_tag,
        "attempt_tag": event.attempt_tag,
        "detail": {**event.detail, "reason": event.reason, "recipients": named},
        "occurred_at": event.occurred_at,
    }


def _read(row: sa.Row[Any]) -> ProviderEvent:
    detail: Mapping[str, Any] = row.detail
    return ProviderEvent(
        provider=row.provider,
        notification_id=row.notification_id,
        natural_key=row.natural_key,
        type=EventType(row.type),
        recipients=tuple(
            NamedRecipient(address_hash=bytes.fromhex(to["hash"]), status=to["status"]) for to in detail["recipients"]
        ),
        provider_message_id=row.provider_message_id,
        message_tag=row.message_tag,
        attempt_tag=row.attempt_tag,
        reason=Reason(detail["reason"]) if detail["reason"] else None,
        detail={name: word for name, word in detail.items() if name not in ("recipients", "reason")},
        occurred_at=row.occurred_at,
    )
