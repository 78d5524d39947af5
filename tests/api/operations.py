"""The calls that OpenAPI describes, each as a request that can be made, and tenants to make them on."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import asyncpg

from db.ids import TenantId, new_id
from db.lifecycle import State
from db.records import MessageRef
from tests.api.conftest import Api, make_key
from tests.factories import AttemptRow, make_message

METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace")
TENANT_SCOPES = ["messages:send", "messages:read", "templates", "senders", "suppressions", "content:read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path, as the document has it."""

    method: str
    path: str
    raw: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def scope(self) -> str | None:
        """The scope that opens it; None: anybody may ask."""
        if "security" not in self.raw:
            return None
        ((scheme, (scope,)),) = self.raw["security"][0].items()
        assert scheme == ("operator_key" if scope == "operator" else "api_key")
        return str(scope)

    @property
    def signed(self) -> bool:
        """Tell whether SNS's signature opens it, which no example has."""
        return bool(self.raw["tags"] == ["provider events"])

    @property
    def codes(self) -> set[str]:
        """Every error code that it can answer with."""
        return {
            code
            for response in self.raw["responses"].values()
            for code in response.get("content", {}).get("application/problem+json", {}).get("examples", {})
        }

    @property
    def successes(self) -> set[int]:
        return {int(status) for status in self.raw["responses"] if status.startswith("2")}

    @property
    def places(self) -> list[str]:
        """What the path has places for, as `furnish` names it: a sender's `key` isn't a template's."""
        return [f"{collection}/{name}" for collection, name in re.findall(r"(\w+)/{(\w+)}", self.path)]

    def at(self, ids: Mapping[str, str]) -> str:
        """Fill the path in."""
        path = self.path
        for place in self.places:
            collection, _, name = place.partition("/")
            path = path.replace(f"{collection}/{{{name}}}", f"{collection}/{ids[place]}")
        return path

    def headers(self) -> dict[str, str]:
        """Give the headers that it needs, from the document's examples; an idempotency key is a new one each time."""
        needed = [parameter for parameter in self.raw.get("parameters", ()) if parameter["in"] == "header"]
        return {each["name"]: str(uuid4()) if each["name"] == "Idempotency-Key" else each["example"] for each in needed}

    def bodies(self) -> list[Any]:
        """Give the document's examples of its body; a call without one has one, None."""
        content = self.raw.get("requestBody", {}).get("content")
        if content is None:
            return [None]
        (media,) = content.values()
        return list(media["schema"]["examples"])

    def written(self, body: Any) -> tuple[bytes | None, dict[str, str]]:
        """Give a body's bytes, and the header that says what they are."""
        if body is None:
            return None, {}
        (media_type,) = self.raw["requestBody"]["content"]
        content = json.dumps(body) if media_type == "application/json" else body
        return content.encode(), {"Content-Type": media_type}


async def document_of(api: Api) -> dict[str, Any]:
    """Fetch the document as a client program does."""
    document: dict[str, Any] = (await api.http.get("/openapi.json")).json()
    return document


def operations_of(document: Mapping[str, Any]) -> list[Operation]:
    return [
        Operation(method=method, path=path, raw=raw)
        for path, calls in document["paths"].items()
        for method, raw in calls.items()
        if method in METHODS
    ]


def schemas_in(node: Any, at: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Walk over everything in a document that is an object, with its JSON pointer."""
    if isinstance(node, dict):
        yield at, node
        for name, inner in node.items():
            yield from schemas_in(inner, f"{at}/{str(name).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            yield from schemas_in(inner, f"{at}/{index}")


async def make_ambiguous(connection: asyncpg.Connection, **more: Any) -> MessageRef:
    """Make a message of which nobody knows whether the provider took its first attempt."""
    attempt = AttemptRow(begin_id=uuid4(), outcome="unknown", reason="provider_timeout", closed=True)
    message = await make_message(connection, State.AMBIGUOUS, attempt, **more)
    await connection.execute(
        """INSERT INTO timeline (message_id, seq, from_state, to_state, move, reason, attempt, actor)
        VALUES ($1, 2, 'leased', 'ambiguous', 'quarantine', 'provider_timeout', 1, 'machine')""",
        message.id,
    )
    return message


async def furnish(
    connection: asyncpg.Connection,
    tenant_id: TenantId,
    *,
    state: str = "active",
    sender: str = "demo",
    template: str = "welcome",
) -> dict[str, str]:
    """Make a tenant with one of everything, by default as the document's examples name it; give the ids for paths."""
    await connection.execute("INSERT INTO tenants (id, name, state) VALUES ($1, 'Acme', $2)", tenant_id, state)
    await connection.execute(
        "INSERT INTO senders (tenant_id, key, address) VALUES ($1, $2, 'hello@example.com')", tenant_id, sender
    )
    await connection.execute(
        """INSERT INTO template_versions (tenant_id, key, version, subject, text, purpose, context_schema)
        VALUES ($1, $2, 1, 'Hello', 'Dear {{ name }}', 'transactional',
            '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}')""",
        tenant_id,
        template,
    )
    suppression_id = new_id()
    await connection.execute(
        """INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason)
        VALUES ($1, $2, 'eve@example.com', $3, 'all', 'manual')""",
        suppression_id,
        tenant_id,
        b"e" * 32,
    )
    subscription_id = new_id()
    # It is confirmed already: nobody here is SNS.
    await connection.execute(
        """INSERT INTO event_subscriptions (id, topic_arn, token, confirmed_at, subscription_arn)
        VALUES ($1, $2, $3, now(), $2 || ':1')""",
        subscription_id,
        "arn:aws:sns:us-east-1:123456789012:ses-events",
        str(subscription_id),
    )
    key_id = (await make_key(connection, tenant_id)).split("_")[2]
    message = await make_ambiguous(
        connection, tenant_id=tenant_id, sender_key=sender, template_key=template, credential_id=key_id
    )
    return {
        "messages/message_id": str(message.id),
        "senders/key": sender,
        "suppressions/suppression_id": str(suppression_id),
        "templates/key": template,
        "versions/n": "1",
        "tenants/tenant_id": tenant_id,
        "keys/key_id": key_id,
        "providers/name": "ses",
        "subscriptions/subscription_id": str(subscription_id),
    }
