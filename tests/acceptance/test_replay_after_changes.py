"""A replay gives the original, whatever became of all that it refers to; and nothing is submitted again."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.conftest import ENDS, SETTLED_WITHIN, SILENT, Client
from tests.waiting import until

TEMPLATE = {"subject": "Hi {{ name }}", "text": "Version one for {{ name }}"}


class Shop:
    """A tenant with a sender, a template and a key of its own, made by the calls that anybody would use."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.tenant_id = ""
        self.key_id = ""
        self.key = ""

    async def call(self, method: str, path: str, body: Any = None, *, operator: bool = False) -> httpx.Response:
        description = self.client.stack.describe()
        key = description["operator_key"] if operator else self.key
        headers = {"Authorization": f"Bearer {key}"}
        answer = await self.client.http.request(
            method, f"{description['api_url']}/v1/{path}", json=body, headers=headers
        )
        assert answer.is_success, answer.text
        return answer

    async def open(self) -> None:
        tenant = await self.call("POST", "tenants", {"name": "Shop"}, operator=True)
        self.tenant_id = tenant.json()["id"]
        scopes = ["messages:send", "messages:read", "templates", "senders"]
        key = await self.call("POST", f"tenants/{self.tenant_id}/keys", {"scopes": scopes}, operator=True)
        self.key_id, self.key = key.json()["id"], key.json()["key"]
        await self.call("POST", "templates/hi/versions", TEMPLATE)
        await self.call(
            "POST", "senders", {"key": "shop", "address": "shop@example.com", "reply_to": ["a@example.com"]}
        )

    async def send(self, key: str, to: str = "ada@example.com") -> httpx.Response:
        description = self.client.stack.describe()
        return await self.client.http.post(
            f"{description['api_url']}/v1/messages",
            json={
                "to": to,
                "sender": "shop",
                "template": {"key": "hi", "version": 1},
                "context": {"name": "Ada"},
            },
            headers={"Authorization": f"Bearer {self.key}", "Idempotency-Key": key},
        )

    async def ended(self, message_id: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def has_ended() -> bool:
            found.update((await self.call("GET", f"messages/{message_id}")).json())
            return found["state"] in ENDS

        await until(has_ended, within=SETTLED_WITHIN, every=0.1)
        return found

    # What happens meanwhile.

    async def publish(self) -> None:
        await self.call("POST", "templates/hi/versions", TEMPLATE | {"text": "Version two for {{ name }}"})

    async def disable_sender(self) -> None:
        await self.call("PATCH", "senders/shop", {"state": "disabled"})

    async def change_reply_to(self) -> None:
        await self.call("PATCH", "senders/shop", {"reply_to": ["b@example.com"]})

    async def change_address(self) -> None:
        await self.call("PATCH", "senders/shop", {"address": "other@example.com", "name": "Other"})

    async def rotate(self) -> None:
        path = f"tenants/{self.tenant_id}/keys/{self.key_id}/rotate"
        self.key = (await self.call("POST", path, {"overlap_seconds": 0}, operator=True)).json()["key"]

    async def disable_tenant(self) -> None:
        await self.call("PATCH", f"tenants/{self.tenant_id}", {"state": "disabled"}, operator=True)


CHANGES: dict[str, Callable[[Shop], Awaitable[None]]] = {
    "the template got a newer version": Shop.publish,
    "the sender was disabled": Shop.disable_sender,
    "its reply-to changed": Shop.change_reply_to,
    "its address and name changed": Shop.change_address,
    "the credential was rotated": Shop.rotate,
    "the tenant was disabled": Shop.disable_tenant,
}


@pytest.mark.parametrize("to", [SILENT, "reject@faults.example.com"], ids=["accepted", "dead"])
async def test_a_replay_is_the_original_after_all_of_it_changed(client: Client, to: str) -> None:
    shop = Shop(client)
    await shop.open()
    key = str(uuid4())
    first = await shop.send(key, to)
    assert first.status_code == 202, first.text
    message_id = first.json()["id"]
    settled = await shop.ended(message_id)
    assert settled["state"] == ("dead" if "reject" in to else "provider_accepted")

    for change, make in CHANGES.items():
        await make(shop)

        again = await shop.send(key, to)

        assert again.status_code == 200, (change, again.text)
        assert again.headers["Idempotent-Replayed"] == "true"
        assert again.json() == settled | {"idempotent_replay": True}, change
    assert len(await client.submissions(message_id)) == 1
