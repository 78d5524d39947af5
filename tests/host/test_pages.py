"""The pages as a browser shows them, with Debian's Chromium."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.dev.folders import open_folder
from tests.dev.free_ports import free_base
from tests.dev.running_simulator import RunningSimulator, running_simulator
from tests.dev.running_stack import running

pytestmark = pytest.mark.host

#: Without these it looks for Google's hosts at every start, and keeps connections of its own.
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


async def shown(url: str, profile: Path) -> str:
    """Give a page's document after its scripts have run, as the browser has it."""
    browser = shutil.which("chromium")
    assert browser, "chromium is missing: .ci/run installs it (apt-get install chromium)"
    process = await asyncio.create_subprocess_exec(
        *(browser, *QUIET, f"--user-data-dir={profile}", "--virtual-time-budget=10000", "--dump-dom", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    return output.decode()


@pytest.fixture
async def simulator() -> AsyncIterator[RunningSimulator]:
    with open_folder() as folder:
        async with running_simulator(folder) as simulator:
            yield simulator


async def test_the_simulators_page_shows_a_mail_and_runs_no_script_of_it(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    await simulator.submit(
        "ada@example.com",
        subject="<script>document.title='ran'</script>",
        html="<script>top.document.title='ran'</script>",
    )
    page = str(simulator.control.base_url)
    (mail,) = (await simulator.control.get("/_sim/submissions")).json()["data"]

    listed = await shown(page, tmp_path / "list")
    opened = await shown(f"{page.rstrip('/')}/mail/{mail['id']}", tmp_path / "mail")

    for document in (listed, opened):
        assert "ada@example.com" in document
        assert "&lt;script&gt;" in document
        assert "<title>ran" not in document


async def test_the_api_documentation_is_drawn_without_anything_from_elsewhere(tmp_path: Path) -> None:
    with open_folder() as folder:
        options = ("--port-base", str(free_base()), "--no-first-message")
        async with running(folder / "here", *options) as stack:
            document = await shown(f"{stack.describe()['api_url']}/docs", tmp_path / "docs")

    assert "Send a message" in document
    assert "/v1/messages/{message_id}" in document
    assert "https://" not in document.replace("https://swagger.io", "")
