"""Every command with words that it can't use: status 2 and one line, before anything is asked of anybody."""

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli import app
from tests.commands.conftest import SEND, CommandLine

TO = (*SEND, "--to", "canary@example.com")
PUBLISH = ("template", "publish", "welcome")
ISSUE = ("key", "issue", "--tenant", "x")
RESOLVE = ("ambiguous", "resolve", "x", "--attempt", "1")

BAD_USE = [
    (("tenant", "create"), "Missing argument 'NAME'."),
    (("tenant", "list", "canary"), "unexpected extra argument"),
    (("tenant", "disable"), "Missing argument 'ID'."),
    (("tenant", "enable"), "Missing argument 'ID'."),
    (("key", "issue"), "either --tenant ID or --operator"),
    ((*ISSUE, "--operator"), "either --tenant ID or --operator"),
    (ISSUE, "--scope: say at least one"),
    ((*ISSUE, "--scope", "senders", "--expires-at", "canary"), "--expires-at: this has to be a time with its zone"),
    ((*ISSUE, "--scope", "senders", "--expires-at", "2030-01-31"), "--expires-at: this has to be a time with its zone"),
    (("key", "issue", "--operator", "--scope", "senders"), "--scope: an operator's key has no other scope"),
    (("key", "list"), "either --tenant ID or --operator"),
    (("key", "rotate", "x"), "Missing option '--tenant'."),
    (("key", "rotate", "x", "--tenant", "x", "--overlap-seconds", "-1"), "'--overlap-seconds'"),
    (("key", "revoke", "x"), "either --tenant ID or --operator"),
    (("sender", "create", "x"), "Missing option '--address'."),
    (("sender", "list", "--nonsense"), "No such option: --nonsense"),
    (("sender", "disable"), "Missing argument 'KEY'."),
    (("sender", "enable"), "Missing argument 'KEY'."),
    (("suppression", "add"), "Missing argument 'ADDRESS'."),
    (("suppression", "list", "canary"), "unexpected extra argument"),
    (("suppression", "remove", "x"), "Missing option '--reason'."),
    (("suppression", "import"), "Missing argument 'FILE'."),
    (("suppression", "import", "canary"), "FILE: this file can't be read: No such file"),
    (("suppression", "import", "bytes"), "FILE: this file is not UTF-8"),
    (("suppression", "import", "quote"), "FILE: this is no CSV, from line 2 on: is a quote missing there?"),
    (("suppression", "export", "a", "canary"), "unexpected extra argument"),
    (("suppression", "export", "canary/x"), "FILE: this file can't be written: No such file or directory"),
    (("suppression", "export", "."), "FILE: this is something else than a file; - is standard output"),
    (("suppression", "export", "a\0b"), "FILE: this file can't be written"),
    (PUBLISH, "say --subject, and --text-file or --html-file or both; or --file"),
    ((*PUBLISH, "--subject", "x"), "say --subject, and --text-file or --html-file or both; or --file"),
    ((*PUBLISH, "--file", "-", "--subject", "x"), "--file: it stands in place of all other options"),
    ((*PUBLISH, "--subject", "x", "--text-file", "-", "--html-file", "-"), "only one option can be -"),
    ((*PUBLISH, "--subject", "x", "--text-file", "canary"), "--text-file: this file can't be read: No such file"),
    ((*PUBLISH, "--subject", "x", "--text-file", "."), "--text-file: this file can't be read: Is a directory"),
    ((*PUBLISH, "--subject", "x", "--text-file", "bytes"), "--text-file: this file is not UTF-8"),
    ((*PUBLISH, "--subject", "x", "--text-file", "a\0b"), "--text-file: this file can't be read"),
    (
        (*PUBLISH, "--subject", "x", "--text-file", "list", "--schema-file", "list"),
        "--schema-file: this has to be a JSON",
    ),
    ((*PUBLISH, "--file", "list"), "--file: this has to be a JSON object"),
    (("template", "list", "canary"), "unexpected extra argument"),
    (("template", "show", "x", "0"), "'VERSION'"),
    (("template", "preview", "x", "canary"), "'VERSION'"),
    (("template", "preview", "x", "1", "--context", "{}", "--context-file", "list"), "not both"),
    (("send",), "Missing option '--to'."),
    ((*TO, "--template", "welcome"), "--template: this has to look like KEY@VERSION"),
    ((*TO, "--template", "welcome@canary"), "--template: this has to look like KEY@VERSION"),
    ((*TO, "--context", '{"canary":\n }'), "--context: this is not JSON, at line 2, column 2"),
    ((*TO, "--context", '["canary"]'), "--context: this has to be a JSON object"),
    ((*TO, "--context", '{"canary": 1, "canary": 2}'), "--context: an object names the same member twice"),
    ((*TO, "--context", "[" * 100_000), "--context: this JSON has a number that is too long, or is nested too deeply"),
    ((*TO, "--context", f'{{"n": {"1" * 5000}}}'), "--context: this JSON has a number that is too long, or is"),
    ((*TO, "--tag", "canary"), "--tag: this has to look like NAME=VALUE"),
    ((*TO, "--tag", "a=canary", "--tag", "a=x"), "--tag: the same name is given twice"),
    ((*TO, "--header", "=canary"), "--header: this has to look like NAME=VALUE"),
    ((*TO, "--timeout", "-1"), "'--timeout'"),
    ((*TO, "--timeout", "1"), "--timeout: this goes with --watch"),
    (("ambiguous", "list", "canary"), "unexpected extra argument"),
    (("ambiguous", "resolve"), "Missing argument 'ID'."),
    (("ambiguous", "resolve", "x", "--decision", "abandon", "--reason", "x"), "Missing option '--attempt'."),
    ((*RESOLVE, "--reason", "x", "--decision", "retry"), "'--decision'"),
    ((*RESOLVE, "--decision", "abandon"), "Missing option '--reason'."),
    ((*RESOLVE, "--reason", "x", "--attempt", "0"), "'--attempt'"),
    (("provider", "list", "canary"), "unexpected extra argument"),
    (("provider", "pause"), "Missing argument 'NAME'."),
    (("provider", "resume"), "Missing argument 'NAME'."),
    (("events", "confirm", "x", "canary"), "unexpected extra argument"),
    (("events", "confirm", "--nonsense"), "No such option: --nonsense"),
    (("events", "nonsense"), "No such command 'nonsense'."),
    (("message", "show"), "Missing argument 'ID'."),
    (("message", "watch", "x", "--timeout", "soon"), "'--timeout'"),
    (("message", "list", "--state", "sent"), "'--state'"),
    (("message", "list", "--limit", "0"), "'--limit'"),
    (("message", "list", "--tag", "canary"), "--tag: this has to look like NAME=VALUE"),
    (("message", "list", "--created-after", "2030-13-01T00:00:00Z"), "--created-after: this has to be a time with"),
    (("message", "list", "--created-before", "today"), "--created-before: this has to be a time with its zone"),
]


@pytest.fixture
def somewhere(tmp_path: Path) -> CommandLine:
    (tmp_path / "list").write_text("[]")
    (tmp_path / "bytes").write_bytes(b"\xff")
    (tmp_path / "quote").write_text('address\n"canary@example.com\n')
    return CommandLine(folder=tmp_path)


@pytest.mark.parametrize(("words", "why"), BAD_USE, ids=lambda value: str(value)[:80])
async def test_bad_use_is_one_line(somewhere: CommandLine, words: tuple[str, ...], why: str) -> None:
    refused = await somewhere.run(*words)

    assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1), refused.err
    assert why in refused.err
    assert "canary" not in refused.err.replace("argument(s) (canary)", "").replace("'canary'", "")


@pytest.mark.parametrize("key", ["", " ", "a ", " a", "ä", "a\nb", "k" * 256])
async def test_an_idempotency_key_that_no_header_can_hold_is_bad_use(nowhere: CommandLine, key: str) -> None:
    refused = await nowhere.run(*TO, "--idempotency-key", key, FENCEPOST_API_KEY="fp_test_x")

    assert (refused.status, "--idempotency-key: this is 1 to 255 printable" in refused.err) == (2, True)


def test_every_command_that_talks_to_the_api_is_in_the_table() -> None:
    groups: dict[str, Any] = vars(get_command(app))["commands"]
    with_commands = ("tenant", "key", "sender", "suppression", "template", "message", "ambiguous", "provider", "events")

    told = {words[:2] for words, _ in BAD_USE if words[0] in with_commands and words[1] != "nonsense"}

    assert told == {(group, name) for group in with_commands for name in groups[group].commands}
