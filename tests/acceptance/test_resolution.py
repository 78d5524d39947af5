"""What only a person settles, on a whole stack: an ambiguous message sent again, and a provider switched off."""

import asyncio
from collections import Counter
from datetime import datetime
from typing import Any
from uuid import uuid4

import httpx
from temporalio.client import Client as TemporalClient

from tests.acceptance.conftest import SETTLED_WITHIN, Client
from tests.waiting import until

WAITING = 50
#: A resume's first message goes out within a minute (CONTRACT section 2).
RESUMED_WITHIN = 60


async def operate(client: Client, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
    """Make an operator's call."""
    told = client.stack.describe()
    authorization = {"Authorization": f"Bearer {told['operator_key']}"}
    return await client.http.request(method, f"{told['api_url']}/v1/operator/{path}", json=body, headers=authorization)


async def resolve(client: Client, message_id: str, body: dict[str, Any]) -> httpx.Response:
    return await operate(client, "POST", f"messages/{message_id}/resolution", body)


async def waiting(client: Client) -> dict[str, dict[str, Any]]:
    """Read the list of ambiguous messages to its end."""
    found: dict[str, dict[str, Any]] = {}
    cursor = ""
    while True:
        page = (await operate(client, "GET", f"ambiguous?limit=100{cursor}")).json()
        found |= {item["id"]: item for item in page["data"]}
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def resend(message: dict[str, Any]) -> dict[str, Any]:
    """Decide to send a message again, about the attempt that is in doubt."""
    return {
        "decision": "resend",
        "attempt": message["ambiguity"]["attempt"],
        "reason": "they got nothing",
        "acknowledge_duplicate_risk": True,
    }


async def test_a_lost_message_is_sent_once_more_by_a_person_and_never_by_the_machine(client: Client) -> None:
    sent = [await client.send("lost@faults.example.com") for _ in range(3)]
    before = [await client.ended(message_id) for message_id in sent]
    assert {message["state"] for message in before} == {"ambiguous"}
    resent, contended, left = before
    listed = await waiting(client)

    refused = await resolve(client, resent["id"], resend(resent) | {"acknowledge_duplicate_risk": False})
    done = await resolve(client, resent["id"], resend(resent))
    at_once = await asyncio.gather(*(resolve(client, contended["id"], resend(contended)) for _ in range(10)))

    assert [listed[message_id]["tenant"] for message_id in sent] == ["demo"] * 3
    assert listed[resent["id"]]["ambiguity"] == resent["ambiguity"]
    assert (refused.status_code, refused.json()["code"]) == (422, "duplicate_risk_not_acknowledged")
    assert done.status_code == 200
    assert done.json()["timeline"][: len(resent["timeline"])] == resent["timeline"]
    assert Counter(answer.status_code for answer in at_once) == {200: 1, 409: 9}
    assert {answer.json()["code"] for answer in at_once if answer.status_code == 409} == {"not_ambiguous"}
    for message in (resent, contended):
        await _is_sent_once_more(client, message)
    assert len(await client.submissions(left["id"])) == 1
    assert left["id"] in await waiting(client)


async def _is_sent_once_more(client: Client, before: dict[str, Any]) -> None:
    """See a message that was resent, which nobody answers again, end in doubt about a later attempt."""
    after: dict[str, Any] = {}

    async def in_doubt_again() -> bool:
        after.update(await client.read(before["id"]))
        return bool(after["state"] == "ambiguous" and after["ambiguity"]["attempt"] > before["ambiguity"]["attempt"])

    await until(in_doubt_again, within=SETTLED_WITHIN, every=0.2)
    submissions = await client.submissions(before["id"])
    in_doubt = [str(message["ambiguity"]["attempt"]) for message in (before, after)]
    assert [submission["tags"]["fencepost_attempt"] for submission in submissions] == in_doubt
    assert after["timeline"][: len(before["timeline"])] == before["timeline"]
    decided = after["timeline"][len(before["timeline"])]
    assert (decided["move"], decided["reason"], decided["actor"]) == ("resolve_resend", "operator", "operator")
    later = after["timeline"][decided["seq"] :]
    assert (later[0]["move"], later[-1]["move"]) == ("claim", "quarantine")
    assert {line["actor"] for line in later} == {"machine"}
    temporal = await TemporalClient.connect(client.stack.describe()["temporal_address"])

    async def two_runs() -> bool:
        query = f"WorkflowId = '{after['workflow_id']}' AND ExecutionStatus = 'Completed'"
        return len({run.run_id async for run in temporal.list_workflows(query)}) >= 2

    await until(two_runs, within=60, every=0.5)
    stale = await resolve(client, before["id"], resend(before))
    assert (stale.status_code, stale.json()["code"]) == (409, "not_ambiguous")


async def _send_many(client: Client) -> list[str]:
    """Send a few at a time, as careful clients do: the same again after a 503."""
    few = asyncio.Semaphore(5)
    ids: list[str] = []

    async def send(number: int) -> None:
        key, command = str(uuid4()), client.command(f"waits-{number}@example.com")

        async def is_taken() -> bool:
            async with few:
                answer = await client.post(command, key)
            assert answer.status_code in (200, 202, 503), answer.text
            if answer.is_success:
                ids.append(answer.json()["id"])
            return answer.is_success

        await until(is_taken, within=60, every=0.1)

    await asyncio.gather(*map(send, range(WAITING)))
    return ids


async def test_what_waits_while_the_provider_is_off_goes_out_once_it_is_on_and_no_attempt_is_used_up(
    client: Client,
) -> None:
    begun = await client.send("slow@faults.example.com")

    async def is_called() -> bool:
        return len(await client.submissions(begun)) == 1

    await until(is_called, within=30)
    paused = await operate(client, "POST", "providers/ses/pause", {"reason": "an incident"})
    try:
        waiting_ids = await _send_many(client)
        ended = await client.reached(begun, "delivered")
        seen = [await client.read(message_id) for message_id in waiting_ids]
        submitted_while_off = await _times_submitted(client)
    finally:
        resumed = await operate(client, "POST", "providers/ses/resume")

    async def one_is_submitted() -> bool:
        return bool((await _times_submitted(client)).keys() & set(waiting_ids))

    await until(one_is_submitted, within=RESUMED_WITHIN, every=0.5)
    messages = [await client.ended(message_id, within=SETTLED_WITHIN) for message_id in waiting_ids]
    submitted = await _times_submitted(client)

    assert [paused.json()["paused"], resumed.json()["paused"]] == [True, False]
    assert ended["attempts"][-1]["outcome"] == "accepted"
    assert {(message["state"], len(message["attempts"])) for message in seen} == {("queued", 0)}
    assert not submitted_while_off.keys() & set(waiting_ids)
    switched_on = datetime.fromisoformat(resumed.json()["changed_at"])
    claimed = [attempt["claimed_at"] for message in messages for attempt in message["attempts"]]
    assert all(datetime.fromisoformat(moment) > switched_on for moment in claimed)
    assert [submitted[message_id] for message_id in waiting_ids] == [1] * WAITING


async def _times_submitted(client: Client) -> Counter[str]:
    """Count what the provider read, by message."""
    return Counter(submission["tags"]["fencepost_message"] for submission in await client.submissions())
