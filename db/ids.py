"""The kinds of id that must not be mixed up, and how a new one is made."""

import secrets
import time
from typing import NewType
from uuid import UUID

TenantId = NewType("TenantId", str)
MessageId = NewType("MessageId", UUID)


def new_id() -> UUID:
    """Make a UUID version 7 (RFC 9562, section 5.7): milliseconds first, so that newer ids sort after older ones.

    The order is a convenience of the index only; no decision rests on this machine's clock.
    """
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


def new_message_id() -> MessageId:
    """Make the id of a new message."""
    return MessageId(new_id())


def new_tenant_id() -> TenantId:
    """Make the id of a new tenant: random, so that it tells nothing of the others."""
    return TenantId(str(new_id()))
