"""What calls for a tenant's API keys take, and what they answer."""

from datetime import timedelta
from typing import Final, Literal, Self

from pydantic import BaseModel, Field

from api.auth import Scope
from api.command_schema import TIME_SCHEMA
from api.faults import FaultCode
from api.fields import Fields
from api.schemas import Time
from api.strict_json import JsonObject, JsonValue
from db.tenant_keys import KeyView

#: What a tenant's key may do: all but what operators do.
SCOPES: Final = tuple(scope for scope in Scope if scope is not Scope.OPERATOR)
DEFAULT_OVERLAP: Final = timedelta(days=1)
MAX_OVERLAP: Final = timedelta(days=30)
_SCOPES_SCHEMA: Final[JsonObject] = {
    "type": "array",
    "items": {"type": "string", "enum": [str(scope) for scope in SCOPES]},
    "minItems": 1,
    "uniqueItems": True,
}
ISSUE_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "scopes": _SCOPES_SCHEMA,
        "expires_at": {
            **TIME_SCHEMA,
            "type": ["string", "null"],
            "description": "RFC 3339, in the future; left out, the key never expires.",
        },
    },
    "required": ["scopes"],
    "additionalProperties": False,
    "examples": [{"scopes": ["messages:send", "messages:read"], "expires_at": "2036-01-01T00:00:00Z"}],
}
CHANGE_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"scopes": _SCOPES_SCHEMA},
    "required": ["scopes"],
    "additionalProperties": False,
    "examples": [{"scopes": ["messages:read"]}],
}
ROTATE_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "overlap_seconds": {
            "type": ["integer", "null"],
            "minimum": 0,
            "maximum": int(MAX_OVERLAP.total_seconds()),
            "default": int(DEFAULT_OVERLAP.total_seconds()),
            "description": "How long the old key goes on, unless it expires before.",
        }
    },
    "additionalProperties": False,
    "examples": [{"overlap_seconds": 3600}],
}


class IssuedKeyBody(BaseModel):
    """A new key, shown this once: only a hash of it is stored."""

    id: str
    key: str = Field(description="What goes after `Authorization: Bearer`.", examples=["fp_live_..."])
    scopes: list[Scope]
    expires_at: Time | None


class KeyBody(BaseModel):
    """A key, without its secret."""

    id: str
    scopes: list[Scope]
    state: Literal["active", "expired", "revoked"]
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None = Field(description="To the minute; of calls that it opened.")
    replaced_by: str | None = Field(description="The id of the key that it was rotated to.")

    @classmethod
    def of(cls, key: KeyView) -> Self:
        """Show a key."""
        expired: Literal["active", "expired"] = "expired" if key.expired else "active"
        return cls(
            id=key.id,
            scopes=[Scope(scope) for scope in key.scopes],
            state=expired if key.revoked_at is None else "revoked",
            created_at=key.created_at,
            expires_at=key.expires_at,
            revoked_at=key.revoked_at,
            last_used_at=key.last_used_at,
            replaced_by=key.replaced_by,
        )


class KeyFields(Fields):
    """Reads the members that only keys have."""

    def scopes(self, value: JsonValue) -> list[str]:
        """Read a list of scopes, each once."""
        at = "/scopes"
        if value is None:
            self.missing(at)
        elif not isinstance(value, list):
            self.fault(at, FaultCode.WRONG_TYPE, "This has to be a list of scopes.")
        elif not value:
            self.fault(at, FaultCode.TOO_FEW, "A key has at least one scope.")
        else:
            return [self._scope(value, index) for index in range(len(value))]
        return []

    def _scope(self, listed: list[JsonValue], index: int) -> str:
        at, scope = f"/scopes/{index}", listed[index]
        if not isinstance(scope, str):
            self.fault(at, FaultCode.WRONG_TYPE, "A scope is a string.")
            return ""
        if scope not in SCOPES:
            self.fault(at, FaultCode.NOT_ALLOWED, f"A scope is one of {', '.join(SCOPES)}.")
        elif scope in listed[:index]:
            self.fault(at, FaultCode.DUPLICATE, "This scope is listed twice.")
        return scope

    def overlap(self, value: JsonValue) -> timedelta:
        """Read how long a key goes on that another follows."""
        if value is None:
            return DEFAULT_OVERLAP
        most = int(MAX_OVERLAP.total_seconds())
        return timedelta(seconds=self.integer(value, "/overlap_seconds", least=0, most=most))
