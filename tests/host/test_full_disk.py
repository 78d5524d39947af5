"""A full disk under Postgres: nothing that was accepted is lost, and all goes on when there is room again."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest
from temporalio.client import Client

from db.lifecycle import State
from dev.postgres import Postgres
from tests.conftest import ROLE_PASSWORD, ROLES, ROLES_SQL, Database, free_port, run_migrations
from tests.dev.folders import open_folder
from tests.faults.cell import cell
from tests.faults.traffic import accepted, rightly_ended
from tests.waiting import until

pytestmark = pytest.mark.host

#: What a new cluster with its first WAL segments takes, twice over.
DISK = "200m"
#: The most that fits into what is left of the tables' last pages, many times over.
MOST = 500


def as_root(*command: str) -> None:
    """Run a command as root, for which `sudo` must not ask."""
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    subprocess.run([*sudo, *command], check=True)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Mount a small file system of our own."""
    with open_folder() as folder:
        disk = folder / "disk"
        disk.mkdir()
        owner = f"uid={os.geteuid()},gid={os.getegid()}"
        as_root("mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0755,{owner}", "fencepost-test", str(disk))
        try:
            yield disk
        finally:
            as_root("umount", str(disk))


@pytest.fixture
async def cramped(small_disk: Path) -> AsyncIterator[Database]:
    """Run a Postgres on the small file system, with a migrated database."""
    server = Postgres(small_disk / "postgres", port=free_port(), durable=False)
    server.prepare()
    server.start()
    try:
        server.wait(60)
        connection = await asyncpg.connect(server.url())
        await connection.execute(ROLES_SQL)
        for role in ROLES:
            await connection.execute(f"ALTER ROLE {role} PASSWORD '{ROLE_PASSWORD}'")
        await connection.execute("CREATE DATABASE cramped OWNER fencepost_migrate")
        await connection.close()
        database = Database(server, "cramped")
        await run_migrations(database.url("fencepost_migrate"))
        yield database
    finally:
        server.remove()


def fill(ballast: Path) -> None:
    """Take all the room that is left."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


async def test_a_full_disk_is_503_and_nothing_accepted_is_lost(
    small_disk: Path, cramped: Database, temporal_client: Client, tmp_path: Path
) -> None:
    answers: list[httpx.Response] = []
    async with cell(cramped, temporal_client, tmp_path, ATTEMPTS="50") as c:
        await c.start_api()
        await c.start_worker()
        ids = [await c.send() for _ in range(5)]
        ballast = small_disk / "ballast"
        fill(ballast)
        key = str(uuid4())

        async def is_refused() -> bool:
            nonlocal key
            key = str(uuid4())
            answers.append(answer := await c.post(c.command(), key))
            if answer.is_success:
                ids.append(answer.json()["id"])
            return not answer.is_success or len(answers) > MOST

        await until(is_refused, within=120)
        full, pages_left = list(answers), os.statvfs(small_disk).f_bavail
        ballast.unlink()
        ids.append(await accepted(c, key, answers))
        ids.append(await c.send())
        ends = await rightly_ended(c, ids)

    assert pages_left == 0
    assert (full[-1].status_code, full[-1].json()["code"]) == (503, "unavailable")
    assert int(full[-1].headers["retry-after"]) > 0
    assert {answer.status_code for answer in answers} <= {200, 202, 503}
    assert ends[State.PROVIDER_ACCEPTED] > 0
