"""Who asks: an API key, checked against its stored hash, its expiry and its scopes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fastapi import Request

from api import keys
from api.problems import Code, Problem
from db.ids import TenantId
from db.intake import IntakeStore


class Scope(StrEnum):
    """What a key may do (CONTRACT: HTTP)."""

    MESSAGES_SEND = "messages:send"
    MESSAGES_READ = "messages:read"
    TEMPLATES = "templates"
    SENDERS = "senders"
    SUPPRESSIONS = "suppressions"
    CONTENT_READ = "content:read"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCaller:
    """A tenant's key that may do what it asks for."""

    credential_id: str
    tenant_id: TenantId
    tenant_active: bool


#: Compared against where the key is unknown, so that this takes as long as a wrong secret.
_NOBODYS_HASH: Final = bytes(32)


class Authenticator:
    """Checks API keys.

    Args:
        store: Where credentials are.
        pepper: The key of the hash under which secrets are stored.
        environment: The word that this deployment's keys have in them.

    """

    def __init__(self, store: IntakeStore, *, pepper: bytes, environment: str) -> None:
        self._store = store
        self._pepper = pepper
        self._environment = environment

    async def tenant(self, request: Request, scope: Scope) -> TenantCaller:
        """Give the tenant that asks. Raises `unauthenticated`, or `forbidden` where the key lacks the scope.

        A disabled tenant may still read and replay; what it may not is decided where that matters.
        """
        given = request.headers.getlist("authorization")
        kind, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        # A typo is refused by the key's checksum, and another deployment's key by its word, without a query.
        key = keys.parse(text.strip()) if kind.lower() == "bearer" else None
        if key is None or key.environment != self._environment:
            raise Problem(Code.UNAUTHENTICATED)
        credential = await self._store.credential(key.key_id)
        stored = credential.secret_hash if credential else _NOBODYS_HASH
        same = keys.matches(self._pepper, key.secret, stored)
        if not same or credential is None or credential.expired or credential.revoked:
            raise Problem(Code.UNAUTHENTICATED)
        if scope not in credential.scopes or credential.tenant_id is None:
            raise Problem(Code.FORBIDDEN)
        return TenantCaller(
            credential_id=credential.id, tenant_id=credential.tenant_id, tenant_active=credential.tenant_active
        )
