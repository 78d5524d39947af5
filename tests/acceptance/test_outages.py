"""Temporal or Postgres away: what is accepted meanwhile, and that all of it goes out once afterwards."""

import os
import signal
import statistics
import time

import asyncpg
import httpx
import pytest

from tests.acceptance.conftest import SETTLED_WITHIN, Client
from tests.waiting import until


async def _posts(client: Client, count: int) -> tuple[list[str], float]:
    """Post messages one after the other, all of which must be accepted; give their ids and the median time in ms."""
    ids, times = [], []
    for _ in range(count):
        begun = time.perf_counter()
        ids.append(await client.send("outage@example.com"))
        times.append((time.perf_counter() - begun) * 1000)
    return ids, statistics.median(times)


async def _each_submitted_once_and_delivered(client: Client, ids: list[str], *, within: float = SETTLED_WITHIN) -> None:
    for message_id in ids:
        await client.reached(message_id, "delivered", within=within)
        assert len(await client.submissions(message_id)) == 1


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_messages_are_accepted_without_temporal_and_go_out_when_it_is_back(
    client: Client, how: signal.Signals
) -> None:
    before, usual = await _posts(client, 20)
    pid = client.stack.pid("temporal")

    os.kill(pid, how)
    during, without = await _posts(client, 20)
    if how is signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)

    print(f"\nintake p50: {usual:.1f} ms, with Temporal after {how.name}: {without:.1f} ms")  # noqa: T201
    await _each_submitted_once_and_delivered(client, before + during, within=90)


async def test_without_postgres_a_client_is_told_to_ask_again_and_service_is_back_soon(client: Client) -> None:
    ids, _ = await _posts(client, 5)
    url = client.stack.describe()["database_url"]
    os.kill(client.stack.pid("postgres"), signal.SIGKILL)

    key, command = "during-outage", client.command("outage@example.com")
    first = await client.post(command, key)
    answers = [first]
    await until(lambda: _postgres_answers(url), within=20)
    back = time.monotonic()
    while answers[-1].status_code == 503:
        assert time.monotonic() - back < 10
        answers.append(await client.post(command, key))

    assert {answer.status_code for answer in answers[:-1]} <= {503}
    assert answers[-1].status_code in (200, 202)
    for answer in answers[:-1]:
        assert answer.json()["code"] == "unavailable"
        assert answer.headers["content-type"] == "application/problem+json"
        assert int(answer.headers["retry-after"]) > 0
    await _each_submitted_once_and_delivered(client, [*ids, answers[-1].json()["id"]])


async def _postgres_answers(url: str) -> bool:
    try:
        connection = await asyncpg.connect(url, timeout=1)
    except (OSError, TimeoutError, asyncpg.PostgresError):
        return False
    await connection.close()
    return True


async def test_readiness_says_what_is_away(client: Client) -> None:
    url = f"{client.stack.describe()['api_url']}/readyz"
    pid = client.stack.pid("temporal")

    async def told() -> dict[str, str]:
        answer: httpx.Response = await client.http.get(url)
        assert answer.status_code == 200
        found: dict[str, str] = answer.json()
        return found

    os.kill(pid, signal.SIGSTOP)
    try:
        away = await told()
    finally:
        os.kill(pid, signal.SIGCONT)

    assert away == {"status": "ready", "database": "reachable", "schema_fit": "current", "temporal": "unreachable"}

    async def back() -> bool:
        return (await told())["temporal"] == "reachable"

    await until(back, within=20)
