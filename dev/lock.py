"""One stack a folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.refusals import StartRefused


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Make the folder, and keep every other stack from it until the end of the block or of this process.

    Raises:
        StartRefused: Another stack has it, or this user may not write there.

    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartRefused(f"{directory} can't be used ({error.strerror}); take another folder with --dir.") from None
    with os.fdopen(file, "r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = stream.read()
            raise StartRefused(
                f"A stack runs on {directory} already (process {holder}); stop it, or take another folder with --dir"
                " and other ports with --port-base."
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield
