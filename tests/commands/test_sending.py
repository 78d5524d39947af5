"""`fencepost send`: one message, whatever happens on the way, and how to repeat it."""

import json
import re
from pathlib import Path
from uuid import uuid4

import pytest

from tests.activities import scripted_server as server
from tests.commands.conftest import SEND, CommandLine
from tests.dev.running_stack import RunningStack

MADE_KEY = re.compile(r"the idempotency key is (\S+); the same command with --idempotency-key \1 is safe to repeat")


def at(url: str) -> dict[str, str]:
    return {"FENCEPOST_API_URL": url, "FENCEPOST_API_KEY": "fp_test_canary"}


async def test_a_message_is_sent_with_all_that_it_may_have(line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "context").write_text('{"name": "Ada"}')

    sent = await line.run(
        *("send", "--to", "Ada <ada@example.com>", "--sender", "demo", "--template", "welcome@1"),
        *("--context-file", str(tmp_path / "context"), "--cc", "bob@example.com", "--bcc", "eve@example.com"),
        *("--reply-to", "help@example.com", "--header", "X-Order=a=17", "--tag", "order=17", "--purpose", "receipts"),
        "--json",
    )

    message = sent.json()
    assert (sent.status, message["state"], message["purpose"]) == (0, "queued", "receipts")
    assert message["tags"] == {"order": "17"}
    assert [each["role"] for each in message["recipients"]] == ["to", "cc", "bcc"]


async def test_a_key_that_nobody_named_is_told_and_repeats_the_very_same_command(line: CommandLine) -> None:
    first = await line.run(*SEND, "--to", "ada@example.com")
    key = MADE_KEY.search(first.err)
    assert key

    again = await line.run(*SEND, "--to", "ada@example.com", "--idempotency-key", key[1])

    assert (first.status, again.status) == (0, 0)
    assert again.rows()[0]["id"] == first.rows()[0]["id"]
    assert again.err == "fencepost: this command was accepted before; this is its message as it now stands\n"


async def test_a_key_of_another_command_is_a_conflict(line: CommandLine) -> None:
    key = str(uuid4())
    await line.run(*SEND, "--to", "ada@example.com", "--idempotency-key", key)

    refused = await line.run(*SEND, "--to", "bob@example.com", "--idempotency-key", key)

    assert (refused.status, "(idempotency_conflict, request " in refused.err) == (1, True)
    assert "another --idempotency-key" in refused.err


async def test_every_fault_of_a_command_is_told_with_its_pointer(line: CommandLine) -> None:
    refused = await line.run(*SEND, "--to", "canary", "--cc", "canary", "--tag", "order=a b")

    assert refused.status == 1
    faults = [each.partition(": ")[0] for each in refused.err.splitlines() if each.startswith("  ")]
    assert faults == ["  /to", "  /cc/0", "  /tags"]
    assert "canary" not in refused.err


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("--template", "nothing@1"), "(template_not_found, request "),
        (("--sender", "nobody"), "Fix: `fencepost sender list` shows what there is."),
    ],
    ids=str,
)
async def test_what_a_command_names_has_to_be_there(line: CommandLine, words: tuple[str, str], fix: str) -> None:
    refused = await line.run(*SEND, "--to", "ada@example.com", *words)

    assert (refused.status, fix in refused.err) == (1, True), refused.err


@pytest.mark.parametrize(
    "script",
    [
        server.close,
        server.reset,
        server.cut,
        server.answer(
            503, b'{"title": "Away.", "code": "unavailable", "request_id": "r1"}', headers="Retry-After: 2\r\n"
        ),
        server.answer(502, b"<html>"),
        server.answer(202, b"<html>"),
        server.answer(200, b'{"status": "ok"}'),
    ],
    ids=["close", "reset", "cut", "503", "502", "202", "200"],
)
async def test_a_lost_answer_is_told_with_how_to_repeat_the_command_safely(
    nowhere: CommandLine, script: server.Script
) -> None:
    with server.serving(script) as api:
        lost = await nowhere.run(*SEND, "--to", "canary@example.com", **at(api.url))

    key = MADE_KEY.search(lost.err)
    assert (lost.status, lost.out, key is not None) == (1, "", True), lost.err
    assert key
    assert f"repeating exactly this command with --idempotency-key {key[1]} is safe" in lost.err
    assert "canary" not in lost.err
    (request,) = api.requests
    assert f"idempotency-key: {key[1]}\r\n".encode() in request.lower()


async def test_the_key_is_told_before_anything_is_sent(nowhere: CommandLine) -> None:
    with server.serving(server.hang) as api:
        process = await nowhere.start(*SEND, "--to", "ada@example.com", **at(api.url))
        assert process.stderr
        told = await process.stderr.readline()
        process.kill()
        await process.communicate()

    assert MADE_KEY.search(told.decode())


async def test_an_api_that_is_away_is_told_with_its_address(nowhere: CommandLine) -> None:
    lost = await nowhere.run(*SEND, "--to", "ada@example.com", "--idempotency-key", "k 1", **at("http://127.0.0.1:1"))

    assert lost.status == 1
    assert lost.err == (
        "fencepost: the API can't be reached at http://127.0.0.1:1: is it running, and is FENCEPOST_API_URL right?\n"
        "fencepost: repeating exactly this command with --idempotency-key 'k 1' is safe: it was accepted or not, and no"
        " second mail is sent\n"
    )


async def test_a_message_is_sent_and_followed(line: CommandLine) -> None:
    plain = await line.run(*SEND, "--to", "silent@faults.example.com", "--watch")
    as_json = await line.run(*SEND, "--to", "silent@faults.example.com", "--watch", "--json")

    assert (plain.status, plain.rows()[-1]["to"]) == (0, "provider_accepted")
    assert re.search("the message is [0-9a-f-]{36}\n", plain.err)
    message, *lines = map(json.loads, as_json.out.splitlines())
    assert (message["id"], lines[0]["to"], lines[-1]["to"]) == (message["id"], "queued", "provider_accepted")


async def test_nothing_of_the_environment_leads_a_command_elsewhere(line: CommandLine, stack: RunningStack) -> None:
    sent = await line.run(
        *SEND, "--to", "ada@example.com", http_proxy="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1"
    )

    assert sent.status == 0, stack.screen.read_text()
