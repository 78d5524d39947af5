"""Files of suppressions: a large one in parts that the API takes, and one that is written whole or not at all."""

import io
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn, TextIO

from api.commands.options import refuse_use
from api.csv_records import records, without_mark

#: Below the 256 KiB that the API takes, so that a header and a last record still fit.
MAX_PART_BYTES: Final = 200 * 1024
#: As many addresses as the API judges in a second or less.
MAX_PART_RECORDS: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some lines of a file, under its header."""

    text: str = field(repr=False)
    header: int  #: how many of the lines are the header's, with what is blank before it
    before: int  #: how many lines of the file stand before the others
    last: int  #: the number that the last line has in the file

    @property
    def is_first(self) -> bool:
        """Whether the file has nothing before it but the header."""
        return self.before == self.header

    def line_in_file(self, line: int) -> int:
        """Give the number that a line of this part has in the file."""
        return line - self.header + self.before


def split(text: str) -> list[Part]:
    """Split a CSV file between its records into parts, each with the header. Raises UnreadableCsvError.

    A file without any record, or without a header, is one part: it is for the API to judge.
    """
    text = without_mark(text)
    lines = list(io.StringIO(text, newline="\n"))
    found = records(text)
    first = next(found, None)
    header = len(lines) if first is None else first.last
    ends = [header]
    size = count = 0
    last = header
    for record in found:
        more = sum(len(line.encode()) for line in lines[last : record.last])
        if count and (size + more > MAX_PART_BYTES or count == MAX_PART_RECORDS):
            ends.append(last)
            size = count = 0
        size, count, last = size + more, count + 1, record.last
    starts_and_ends = itertools.pairwise([*ends, last]) if count else [(header, header)]
    heading = "".join(lines[:header])
    return [
        Part(text=heading + "".join(lines[start:end]), header=header, before=start, last=end)
        for start, end in starts_and_ends
    ]


@contextmanager
def written_whole(argument: str, name: str) -> Iterator[TextIO]:
    """Write a file that only its owner may read; under its name only once it is whole. Ends the command where not."""
    try:
        # A link stays one, and what it leads to is written.
        target = Path(name).resolve()
        is_something_else = target.exists() and not target.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        _refuse_file(argument, error)
    if is_something_else:
        refuse_use(argument, "this is something else than a file; - is standard output")
    try:
        # Only its owner can read what this makes, and it is renamed within one file system.
        descriptor, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        _refuse_file(argument, error)
    temporary = Path(made)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as out:
            yield out
        temporary.replace(target)
    except OSError as error:
        _refuse_file(argument, error)
    finally:
        # After the rename there is none.
        temporary.unlink(missing_ok=True)


def _refuse_file(argument: str, error: Exception) -> NoReturn:
    why = error.strerror if isinstance(error, OSError) else None
    refuse_use(argument, f"this file can't be written: {why or 'there can be no such file'}")
