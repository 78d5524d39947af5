"""`fencepost suppression`, against the API; and files that are split, or written whole."""

import csv
import io
import json
import socket
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from api.commands.suppression_files import MAX_PART_BYTES, MAX_PART_RECORDS, split
from api.csv_records import UnreadableCsvError, records
from tests.activities import scripted_server as server
from tests.commands.conftest import CommandLine, new_name

HEADER = "address,scope,reason,created_at\r\n"


def breaks_off(connection: socket.socket) -> None:
    """Answer with the beginning of a list, and go away."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/csv; charset=utf-8\r\nContent-Length: 9999\r\n\r\n"
    connection.sendall(f"{head}{HEADER}ada@example.com,all,".encode())
    connection.shutdown(socket.SHUT_RDWR)


def at(url: str) -> dict[str, str]:
    return {"FENCEPOST_API_URL": url, "FENCEPOST_API_KEY": "fp_test_canary"}


async def test_an_address_is_suppressed_found_and_removed(line: CommandLine) -> None:
    address = f"{new_name('Ada')}@example.com"

    first = await line.run("suppression", "add", address, "--scope", "newsletter")
    again = await line.run("suppression", "add", address.lower(), "--scope", "newsletter", "--json")
    listed = await line.run("suppression", "list", "--address", address.upper())
    removed = await line.run("suppression", "remove", again.json()["id"], "--reason", "it works again", "--json")
    nothing = await line.run("suppression", "list", "--address", address, "--json")

    (row,) = first.rows()
    assert (row["address"], row["scope"], row["reason"]) == (address, "newsletter", "manual")
    assert (again.status, again.err) == (0, "fencepost: this address was suppressed already\n")
    assert again.json()["address"] == address
    assert listed.rows() == [row]
    assert (removed.status, removed.json()) == (0, {"id": row["id"], "state": "removed"})
    assert removed.err == "fencepost: the suppression is removed\n"
    assert nothing.json() == {"data": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "canary"), "  /address: This is not one mail address"),
        (("add", "a@example.com", "--scope", "Canary"), "  /scope: This has to match"),
        (("list", "--address", "canary"), "  /address: This is not one mail address"),
        (("remove", "canary", "--reason", "x"), "(not_found, request "),
        (("remove", "canary", "--reason", " "), "  /reason: A reason is one line"),
    ],
    ids=str,
)
async def test_what_makes_no_sense_is_refused(line: CommandLine, words: tuple[str, ...], why: str) -> None:
    refused = await line.run("suppression", *words)

    assert (refused.status, refused.out, why in refused.err) == (1, "", True), refused.err
    assert "canary" not in refused.err.lower()


async def test_a_file_is_brought_in_and_taken_out_again(line: CommandLine, tmp_path: Path) -> None:
    """Six thousand lines, which are more than one request."""
    domain = f"{new_name('d')}.example.com"
    lines = [f"{number}@{domain},x" for number in range(6000)]
    lines[5500] = "canary,x"
    (tmp_path / "in.csv").write_text("\ufeffaddress,scope\r\n" + "\r\n".join(lines) + "\r\n", encoding="utf-8")
    out = tmp_path / "out.csv"

    brought = await line.run("suppression", "import", str(tmp_path / "in.csv"))
    again = await line.feed(b"address\n1@example.com\n", "suppression", "import", "-", "--json")
    taken = await line.run("suppression", "export", str(out))
    shown = await line.run("suppression", "export")

    assert (brought.status, brought.out) == (1, "added\talready\trejected\n5999\t0\t1\n")
    assert brought.err.splitlines() == [
        "fencepost: lines were rejected, and the others taken",
        "  line 5502: address_invalid",
    ]
    assert (again.status, again.json()) == (0, {"added": 1, "already": 0, "rejected": [], "rejected_total": 0})
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"), newline="")))
    assert sum(row["address"].endswith(domain) for row in rows) == 5999
    assert (taken.status, taken.out) == (0, "")
    assert taken.err == f"fencepost: {len(rows)} suppressions are in the file\n"
    assert out.stat().st_mode & 0o777 == 0o600
    assert shown.out.splitlines() == out.read_text(encoding="utf-8").splitlines()


async def test_a_list_that_breaks_off_leaves_the_old_file(nowhere: CommandLine) -> None:
    file = nowhere.folder / "list.csv"
    file.write_text("kept")
    with server.serving(breaks_off) as api:
        broken = await nowhere.run("suppression", "export", "list.csv", **at(api.url))

    assert (broken.status, "gave no whole answer" in broken.err) == (1, True), broken.err
    assert file.read_text() == "kept"
    assert [each.name for each in nowhere.folder.iterdir()] == ["list.csv"]


async def test_what_is_no_list_is_told(nowhere: CommandLine) -> None:
    with server.serving(server.answer(200, b"<html>")) as api:
        strange = await nowhere.run("suppression", "export", **at(api.url))

    assert (strange.status, strange.out, "isn't this API" in strange.err) == (1, "", True)


async def test_what_was_taken_before_a_refusal_is_told(nowhere: CommandLine) -> None:
    file = nowhere.folder / "list.csv"
    file.write_text("address\n" + "".join(f"{number}@example.com\n" for number in range(MAX_PART_RECORDS + 1)))
    taken = {"added": MAX_PART_RECORDS, "already": 0, "rejected": [], "rejected_total": 0}
    away = {"title": "Away.", "code": "unavailable", "request_id": "r17"}
    answers = iter([server.answer(200, json.dumps(taken).encode()), server.answer(503, json.dumps(away).encode())])

    def answer_in_turn(connection: socket.socket) -> None:
        next(answers)(connection)

    with server.serving(answer_in_turn) as api:
        refused = await nowhere.run("suppression", "import", "list.csv", **at(api.url))

    assert (refused.status, refused.out) == (1, "")
    assert refused.err.splitlines()[1:] == [
        f"  the lines up to {MAX_PART_RECORDS + 1} were taken; importing the whole file again is safe"
    ]


@given(
    lines=st.lists(st.sampled_from(["a@example.com", "", '"x\ny",all', "ä" * 40_000, '"a,b"', "  "]), max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_the_parts_of_a_file_hold_its_records_once_and_know_their_lines(lines: list[str], end: str) -> None:
    text = end.join(["", "address", *lines])

    parts = split(text)

    found = [
        (part.line_in_file(each.first), each.cells)
        for part in parts
        for each in list(records(part.text))[1:]  # without the header
    ]
    assert found == [(each.first, each.cells) for each in records(text)][1:]
    assert all(len(part.text.encode()) <= MAX_PART_BYTES + 100 for part in parts)


@pytest.mark.parametrize("text", ["", "\n\n", "address\n", "address", "\ufeff"])
def test_a_file_without_records_is_one_part_for_the_api_to_judge(text: str) -> None:
    (part,) = split(text)

    assert part.text == text.removeprefix("\ufeff")


def test_a_file_that_is_no_csv_is_not_split() -> None:
    with pytest.raises(UnreadableCsvError):
        split('address\na@example.com\n"b@example.com\n')
