"""`fencepost message`: showing, listing and following messages of a real stack."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.commands.conftest import SEND, CommandLine, new_name
from tests.dev.running_stack import RunningStack
from tests.waiting import until


@pytest.fixture
async def paused(psql: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """Switch the provider off; at the end it is on again."""
    await psql.execute("UPDATE providers SET paused = true")
    yield psql
    await psql.execute("UPDATE providers SET paused = false")


#: No provider event follows, so that it stays where the answer took it.
SILENT = "silent@faults.example.com"


async def send(line: CommandLine, to: str = SILENT, *words: str) -> str:
    sent = await line.run(*SEND, "--to", to, *words, "--json")
    message_id: str = sent.json()["id"]
    return message_id


async def test_a_message_is_shown_whole_and_redacted(line: CommandLine) -> None:
    message = await send(line)
    await line.run("message", "watch", message)

    shown = await line.run("message", "show", message)
    as_json = await line.run("message", "show", message, "--json")

    record, recipients, attempts, timeline = shown.out.split("\n\n")
    assert f"id\t{message}\nstate\tprovider_accepted\n" in record
    assert "to\ts***@faults.example.com\t" in recipients
    assert "1\taccepted\t" in attempts
    assert [each.split("\t")[2] for each in timeline.splitlines()] == ["move", "intake", "claim", "accept"]
    assert (as_json.json()["id"], len(as_json.json()["timeline"])) == (message, 3)


@pytest.mark.parametrize("message", ["0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d", "../../healthz", "", "%2e%2e", "\udc80"])
async def test_an_unknown_message_is_one_line(line: CommandLine, message: str) -> None:
    refused = await line.run("message", "show", message)

    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "(not_found, request " in refused.err
    assert "does it belong to this key's tenant?" in refused.err


async def test_a_list_is_filtered_and_goes_on_over_pages_until_its_limit(line: CommandLine) -> None:
    tag = new_name("batch")
    sent = [await send(line, SILENT, "--tag", f"batch={tag}") for _ in range(3)]

    every = await line.run("message", "list", "--tag", f"batch={tag}", "--limit", "1000")
    two = await line.run("message", "list", "--tag", f"batch={tag}", "--limit", "2")
    as_json = await line.run("message", "list", "--tag", f"batch={tag}", "--limit", "2", "--json")

    assert [row["id"] for row in every.rows()] == sent[::-1]
    assert (every.rows()[0]["to"], every.rows()[0]["template"]) == ("s***@faults.example.com", "welcome@1")
    assert [row["id"] for row in two.rows()] == sent[:0:-1]
    assert (every.err, "there are more than these 2" in two.err) == ("", True)
    assert [each["id"] for each in as_json.json()["data"]] == sent[:0:-1]
    assert as_json.json()["next_cursor"]


async def test_a_list_longer_than_a_page_is_read_whole(line: CommandLine, psql: asyncpg.Connection) -> None:
    tenant = (await line.run("tenant", "create", new_name("Pages"), "--json")).json()["id"]
    await psql.execute(
        """INSERT INTO senders (tenant_id, key, address)
        SELECT $1, 'sender-' || number, 'a@example.com' FROM generate_series(1, 205) AS number""",
        tenant,
    )
    key = (await line.run("key", "issue", "--tenant", tenant, "--scope", "senders")).out.strip()

    listed = await line.run("sender", "list", "--json", FENCEPOST_API_KEY=key)

    assert len({each["key"] for each in listed.json()["data"]}) == 205
    assert listed.json()["next_cursor"] is None


async def test_filters_hold_together(line: CommandLine) -> None:
    purpose = new_name("p").replace("-", "_")
    message = await send(line, SILENT, "--purpose", purpose)
    await line.run("message", "watch", message)
    created = (await line.run("message", "show", message, "--json")).json()["created_at"]

    async def listed(*words: str) -> list[str]:
        found = await line.run("message", "list", "--purpose", purpose, *words)
        assert found.status == 0, found.err
        return [row["id"] for row in found.rows()]

    assert await listed("--state", "provider_accepted", "--created-after", created) == [message]
    assert await listed("--state", "dead") == []
    assert await listed("--created-before", created) == []


@pytest.mark.parametrize(
    ("to", "state", "status"),
    [
        (SILENT, "provider_accepted", 0),
        ("reset@faults.example.com", "ambiguous", 1),
        ("reject@faults.example.com", "dead", 1),
    ],
)
async def test_watching_ends_where_the_machine_has_nothing_more_to_do(
    line: CommandLine, to: str, state: str, status: int
) -> None:
    message = await send(line, to)

    watched = await line.run("message", "watch", message, "--timeout", "50")
    as_json = await line.run("message", "watch", message, "--json")

    assert (watched.status, as_json.status) == (status, status)
    assert watched.rows()[-1]["to"] == state
    assert [json.loads(each)["seq"] for each in as_json.out.splitlines()] == [1, 2, 3]
    assert (f"the message is {state}: " in watched.err) == (status == 1)


async def test_watching_ends_when_its_time_is_over(line: CommandLine, paused: asyncpg.Connection) -> None:
    message = await send(line)

    watched = await line.run("message", "watch", message, "--timeout", "0.7")

    assert (watched.status, watched.rows()[-1]["to"]) == (1, "queued"), paused
    assert watched.err == "fencepost: the message is still queued; it goes on without this command\n"


@contextlib.asynccontextmanager
async def watching(line: CommandLine, message: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Watch a message until its first line is there."""
    process = await line.start("message", "watch", message, "--json")
    try:
        assert process.stdout
        assert json.loads(await process.stdout.readline())["to"] == "queued"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_watching_goes_on_over_a_restart_of_the_api(
    line: CommandLine, stack: RunningStack, paused: asyncpg.Connection
) -> None:
    message = await send(line)

    async with watching(line, message) as process:
        before = stack.pid("api")
        os.kill(before, signal.SIGKILL)
        await until(lambda: stack.pid("api") not in (0, before), within=10)
        await paused.execute("UPDATE providers SET paused = false")
        out, err = await asyncio.wait_for(process.communicate(), 40)

    assert (process.returncode, err) == (0, b"")
    assert json.loads(out.splitlines()[-1])["to"] == "provider_accepted"


async def test_ctrl_c_ends_a_command_quietly(line: CommandLine, paused: asyncpg.Connection) -> None:
    message = await send(line)

    async with watching(line, message) as process:
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 10)

    assert (process.returncode, out, err) == (130, b"", b""), paused


async def test_a_reader_that_goes_away_ends_a_command_quietly(line: CommandLine) -> None:
    message = await send(line)
    await line.run("message", "watch", message)

    process = await line.start("message", "show", message)
    assert process.stdout
    process.stdout._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001  (as `head` does)
    assert process.stderr
    err = await process.stderr.read()

    assert (await process.wait(), err) == (1, b"")
