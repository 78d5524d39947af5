"""Group 7 of the delivery seed's failure tests: canaries in every protected value, and a look everywhere.

Planted: local part, display name, subject, text and HTML, context keys and values, header values, idempotency key, API
key, fencing token, database passwords. Looked at: every answer, every log of every process, every Temporal history,
OpenAPI, and what a person sees on the screen of the stack.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest
from temporalio.client import Client as TemporalClient

from db.ids import new_id
from tests.acceptance.conftest import Client
from tests.readable import readable

#: No two alike, and none that could stand anywhere by chance.
LOCAL_PART = "canarylocal"
NAME = "Canaryname"
CONTEXT_KEY = "canarycontextkey"
CONTEXT_VALUE = "canarycontextvalue"
HEADER = "canaryheadervalue"
KEY = "canaryidempotencykey"
TEMPLATE_TEXT = "canarytemplatetext"
TOKEN = 7_316_204_958
STRANGER = "fp_test_canaryapikey0000_" + "0" * 49

FAULTS = ("happy", "reject", "throttle-twice", "error500", "reset", "garbage")


def canaries(description: dict[str, Any], secrets: dict[str, Any]) -> dict[str, str]:
    """Name every string that must stand nowhere."""
    passwords = {f"password of {role}": password for role, password in secrets["passwords"].items()}
    superuser = description["database_url"].split(":")[2].split("@")[0]
    return {
        "local part": LOCAL_PART,
        "display name": NAME,
        "context key": CONTEXT_KEY,
        "context value": CONTEXT_VALUE,
        "header value": HEADER,
        "idempotency key": KEY,
        "template text": TEMPLATE_TEXT,
        "fencing token": str(TOKEN),
        "stranger's API key": STRANGER,
        "API key": description["api_key"],
        "operator key": description["operator_key"],
        "key pepper": secrets["key_pepper"],
        "address key": secrets["address_key"],
        "superuser's password": superuser,
        **passwords,
    }


@pytest.fixture
async def superuser(client: Client) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(client.stack.describe()["database_url"])
    yield connection
    await connection.close()


async def _publish(connection: asyncpg.Connection) -> None:
    """Make a template that takes any context and shows all of it."""
    await connection.execute(
        """INSERT INTO template_versions (tenant_id, key, version, subject, text, html, purpose, context_schema)
        VALUES ('demo', 'canary', 1, $1, $2, $3, 'transactional', '{}')""",
        f"{{{{ {CONTEXT_KEY} }}}}",
        f"{TEMPLATE_TEXT} {{{{ {CONTEXT_KEY} }}}}",
        f"<p>{TEMPLATE_TEXT} {{{{ {CONTEXT_KEY} }}}}",
    )


async def _plant(client: Client, connection: asyncpg.Connection, fault: str) -> list[httpx.Response]:
    """Send a message full of canaries through a fault, its token far from any other number; give the answers."""
    local = f"{LOCAL_PART}@example.com" if fault == "happy" else f"{fault}+{LOCAL_PART}@faults.example.com"
    command = {
        "to": f"{NAME} <{local}>",
        "cc": [f"{LOCAL_PART}@example.com"],
        "reply_to": [f"{NAME} <{LOCAL_PART}@example.com>"],
        "sender": "demo",
        "template": {"key": "canary", "version": 1},
        "context": {CONTEXT_KEY: CONTEXT_VALUE},
        "headers": {"X-Canary": HEADER},
    }
    key = f"{KEY}-{fault}"
    await connection.execute("UPDATE providers SET paused = true")
    first = await client.post(command, key)
    assert first.status_code == 202, first.text
    message_id = first.json()["id"]
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE messages SET token = $2 WHERE id = $1", message_id, TOKEN - 1)
    await connection.execute("UPDATE providers SET paused = false")
    await client.ended(message_id)
    assert await connection.fetchval("SELECT max(token) FROM attempts WHERE message_id = $1", message_id) >= TOKEN
    replay = await client.post(command, key)
    conflict = await client.post(command | {"context": {CONTEXT_KEY: CONTEXT_VALUE + "x"}}, key)
    assert (replay.status_code, conflict.status_code) == (200, 409)
    authorization = {"Authorization": first.request.headers["authorization"]}
    read = await client.http.get(f"{first.url}/{message_id}", headers=authorization)
    assert read.status_code == 200
    return [first, replay, conflict, read]


async def _refused(client: Client) -> list[httpx.Response]:
    """Send canaries in everything that is refused."""
    description = client.stack.describe()
    url = f"{description['api_url']}/v1/messages"
    good = {"Authorization": f"Bearer {description['api_key']}", "Idempotency-Key": KEY}
    json_type = {"Content-Type": "application/json"}
    bad = client.command(f"{LOCAL_PART}@", headers={"Bcc": HEADER}, tags={CONTEXT_KEY + " ": CONTEXT_VALUE})
    unknown_member = client.command() | {CONTEXT_KEY: CONTEXT_VALUE}
    wrong_context = client.command(context={CONTEXT_KEY: CONTEXT_VALUE, "name": 7})
    bodies = [bad, unknown_member, wrong_context, client.command(template={"key": CONTEXT_KEY, "version": 1})]
    answers = [await client.http.post(url, headers=good, json=body) for body in bodies]
    raw = f'{{"{CONTEXT_KEY}": "{CONTEXT_VALUE}", "{CONTEXT_KEY}": 1}}'
    contents = (raw, raw[:-5], raw + "\x00", json.dumps({"to": CONTEXT_VALUE * 20_000}))
    answers += [await client.http.post(url, headers=good | json_type, content=content.encode()) for content in contents]
    stranger = {"Authorization": f"Bearer {STRANGER}", "Idempotency-Key": KEY}
    answers += [
        await client.http.post(url, headers=stranger, json=client.command()),
        await client.http.post(url, headers=good | {"Idempotency-Key": KEY * 20}, json=client.command()),
        await client.http.post(url, headers=good | {"Content-Type": f"text/{CONTEXT_VALUE}"}, content=b"x"),
        await client.http.get(f"{url}/{LOCAL_PART}", headers=good),
        await client.http.get(f"{description['api_url']}/{LOCAL_PART}?address={LOCAL_PART}", headers=good),
        await client.http.put(url, headers=good, content=LOCAL_PART.encode()),
    ]
    assert all(400 <= answer.status_code < 500 for answer in answers), [answer.status_code for answer in answers]
    return answers


async def _suppressed(client: Client) -> list[httpx.Response]:
    """Suppress canaries, one and in a list; give the answers that are no business of theirs."""
    description = client.stack.describe()
    url = f"{description['api_url']}/v1/suppressions"
    key = {"Authorization": f"Bearer {description['api_key']}"}
    address = f"{LOCAL_PART}@suppressed.example.com"
    # The one answer that may show an address whole: to the tenant whose suppression it is.
    shown = await client.http.post(url, headers=key, json={"address": address})
    assert shown.status_code == 201
    found = await client.http.get(url, headers=key, params={"address": address})
    assert found.json()["data"] == [shown.json()]
    csv = f"address\n{address}\n{LOCAL_PART}@\n"
    headers = key | {"Content-Type": "text/csv"}
    imported = await client.http.post(f"{url}/import", headers=headers, content=csv.encode())
    assert (imported.json()["already"], imported.json()["rejected_total"]) == (1, 1)
    refused = [
        await client.http.post(url, headers=key, json={"address": f"{NAME} <{address}>", CONTEXT_KEY: CONTEXT_VALUE}),
        await client.http.get(url, headers=key, params={"address": LOCAL_PART}),
        await client.http.post(f"{url}/import", headers=headers, content=f'{CONTEXT_KEY}\n"{address}'.encode()),
        await client.http.delete(f"{url}/{shown.json()['id']}", headers=key, params={CONTEXT_KEY: CONTEXT_VALUE}),
    ]
    assert [answer.status_code for answer in refused] == [422] * 4
    path = f"{url}/{shown.json()['id']}"
    removed = await client.http.delete(path, headers=key, params={"reason": CONTEXT_VALUE})
    assert removed.status_code == 204
    return [imported, *refused, removed]


async def _histories(description: dict[str, Any]) -> str:
    """Read every history that the server has, payloads decoded, and what a list of workflows shows."""
    temporal = await TemporalClient.connect(description["temporal_address"])
    read = []
    async for run in temporal.list_workflows("WorkflowType = 'Message'"):
        read.append(repr(run.raw_info))
        read.append(readable(await temporal.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()))
    assert len(read) >= 2 * len(FAULTS)
    return "\n".join(read)


async def test_no_canary_is_anywhere_but_where_it_belongs(client: Client, superuser: asyncpg.Connection) -> None:
    await _publish(superuser)
    description = client.stack.describe()
    secrets = json.loads((client.stack.directory / "secrets.json").read_text())

    answers = [answer for fault in FAULTS for answer in await _plant(client, superuser, fault)]
    answers += await _refused(client)
    answers += await _suppressed(client)
    await superuser.execute(  # an error in the database whose detail holds the row
        "DO $$ BEGIN INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason)"
        f" VALUES ('{new_id()}', 'demo', '{LOCAL_PART}', '', 'all', 'no reason');"
        " EXCEPTION WHEN check_violation THEN NULL; END $$"
    )
    openapi = await client.http.get(f"{description['api_url']}/openapi.json")

    places = {f"answer {number}": repr(answer.headers) + answer.text for number, answer in enumerate(answers)}
    places["OpenAPI"] = openapi.text
    places["Temporal"] = await _histories(description)
    for log in sorted((client.stack.directory / "logs").iterdir()):
        places[f"log {log.name}"] = log.read_text(errors="replace")
    found = [
        f"{what} in {where}"
        for where, text in places.items()
        for what, canary in canaries(description, secrets).items()
        if canary.lower() in text.lower()
    ]
    assert found == []


async def test_the_canaries_did_reach_where_they_belong(client: Client, superuser: asyncpg.Connection) -> None:
    """The look can find something: the same canaries stand in the simulator's record and in Postgres."""
    record = json.dumps(await client.submissions())
    stored = await superuser.fetchval(
        "SELECT string_agg(subject || text || html || headers::text, '') FROM message_contents"
    )

    for canary in (LOCAL_PART, NAME, CONTEXT_VALUE, HEADER):
        assert canary in record
    for canary in (CONTEXT_VALUE, HEADER, TEMPLATE_TEXT):
        assert canary in stored
