"""Folders for servers that run as another user when the tests run as root."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that every user may enter, as a checkout usually is; pytest's own are closed."""
    path = Path(tempfile.mkdtemp(prefix="fencepost-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)
