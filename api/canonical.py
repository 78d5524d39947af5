"""The request hash: which commands are the same command, in bytes; docs/request-hash.md is its contract."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Final

import rfc8785

from api.addresses import Address
from api.command import SendCommand
from api.strict_json import MAX_SAFE_INTEGER, JsonObject, JsonValue

#: Stands before every hash, and names the contract.  Any other bytes for the same command are another version.
VERSION: Final = "v1"
_VERSION_LINE: Final = b"fencepost-request-v1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedDefaults:
    """What a command takes from its sender and its template where it says nothing itself.

    For a replay these are the ones that were kept with the message, not the ones of today (DESIGN section 3).
    `sender_address` is an `Address.spec`.
    """

    sender_address: str = field(repr=False)
    sender_name: str | None = field(repr=False)
    sender_reply_to: tuple[Address, ...] = field(repr=False)
    purpose: str


def canonical_json(value: JsonValue) -> bytes:
    """Return the RFC 8785 form of a value from `strict_json.parse`."""
    return rfc8785.dumps(value)


def canonical_context(context: JsonObject) -> JsonObject:
    """Return a context as its canonical bytes read, which is what templates are rendered from.

    Two commands with one hash then cannot render differently: `1.0` has become `1`.
    """
    return read_canonical(canonical_json(context))


def read_canonical(canonical: bytes) -> JsonObject:
    """Return the object that these canonical bytes are."""
    read: JsonObject = json.loads(canonical, parse_int=_number)
    return read


def resolve(command: SendCommand, defaults: ResolvedDefaults) -> SendCommand:
    """Return the command with its defaults filled in and its context canonical: what is hashed, kept and rendered."""
    return dataclasses.replace(
        command,
        reply_to=command.reply_to or defaults.sender_reply_to,
        purpose=command.purpose or defaults.purpose,
        context=canonical_context(command.context),
    )


def request_hash(tenant_id: str, key: str, command: SendCommand, defaults: ResolvedDefaults) -> str:
    """Return `v1:` and 64 hex digits, equal for equal commands only.

    `tenant_id` is the text of the tenant's id, and `key` the idempotency key.  A command that is resolved already has
    the same hash.
    """
    digest = hashlib.sha256(_VERSION_LINE + hashed_bytes(tenant_id, key, command, defaults))
    return f"{VERSION}:{digest.hexdigest()}"


def hashed_bytes(tenant_id: str, key: str, command: SendCommand, defaults: ResolvedDefaults) -> bytes:
    """Return the canonical JSON that `request_hash` digests after its version line.  Holds all that is protected."""
    resolved = resolve(command, defaults)
    return canonical_json(
        {
            "tenant": tenant_id,
            "idempotency_key": key,
            "to": _mailbox(resolved.to),
            "cc": [_mailbox(address) for address in resolved.cc],
            "bcc": [_mailbox(address) for address in resolved.bcc],
            "reply_to": [_mailbox(address) for address in resolved.reply_to],
            "sender": {"key": resolved.sender, "address": defaults.sender_address, "name": defaults.sender_name},
            "template": {"key": resolved.template.key, "version": resolved.template.version},
            "context": resolved.context,
            "purpose": resolved.purpose,
            "headers": {header.folded: header.value for header in resolved.headers},
            "tags": dict(resolved.tags),
            "options": None,
        }
    )


def _mailbox(address: Address) -> JsonObject:
    return {"address": address.spec, "name": address.name}


def _number(text: str) -> int | float:
    # RFC 8785 writes doubles up to 1e21 without a point.  Beyond the safe integers they stay the doubles they were.
    number = int(text)
    return number if abs(number) <= MAX_SAFE_INTEGER else float(number)
