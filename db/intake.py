"""Taking a command in: what it refers to, and the one insert that makes it a message for ever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from db.crash_points import CrashPoint, passing
from db.engine import outages
from db.ids import MessageId, TenantId
from db.lifecycle import Actor, Move, State
from db.records import MessageRef
from db.schema import (
    message_contents,
    messages,
    recipients,
    senders,
    template_versions,
    timeline,
)


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


ORIGINAL: Final = sa.select(
    messages.c.id,
    messages.c.tenant_id,
    messages.c.request_hash,
    messages.c.purpose,
    messages.c.template_key,
    messages.c.template_version,
    messages.c.template_purpose,
    messages.c.sender_key,
    messages.c.sender_address,
    messages.c.sender_name,
    messages.c.sender_reply_to,
).where(
    messages.c.tenant_id == sa.bindparam("tenant_id", type_=sa.Text),
    messages.c.idempotency_key == sa.bindparam("key", type_=sa.Text),
)

SENDER: Final = sa.select(senders.c.address, senders.c.name, senders.c.reply_to, senders.c.state).where(
    senders.c.tenant_id == sa.bindparam("tenant_id", type_=sa.Text),
    senders.c.key == sa.bindparam("key", type_=sa.Text),
)

TEMPLATE_VERSION: Final = sa.select(
    template_versions.c.subject,
    template_versions.c.text,
    template_versions.c.html,
    template_versions.c.purpose,
    template_versions.c.context_schema,
).where(
    template_versions.c.tenant_id == sa.bindparam("tenant_id", type_=sa.Text),
    template_versions.c.key == sa.bindparam("key", type_=sa.Text),
    template_versions.c.version == sa.bindparam("version", type_=sa.Integer),
)

INSERT_MESSAGE: Final = (
    insert(messages).on_conflict_do_nothing(index_elements=["tenant_id", "idempotency_key"]).returning(messages.c.id)
)
"""Make the message. No row: this (tenant, key) has one already; the index made us wait until it was committed."""


class IntakeStore:
    """Reads for intake, and the insert. Raises UnavailableError for any trouble with Postgres."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def original(self, tenant_id: TenantId, key: str) -> Original | None:
        """Find the message of a (tenant, idempotency key)."""
        row = await self._first(ORIGINAL, tenant_id=tenant_id, key=key)
        if row is None:
            return None
        return Original(
            ref=MessageRef(id=row.id, tenant_id=row.tenant_id, request_hash=row.request_hash),
            purpose=row.purpose,
            template_key=row.template_key,
            template_version=row.template_version,
            template_purpose=row.template_purpose,
            sender_key=row.sender_key,
            sender_address=row.sender_address,
            sender_name=row.sender_name,
            sender_reply_to=row.sender_reply_to,
        )

    async def sender(self, tenant_id: TenantId, key: str) -> Sender | None:
        """Find a sender."""
        row = await self._first(SENDER, tenant_id=tenant_id, key=key)
        if row is None:
            return None
        return Sender(address=row.address, name=row.name, reply_to=row.reply_to, active=row.state == "active")

    async def template_version(self, tenant_id: TenantId, key: str, version: int) -> TemplateVersion | None:
        """Find a template version."""
        row = await self._first(TEMPLATE_VERSION, tenant_id=tenant_id, key=key, version=version)
        if row is None:
            return None
        return TemplateVersion(
            subject=row.subject,
            text=row.text,
            html=row.html,
            purpose=row.purpose,
            context_schema=row.context_schema,
        )

    async def accept(self, message: NewMessage) -> bool:
        """Insert a message with all that belongs to it; False where its (tenant, key) has one already.

        Unique (tenant, key) is the arbiter between concurrent first commands. UnavailableError leaves open whether the
        message is there: its COMMIT may have happened and only the reply be lost. Look it up before you answer.
        """
        with outages():
            async with self._engine.begin() as connection:
                if (await connection.execute(INSERT_MESSAGE, _message_row(message))).one_or_none() is None:
                    return False
                await connection.execute(sa.insert(message_contents), _content_row(message))
                await connection.execute(sa.insert(recipients), _recipient_rows(message))
                await connection.execute(sa.insert(timeline), _first_line(message.ref.id))
                passing(CrashPoint.INTAKE_UNCOMMITTED)
        passing(CrashPoint.INTAKE_COMMITTED)
        return True

    async def _first(self, statement: sa.Executable, **values: str | int) -> sa.Row[Any] | None:
        with outages():
            async with self._engine.connect() as connection:
                return (await connection.execute(statement, values)).one_or_none()


def _message_row(message: NewMessage) -> dict[str, Any]:
    return {
        "id": message.ref.id,
        "tenant_id": message.ref.tenant_id,
        "idempotency_key": message.idempotency_key,
        "request_hash": message.ref.request_hash,
        "hash_version": message.hash_version,
        "credential_id": message.credential_id,
        "provider": message.provider,
        "purpose": message.purpose,
        "template_key": message.template_key,
        "template_version": message.template_version,
        "template_purpose": message.template_purpose,
        "sender_key": message.sender_key,
        "sender_address": message.sender_address,
        "sender_name": message.sender_name,
        "sender_reply_to": message.sender_reply_to,
        "tags": message.tags,
    }


def _content_row(message: NewMessage) -> dict[str, Any]:
    return {
        "message_id": message.ref.id,
        "subject": message.subject,
        "text": message.text,
        "html": message.html,
        "headers": message.headers,
        "reply_to": message.reply_to,
    }


def _recipient_rows(message: NewMessage) -> list[dict[str, Any]]:
    position: dict[str, int] = {}
    rows = []
    for recipient in message.recipients:
        place = position.get(recipient.role, 0)
        position[recipient.role] = place + 1
        rows.append(
            {
                "message_id": message.ref.id,
                "tenant_id": message.ref.tenant_id,
                "role": recipient.role,
                "position": place,
                "address": recipient.address,
                "name": recipient.name,
                "address_hash": recipient.address_hash,
                "redacted": recipient.redacted,
            }
        )
    return rows


def _first_line(message_id: MessageId) -> dict[str, Any]:
    return {
        "message_id": message_id,
        "seq": 1,
        "from_state": None,
        "to_state": State.QUEUED,
        "move": Move.INTAKE,
        "reason": None,
        "attempt": None,
        "actor": Actor.CLIENT,
    }
