"""A Postgres server of our own, for the one-machine stack and the tests."""

import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

import asyncpg
from typing_extensions import override

from dev import child
from dev.files import write_private
from dev.postgres_home import Home, binaries, settle
from dev.refusals import StartRefused
from dev.server import Server

#: Small, since it shares a machine with all the rest; the connections are for tests that race.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Without these three, the server's log repeats rows and parameters, with addresses and contents in them.
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}
#: For data that may be lost when the *machine* crashes. Not synchronous_commit: without it, a kill -9 of the server
#: alone loses what it has called committed.
THROWAWAY_SETTINGS = {"fsync": "off", "full_page_writes": "off"}
#: How long a fast shutdown may take to write its last checkpoint.
STOP_SECONDS = 10.0


class Postgres(Server):
    """A Postgres server of our own, as a child process.

    The data is at `directory`, or as root, where the server's user can't get there, in a private folder that
    `directory` remembers. Call `prepare` first; it and all the rest may be called again at any time.

    Args:
        directory: A private folder; made with mode 0700 if it is missing. As root, leave it to us to make it.
        port: Where it listens, on 127.0.0.1 only.
        password: The superuser's. None: made once and kept in `directory`.
        durable: False for data that nobody needs after the machine has crashed.

    """

    def __init__(self, directory: Path, *, port: int, password: str | None = None, durable: bool = True) -> None:
        super().__init__("Postgres", directory.absolute() / "postgres.log")
        self.port = port
        self._directory = directory.absolute()
        self._password = password
        self._durable = durable
        self._home: Home | None = None
        self._binaries: Path | None = None

    @property
    def account(self) -> child.Account | None:
        """As whom the server must run; None: as whoever we are."""
        return self._prepared()[0].account

    def prepare(self) -> None:
        """Find the binaries and make the database cluster if there is none yet.

        Raises:
            StartRefused: There are no usable binaries, or the folder can't be used.

        """
        home = self._home = settle(self._directory)
        self._binaries = binaries(home)
        if self._password is None:
            self._password = self._kept_password()
        if not (home.path / "data").exists():
            self._make_cluster(home, self._binaries, self._password)
        _forget_dead_server(home.path / "data" / "postmaster.pid")

    def command(self) -> list[str]:
        """Return the command line that runs the server in the foreground."""
        home, folder = self._prepared()
        settings = SETTINGS | {"port": str(self.port)} | ({} if self._durable else THROWAWAY_SETTINGS)
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(folder / "postgres"), "-D", str(home.path / "data"), *options]

    def environment(self) -> dict[str, str]:
        """Return the server's environment: nothing of ours, so that no PG* variable of the caller reaches it."""
        return {"PATH": os.defpath, "LC_ALL": "C"}

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server as our child; see `dev.child.start` on which thread may call this."""
        home, _ = self._prepared()
        self._child = child.start(
            self.command(), environment=self.environment(), log=self.log, account=home.account, directory=Path("/")
        )
        return self._child

    @override
    async def answers(self) -> bool:
        """Tell whether the server answers a query; while it recovers, it refuses with 57P03."""
        try:
            connection = await asyncpg.connect(self.url(), ssl=False, timeout=2)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        try:
            return bool(await connection.fetchval("SELECT 1") == 1)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        finally:
            connection.terminate()

    def stop(self) -> None:
        """Stop the server that `start` started: at once for its clients, cleanly for its data."""
        if self._child:
            child.stop(self._child, (signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, STOP_SECONDS))
        self._child = None

    def remove(self) -> None:
        """Stop the server and delete its data, wherever that is."""
        self.stop()
        home, _ = self._prepared()
        shutil.rmtree(home.path)
        shutil.rmtree(self._directory, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        """Return the superuser's connection URL for `database`; it holds the password."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/{database}"

    def _prepared(self) -> tuple[Home, Path]:
        if self._home is None or self._binaries is None:
            raise RuntimeError("prepare() comes first")
        return self._home, self._binaries

    def _kept_password(self) -> str:
        file = self._directory / "password"
        if not file.exists():
            write_private(file, secrets.token_urlsafe(24))
        return file.read_text(encoding="utf-8")

    def _make_cluster(self, home: Home, folder: Path, password: str) -> None:
        # Made under another name and then renamed, so that one that was interrupted is never taken for a whole one.
        unfinished = home.path / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        password_file = home.path / "password.initdb"
        write_private(password_file, password)
        owner = home.account
        if owner:
            os.chown(password_file, owner.uid, owner.gid)
        command = [str(folder / "initdb"), "-D", str(unfinished), "--username=postgres", f"--pwfile={password_file}"]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", *([] if self._durable else ["--no-sync"])]
        try:
            made = subprocess.run(
                command,
                env=self.environment(),
                cwd="/",
                user=owner.uid if owner else None,
                group=owner.gid if owner else None,
                extra_groups=[] if owner else None,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            password_file.unlink()
        if made.returncode != 0:
            raise StartRefused(f"initdb failed in {home.path}: {made.stderr.strip().splitlines()[-1]}")
        unfinished.rename(home.path / "data")


def _forget_dead_server(file: Path) -> None:
    """Delete the note of a server that was killed, where its process id is another program's by now.

    Postgres refuses to start then. It is usual in a container, where each start counts process ids from 1.
    """
    try:
        pid = int(file.read_text(encoding="ascii").split("\n", 1)[0])
        program = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return
    if program != "postgres":
        file.unlink()
