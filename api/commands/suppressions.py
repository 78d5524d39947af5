"""`fencepost suppression`: the addresses that a tenant doesn't mail."""

import sys
from http import HTTPStatus
from typing import Annotated, Any, Final

import typer

from api.commands.client import SUPPRESSIONS, Api, RefusedError, connected, segment
from api.commands.options import STDIN, read_text, refuse_use
from api.commands.output import Json, print_json, print_one, print_page
from api.commands.refusals import refuse, say
from api.commands.suppression_files import Part, split, written_whole
from api.csv_records import UnreadableCsvError

app = typer.Typer(
    help="Suppressions: addresses that mail doesn't go to. The key is FENCEPOST_API_KEY.", no_args_is_help=True
)

COLUMNS: Final = ("id", "address", "scope", "reason", "created_at")
_PATH: Final = "/v1/suppressions"


@app.command("add")
def add_suppression(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="a@b.c; letter case doesn't count.")],
    *,
    scope: Annotated[str, typer.Option(metavar="S", help="all, or the purpose whose messages it holds back.")] = "all",
    as_json: Json = False,
) -> None:
    """Suppress an address: from now on, nothing of the scope goes to it.

    Example: fencepost suppression add ada@example.com --scope newsletter
    """
    with connected(SUPPRESSIONS) as api:
        status, suppression = api.call("POST", _PATH, "id", body={"address": address, "scope": scope})
    if status == HTTPStatus.OK:
        say("this address was suppressed already")
    print_one(suppression, COLUMNS, as_json=as_json)


@app.command("list")
def list_suppressions(
    *,
    address: Annotated[str | None, typer.Option(metavar="A", help="Only what suppresses this address.")] = None,
    as_json: Json = False,
) -> None:
    """List the suppressions that hold, newest first.

    Example: fencepost suppression list --address ada@example.com
    """
    query = {} if address is None else {"address": address}
    with connected(SUPPRESSIONS) as api:
        print_page(api.pages(_PATH, query), COLUMNS, as_json=as_json)


@app.command("remove")
def remove_suppression(
    suppression: Annotated[str, typer.Argument(metavar="ID", help="The suppression's id; `list` shows it.")],
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept.")],
    as_json: Json = False,
) -> None:
    """Remove a suppression: from now on, its address is mailed again. Of many reasons the first is kept.

    Example: fencepost suppression remove ID --reason "the mailbox works again"
    """
    with connected(SUPPRESSIONS) as api:
        api.call("DELETE", f"{_PATH}/{segment(suppression)}", body={"reason": reason})
    say("the suppression is removed")
    if as_json:
        print_json({"id": suppression, "state": "removed"})


@app.command("import")
def import_suppressions(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV; - is standard input.")],
    *,
    as_json: Json = False,
) -> None:
    """Suppress the addresses of a CSV file. Its first line names the columns: address, perhaps scope, and others.

    Lines that can't be taken are named, and make the exit status 1; all others are taken. Again is safe.

    Example: fencepost suppression import suppressions.csv
    """
    try:
        parts = split(read_text("FILE", file))
    except UnreadableCsvError as error:
        refuse_use("FILE", f"this is no CSV, from line {error.line} on: is a quote missing there?")
    total: dict[str, Any] = {"added": 0, "already": 0, "rejected": [], "rejected_total": 0}
    with connected(SUPPRESSIONS) as api:
        for part in parts:
            result = _import_part(api, part)
            total["rejected"] += [{**each, "line": part.line_in_file(each["line"])} for each in result["rejected"]]
            for count in ("added", "already", "rejected_total"):
                total[count] += result[count]
            if len(parts) > 1 and sys.stderr.isatty():
                say(f"{part.last} of {parts[-1].last} lines")
    counted = {"added": total["added"], "already": total["already"], "rejected": total["rejected_total"]}
    print_one(total if as_json else counted, tuple(counted), as_json=as_json)
    if total["rejected_total"]:
        named = [f"line {each['line']}: {each['code']}" for each in total["rejected"]]
        more = total["rejected_total"] - len(named)
        refuse("lines were rejected, and the others taken", *named, *([f"and {more} more"] if more else []))


def _import_part(api: Api, part: Part) -> dict[str, Any]:
    """Import a part; where that is refused, say what was taken before."""
    gives = ("added", "already", "rejected", "rejected_total")
    try:
        return api.call("POST", f"{_PATH}/import", *gives, csv=part.text)[1]
    except RefusedError as refusal:
        if not part.is_first:
            taken = f"the lines up to {part.before} were taken; importing the whole file again is safe"
            refuse(refusal.line, *refusal.details, taken)
        raise


@app.command("export")
def export_suppressions(
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="Written whole or not at all; left out or -: standard output.")
    ] = STDIN,
) -> None:
    """Write the suppressions that hold as CSV, oldest first: the address, its scope, the reason and the time.

    Example: fencepost suppression export suppressions.csv
    """
    if file == STDIN:
        with connected(SUPPRESSIONS) as api, api.download(f"{_PATH}/export") as text:
            for piece in text:
                print(piece, end="")
        return
    count = -1
    with written_whole("FILE", file) as out, connected(SUPPRESSIONS) as api, api.download(f"{_PATH}/export") as text:
        for piece in text:
            out.write(piece)
            count += piece.count("\n")
    say(f"{count} suppressions are in the file")
