"""What operators did: one row each, in the transaction of what it tells."""

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from db.ids import TenantId, new_id
from db.schema import operator_audit


class Action(StrEnum):
    """What an operator did."""

    TENANT_CREATED = "tenant_created"
    TENANT_RENAMED = "tenant_renamed"
    TENANT_DISABLED = "tenant_disabled"
    TENANT_ENABLED = "tenant_enabled"
    KEY_ISSUED = "key_issued"
    KEY_SCOPES_CHANGED = "key_scopes_changed"
    KEY_ROTATED = "key_rotated"
    KEY_REVOKED = "key_revoked"
    MESSAGE_RESOLVED = "message_resolved"
    PROVIDER_PAUSED = "provider_paused"
    PROVIDER_RESUMED = "provider_resumed"
    SUBSCRIPTION_CONFIRMED = "subscription_confirmed"


async def note(
    connection: AsyncConnection,
    action: Action,
    *,
    by: str | None,
    tenant_id: TenantId | None,
    subject: str,
    reason: str | None = None,
) -> None:
    """Write down what an operator did.

    Args:
        connection: In the transaction that does it, so that neither is there without the other.
        action: What was done.
        by: The operator's credential; None for somebody who has the database at hand.
        tenant_id: The tenant whom it is about; None where it is about operators.
        subject: The id of what it was done to: a tenant's, a key's or a provider's.
        reason: Why, in the operator's words; None where nobody asked, or they gave none.

    """
    row = {
        "id": new_id(),
        "credential_id": by,
        "action": action,
        "tenant_id": tenant_id,
        "subject": subject,
        "reason": reason,
    }
    await connection.execute(sa.insert(operator_audit), row)
