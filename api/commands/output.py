"""What commands print: tables for a person at a terminal, tabs in a pipe, the API's JSON with --json."""

import dataclasses
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final
from unicodedata import category

import typer

if TYPE_CHECKING:
    from api.commands.client import Page

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_ANY_WIDTH: Final = 10_000

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def print_json(value: object) -> None:
    """Print one JSON text on one line."""
    print(json.dumps(value), flush=True)


def print_page(page: "Page", columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list."""
    if as_json:
        print_json(dataclasses.asdict(page))
    else:
        print_table(page.data, columns)


def print_one(item: Mapping[str, Any], columns: Sequence[str], *, as_json: bool) -> None:
    """Print one thing like a list of one."""
    if as_json:
        print_json(item)
    else:
        print_table([item], columns)


def print_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, title: str = "") -> None:
    """Print rows under a line of headings; in a pipe a tab stands between two cells, and no title."""
    lines = [[cell(row.get(column)) for column in columns] for row in rows]
    if not sys.stdout.isatty():
        for line in [columns, *lines]:
            print("\t".join(line), flush=True)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column)
    for line in lines:
        table.add_row(*map(short, line))
    # Wider than any table: a long line is left to the terminal to break, since a cut id is no use.
    Console(markup=False, highlight=False, emoji=False, width=_ANY_WIDTH).print(table)


def print_record(fields: Mapping[str, Any]) -> None:
    """Print what belongs to one thing, a line each; what has no value is left out."""
    shown = {name: cell(value) for name, value in fields.items() if value not in (None, "", [], {})}
    for name, text in shown.items():
        line = f"{name:<{max(map(len, shown))}}  {short(text)}" if sys.stdout.isatty() else f"{name}\t{text}"
        print(line, flush=True)


def short(text: str) -> str:
    """Cut a time to its milliseconds, for a person; any other text stays as it is."""
    return f"{text[:10]} {text[11:23]}Z" if _TIME.fullmatch(text) else text


def cell(value: object) -> str:
    """Write a value on one line, with nothing in it that a terminal would obey."""
    match value:
        case None:
            text = ""
        case str():
            text = value
        case list():
            text = ", ".join(map(cell, value))
        case {"address": address, "name": name} if name:
            text = f"{name} <{address}>"
        case {"address": address}:
            text = str(address)
        case dict():
            text = ", ".join(f"{name}={inner}" for name, inner in value.items())
        case _:
            text = str(value)
    return printable(text).replace("\n", " ").replace("\t", " ")


def printable(text: str) -> str:
    """Put a question mark in place of every control character but line breaks and tabs, and of what is no text."""
    return "".join("?" if category(each) in ("Cc", "Cs") and each not in "\n\t" else each for each in text)
