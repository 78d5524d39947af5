"""Suppressions as CSV (RFC 4180): reading a list strictly, line by line, and writing one."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from api.addresses import Address
from api.csv_records import Record, UnreadableCsvError, records, without_mark
from api.faults import Fault, FaultCode, InvalidRequest
from api.fields import PURPOSE, Fields
from db.suppressions import Suppression

#: What is suppressed where no scope is named.
EVERYTHING: Final = "all"
COLUMNS: Final = ("address", "scope", "reason", "created_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An address that a list wants to be suppressed."""

    address: Address = field(repr=False)
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A line that can't be taken, and why."""

    line: int
    code: str


def read(raw: bytes) -> tuple[list[Entry], list[Rejection]]:
    """Read a list of addresses: those to suppress, and the lines that are at fault.

    The first line names the columns: `address`, perhaps `scope`, and any others, which are ignored, so that an export
    can be read. Raises InvalidRequest where it doesn't, or where the whole can't be read.
    """
    try:
        text = without_mark(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise _refusal(FaultCode.CSV_ENCODING, "The body has to be UTF-8.") from None
    entries: list[Entry] = []
    rejected: list[Rejection] = []
    try:
        found = records(text)
        header = _columns(next(found, None))
        for record in found:
            judged = _judge(record, header)
            if isinstance(judged, Entry):
                entries.append(judged)
            else:
                rejected.append(judged)
    except UnreadableCsvError as error:
        raise _refusal(FaultCode.CSV_MALFORMED, f"This is no CSV, from line {error.line} on.") from None
    return entries, rejected


def _columns(record: Record | None) -> list[str]:
    """Read the header; names are compared without letter case, as people write them."""
    names = [] if record is None else [name.strip().lower() for name in record.cells]
    if names.count("address") != 1 or names.count("scope") > 1:
        detail = "The first line has to name the columns, with `address` once and `scope` once at most."
        raise _refusal(FaultCode.CSV_HEADER, detail)
    return names


def _judge(record: Record, header: list[str]) -> Entry | Rejection:
    if len(record.cells) != len(header):
        return Rejection(line=record.first, code=FaultCode.CSV_COLUMNS)
    cells = dict(zip(header, record.cells, strict=True))
    fields = Fields()
    address = fields.address({"address": cells["address"]}, "")
    scope = fields.text(cells.get("scope") or EVERYTHING, "/scope", PURPOSE)
    if address is None or fields.faults:
        return Rejection(line=record.first, code=fields.faults[0].code)
    return Entry(address=address, scope=scope)


def _refusal(code: FaultCode, detail: str) -> InvalidRequest:
    return InvalidRequest(Fault(pointer="", code=code, detail=detail))


def header_line() -> str:
    """Write the line that names the columns."""
    return _written([COLUMNS])


def lines(found: Iterable[Suppression]) -> str:
    """Write suppressions, a line each."""
    return _written(
        (each.address, each.scope, each.reason, each.created_at.isoformat().replace("+00:00", "Z")) for each in found
    )


def _written(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
