"""CSV (RFC 4180), read strictly: records, each with the numbers of its lines."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

#: Spreadsheets put one before the text.
_BYTE_ORDER_MARK: Final = "\ufeff"


class UnreadableCsvError(Exception):
    """This is no CSV from a line on, so that nobody can tell where the next one begins.

    Attributes:
        line: Its number, from 1.

    """

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What stands between two line breaks outside of quotes, with the numbers of its first and its last line."""

    first: int
    last: int
    cells: list[str] = field(repr=False)


def without_mark(text: str) -> str:
    """Take a byte order mark off."""
    return text.removeprefix(_BYTE_ORDER_MARK)


def records(text: str) -> Iterator[Record]:
    """Yield the records of a CSV text, blank ones left out. Raises UnreadableCsvError.

    Lines end with CRLF or LF; a CR alone, and U+0000 anywhere, are no CSV.
    """
    # Only with this argument does a CR alone come through, for the reader to refuse.
    reader = csv.reader(io.StringIO(text, newline="\n"), strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error:
            raise UnreadableCsvError(first) from None
        if cells is None:
            return
        if any("\0" in cell for cell in cells):
            raise UnreadableCsvError(first)
        if any(cell.strip() for cell in cells):
            yield Record(first=first, last=reader.line_num, cells=cells)
