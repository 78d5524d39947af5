"""Taking a command in: what it refers to, and the one insert that makes it a message for ever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db.crash_points import CrashPoint, passing
from db.ids import TenantId
from db.intake_statements import ACCEPT, LOOK_UP, ORIGINAL, RECIPIENT
from db.lifecycle import Actor, Move, State
from db.reading import LineView, ListedMessage, MessageView, RecipientView
from db.records import MessageRef
from db.transaction import rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """What a replay is compared against: the message as it was taken in, with the defaults that it took."""

    ref: MessageRef
    purpose: str
    template_key: str
    template_version: int
    template_purpose: str
    sender_key: str
    sender_address: str = field(repr=False)
    sender_name: str | None = field(repr=False)
    sender_reply_to: Sequence[Mapping[str, Any]] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A sender as it stands now."""

    address: str = field(repr=False)
    name: str | None = field(repr=False)
    reply_to: Sequence[Mapping[str, Any]] = field(repr=False)
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateVersion:
    """A template version, which never changes."""

    subject: str = field(repr=False)
    text: str | None = field(repr=False)
    html: str | None = field(repr=False)
    purpose: str
    context_schema: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """What a command is judged by. Where there is an original, nothing else was looked for."""

    original: Original | None
    sender: Sender | None
    template: TemplateVersion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecipient:
    """Somebody whom a new message names."""

    role: str
    address: str = field(repr=False)
    name: str | None = field(repr=False)
    address_hash: bytes = field(repr=False)
    redacted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """Everything that is stored before anything is queued (DESIGN: what is stored)."""

    ref: MessageRef
    idempotency_key: str = field(repr=False)
    hash_version: int
    credential_id: str
    provider: str
    purpose: str
    template_key: str
    template_version: int
    template_purpose: str
    sender_key: str
    sender_address: str = field(repr=False)
    sender_name: str | None = field(repr=False)
    sender_reply_to: Sequence[Mapping[str, Any]] = field(repr=False)
    reply_to: Sequence[Mapping[str, Any]] = field(repr=False)
    recipients: tuple[NewRecipient, ...]
    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str | None = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    tags: Mapping[str, str] = field(repr=False)


#: What of a new message is bound as it is.
_AS_GIVEN: Final = tuple(each.name for each in fields(NewMessage) if each.name not in ("ref", "recipients"))


class IntakeStore:
    """Reads for intake, and the insert. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def look_up(self, tenant_id: TenantId, key: str, *, sender: str, template: str, version: int) -> LookedUp:
        """Find the message of a (tenant, idempotency key); where there is none, the sender and the template version."""
        values = {"tenant_id": tenant_id, "key": key, "sender": sender, "template": template, "version": version}
        (row,) = await rows_of(self._engine, LOOK_UP, values)
        return LookedUp(
            original=None if row.id is None else _original(tenant_id, row),
            sender=None
            if row.now_state is None
            else Sender(
                address=row.now_address,
                name=row.now_name,
                reply_to=row.now_reply_to,
                active=row.now_state == "active",
            ),
            template=None
            if row.published is None
            else TemplateVersion(
                subject=row.subject,
                text=row.text,
                html=row.html,
                purpose=row.default_purpose,
                context_schema=row.context_schema,
            ),
        )

    async def original(self, tenant_id: TenantId, key: str) -> Original | None:
        """Find the message of a (tenant, idempotency key)."""
        rows = await rows_of(self._engine, ORIGINAL, {"tenant_id": tenant_id, "key": key})
        return _original(tenant_id, rows[0]) if rows else None

    async def accept(self, message: NewMessage) -> MessageView | None:
        """Insert a message with all that belongs to it, and give it; None where its (tenant, key) has one already.

        Unique (tenant, key) is the arbiter between concurrent first commands. UnavailableError leaves open whether the
        message is there: it may be committed and only the reply be lost. Look it up before you answer.
        """
        passing(CrashPoint.INTAKE_UNCOMMITTED)
        rows = await rows_of(self._engine, ACCEPT, _values(message))
        if not rows:
            return None
        passing(CrashPoint.INTAKE_COMMITTED)
        return _view(message, rows[0])


def _original(tenant_id: TenantId, row: sa.Row[Any]) -> Original:
    return Original(
        ref=MessageRef(id=row.id, tenant_id=tenant_id, request_hash=row.request_hash),
        purpose=row.purpose,
        template_key=row.template_key,
        template_version=row.template_version,
        template_purpose=row.template_purpose,
        sender_key=row.sender_key,
        sender_address=row.sender_address,
        sender_name=row.sender_name,
        sender_reply_to=row.sender_reply_to,
    )


def _values(message: NewMessage) -> dict[str, Any]:
    """Give what ACCEPT binds."""
    listed: dict[str, list[Any]] = {f"new_{name}_list": [] for name in RECIPIENT}
    position: dict[str, int] = {}
    for recipient in message.recipients:
        place = position.get(recipient.role, 0)
        position[recipient.role] = place + 1
        for name in RECIPIENT:
            listed[f"new_{name}_list"].append(place if name == "position" else getattr(recipient, name))
    return {
        "new_id": message.ref.id,
        "new_tenant_id": message.ref.tenant_id,
        "new_request_hash": message.ref.request_hash,
        **{f"new_{name}": getattr(message, name) for name in _AS_GIVEN},
        **listed,
    }


def _view(message: NewMessage, row: sa.Row[Any]) -> MessageView:
    """Show a message that was made just now, as MessageReader would read it."""
    return MessageView(
        listed=ListedMessage(
            ref=message.ref,
            state=State.QUEUED,
            purpose=message.purpose,
            template_key=message.template_key,
            template_version=message.template_version,
            sender_key=message.sender_key,
            # As Postgres orders them.
            tags=row.tags,
            due_at=row.due_at,
            provider_accepted_at=None,
            delivered_at=None,
            created_at=row.created_at,
            updated_at=row.updated_at,
            recipients=tuple(
                RecipientView(role=each.role, redacted=each.redacted, outcome=None) for each in message.recipients
            ),
            lease=None,
            ambiguity=None,
        ),
        attempts=(),
        timeline=(
            LineView(
                seq=1,
                at=row.line_at,
                from_state=None,
                to_state=State.QUEUED,
                move=Move.INTAKE,
                reason=None,
                attempt=None,
                actor=Actor.CLIENT,
            ),
        ),
    )
