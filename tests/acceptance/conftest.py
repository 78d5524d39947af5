"""The whole of Fencepost as `make dev` runs it, with short times; the simulator's record is the witness."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.dev.folders import open_folder
from tests.dev.free_ports import free_base
from tests.dev.running_stack import RunningStack, running
from tests.waiting import until

#: The ladder of CONTRACT in a few seconds: call budget < start-to-close < lease, grace >= start-to-close.
LEASE_SECONDS = 10.0
SWEEP_SECONDS = 2.0
TIMES = {
    "FENCEPOST_CALL_BUDGET_SECONDS": "3.5",
    "FENCEPOST_SUBMIT_TIMEOUT_SECONDS": "4.5",
    "FENCEPOST_LEASE_SECONDS": str(LEASE_SECONDS),
    "FENCEPOST_SWEEP_SECONDS": str(SWEEP_SECONDS),
    "FENCEPOST_SES_READ_TIMEOUT_SECONDS": "2.8",
    "FENCEPOST_ATTEMPTS": "4",
    "FENCEPOST_BACKOFF_BASE_SECONDS": "0.2",
    "FENCEPOST_BACKOFF_CAP_SECONDS": "1",
}
#: A lease, two sweeps, and what a busy machine takes besides.
SETTLED_WITHIN = LEASE_SECONDS + 2 * SWEEP_SECONDS + 30

#: States in which the machine has nothing more to do; provider events may still lead on.
ENDS = {"provider_accepted", "delivered", "ambiguous", "dead", "suppressed", "hard_bounced", "complained"}
#: Accepted and answered, and no event follows: its message stays provider_accepted.
SILENT = "silent@faults.example.com"


@dataclass(slots=True)
class Client:
    """A client program, and somebody who reads the simulator's record."""

    stack: RunningStack
    http: httpx.AsyncClient = field(repr=False)

    def command(self, to: str = "ada@example.com", name: str = "Ada", **more: Any) -> dict[str, Any]:
        return {
            "to": to,
            "sender": "demo",
            "template": {"key": "welcome", "version": 1},
            "context": {"name": name},
            **more,
        }

    async def post(self, command: dict[str, Any], key: str | None = None) -> httpx.Response:
        description = self.stack.describe()
        return await self.http.post(
            f"{description['api_url']}/v1/messages",
            json=command,
            headers={"Authorization": f"Bearer {description['api_key']}", "Idempotency-Key": key or str(uuid4())},
        )

    async def send(self, to: str = "ada@example.com", **more: Any) -> str:
        """Post a new message that must be accepted, and give its id."""
        answer = await self.post(self.command(to, **more))
        assert answer.status_code == 202, answer.text
        message_id: str = answer.json()["id"]
        return message_id

    async def read(self, message_id: str) -> dict[str, Any]:
        description = self.stack.describe()
        answer = await self.http.get(
            f"{description['api_url']}/v1/messages/{message_id}",
            headers={"Authorization": f"Bearer {description['api_key']}"},
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def ended(self, message_id: str, *, within: float = SETTLED_WITHIN) -> dict[str, Any]:
        """Wait until the machine has nothing more to do with a message, and give it."""
        found: dict[str, Any] = {}

        async def has_ended() -> bool:
            try:
                found.update(await self.read(message_id))
            except (httpx.HTTPError, AssertionError, FileNotFoundError):
                return False  # the API is being killed just now
            return found["state"] in ENDS

        await until(has_ended, within=within, every=0.1)
        return found

    async def reached(self, message_id: str, state: str, *, within: float = SETTLED_WITHIN) -> dict[str, Any]:
        """Wait until a message is in a state, as machine and provider events have led it there, and give it."""
        found: dict[str, Any] = {}

        async def is_there() -> bool:
            found.update(await self.ended(message_id, within=within))
            return bool(found["state"] == state)

        await until(is_there, within=within, every=0.1)
        return found

    async def submissions(self, message_id: str | None = None) -> list[dict[str, Any]]:
        """Give what the provider read to the last byte, oldest first."""
        parameters = {"tag": f"fencepost_message:{message_id}"} if message_id else {}
        answer = await self.http.get(f"{self.stack.describe()['ses_url']}/_sim/submissions", params=parameters)
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    async def control(self, call: str, body: dict[str, Any] | None = None) -> None:
        """Tell the simulator to do something."""
        answer = await self.http.post(f"{self.stack.describe()['ses_url']}/_sim/{call}", json=body)
        assert answer.is_success, answer.text


@pytest.fixture(scope="package")
async def stack() -> AsyncIterator[RunningStack]:
    """Run a stack for all acceptance tests."""
    with open_folder() as folder:
        options = ("--port-base", str(free_base()), "--no-first-message")
        async with running(folder / "here", *options, environment=TIMES) as stack:
            yield stack


@pytest.fixture
async def client(stack: RunningStack) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=30, trust_env=False, limits=httpx.Limits(max_connections=100)) as http:
        yield Client(stack, http)
