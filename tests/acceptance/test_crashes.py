"""Processes killed while messages are under way: nothing is lost, and nothing is submitted twice."""

import asyncio
import os
import signal
from collections import Counter
from uuid import uuid4

import httpx

from tests.acceptance.conftest import LEASE_SECONDS, SETTLED_WITHIN, SWEEP_SECONDS, Client
from tests.waiting import until

#: Many more are `make chaos`'s.
MESSAGES = 80
ROUNDS = 2
PACE_SECONDS = 0.25


async def _post_until_answered(client: Client, to: str) -> str:
    """Post as a careful client does: the same command under the same key until there is an answer."""
    key, command = str(uuid4()), client.command(to)
    answered: list[str] = []

    async def is_answered() -> bool:
        try:
            answer = await client.post(command, key)
        except (httpx.HTTPError, FileNotFoundError):
            return False
        assert answer.status_code in (200, 202, 503), answer.text
        if answer.is_success:
            answered.append(answer.json()["id"])
        return answer.is_success

    await until(is_answered, within=120, every=0.1)
    return answered[0]


async def _kill(client: Client, name: str) -> None:
    pid = client.stack.pid(name)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: client.stack.pid(name) not in (0, pid), within=10)


async def test_killing_worker_and_api_again_and_again_loses_nothing_and_sends_nothing_twice(client: Client) -> None:
    await client.control("delay", {"ms": 50})
    ids: list[str] = []

    async def one(number: int) -> None:
        # A load that the machine can carry: what is left at the end is left by the kills, and not by a backlog.
        await asyncio.sleep(number * PACE_SECONDS)
        # Every tenth is slow to answer, so that kills meet calls under way.
        to = "slow@faults.example.com" if number % 10 == 0 else f"crash-{number}@example.com"
        ids.append(await _post_until_answered(client, to))

    posting = [asyncio.create_task(one(number)) for number in range(MESSAGES)]
    for turn in range(1, ROUNDS + 1):
        threshold = turn * MESSAGES // (ROUNDS + 1)
        await until(lambda threshold=threshold: len(ids) >= threshold, within=120)  # type: ignore[misc]  # a bound value
        await asyncio.gather(_kill(client, "worker-1"), _kill(client, "api"))
    await asyncio.gather(*posting)
    await client.control("delay", {"ms": 0})

    begun = asyncio.get_running_loop().time()
    states = Counter([(await client.ended(message_id))["state"] for message_id in ids])
    spent = asyncio.get_running_loop().time() - begun
    allowed = LEASE_SECONDS + 2 * SWEEP_SECONDS
    print(f"\nafter {2 * ROUNDS} kills: {dict(states)}; settled {spent:.1f} s after the last answer (<= {allowed} s)")  # noqa: T201

    assert len(set(ids)) == MESSAGES
    assert sum(states.values()) == MESSAGES
    assert set(states) <= {"provider_accepted", "delivered", "ambiguous", "dead"}
    times_submitted = Counter(submission["tags"]["fencepost_message"] for submission in await client.submissions())
    assert [times_submitted[message_id] for message_id in ids if times_submitted[message_id] > 1] == []


async def test_a_worker_killed_in_the_middle_of_a_call_leaves_an_ambiguous_message_and_one_submission(
    client: Client,
) -> None:
    message_id = await client.send("slow@faults.example.com")

    async def called() -> bool:
        return len(await client.submissions(message_id)) == 1

    await until(called, within=10)
    await _kill(client, "worker-1")
    message = await client.ended(message_id, within=SETTLED_WITHIN)

    assert message["state"] == "ambiguous"
    assert message["attempts"][-1]["reason"] == "lease_expired"
    assert len(await client.submissions(message_id)) == 1


async def test_a_worker_told_to_stop_lets_a_call_under_way_end_and_be_recorded(client: Client) -> None:
    message_id = await client.send("slow@faults.example.com")

    async def called() -> bool:
        return len(await client.submissions(message_id)) == 1

    await until(called, within=10)
    pid = client.stack.pid("worker-1")
    os.kill(pid, signal.SIGTERM)
    message = await client.ended(message_id)

    assert message["state"] == "provider_accepted"
    assert len(await client.submissions(message_id)) == 1
    await until(lambda: client.stack.pid("worker-1") not in (0, pid), within=20)
