"""What turns against a message after it was accepted, put in place by real calls: at the claim, and at begin."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

import psutil
import pytest
from temporalio.client import Client

from db.crash_points import CrashPoint
from db.lifecycle import State
from tests.conftest import Database
from tests.faults.cell import Cell, cell
from tests.publishing import TOPIC, Publisher, certificate_server
from tests.waiting import until

#: A worker is held while calls are made; no lease may end meanwhile.
PATIENT: Final = {"LEASE_SECONDS": "60", "SUBMIT_TIMEOUT_SECONDS": "20", "SHUTDOWN_GRACE_SECONDS": "20"}
SENDING: Final = ["messages:send", "messages:read"]
TEMPLATE: Final = {
    "subject": "Hello",
    "text": "Dear {{ name }}",
    "purpose": "receipts",
    "context_schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


@dataclass(slots=True)
class Tenant:
    """A tenant as its operator and its developer made it."""

    cell: Cell
    publisher: Publisher
    id: str
    admin: str = field(repr=False)
    key_id: str = ""
    key: str = field(default="", repr=False)
    address: str = ""
    earlier: str = ""  #: a message to the same recipient that was accepted before

    async def call(self, method: str, path: str, key: str, body: Any = None) -> dict[str, Any]:
        answer = await self.cell.http.request(
            method,
            f"{self.cell.running['api'].url}{path}",
            headers={"Authorization": f"Bearer {key}", "Idempotency-Key": str(uuid4())},
            json=body,
        )
        assert answer.is_success, answer.text
        return dict(answer.json()) if answer.content else {}

    async def operate(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        return await self.call(method, path, self.cell.keys.operator_key, body)

    async def send(self, to: str, **more: Any) -> str:
        command = {"to": to, "sender": "main", "template": {"key": "t", "version": 1}, "context": {"name": "Ada"}}
        return str((await self.call("POST", "/v1/messages", self.key, command | more))["id"])

    async def tell(self, golden: str) -> None:
        """Let SNS post one of SES's events about the earlier message."""
        body = self.publisher.notification(self.publisher.event(golden, self.earlier, to=self.address))
        answer = await self.cell.http.post(f"{self.cell.running['api'].url}/v1/provider-events/ses", content=body)
        assert answer.json() == {"result": "applied"}

    async def suppress(self, scope: str, address: str) -> None:
        await self.call("POST", "/v1/suppressions", self.admin, {"address": address, "scope": scope})


async def make_tenant(running: Cell, publisher: Publisher) -> Tenant:
    """Make a tenant by an operator's and its own calls."""
    tenant = Tenant(running, publisher, id="", admin="")
    tenant.id = (await tenant.operate("POST", "/v1/tenants", {"name": "Acme"}))["id"]
    keys = f"/v1/tenants/{tenant.id}/keys"
    tenant.admin = (await tenant.operate("POST", keys, {"scopes": ["senders", "templates", "suppressions"]}))["key"]
    issued = await tenant.operate("POST", keys, {"scopes": SENDING})
    tenant.key_id, tenant.key = issued["id"], issued["key"]
    await tenant.call("POST", "/v1/senders", tenant.admin, {"key": "main", "address": "hello@acme.example.com"})
    await tenant.call("POST", "/v1/templates/t/versions", tenant.admin, TEMPLATE)
    tenant.address = f"ada-{uuid4().hex[:8]}@example.com"
    return tenant


Turn = Callable[[Tenant], Awaitable[object]]
#: What is put in place, by which call, and the reason that the message then has.
TURNS: Final[dict[str, tuple[Turn, str]]] = {
    "a hard bounce": (lambda tenant: tenant.tell("bounce_permanent_general"), "recipient_suppressed"),
    "a complaint": (lambda tenant: tenant.tell("complaint"), "recipient_suppressed"),
    "a suppression of its purpose": (
        lambda tenant: tenant.suppress("receipts", tenant.address.upper()),
        "recipient_suppressed",
    ),
    "a disabled tenant": (
        lambda tenant: tenant.operate("PATCH", f"/v1/tenants/{tenant.id}", {"state": "disabled"}),
        "tenant_disabled",
    ),
    "a disabled sender": (
        lambda tenant: tenant.call("PATCH", "/v1/senders/main", tenant.admin, {"state": "disabled"}),
        "sender_disabled",
    ),
    "a revoked key": (
        lambda tenant: tenant.operate("DELETE", f"/v1/tenants/{tenant.id}/keys/{tenant.key_id}"),
        "credential_revoked",
    ),
    "a narrowed scope": (
        lambda tenant: tenant.operate(
            "PATCH", f"/v1/tenants/{tenant.id}/keys/{tenant.key_id}", {"scopes": ["messages:read"]}
        ),
        "scope_missing",
    ),
}
#: What does not block what was queued.
HARMLESS: Final[dict[str, Turn]] = {
    "a rotated key": lambda tenant: tenant.operate(
        "POST", f"/v1/tenants/{tenant.id}/keys/{tenant.key_id}/rotate", {"overlap_seconds": 0}
    ),
    "a suppression of another purpose": lambda tenant: tenant.suppress("marketing", tenant.address),
}


@asynccontextmanager
async def running(database: Database, temporal_client: Client, folder: Any) -> AsyncIterator[tuple[Cell, Publisher]]:
    async with (
        certificate_server() as publisher,
        cell(
            database,
            temporal_client,
            folder,
            EVENTS_TOPICS=TOPIC,
            EVENTS_CERTIFICATE_ORIGIN=publisher.origin,
            **PATIENT,
        ) as made,
    ):
        await made.start_api()
        yield made, publisher


@pytest.fixture(scope="module")
async def world(
    database: Database, temporal_client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Cell, Publisher]]:
    async with running(database, temporal_client, tmp_path_factory.mktemp("policy")) as made:
        yield made


async def with_an_earlier_message(made: Cell, publisher: Publisher, *names: str) -> dict[str, Tenant]:
    """Make a tenant for each, whose recipient has had a mail already."""
    tenants = {name: await make_tenant(made, publisher) for name in names}
    for tenant in tenants.values():
        tenant.earlier = await tenant.send(tenant.address)
    return tenants


async def last_line(made: Cell, message_id: str) -> dict[str, Any]:
    row = await made.superuser.fetchrow(
        "SELECT move, to_state, reason FROM timeline WHERE message_id = $1 ORDER BY seq DESC LIMIT 1", UUID(message_id)
    )
    assert row is not None
    return dict(row)


async def test_what_turns_against_a_queued_message_stops_it_at_the_claim(world: tuple[Cell, Publisher]) -> None:
    made, publisher = world
    await made.start_worker("before-claim")
    tenants = await with_an_earlier_message(made, publisher, *TURNS, *HARMLESS)
    await made.ended([tenant.earlier for tenant in tenants.values()])
    paused = next(iter(tenants.values()))
    await paused.operate("POST", "/v1/operator/providers/ses/pause")
    queued = {name: await tenant.send(tenant.address) for name, tenant in tenants.items()}
    for name, tenant in tenants.items():
        turn = HARMLESS.get(name) or TURNS[name][0]
        await turn(tenant)
    assert set((await made.states(queued.values())).values()) == {State.QUEUED}

    await paused.operate("POST", "/v1/operator/providers/ses/resume")
    states = await made.ended(queued.values())
    await made.kill("before-claim")

    submitted = await made.times_submitted()
    for name, message_id in queued.items():
        if name in HARMLESS:
            assert (states[message_id], submitted[message_id]) == (State.PROVIDER_ACCEPTED, 1), name
        else:
            assert (states[message_id], submitted[message_id]) == (State.SUPPRESSED, 0), name
            wanted = {"move": "suppress_at_claim", "to_state": "suppressed", "reason": TURNS[name][1]}
            assert await last_line(made, message_id) == wanted, name


async def test_what_turns_against_a_claimed_message_stops_it_at_begin(world: tuple[Cell, Publisher]) -> None:
    made, publisher = world
    await made.start_worker("whole")
    tenants = await with_an_earlier_message(made, publisher, *TURNS)
    await made.ended([tenant.earlier for tenant in tenants.values()])
    await made.kill("whole")
    held = await made.start_worker("held", CRASH_POINT=CrashPoint.SUBMIT_TAKEN_UP, CRASH_SIGNAL="stop")

    async def is_held() -> bool:
        return psutil.Process(held.child.pid).status() == psutil.STATUS_STOPPED

    queued = {}
    for name, tenant in tenants.items():
        queued[name] = await tenant.send(tenant.address)
        await until(is_held, within=30)
        assert set((await made.states([queued[name]])).values()) == {State.LEASED}
        await TURNS[name][0](tenant)
        made.resume("held")
        await made.ended([queued[name]])
    await made.kill("held")

    submitted = await made.times_submitted()
    for name, message_id in queued.items():
        assert (await made.states([message_id]))[message_id] is State.SUPPRESSED, name
        assert submitted[message_id] == 0, name
        wanted = {"move": "suppress_at_begin", "to_state": "suppressed", "reason": TURNS[name][1]}
        assert await last_line(made, message_id) == wanted, name


async def test_copies_that_are_suppressed_before_the_claim_or_before_begin_are_left_out(
    world: tuple[Cell, Publisher],
) -> None:
    made, publisher = world
    tenant = await make_tenant(made, publisher)
    others = {"cc": ["Bob <Bob@Example.com>", "carol@example.com"], "bcc": ["dan@example.com", "eve@example.com"]}
    await tenant.suppress("all", "bob@example.com")
    held = await made.start_worker("held", CRASH_POINT=CrashPoint.SUBMIT_TAKEN_UP, CRASH_SIGNAL="stop")
    message_id = await tenant.send(tenant.address, **others)
    await until(lambda: psutil.Process(held.child.pid).status() == psutil.STATUS_STOPPED, within=30)
    await tenant.suppress("receipts", "EVE@example.com")

    made.resume("held")
    await made.ended([message_id])
    await made.kill("held")

    (mail,) = await made.submissions(message_id)
    assert (mail["to"], mail["cc"], mail["bcc"]) == ([tenant.address], ["carol@example.com"], ["dan@example.com"])
    shown = (await tenant.call("GET", f"/v1/messages/{message_id}", tenant.key))["recipients"]
    left_out = [each["address"] for each in shown if each["outcome"] == "suppressed"]
    assert left_out == ["B***@example.com", "e***@example.com"]
