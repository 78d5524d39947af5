"""An example of each answer, for OpenAPI. They can't stand beside the models: FastAPI takes every null out of those."""

from typing import Final

from api.strict_json import JsonObject

_NOON: Final = "2026-01-01T12:00:00.000000Z"
_CLAIMED: Final = "2026-01-01T12:00:00.100000Z"
_BEGUN: Final = "2026-01-01T12:00:00.200000Z"
_ENDED: Final = "2026-01-01T12:00:00.300000Z"
_ACCEPTED: Final = "2026-01-01T12:00:00.400000Z"
_HASH: Final = f"v1:{'9f' * 32}"

_LISTED: Final[JsonObject] = {
    "id": "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d",
    "state": "provider_accepted",
    "idempotent_replay": False,
    "request_hash": _HASH,
    "workflow_id": f"demo/{_HASH}",
    "purpose": "transactional",
    "template": {"key": "welcome", "version": 1},
    "sender": {"key": "demo"},
    "tags": {"order": "17"},
    "recipients": [{"role": "to", "address": "a***@example.com", "outcome": None}],
    "lease": None,
    "retry": {"eligible": False, "due_at": None},
    "ambiguity": None,
    "provider_accepted_at": _ACCEPTED,
    "delivered_at": None,
    "created_at": _NOON,
    "updated_at": _ACCEPTED,
}


def _line(seq: int, at: str, states: tuple[str | None, str], move: str, attempt: int | None) -> JsonObject:
    return {
        "seq": seq,
        "at": at,
        "from": states[0],
        "to": states[1],
        "move": move,
        "reason": None,
        "attempt": attempt,
        "actor": "client" if attempt is None else "machine",
    }


_NEWEST: Final[JsonObject] = {"key": "welcome", "version": 1, "purpose": "transactional", "created_at": _NOON}

#: By the name of the model.
EXAMPLES: Final[dict[str, JsonObject]] = {
    "ListedMessageBody": _LISTED,
    "MessageBody": {
        **_LISTED,
        "attempts": [
            {
                "number": 1,
                "outcome": "accepted",
                "reason": None,
                "claimed_at": _CLAIMED,
                "begun_at": _BEGUN,
                "ended_at": _ENDED,
                "provider": "ses",
                "provider_message_id": "010001-example",
            }
        ],
        "timeline": [
            _line(1, _NOON, (None, "queued"), "intake", None),
            _line(2, _CLAIMED, ("queued", "leased"), "claim", 1),
            _line(3, _ACCEPTED, ("leased", "provider_accepted"), "accept", 1),
        ],
    },
    "SenderBody": {
        "key": "demo",
        "address": "hello@example.com",
        "name": "Acme",
        "reply_to": [{"address": "help@example.com", "name": None}],
        "state": "active",
        "created_at": _NOON,
        "updated_at": _NOON,
    },
    "SuppressionBody": {
        "id": "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d",
        "address": "ada@example.com",
        "scope": "all",
        "reason": "manual",
        "message_id": None,
        "created_at": _NOON,
        "removed_at": None,
        "removed_reason": None,
    },
    "ImportBody": {
        "added": 2,
        "already": 1,
        "rejected": [{"line": 3, "code": "address_invalid"}],
        "rejected_total": 1,
    },
    "VersionBody": {
        **_NEWEST,
        "subject": "Welcome, {{ name }}",
        "text": "Hello {{ name }}",
        "html": None,
        "context_schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
    "NewestVersionBody": _NEWEST,
    "RenderedBody": {"subject": "Welcome, Ada", "text": "Hello Ada", "html": None},
    "TenantBody": {
        "id": "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d",
        "name": "Acme",
        "state": "active",
        "created_at": _NOON,
    },
    "IssuedKeyBody": {
        "id": "4fKq0aV81LmZ7cXe",
        "key": "fp_live_...",
        "scopes": ["messages:send", "messages:read"],
        "expires_at": None,
    },
    "KeyBody": {
        "id": "4fKq0aV81LmZ7cXe",
        "scopes": ["messages:send", "messages:read"],
        "state": "active",
        "created_at": _NOON,
        "expires_at": None,
        "revoked_at": None,
        "last_used_at": None,
        "replaced_by": None,
    },
    "AmbiguousBody": {
        "id": "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d",
        "tenant": "demo",
        "recipients": [{"role": "to", "address": "a***@example.com", "outcome": None}],
        "ambiguity": {
            "since": _ENDED,
            "attempt": 1,
            "evidence": [{"kind": "late_result", "at": _ACCEPTED, "provider_message_id": "010001-example"}],
        },
    },
    "ProviderBody": {"name": "ses", "paused": False, "changed_at": _NOON},
    "SubscriptionBody": {
        "id": "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d",
        "topic": "arn:aws:sns:us-east-1:123456789012:ses-events",
        "received_at": _NOON,
        "confirmed_at": None,
    },
    "ReceivedBody": {"result": "applied"},
    "Alive": {"status": "ok"},
    "Ready": {"status": "ready", "database": "reachable", "schema_fit": "current", "temporal": "reachable"},
}
