"""Reading what a person gave: files, JSON, moments, `NAME=VALUE`. What can't be read ends the command as bad use."""

import json
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from api.commands.refusals import BAD_USE, refuse

#: In place of a file's name.
STDIN = "-"


def refuse_use(option: str, why: str) -> NoReturn:
    """End the command, since an option can't be used; `why` repeats nothing of what was given."""
    refuse(f"{option}: {why}", status=BAD_USE)


def read_text(option: str, name: str) -> str:
    """Read a file, or standard input for `-`, as UTF-8."""
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        refuse_use(option, "this file is not UTF-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        refuse_use(option, f"this file can't be read: {why or 'there is no such file'}")


def only_one_from_stdin(*names: str | None) -> None:
    """Refuse to read standard input twice."""
    if names.count(STDIN) > 1:
        refuse("only one option can be -: standard input is read once", status=BAD_USE)


def read_object(option: str, text: str) -> dict[str, Any]:  # as JSON has it
    """Read a JSON object; one that names a member twice is none, since one of the two would be lost."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            refuse_use(option, "an object names the same member twice")
        return found

    try:
        value = json.loads(text, object_pairs_hook=members)
    except json.JSONDecodeError as error:
        refuse_use(option, f"this is not JSON, at line {error.lineno}, column {error.colno}")
    except (ValueError, RecursionError):
        refuse_use(option, "this JSON has a number that is too long, or is nested too deeply")
    if not isinstance(value, dict):
        refuse_use(option, "this has to be a JSON object, {...}")
    return value


def read_context(context: str | None, context_file: str | None) -> dict[str, Any]:  # as JSON has it
    """Read a template's values from one of two options; without either they are empty."""
    if context is not None and context_file is not None:
        refuse("say --context or --context-file, not both", status=BAD_USE)
    if context_file is not None:
        return read_object("--context-file", read_text("--context-file", context_file))
    return {} if context is None else read_object("--context", context)


def read_pair(option: str, given: str) -> tuple[str, str]:
    """Read an option of the form NAME=VALUE."""
    name, sign, value = given.partition("=")
    if not name or not sign:
        refuse_use(option, "this has to look like NAME=VALUE")
    return name, value


def read_pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Read options of the form NAME=VALUE, each name once."""
    pairs = [read_pair(option, each) for each in given]
    found = dict(pairs)
    if len(found) != len(pairs):
        refuse_use(option, "the same name is given twice")
    return found


def read_moment(option: str, text: str | None) -> str | None:
    """Read a moment, and give it as RFC 3339 has it. None for no text."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    # A moment without a zone is none.
    if moment is None or moment.tzinfo is None:
        refuse_use(option, "this has to be a time with its zone, such as 2030-01-31T12:00:00Z")
    return moment.isoformat()
