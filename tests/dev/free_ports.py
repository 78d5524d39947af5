"""Ports for servers that the tests start, apart from those that the system hands out by itself."""

import random
import socket

from dev.ports import Ports

#: Below what Linux gives to outgoing connections, and above what servers usually have.
FIRST, LAST = 12_000, 30_000


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_base(workers: int = 1) -> int:
    """Return a port base of which every port of a stack is free."""
    while True:
        base = random.randint(FIRST, LAST)  # noqa: S311 - nothing secret
        if all(_is_free(port) for port in Ports(base=base, workers=workers).uses()):
            return base


def free_port() -> int:
    """Return one free port."""
    return free_base()
