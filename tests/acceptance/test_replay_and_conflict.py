"""Group 1 and 2 of the delivery seed's failure tests, on the whole stack: one command, one message, one submission."""

import asyncio
import json

from tests.acceptance.conftest import SILENT, Client


async def test_fifty_posts_of_one_command_at_once_are_one_message_one_workflow_one_submission(client: Client) -> None:
    command = client.command(SILENT)

    answers = await asyncio.gather(*(client.post(command, "fifty") for _ in range(50)))

    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
    (message_id,) = {answer.json()["id"] for answer in answers}
    message = await client.ended(message_id)
    assert message["state"] == "provider_accepted"
    assert len(await client.submissions(message_id)) == 1
    assert await _runs(client, message["workflow_id"]) == 1


async def test_of_two_commands_under_one_key_one_wins_and_nothing_fails(client: Client) -> None:
    bodies = [client.command("either@example.com", name=name) for name in ("Ada", "Bob") for _ in range(25)]

    answers = await asyncio.gather(*(client.post(body, "either") for body in bodies))

    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(202), statuses.count(200), statuses.count(409)) == (1, 24, 25)
    (message_id,) = {answer.json()["id"] for answer in answers if answer.is_success}
    await client.ended(message_id)
    assert len(await client.submissions(message_id)) == 1


async def test_the_same_content_under_two_keys_is_two_messages_two_workflows_two_submissions(client: Client) -> None:
    command = client.command(SILENT)
    one, other = [(await client.post(command, key)).json() for key in ("two-1", "two-2")]

    for message in (one, other):
        assert (await client.ended(message["id"]))["state"] == "provider_accepted"
        assert len(await client.submissions(message["id"])) == 1
    assert one["workflow_id"] != other["workflow_id"]


async def test_a_submission_holds_exactly_what_was_asked_for(client: Client) -> None:
    message_id = await client.send(
        "Ada Lovelace <ada@example.com>",
        cc=["bob@example.com"],
        bcc=["Eve <eve@example.com>"],
        reply_to=["help@example.com"],
        headers={"X-Order": "17"},
        tags={"order": "17"},
    )
    message = await client.ended(message_id)

    (submission,) = await client.submissions(message_id)
    assert submission["to"] == ["Ada Lovelace <ada@example.com>"]
    assert submission["cc"] == ["bob@example.com"]
    assert submission["bcc"] == ["Eve <eve@example.com>"]
    assert submission["from"] == "Demo <hello@demo.example.com>"
    assert submission["reply_to"] == ["help@example.com"]
    assert submission["subject"] == "Welcome, Ada"
    assert submission["headers"] == {"X-Order": "17"}
    assert submission["tags"] == {
        "order": "17",
        "fencepost_message": message_id,
        "fencepost_attempt": "1",
        "fencepost_request": message["request_hash"].removeprefix("v1:"),
    }
    assert message["attempts"][0]["provider_message_id"] == submission["ses_message_id"]


async def _runs(client: Client, workflow_id: str) -> int:
    """Count a workflow's runs, as the Temporal UI does."""
    description = client.stack.describe()
    answer = await client.http.get(
        f"{description['temporal_ui_url']}/api/v1/namespaces/default/workflows",
        params={"query": f"WorkflowId = '{workflow_id}'"},
    )
    return len(json.loads(answer.text).get("executions", []))
