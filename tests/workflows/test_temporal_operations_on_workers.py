"""Worker processes that are deployed and killed in the middle of calls: one submission, and what is known is kept."""

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
from temporalio.client import Client

from db.lifecycle import State
from tests.conftest import Database
from tests.faults.cell import SWEEP_SECONDS, Cell, cell
from tests.waiting import until

#: The ladder for calls that wait for what is done to their worker, on a busy machine.
GRACE_SECONDS = 14.0
LONG_CALLS = {
    "CALL_BUDGET_SECONDS": "12",
    "SES_CONNECT_TIMEOUT_SECONDS": "5",
    "SES_READ_TIMEOUT_SECONDS": "11",
    "SUBMIT_TIMEOUT_SECONDS": "14",
    "LEASE_SECONDS": "30",
    "SHUTDOWN_GRACE_SECONDS": str(GRACE_SECONDS),
}
#: The ladder for a lease whose end is waited for.
SHORT_LEASE_SECONDS = 8.0
SHORT_LEASE = {
    "CALL_BUDGET_SECONDS": "6.5",
    "SES_CONNECT_TIMEOUT_SECONDS": "2",
    "SES_READ_TIMEOUT_SECONDS": "6.2",
    "SUBMIT_TIMEOUT_SECONDS": "7",
    "LEASE_SECONDS": str(SHORT_LEASE_SECONDS),
    "SHUTDOWN_GRACE_SECONDS": "7",
}


@pytest.fixture(scope="module")
async def running_cell(
    database: Database, temporal_client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cell]:
    """Run one API and no worker yet."""
    async with cell(database, temporal_client, tmp_path_factory.mktemp("cell")) as made:
        await made.start_api()
        yield made


async def test_a_worker_replaced_in_the_middle_of_twenty_calls_records_them_all_within_its_grace(
    running_cell: Cell,
) -> None:
    c = running_cell
    ids = [await c.send() for _ in range(20)]
    c.simulator.process.send_signal(signal.SIGSTOP)  # it reads nothing, and answers nothing
    try:
        await c.start_worker("leaving", **LONG_CALLS)
        under_way = """SELECT count(*) = 20 FROM attempts
            WHERE begun_at IS NOT NULL AND ended_at IS NULL AND message_id = ANY($1::uuid[])"""
        await until(lambda: c.superuser.fetchval(under_way, ids), within=30)
        leaving = asyncio.create_task(_told_to_stop(c, "leaving"))
        coming = asyncio.create_task(c.start_worker("coming", **LONG_CALLS))
        await until(lambda: c.count_logged("leaving")["worker_stopping"], within=10)
    finally:
        c.simulator.process.send_signal(signal.SIGCONT)
    took = await leaving
    await coming
    states = await c.ended([*ids, after := await c.send()])

    assert took < GRACE_SECONDS
    assert set(states.values()) == {State.PROVIDER_ACCEPTED}
    assert await c.times_submitted() == dict.fromkeys([*ids, after], 1)
    by_whom = """SELECT count(*) FROM attempts
        WHERE outcome = 'accepted' AND lease_owner LIKE 'leaving-%' AND message_id = ANY($1::uuid[])"""
    assert await c.superuser.fetchval(by_whom, ids) == len(ids)
    assert c.count_logged("leaving")["late_result"] == 0
    await c.kill("coming")


async def _told_to_stop(c: Cell, name: str) -> float:
    """Tell a worker to stop, and give how long it took for it."""
    told_at = asyncio.get_running_loop().time()
    assert await c.kill(name, signal.SIGTERM) == 0
    return asyncio.get_running_loop().time() - told_at


async def test_the_only_worker_killed_in_the_middle_of_a_call_leaves_an_ambiguous_message_in_time(
    running_cell: Cell,
) -> None:
    c = running_cell
    await c.start_worker("killed", **SHORT_LEASE)
    key, command = "killed in the middle", c.command("lost@faults.example.com")
    message_id = (await c.post(command, key)).json()["id"]

    async def is_called() -> bool:
        return len(await c.submissions(message_id)) == 1

    await until(is_called, within=20)
    await c.kill("killed")
    await c.start_worker("second", **SHORT_LEASE)
    await c.ended([message_id])
    message = await c.read(message_id)
    replay = await c.post(command, key)
    after = await c.send()
    assert await c.ended([after]) == {after: State.PROVIDER_ACCEPTED}

    assert (message["state"], message["attempts"][-1]["reason"]) == ("ambiguous", "lease_expired")
    ready = next(line["timestamp"] for line in c.logged("second") if line["event"] == "worker_ready")
    leased, ambiguous = (datetime.fromisoformat(line["at"]) for line in message["timeline"][-2:])
    # A busy machine may take longer to start a worker than a lease runs; nobody sweeps before that.
    may_settle_from = max(leased + timedelta(seconds=SHORT_LEASE_SECONDS), datetime.fromisoformat(ready))
    assert (ambiguous - may_settle_from).total_seconds() <= SWEEP_SECONDS + 5
    assert (replay.status_code, replay.json()["state"]) == (200, "ambiguous")
    assert len(await c.submissions(message_id)) == 1
