"""The simulator's page: the mail is there to be read, and nothing in it can act."""

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape

import pytest
from botocore.exceptions import ClientError

from tests.dev.running_simulator import SEND_EMAIL, RunningSimulator, a_request, running_simulator


@pytest.fixture(scope="module")
async def shared_simulator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningSimulator]:
    async with running_simulator(tmp_path_factory.mktemp("simulator")) as running:
        yield running


@pytest.fixture
async def simulator(shared_simulator: RunningSimulator) -> RunningSimulator:
    await shared_simulator.post("/_sim/reset")
    return shared_simulator


HOSTILE = "\"><script>alert('x')</script>"


async def test_the_page_says_what_it_is_even_without_mail(simulator: RunningSimulator) -> None:
    page = await simulator.control.get("/")

    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "For development and tests." in page.text
    assert "nothing here is sent to anybody" in page.text
    assert "Nothing yet." in page.text
    assert simulator.endpoint_url in unescape(page.text)


async def test_the_page_lists_the_newest_mail_first(simulator: RunningSimulator) -> None:
    message_id = await simulator.submit("ada@example.com", subject="First", tags={"order": "17"})
    with pytest.raises(ClientError):
        await simulator.submit("reject@faults.example.com", subject="Second")

    page = (await simulator.control.get("/")).text

    assert page.index("reject@faults.example.com") < page.index("ada@example.com")
    assert page.index(">rejected<") < page.index(">accepted<")
    assert all(part in page for part in ("First", "order: 17", str(message_id), "Demo &lt;hello@demo.example.com&gt;"))


async def test_the_page_lists_at_most_200(simulator: RunningSimulator) -> None:
    await asyncio.gather(*(simulator.endpoint.post(SEND_EMAIL, json=a_request()) for _ in range(201)))

    page = (await simulator.control.get("/")).text

    assert len(await simulator.submissions()) == 201
    assert page.count('class="mail"') == 200
    assert "the newest 200" in page


async def test_the_page_says_when_the_endpoint_is_stopped(simulator: RunningSimulator) -> None:
    await simulator.post("/_sim/stop")

    page = (await simulator.control.get("/")).text

    assert "refuses connections" in page


async def test_a_mail_has_a_page_with_all_that_it_said(simulator: RunningSimulator) -> None:
    message_id = await simulator.submit(
        "Ada <ada@example.com>",
        cc=["bob@example.com"],
        bcc=["carol@example.com"],
        headers={"X-Order": "17"},
        tags={"order": "17"},
        subject="Grüße",
        html="<h1>Hello</h1>",
    )
    link = re.search(r'href="(/mail/\d+)">Grüße<', (await simulator.control.get("/")).text)
    assert link is not None

    page = unescape((await simulator.control.get(link[1])).text)

    wanted = (
        "Grüße",
        ">accepted<",
        "Ada <ada@example.com>",
        "bob@example.com",
        "carol@example.com",
        "help@demo.example.com",
        str(message_id),
        "fencepost",
        "order: 17",
        "<dt>X-Order</dt><dd>17</dd>",
        "<pre>Hello</pre>",
        "<h1>Hello</h1>",
    )
    assert [part for part in wanted if part not in page] == []


async def test_nothing_in_a_mail_becomes_markup(simulator: RunningSimulator) -> None:
    await simulator.submit(
        f'"{HOSTILE.replace(chr(34), "")}" <ada@example.com>',
        subject=HOSTILE,
        html=HOSTILE,
        headers={"X-Order": HOSTILE},
    )
    [submission] = await simulator.submissions()

    pages = [(await simulator.control.get(path)).text for path in ("/", f"/mail/{submission['id']}")]

    assert all("<script" not in page for page in pages)
    assert all(HOSTILE in unescape(page) for page in pages)


async def test_the_html_part_is_shut_in_a_frame_with_a_policy_of_its_own(simulator: RunningSimulator) -> None:
    await simulator.submit("ada@example.com", html="<p>Hello")
    [submission] = await simulator.submissions()

    page = await simulator.control.get(f"/mail/{submission['id']}")

    [frame] = re.findall(r"<iframe [^>]*>", page.text)
    content = re.search(r'srcdoc="([^"]*)"', frame)
    assert content is not None
    assert " sandbox " in frame
    assert "allow-" not in frame
    assert re.search(
        r"http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; .*<p>Hello$", unescape(content[1])
    )
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "script-src" not in page.headers["Content-Security-Policy"]


async def test_the_list_runs_under_a_strict_policy(simulator: RunningSimulator) -> None:
    page = await simulator.control.get("/")

    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-inline" not in policy
    assert not re.search(r"(src|href)=\"(https?:)?//", page.text)


async def test_a_request_that_could_not_be_read_is_shown_too(simulator: RunningSimulator) -> None:
    await simulator.endpoint.post(SEND_EMAIL, content=b"{")
    [submission] = await simulator.submissions()

    pages = [await simulator.control.get(path) for path in ("/", f"/mail/{submission['id']}")]

    assert [page.status_code for page in pages] == [200, 200]
    assert all("(no subject)" in page.text for page in pages)


@pytest.mark.parametrize(("path", "status"), [("/mail/0", 404), ("/mail/none", 404), (f"/mail/{2**63}", 422)])
async def test_a_mail_that_is_not_there_is_not_found(simulator: RunningSimulator, path: str, status: int) -> None:
    page = await simulator.control.get(path)

    assert page.status_code == status
