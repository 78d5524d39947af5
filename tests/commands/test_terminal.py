"""Commands at a terminal: tables, times for people, and a word where something takes long."""

import asyncio
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.activities import scripted_server as server
from tests.commands.conftest import SEND, CommandLine
from tests.dev.running_stack import ROOT
from tests.waiting import until


@dataclass(slots=True)
class Terminal:
    """A command at a terminal, and what stands on the screen."""

    process: asyncio.subprocess.Process
    screen: bytes = field(default=b"")

    def take(self, master: int) -> None:
        try:
            self.screen += os.read(master, 65536)
        except OSError:  # the command has closed its end
            asyncio.get_running_loop().remove_reader(master)

    @property
    def text(self) -> str:
        """The screen without its colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.screen.decode()).replace("\r\n", "\n")


@asynccontextmanager
async def terminal(line: CommandLine, *words: str, **environment: str) -> AsyncIterator[Terminal]:
    """Run a command at a terminal of its own."""
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", *words),
        cwd=line.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = Terminal(process)
    asyncio.get_running_loop().add_reader(master, shown.take, master)
    try:
        yield shown
    finally:
        asyncio.get_running_loop().remove_reader(master)
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(master)


async def test_a_terminal_gets_aligned_tables_and_times_for_people(line: CommandLine) -> None:
    async with terminal(line, "sender", "list") as shown:
        await until(lambda: "hello@demo.example.com" in shown.text, within=20)
        assert await asyncio.wait_for(shown.process.wait(), 10) == 0

    assert b"\x1b[1m" in shown.screen
    heading, *rows = (each.rstrip() for each in shown.text.splitlines())
    (demo,) = [row for row in rows if row.startswith("demo ")]
    assert demo.index("hello@demo.example.com") == heading.index("address")
    assert re.search(r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z$", demo)


async def test_a_message_at_a_terminal_has_a_title_over_each_table(line: CommandLine) -> None:
    message = (await line.run(*SEND, "--to", "ada@example.com", "--json")).json()["id"]
    await line.run("message", "watch", message)

    async with terminal(line, "message", "show", message) as shown:
        assert await asyncio.wait_for(shown.process.wait(), 20) == 0
        await until(lambda: "accept " in shown.text, within=5)

    assert re.search(rf"^id +{message}$", shown.text, re.MULTILINE)
    assert [title for title in ("recipients", "attempts", "timeline") if f"\n{title} " in shown.text] == [
        "recipients",
        "attempts",
        "timeline",
    ]


async def test_a_command_at_a_terminal_says_what_it_waits_for(nowhere: CommandLine) -> None:
    with server.serving(server.hang) as api:
        environment = {"FENCEPOST_API_URL": api.url, "FENCEPOST_API_KEY": "fp_test_x"}
        async with terminal(nowhere, "sender", "create", "x", "--address", "x@example.com", **environment) as shown:
            await until(lambda: f"fencepost: waiting for the API at {api.url} ...\n" in shown.text, within=20)
            shown.process.send_signal(signal.SIGINT)
            status = await asyncio.wait_for(shown.process.wait(), 10)

    assert (status, shown.text.count("\n")) == (130, 1)
