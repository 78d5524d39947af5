"""Who asks: an API key, checked against its stored hash, its expiry, its scopes and its tenant's rate."""

import math
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fastapi import Request

from api import keys
from api.problems import Code, Problem
from db.credentials import Credential, CredentialStore
from db.engine import UnavailableError
from db.ids import TenantId
from db.rates import RateLimits


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

    def require_active(self) -> None:
        """Refuse a disabled tenant: it may read and replay, and make nothing new."""
        if not self.tenant_active:
            raise Problem(Code.TENANT_DISABLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCaller:
    """An operator's key."""

    credential_id: str


#: Compared against where the key is unknown, so that this takes as long as a wrong secret.
_NOBODYS_HASH: Final = bytes(32)


class Authenticator:
    """Checks API keys.

    Args:
        store: Where credentials are.
        rates: How often a tenant may ask; None: as often as it likes.
        pepper: The key of the hash under which secrets are stored.
        environment: The word that this deployment's keys have in them.

    """

    def __init__(
        self, store: CredentialStore, rates: RateLimits | None, *, pepper: bytes, environment: keys.Environment
    ) -> None:
        self._store = store
        self._rates = rates
        self._pepper = pepper
        self._environment = environment

    async def tenant(self, request: Request, scope: Scope) -> TenantCaller:
        """Give the tenant that asks. Raises `unauthenticated`, `forbidden` for a key without the scope, `rate_limited`.

        A disabled tenant may still read and replay; what it may not is decided where that matters. Reading is not
        counted against the rate.
        """
        credential = await self._credential(request)
        if scope not in credential.scopes or credential.tenant_id is None:
            raise Problem(Code.FORBIDDEN)
        if self._rates is not None and request.method != "GET":
            wait = await self._rates.take(credential.tenant_id)
            if wait is not None:
                raise Problem(Code.RATE_LIMITED, headers={"Retry-After": str(max(1, math.ceil(wait)))})
        return TenantCaller(
            credential_id=credential.id, tenant_id=credential.tenant_id, tenant_active=credential.tenant_active
        )

    async def operator(self, request: Request) -> OperatorCaller:
        """Give the operator that asks. Raises `unauthenticated`, or `forbidden` for a tenant's key."""
        credential = await self._credential(request)
        if Scope.OPERATOR not in credential.scopes:
            raise Problem(Code.FORBIDDEN)
        return OperatorCaller(credential_id=credential.id)

    async def _credential(self, request: Request) -> Credential:
        given = request.headers.getlist("authorization")
        kind, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        # A typo is refused by the key's checksum, and another deployment's key by its word, without a query.
        key = keys.parse(text.strip()) if kind.lower() == "bearer" else None
        if key is None or key.environment != self._environment:
            raise Problem(Code.UNAUTHENTICATED)
        credential = await self._store.find(key.key_id)
        stored = credential.secret_hash if credential else _NOBODYS_HASH
        same = keys.matches(self._pepper, key.secret, stored)
        if not same or credential is None or credential.expired or credential.revoked:
            raise Problem(Code.UNAUTHENTICATED)
        if not credential.use_noted:
            # For people who look for keys that nobody needs; no request fails for it.
            with suppress(UnavailableError):
                await self._store.note_use(credential.id)
        return credential
