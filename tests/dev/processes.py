"""Looking at processes of this machine."""

import psutil


def alive(pid: int) -> bool:
    """Tell whether the process runs or is stopped; an ended one that waits for its parent is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
