"""The whole of Fencepost with a provider that reports: ambiguity ends by evidence, and each mail at its true end."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.conftest import Client
from tests.dev.running_stack import RunningStack

#: After this long, the simulator's events of what it never answered come (CONTRACT section 4), and a busy machine.
REPORTED_WITHIN = 60.0
AWS = "simulator.amazonses.com"
#: Where a mail to each recipient ends, what became of the recipient, and the reason of the last move.
ENDS = {
    f"success@{AWS}": ("delivered", "delivered", None),
    f"bounce@{AWS}": ("hard_bounced", "bounced", None),
    f"ooto@{AWS}": ("delivered", "delivered", None),
    f"complaint@{AWS}": ("complained", "complained", None),
    f"suppressionlist@{AWS}": ("hard_bounced", "bounced", "provider_suppression_list"),
    "late-bounce@faults.example.com": ("hard_bounced", "bounced", None),
    "disorder@faults.example.com": ("hard_bounced", "bounced", None),
    "silent@faults.example.com": ("provider_accepted", None, None),
    "ada@example.com": ("delivered", "delivered", None),
}
UNANSWERED = ("hang", "drip", "reset", "garbage", "empty")


async def simulate(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.http.post(f"{client.stack.describe()['ses_url']}/_sim/{path}", json=body)
    assert answer.is_success, answer.text
    return dict(answer.json())


@pytest.fixture(scope="module")
async def unanswered(stack: RunningStack) -> dict[str, str]:
    """Send what the simulator takes and doesn't answer, first of all: its events take their time."""
    async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
        client = Client(stack, http)
        return {fault: await client.send(f"{fault}@faults.example.com") for fault in (*UNANSWERED, "lost")}


async def test_each_mail_ends_where_the_providers_events_take_it(client: Client, unanswered: dict[str, str]) -> None:
    assert unanswered
    sent = {to: await client.send(to) for to in ENDS}

    for to, (state, outcome, reason) in ENDS.items():
        message = await client.reached(sent[to], state)
        assert message["recipients"][0]["outcome"] == outcome, to
        moved = [line for line in message["timeline"] if line["to"] == state and line["from"] != state]
        assert moved[-1]["reason"] == reason, to
        assert len(await client.submissions(sent[to])) == 1, to


async def test_an_event_by_hand_moves_a_message_and_its_repeat_does_not(client: Client) -> None:
    message_id = await client.send(f"ada-{uuid4().hex}@example.com")
    await client.reached(message_id, "delivered")
    (mail,) = await client.submissions(message_id)
    complaint = {"ses_message_id": mail["ses_message_id"], "type": "Complaint", "sns_message_id": str(uuid4())}

    answers = [await simulate(client, "events", complaint) for _ in range(2)]

    assert [answer["status"] for answer in answers] == [200, 200]
    message = await client.reached(message_id, "complained")
    assert [line["move"] for line in message["timeline"]].count("complain") == 1
    assert [line["actor"] for line in message["timeline"] if line["move"] == "complain"] == ["provider"]
    again = await client.send(mail["to"][0])
    stopped = await client.reached(again, "suppressed")
    assert stopped["timeline"][-1]["reason"] == "recipient_suppressed"
    assert await client.submissions(again) == []


async def test_ambiguity_ends_by_evidence_and_without_a_second_mail(client: Client, unanswered: dict[str, str]) -> None:
    for fault in UNANSWERED:
        message = await client.reached(unanswered[fault], "delivered", within=REPORTED_WITHIN)
        moves = [(line["move"], line["from"], line["to"], line["actor"]) for line in message["timeline"]]
        assert ("quarantine", "leased", "ambiguous", "machine") in moves, fault
        after = moves[moves.index(("quarantine", "leased", "ambiguous", "machine")) + 1 :]
        assert ("prove", "ambiguous", "provider_accepted", "provider") in after, fault
        assert ("deliver", "provider_accepted", "delivered", "provider") in after, fault
        assert message["ambiguity"] is None
        assert len(await client.submissions(unanswered[fault])) == 1, fault

    # Of this one no event ever tells.
    lost = await client.read(unanswered["lost"])
    assert (lost["state"], lost["ambiguity"]["evidence"]) == ("ambiguous", [])
    assert len(await client.submissions(unanswered["lost"])) == 1
