"""Files that appear whole or not at all, for the owner's eyes only."""

import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path` with mode 0600; whoever looks sees the old content or the whole new one."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
