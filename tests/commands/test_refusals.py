"""What commands say when they can't do what was asked: one line that names the fix, and never a traceback."""

import json
import os

import pytest

from api.problems import ERRORS, Code
from tests.activities import scripted_server as server
from tests.commands.conftest import SEND, CommandLine
from tests.dev.running_stack import RunningStack

CREATE = ("sender", "create", "canary", "--address", "canary@example.com")


def at(url: str) -> dict[str, str]:
    return {"FENCEPOST_API_URL": url, "FENCEPOST_API_KEY": "fp_test_canary"}


def refusal(code: Code, headers: str = "") -> server.Script:
    """Answer as the API does, where a test can't bring it to do so itself."""
    status, title = ERRORS[code]
    return server.answer(
        status, json.dumps({"title": title, "code": code, "request_id": "r17"}).encode(), headers=headers
    )


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (("sender", "list"), "FENCEPOST_API_KEY"),
        (("message", "show", "x"), "FENCEPOST_API_KEY"),
        (("tenant", "list"), "FENCEPOST_OPERATOR_KEY"),
        (("key", "list", "--tenant", "demo"), "FENCEPOST_OPERATOR_KEY"),
    ],
    ids=str,
)
async def test_a_wrong_key_and_a_missing_one_are_told_with_their_variable(
    line: CommandLine, nowhere: CommandLine, words: tuple[str, ...], variable: str
) -> None:
    wrong = await line.run(*words, **{variable: "fp_test_canary"})
    missing = await nowhere.run(*words)

    assert (wrong.status, wrong.err.count("\n")) == (1, 1)
    assert "(unauthenticated, request " in wrong.err
    assert f"Fix: set {variable} to a key that is valid here." in wrong.err
    assert "canary" not in wrong.err
    assert (missing.status, missing.err.startswith(f"fencepost: an API key is missing: set {variable} ")) == (2, True)


@pytest.mark.parametrize(
    ("words", "scope"),
    [
        (("sender", "list"), "senders"),
        (("template", "list"), "templates"),
        (("message", "list"), "messages:read"),
        ((*SEND, "--to", "a@example.com"), "messages:send"),
        ((*SEND, "--to", "a@example.com", "--watch"), "messages:send and messages:read"),
    ],
    ids=str,
)
async def test_a_lacking_scope_is_told_by_its_name(line: CommandLine, words: tuple[str, ...], scope: str) -> None:
    key = (await line.run("key", "issue", "--tenant", "demo", "--scope", "suppressions")).out.strip()

    refused = await line.run(*words, FENCEPOST_API_KEY=key)

    assert (refused.status, "(forbidden, request " in refused.err) == (1, True)
    assert f"Fix: this command needs a key with {scope} in FENCEPOST_API_KEY." in refused.err
    assert key not in refused.err


async def test_a_tenant_that_is_switched_off_is_told_with_who_can_switch_it_on(line: CommandLine) -> None:
    tenant = (await line.run("tenant", "create", "Off", "--json")).json()["id"]
    key = (await line.run("key", "issue", "--tenant", tenant, "--scope", "senders")).out.strip()
    await line.run("tenant", "disable", tenant)

    refused = await line.run(*CREATE, FENCEPOST_API_KEY=key)

    assert (refused.status, "an operator switches it on: `fencepost tenant enable ID`" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (refusal(Code.RATE_LIMITED, "Retry-After: 3\r\n"), "(rate_limited, request r17) Fix: try again in 3 s."),
        (refusal(Code.UNAVAILABLE, "Retry-After: 2\r\n"), "(unavailable, request r17) Fix: try again in 2 s."),
        (refusal(Code.INTERNAL), "Something is wrong on our side; the request id finds it in the log. (internal, "),
        (server.answer(301, b"", headers="Location: http://canary/\r\n"), "(with 301) isn't this API"),
        (server.answer(404, b"<html>"), "(with 404) isn't this API"),
        (server.answer(200, b"[]"), "(with 200) isn't this API"),
        (server.answer(200, b'{"version": "1"}'), "(with 200) isn't this API"),
        (server.answer(201, b"\xff"), "(with 201) isn't this API"),
        (server.close, "gave no whole answer"),
    ],
    ids=["429", "503", "500", "301", "404", "array", "other", "bytes", "close"],
)
async def test_whatever_answers_is_one_line(nowhere: CommandLine, script: server.Script, said: str) -> None:
    with server.serving(script) as api:
        refused = await nowhere.run(*CREATE, **at(api.url))

    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert said in refused.err
    assert "canary" not in refused.err
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("words", "look"),
    [
        (("tenant", "create", "canary"), "fencepost tenant list"),
        (("key", "issue", "--tenant", "x", "--scope", "senders"), "fencepost key list"),
        (("key", "rotate", "--tenant", "x", "canary"), "fencepost key list"),
    ],
    ids=str,
)
async def test_what_is_made_anew_each_time_is_not_repeated_blindly(
    nowhere: CommandLine, words: tuple[str, ...], look: str
) -> None:
    with server.serving(server.close) as api:
        lost = await nowhere.run(*words, **at(api.url))

    assert lost.status == 1
    assert f"\n  it may have been done all the same: look at `{look}` before you repeat it\n" in lost.err


@pytest.mark.parametrize("words", [CREATE, ("sender", "list"), ("message", "watch", "x")], ids=str)
async def test_an_api_that_is_away_is_one_line(nowhere: CommandLine, words: tuple[str, ...]) -> None:
    refused = await nowhere.run(*words, **at("http://127.0.0.1:1"))

    assert refused.status == 1
    assert refused.err == (
        "fencepost: the API can't be reached at http://127.0.0.1:1: is it running, and is FENCEPOST_API_URL right?\n"
    )


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("FENCEPOST_API_URL", "canary", "it has to look like http://127.0.0.1:7480"),
        ("FENCEPOST_API_URL", "ftp://canary", "it has to look like http://127.0.0.1:7480"),
        ("FENCEPOST_API_URL", "http://somebody:canary@127.0.0.1", "it has to look like http://127.0.0.1:7480"),
        ("FENCEPOST_API_URL", "http://canary:99999", "it has to look like http://127.0.0.1:7480"),
        ("FENCEPOST_API_URL", "http://:80", "it has to look like http://127.0.0.1:7480"),
        ("FENCEPOST_API_URL", "http://canary?x", "it has to look like http://127.0.0.1:7480"),
        ("FENCEPOST_API_KEY", "fp_test canary", "it has to look like fp_live_..."),
        ("FENCEPOST_API_KEY", "fp_test_canäry", "it has to look like fp_live_..."),
        ("FENCEPOST_OPERATOR_KEY", "fp_test\r\ncanary: 1", "it has to look like fp_live_..."),
    ],
    ids=str,
)
async def test_a_setting_that_can_not_be_used_is_told(nowhere: CommandLine, name: str, value: str, fix: str) -> None:
    refused = await nowhere.run("tenant", "list", **{name: value})

    assert (refused.status, refused.err.splitlines()[0]) == (2, f"fencepost: {name}: {fix}")
    assert "can" not in refused.err.replace("can't", "").replace(fix, "")


async def test_a_path_may_stand_before_the_api(nowhere: CommandLine) -> None:
    with server.serving(server.answer(201, b'{"key": "k", "state": "active"}')) as api:
        made = await nowhere.run(*CREATE, **at(f"{api.url}/mail/"))

    assert made.status == 0
    assert api.requests[0].startswith(b"POST /mail/v1/senders HTTP/1.1\r\n")


async def test_what_the_api_answers_can_not_steer_a_terminal(nowhere: CommandLine) -> None:
    body = b'{"key": "a\\u001b[31m\\u009b", "name": "b\\nc\\td", "address": null, "updated_at": 1}'
    with server.serving(server.answer(201, body)) as api:
        made = await nowhere.run(*CREATE, **at(api.url))

    assert made.rows() == [
        {"key": "a?[31m?", "state": "", "address": "", "name": "b c d", "reply_to": "", "updated_at": "1"}
    ]


async def test_text_that_the_output_has_no_letters_for_is_no_traceback(nowhere: CommandLine) -> None:
    with server.serving(server.answer(201, '{"key": "k", "name": "Acmé"}'.encode())) as api:
        made = await nowhere.run_process(*CREATE, **at(api.url), PYTHONIOENCODING="ascii")

    assert (made.status, made.rows()[0]["name"]) == (0, "Acm\\xe9")


async def test_a_key_stays_with_the_api_that_it_belongs_to(line: CommandLine) -> None:
    tenants = await line.run("sender", "list", FENCEPOST_API_URL="http://127.0.0.1:1")
    operators = await line.run("tenant", "list", FENCEPOST_API_URL="http://127.0.0.1:1")
    pepper = await line.run("key", "issue", "--operator", FENCEPOST_DATABASE_URL="postgresql://x@127.0.0.1:1/x")

    assert tenants.err == "fencepost: an API key is missing: set FENCEPOST_API_KEY to a tenant's\n"
    assert operators.err == "fencepost: an API key is missing: set FENCEPOST_OPERATOR_KEY to an operator's\n"
    assert "FENCEPOST_KEY_PEPPER: missing" in pepper.err
    assert {tenants.status, operators.status, pepper.status} == {2}


@pytest.mark.parametrize("content", ["{", "[]", '{"pids": {}}'])
async def test_a_description_of_a_stack_that_says_nothing_is_none(nowhere: CommandLine, content: str) -> None:
    (nowhere.folder / ".fencepost").mkdir()
    (nowhere.folder / ".fencepost" / "dev.json").write_text(content)

    refused = await nowhere.run("sender", "list")

    assert (refused.status, "an API key is missing" in refused.err) == (2, True)


@pytest.mark.host
async def test_a_stack_of_another_user_is_not_given_ones_own_key(nowhere: CommandLine) -> None:
    with server.serving(server.answer(201, b'{"key": "k"}')) as api:
        told = nowhere.folder / ".fencepost" / "dev.json"
        told.parent.mkdir()
        told.write_text(json.dumps({"api_url": api.url}))
        own = await nowhere.run(*CREATE, FENCEPOST_API_KEY="fp_test_canary")
        os.chown(told, 65534, -1)
        await nowhere.run(*CREATE, FENCEPOST_API_KEY="fp_test_canary")

    assert (own.status, len(api.requests)) == (0, 1)


async def test_the_stack_that_is_found_is_the_one_that_is_told(line: CommandLine, stack: RunningStack) -> None:
    listed = await line.run("sender", "list", FENCEPOST_API_URL=stack.describe()["api_url"])

    assert (listed.status, "demo" in [row["key"] for row in listed.rows()]) == (0, True)
