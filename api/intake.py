"""Accepting a command: replay, conflict or a new message, in the contract's order of judgement."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from api import rendering
from api.addresses import Address
from api.auth import TenantCaller
from api.canonical import VERSION, ResolvedDefaults, request_hash, resolve
from api.command import SendCommand
from api.faults import Fault
from api.problems import Code, Problem
from api.starter import Starter
from db.engine import UnavailableError
from db.ids import MessageId, TenantId, new_message_id
from db.intake import IntakeStore, LookedUp, NewMessage, NewRecipient, Original, Sender, TemplateVersion
from db.reading import MessageView
from db.records import MessageRef

#: The one provider of this version.
_PROVIDER: Final = "ses"
_HASH_VERSION: Final = int(VERSION.removeprefix("v"))


class Verdict(StrEnum):
    """What a command turned out to be."""

    NEW = "new"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The message of a command.

    Attributes:
        message: As it was made, where it is new; a replay's is to be read as it stands now.

    """

    message_id: MessageId
    verdict: Verdict
    message: MessageView | None = None


class Intake:
    """Turns a command into a message, once for ever (DESIGN: identity).

    Args:
        store: Where messages are.
        starter: Starts their runs.
        address_key: The key under which addresses are hashed for look-ups.

    """

    def __init__(self, store: IntakeStore, starter: Starter, *, address_key: bytes) -> None:
        self._store = store
        self._starter = starter
        self._address_key = address_key

    async def accept(self, caller: TenantCaller, key: str, command: SendCommand) -> Accepted:
        """Accept a command, or find its message. Raises Problem, or InvalidRequest for a context that doesn't fit.

        A replay is answered before anything else is looked at: the template may be retired since and the sender
        switched off. UnavailableError leaves open whether the message is there; an exact replay tells.
        """
        found = await self._store.look_up(
            caller.tenant_id,
            key,
            sender=command.sender,
            template=command.template.key,
            version=command.template.version,
        )
        if found.original is not None:
            return _compare(found.original, key, command)
        sender, template = _referred(caller, found)
        message = await self._prepare(caller, key, command, sender=sender, template=template)
        try:
            made = await self._store.accept(message)
        except UnavailableError:
            return await self._after_lost_commit(message, key, command)
        if made is not None:
            self._starter.want(message.ref)
            return Accepted(message_id=message.ref.id, verdict=Verdict.NEW, message=made)
        # Somebody else's command was first: the insert waited for it, so it is there to be read now.
        original = await self._store.original(caller.tenant_id, key)
        if original is None:
            raise UnavailableError
        return _compare(original, key, command)

    async def _after_lost_commit(self, message: NewMessage, key: str, command: SendCommand) -> Accepted:
        """Find out what became of an insert that got no reply; where Postgres is still away, nobody knows."""
        original = await self._store.original(message.ref.tenant_id, key)
        if original is None:
            raise UnavailableError
        self._starter.want(original.ref)
        if original.ref.id == message.ref.id:
            return Accepted(message_id=message.ref.id, verdict=Verdict.NEW)
        return _compare(original, key, command)

    async def _prepare(
        self, caller: TenantCaller, key: str, command: SendCommand, *, sender: Sender, template: TemplateVersion
    ) -> NewMessage:
        """Render, resolve and hash: all that is stored before anything is queued."""
        defaults = ResolvedDefaults(
            sender_address=sender.address,
            sender_name=sender.name,
            sender_reply_to=_addresses(sender.reply_to),
            purpose=template.purpose,
        )
        # Before anything else is made of the context, which may be too large; and in a thread, since it waits for a
        # process of its own.
        rendered = await asyncio.to_thread(rendering.render, rendering.TemplateParts.of(template), command.context)
        resolved = resolve(command, defaults)
        return NewMessage(
            ref=MessageRef(
                id=new_message_id(),
                tenant_id=caller.tenant_id,
                request_hash=request_hash(caller.tenant_id, key, command, defaults),
            ),
            idempotency_key=key,
            hash_version=_HASH_VERSION,
            credential_id=caller.credential_id,
            provider=_PROVIDER,
            purpose=resolved.purpose or template.purpose,
            template_key=command.template.key,
            template_version=command.template.version,
            template_purpose=template.purpose,
            sender_key=command.sender,
            sender_address=sender.address,
            sender_name=sender.name,
            sender_reply_to=sender.reply_to,
            reply_to=[{"address": address.spec, "name": address.name} for address in resolved.reply_to],
            recipients=tuple(self._recipients(command)),
            subject=rendered.subject,
            text=rendered.text,
            html=rendered.html,
            headers=tuple((header.name, header.value) for header in command.headers),
            tags=dict(command.tags),
        )

    def _recipients(self, command: SendCommand) -> list[NewRecipient]:
        by_role = (("to", (command.to,)), ("cc", command.cc), ("bcc", command.bcc))
        return [
            NewRecipient(
                role=role,
                address=address.spec,
                name=address.name,
                address_hash=address.hashed(self._address_key),
                redacted=address.redact(),
            )
            for role, listed in by_role
            for address in listed
        ]


def _referred(caller: TenantCaller, found: LookedUp) -> tuple[Sender, TemplateVersion]:
    """Give what a new command refers to, if that may be used."""
    if found.template is None:
        raise _at("/template", Code.TEMPLATE_NOT_FOUND, "Publish this version, or name one that exists.")
    if found.sender is None:
        raise _at("/sender", Code.SENDER_NOT_FOUND, "Create this sender, or name one that exists.")
    if not found.sender.active:
        raise Problem(Code.SENDER_DISABLED)
    caller.require_active()
    return found.sender, found.template


def _compare(original: Original, key: str, command: SendCommand) -> Accepted:
    """Say whether a command is the one that made this message, with the defaults that were kept with it."""
    defaults = ResolvedDefaults(
        sender_address=original.sender_address,
        sender_name=original.sender_name,
        sender_reply_to=_addresses(original.sender_reply_to),
        purpose=original.template_purpose,
    )
    tenant_id: TenantId = original.ref.tenant_id
    if request_hash(tenant_id, key, command, defaults) != original.ref.request_hash:
        raise Problem(Code.IDEMPOTENCY_CONFLICT)
    return Accepted(message_id=original.ref.id, verdict=Verdict.REPLAY)


def _addresses(stored: Sequence[Any]) -> tuple[Address, ...]:
    """Read addresses as they are stored: parsed and normalised when they came in."""
    found = []
    for entry in stored:
        local, _, domain = entry["address"].rpartition("@")
        found.append(Address(name=entry["name"], local=local, domain=domain))
    return tuple(found)


def _at(pointer: str, code: Code, detail: str) -> Problem:
    return Problem(code, faults=[Fault(pointer=pointer, code=code, detail=detail)])
