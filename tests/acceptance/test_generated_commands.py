"""Thousands of generated commands: none breaks the API, and what it accepts is submitted as it was asked for."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from email.header import decode_header, make_header
from email.utils import parseaddr
from enum import StrEnum
from typing import Any, Final
from uuid import uuid4

import asyncpg
import httpx
import idna
import pytest
from typing_extensions import override

from tests.acceptance.broken_commands import broken_command, changed_command
from tests.acceptance.conftest import Client
from tests.acceptance.valid_commands import TEMPLATE, Source, valid_command
from tests.api.conftest import make_key, serving
from tests.conftest import Database
from tests.factories import TENANT, make_tenant
from tests.waiting import until


class Kind(StrEnum):
    """What is to be made of a command."""

    VALID = "valid"  #: accepted
    CHANGED = "changed"  #: accepted or refused
    BROKEN = "broken"  #: refused


COUNTS: Final = {Kind.VALID: 150, Kind.CHANGED: 350, Kind.BROKEN: 4_500}
THROUGH_THE_STACK: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A command, and what the API made of it."""

    kind: Kind
    body: bytes
    answer: httpx.Response

    @override
    def __repr__(self) -> str:
        return f"{self.kind}: {self.answer.status_code} {self.answer.text[-300:]} for {self.body[:3000]!r}"


async def _publish(connection: asyncpg.Connection, tenant: str) -> None:
    """Make the template that the commands name."""
    await connection.execute(
        """INSERT INTO template_versions (tenant_id, key, version, subject, text, purpose, context_schema)
        VALUES ($1, $2, 1, 'Hello', 'Dear {{ name }}', 'transactional', '{}')""",
        tenant,
        TEMPLATE,
    )


@pytest.fixture(scope="module")
async def judged(database: Database) -> list[Judged]:
    """Send every command to the API in this process, on real Postgres, some at a time."""
    connection = await asyncpg.connect(database.superuser_url)
    await make_tenant(connection)
    await connection.execute(
        "INSERT INTO senders (tenant_id, key, address) VALUES ($1, 'demo', 'hello@demo.example.com')", TENANT
    )
    await _publish(connection, TENANT)
    key = await make_key(connection)
    await connection.close()
    source = Source(seed=1)
    bodies = [
        *((Kind.VALID, source.written(valid_command(source))) for _ in range(COUNTS[Kind.VALID])),
        *((Kind.CHANGED, changed_command(source)) for _ in range(COUNTS[Kind.CHANGED])),
        *((Kind.BROKEN, broken_command(source)) for _ in range(COUNTS[Kind.BROKEN])),
    ]
    async with serving(database.url("fencepost_api"), key) as api:

        async def judge(kind: Kind, body: bytes) -> Judged:
            return Judged(kind=kind, body=body, answer=await api.send(body))

        found: list[Judged] = []
        for start in range(0, len(bodies), 10):
            found += await asyncio.gather(*(judge(kind, body) for kind, body in bodies[start : start + 10]))
    return found


async def test_five_thousand_commands_are_accepted_or_refused_and_none_breaks_anything(judged: list[Judged]) -> None:
    assert len(judged) >= 5_000
    assert [each for each in judged if each.answer.status_code not in {202, 413, 422}] == []
    refused = [each for each in judged if each.answer.status_code != 202]
    assert {each.answer.headers["content-type"] for each in refused} == {"application/problem+json"}
    assert [each for each in refused if each.answer.json()["request_id"] != each.answer.headers["x-request-id"]] == []


async def test_every_valid_command_is_accepted_and_every_broken_one_refused(judged: list[Judged]) -> None:
    accepted = Counter(each.kind for each in judged if each.answer.status_code == 202)

    assert [each for each in judged if each.kind is Kind.VALID and each.answer.status_code != 202] == []
    assert [each for each in judged if each.kind is Kind.BROKEN and each.answer.status_code == 202] == []
    # The changed ones are no use if nearly all of them are the same.
    assert 0.2 < accepted[Kind.CHANGED] / COUNTS[Kind.CHANGED] < 0.8


async def _submitted(client: Client, judged: list[Judged]) -> dict[str, tuple[Judged, list[dict[str, Any]]]]:
    """Send commands through the stack, some at a time; give each message's submissions once all have their end."""
    description = client.stack.describe()

    async def post(each: Judged) -> httpx.Response:
        headers = {
            "Authorization": f"Bearer {description['api_key']}",
            "Idempotency-Key": str(uuid4()),
            "Content-Type": "application/json",
        }
        return await client.http.post(f"{description['api_url']}/v1/messages", content=each.body, headers=headers)

    sent: dict[str, tuple[Judged, list[dict[str, Any]]]] = {}
    for start in range(0, len(judged), 25):
        batch = judged[start : start + 25]
        for each, answer in zip(batch, await asyncio.gather(*map(post, batch)), strict=True):
            assert answer.status_code == 202, (answer.text, each)
            sent[answer.json()["id"]] = each, []

    async def all_have_come() -> bool:
        found = {submission["tags"]["fencepost_message"] for submission in await client.submissions()}
        return found >= sent.keys()

    await until(all_have_come, within=60, every=0.3)
    for message_id in sent:
        assert (await client.ended(message_id))["state"] in {"provider_accepted", "delivered"}
    for submission in await client.submissions():
        if submission["tags"]["fencepost_message"] in sent:
            sent[submission["tags"]["fencepost_message"]][1].append(submission)
    return sent


def _asked(address: Any) -> tuple[str, str]:
    """Read an address of a command, without the product's code: its name, and what goes into angle brackets."""
    name, spec = parseaddr(address) if isinstance(address, str) else (address.get("name") or "", address["address"])
    local, _, domain = spec.partition("@")
    return name.strip(), f"{local}@{idna.encode(domain, uts46=True).decode()}"


def _mailbox(header: str) -> tuple[str, str]:
    """Read a mailbox as a mail program does."""
    name, spec = parseaddr(header)
    return str(make_header(decode_header(name))), spec


async def test_what_was_accepted_is_submitted_once_as_it_was_asked_for_and_nothing_more(
    client: Client, judged: list[Judged]
) -> None:
    connection = await asyncpg.connect(client.stack.describe()["database_url"])
    await _publish(connection, "demo")
    await connection.close()
    accepted = [each for each in judged if each.answer.status_code == 202]
    sample = accepted[:: len(accepted) // THROUGH_THE_STACK]

    sent = await _submitted(client, sample)

    assert len(sent) >= THROUGH_THE_STACK
    for each, submissions in sent.values():
        (submission,) = submissions
        command = json.loads(each.body)
        for role in ("to", "cc", "bcc", "reply_to"):
            asked = [command["to"]] if role == "to" else command.get(role) or []
            assert [_mailbox(header) for header in submission[role]] == [_asked(address) for address in asked], each
        assert submission["from"] == "Demo <hello@demo.example.com>"
        assert submission["headers"] == (command.get("headers") or {}), each
        own = {name: value for name, value in submission["tags"].items() if name.startswith("fencepost_")}
        assert submission["tags"] == {**(command.get("tags") or {}), **own}, each
        assert set(own) == {"fencepost_message", "fencepost_attempt", "fencepost_request"}
