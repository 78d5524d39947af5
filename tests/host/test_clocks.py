"""Wall clocks that are wrong by two hours in one process (faketime): Postgres' clock is the only one that counts."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from db.lifecycle import State
from tests.conftest import Database
from tests.faults.cell import LEASE_SECONDS, Cell, cell
from tests.faults.proxy import Way
from tests.faults.traffic import rightly_ended
from tests.waiting import until

pytestmark = pytest.mark.host

OFF = timedelta(hours=2)


def wrong_by(hours: str) -> tuple[str, ...]:
    """Give a command that runs another with a wrong clock. The monotonic clock is right, as after a wrong `date -s`."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert found, "libfaketime is missing: .ci/run installs it (apt-get install faketime)"
    # Not the command `faketime` itself, which stays as the parent of what it runs.
    return ("env", f"LD_PRELOAD={found[0]}", f"FAKETIME={hours}", "FAKETIME_DONT_FAKE_MONOTONIC=1")


async def clock_of(cell: Cell, name: str) -> timedelta:
    """Say by how much the clock of a process was wrong when it last logged something."""
    written = datetime.fromisoformat(cell.logged(name)[-1]["timestamp"])
    now: datetime = await cell.superuser.fetchval("SELECT clock_timestamp()")
    return written - now


@pytest.mark.parametrize(("fast", "slow"), [("worker", "api"), ("api", "worker")])
async def test_messages_settle_and_leases_run_as_ever_with_wrong_clocks(
    database: Database, temporal_client: Client, tmp_path: Path, fast: str, slow: str
) -> None:
    clocks = {fast: wrong_by("+2h"), slow: wrong_by("-2h")}
    async with cell(database, temporal_client, tmp_path) as c:
        await c.start_api(under=clocks["api"])
        worker = await c.start_worker(under=clocks["worker"])
        ids = [await c.send() for _ in range(5)]
        ends = await rightly_ended(c, ids)
        ahead, behind = [await clock_of(c, {"api": "api", "worker": "worker-1"}[each]) for each in (fast, slow)]

        await worker.provider.delay(1000, Way.TO_CLIENT)
        orphan = await c.send()

        async def is_submitted() -> bool:
            return bool(await c.submissions(orphan))

        await until(is_submitted, within=30)
        await c.kill("worker-1")
        await c.start_worker("worker-2", under=clocks["api"])
        orphans_end = await c.ended([orphan])
        leases = await c.superuser.fetch("SELECT lease_expires_at - claimed_at AS lease, claimed_at FROM attempts")
        waited = await c.superuser.fetchval(
            """SELECT at - lease_expires_at FROM timeline JOIN attempts USING (message_id)
            WHERE message_id = $1::uuid AND to_state = 'ambiguous'""",
            orphan,
        )
        now = await c.superuser.fetchval("SELECT clock_timestamp()")

    minute = timedelta(minutes=1)
    assert OFF - minute < ahead < OFF + minute
    assert -OFF - minute < behind < -OFF + minute
    assert ends == {State.PROVIDER_ACCEPTED: 5}
    assert orphans_end == {orphan: State.AMBIGUOUS}
    assert timedelta() <= waited < minute
    for row in leases:
        assert abs(row["lease"] - timedelta(seconds=LEASE_SECONDS)) < timedelta(seconds=1)
        assert now - 5 * minute < row["claimed_at"] <= now
