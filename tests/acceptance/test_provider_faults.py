"""Every fault of the simulator ends as DESIGN's table of answers says, with the requests counted."""

import pytest

from tests.acceptance.conftest import SILENT, TIMES, Client
from tests.waiting import until

ATTEMPTS = int(TIMES["FENCEPOST_ATTEMPTS"])
#: What happens at the provider, and: the state it ends in, the last attempt's outcome and reason, what was read whole.
FAULTS = {
    "throttle": ("dead", "refused", "throttled", ["throttled"] * ATTEMPTS),
    "throttle-twice": ("delivered", "accepted", None, ["throttled", "throttled", "accepted"]),
    "reject": ("dead", "refused", "rejected", ["rejected"]),
    "error500": ("ambiguous", "unknown", "provider_error", ["failed"]),
    "unavailable": ("ambiguous", "unknown", "provider_error", ["failed"]),
    "slow": ("delivered", "accepted", None, ["accepted"]),
    "hang": ("ambiguous", "unknown", "provider_timeout", ["accepted"]),
    "drip": ("ambiguous", "unknown", "provider_timeout", ["accepted"]),
    "reset": ("ambiguous", "unknown", "connection_lost", ["accepted"]),
    "reset-before": ("ambiguous", "unknown", "connection_lost", []),
    "garbage": ("ambiguous", "unknown", "response_unreadable", ["accepted"]),
    "empty": ("ambiguous", "unknown", "response_unreadable", ["accepted"]),
    "lost": ("ambiguous", "unknown", "provider_timeout", ["accepted"]),
    "silent": ("provider_accepted", "accepted", None, ["accepted"]),
    "late-bounce": ("hard_bounced", "accepted", None, ["accepted"]),
    "disorder": ("hard_bounced", "accepted", None, ["accepted"]),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_ends_as_the_table_says(client: Client, fault: str) -> None:
    state, outcome, reason, answers = FAULTS[fault]

    message_id = await client.send(f"{fault}+test@faults.example.com")
    message = await client.reached(message_id, state)

    last = message["attempts"][-1]
    assert (message["state"], last["outcome"], last["reason"]) == (state, outcome, reason)
    assert [submission["answer"] for submission in await client.submissions(message_id)] == answers
    assert (message["ambiguity"] is not None) == (state == "ambiguous")


async def test_a_provider_that_refuses_connections_is_tried_again_until_it_takes_them(client: Client) -> None:
    await client.control("stop")
    try:
        message_id = await client.send(SILENT)
        await _tried(client, message_id)
    finally:
        await client.control("start")

    message = await client.ended(message_id)

    assert message["attempts"][0]["outcome"] == "not_submitted"
    assert message["attempts"][0]["reason"] == "provider_unreachable"
    assert message["state"] in ("provider_accepted", "dead")
    expected = 1 if message["state"] == "provider_accepted" else 0
    assert len(await client.submissions(message_id)) == expected


async def _tried(client: Client, message_id: str) -> None:
    async def tried() -> bool:
        attempts = (await client.read(message_id))["attempts"]
        return bool(attempts and attempts[0]["outcome"])

    await until(tried, within=20)
