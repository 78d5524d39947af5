"""Child processes that do not outlive this one, and the accounts that they run as."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TETHER = Path(__file__).with_name("tether.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user of this machine, by numbers."""

    uid: int
    gid: int


def start(
    command: list[str], *, environment: dict[str, str], log: Path, account: Account | None = None, directory: Path
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, its output appended to `log`.

    The kernel kills it when the calling *thread* ends, so call this from a thread that lives as long as the child
    should: the main one.
    """
    uid, gid = (str(account.uid), str(account.gid)) if account else ("-", "-")
    tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), uid, gid]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*tether, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )


def stop(process: subprocess.Popen[bytes], *steps: tuple[signal.Signals, float]) -> None:
    """Send each signal and give the process its seconds to end; after the last of them, SIGKILL."""
    for sign, seconds in steps:
        process.send_signal(sign)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        return
    process.kill()
    process.wait()
