"""Run by path: change to an account, tie this process to its parent's life, and become a command.

A program of its own, because code between fork and exec in a parent that has threads may deadlock, and because the
account is often not allowed to read the Python that runs this.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tie(sign: signal.Signals) -> None:
    """Have the kernel send `sign` to this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, sign)


def main(parent: str, uid: str, gid: str, *command: str) -> None:
    """Replace this process by `command`, which the kernel kills when the process `parent` ends.

    `uid` and `gid` are numbers, or both `-` for no change.
    """
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    # SIGKILL, since it also ends a child that is stopped. After the change of account, which undoes the tie.
    tie(signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit("The parent ended before its child began.")  # Nobody is told of a death before the tie.
    os.execvp(command[0], command)  # noqa: S606 - there is no shell here on purpose


if __name__ == "__main__":
    main(*sys.argv[1:])
