"""The first message that goes through a new stack, and its timeline."""

import asyncio
import time
from typing import Any

import httpx
from rich.table import Table

from dev.screen import Screen

#: The same at every start: only the first one on a folder sends, the others replay.
IDEMPOTENCY_KEY = "first-message"
COMMAND = {
    "to": "Ada <ada@example.com>",
    "sender": "demo",
    "template": {"key": "welcome", "version": 1},
    "context": {"name": "Ada"},
}
WAIT_SECONDS = 30.0
#: The simulator's events follow within a second.
REPORT_SECONDS = 2.0


async def send(screen: Screen, *, api_url: str, api_key: str) -> None:
    """Send the first message, wait until it has left the queue and was reported about, and show how it went.

    Whatever goes wrong is told to the person: the stack itself runs.
    """
    headers = {"Authorization": f"Bearer {api_key}"}
    try:
        # trust_env: a proxy of the caller's must not see a request to this machine.
        async with httpx.AsyncClient(base_url=api_url, headers=headers, trust_env=False, timeout=10) as client:
            with screen.step("Sending a first message"):
                replayed, message = await _send_and_wait(client)
    except (httpx.HTTPError, ValueError, KeyError) as error:
        screen.say(f"The first message could not be followed: {type(error).__name__}. The API's log says more.")
        return
    how = "was sent at an earlier start, and is replayed" if replayed else "went through"
    screen.say(f"\nThe first message {how}: {message['id']} is {message['state']}.")
    screen.show(_timeline(message))


async def _send_and_wait(client: httpx.AsyncClient) -> tuple[bool, dict[str, Any]]:  # as JSON has it
    answer = await client.post("/v1/messages", json=COMMAND, headers={"Idempotency-Key": IDEMPOTENCY_KEY})
    answer.raise_for_status()
    replayed = "Idempotent-Replayed" in answer.headers
    message: dict[str, Any] = answer.json()
    for states, seconds in (({"queued", "leased"}, WAIT_SECONDS), ({"provider_accepted"}, REPORT_SECONDS)):
        deadline = time.monotonic() + seconds
        while message["state"] in states and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            answer = await client.get(f"/v1/messages/{message['id']}")
            answer.raise_for_status()
            message = answer.json()
    return replayed, message


def _timeline(message: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("", "time (UTC)", "move", "from", "to", "attempt", "by", "reason"):
        table.add_column(heading)
    for entry in message["timeline"]:
        cells = [entry["seq"], entry["at"][11:23], entry["move"], entry["from"], entry["to"]]
        cells += [entry["attempt"], entry["actor"], entry["reason"]]
        table.add_row(*("" if cell is None else str(cell) for cell in cells))
    return table
