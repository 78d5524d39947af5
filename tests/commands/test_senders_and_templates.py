"""`fencepost sender` and `fencepost template`, against the API."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import CommandLine, new_name

SUBJECT = "Hello {{ name }}"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Write what a template is made of; give the options that name it."""
    parts = {"text": "Dear {{ name }},\nwelcome.", "html": "<p>Dear {{ name }}</p>", "schema": json.dumps(SCHEMA)}
    for name, content in parts.items():
        (tmp_path / name).write_text(content)
    return {f"--{name}-file": str(tmp_path / name) for name in parts}


def flat(options: dict[str, str]) -> list[str]:
    return [word for option in options.items() for word in option]


async def publish(line: CommandLine, key: str, **body: Any) -> None:
    """Publish a version from one file."""
    file = line.folder / f"{key}.json"
    file.write_text(json.dumps({"subject": SUBJECT, "text": "Dear {{ name }}", **body}))
    assert (await line.run("template", "publish", key, "--file", file.name)).status == 0


async def test_a_sender_is_made_listed_and_switched(line: CommandLine) -> None:
    key = new_name("sender")
    words = ("sender", "create", key, "--address", "hello@example.com", "--name", "Acmé", "--reply-to", "H <h@x.org>")

    made = await line.run(*words)
    again = await line.run(*words, "--json")
    off = await line.run("sender", "disable", key)
    on = await line.run("sender", "enable", key, "--json")
    listed = await line.run("sender", "list")

    (row,) = made.rows()
    assert (row["key"], row["name"], row["reply_to"], row["state"]) == (key, "Acmé", "H <h@x.org>", "active")
    assert (again.status, again.err) == (0, "fencepost: this sender was there already, just like this\n")
    assert again.json()["reply_to"] == [{"address": "h@x.org", "name": "H"}]
    assert (off.rows()[0]["state"], on.json()["state"]) == ("disabled", "active")
    assert key in [each["key"] for each in listed.rows()]


async def test_a_senders_key_is_not_given_to_another_one(line: CommandLine) -> None:
    refused = await line.run("sender", "create", "demo", "--address", "other@example.com")

    assert (refused.status, "(sender_exists, request " in refused.err) == (1, True)


async def test_a_version_is_published_from_files(line: CommandLine, files: dict[str, str]) -> None:
    key = new_name("template")
    words = ("template", "publish", key, "--subject", SUBJECT, "--purpose", "receipts", *flat(files))

    first = await line.run(*words)
    again = await line.run(*words, "--json")

    assert first.rows() == [
        {"key": key, "version": "1", "purpose": "receipts", "created_at": again.json()["created_at"]}
    ]
    assert (again.status, again.err) == (0, "fencepost: this is the newest version already\n")
    version = again.json()
    assert (version["html"], version["context_schema"]) == ("<p>Dear {{ name }}</p>", SCHEMA)


async def test_a_part_of_a_version_may_come_from_standard_input(line: CommandLine) -> None:
    key = new_name("template")

    published = await line.feed(
        "Grüße, {{ name }}".encode(),
        *("template", "publish", key, "--subject", SUBJECT, "--text-file", "-", "--json"),
    )

    assert published.json()["text"] == "Grüße, {{ name }}"


async def test_the_newest_version_is_shown_unless_another_is_asked_for(line: CommandLine) -> None:
    key = new_name("template")
    await publish(line, key)
    await publish(line, key, subject="Good day {{ name }}")

    newest = await line.run("template", "show", key)
    first = await line.run("template", "show", key, "1", "--json")
    listed = await line.run("template", "list")

    assert "version\t2\n" in newest.out
    assert "subject\tGood day {{ name }}\n" in newest.out
    assert "\ntext:\nDear {{ name }}\n" in newest.out
    assert (first.json()["version"], first.json()["subject"]) == (1, SUBJECT)
    assert [row["version"] for row in listed.rows() if row["key"] == key] == ["2"]


async def test_a_preview_shows_what_would_be_stored(line: CommandLine, tmp_path: Path) -> None:
    key = new_name("template")
    await publish(line, key, html="<p>{{ name }}</p>")
    (tmp_path / "context").write_text('{"name": "Ada <3"}')

    plain = await line.run("template", "preview", key, "1", "--context", '{"name": "Ada"}')
    as_json = await line.run("template", "preview", key, "1", "--context-file", str(tmp_path / "context"), "--json")

    assert plain.out == "subject\tHello Ada\n\ntext:\nDear Ada\n\nhtml:\n<p>Ada</p>\n"
    assert as_json.json() == {"subject": "Hello Ada <3", "text": "Dear Ada <3", "html": "<p>Ada &lt;3</p>"}


async def test_a_template_that_can_not_be_used_is_refused_with_its_faults(
    line: CommandLine, files: dict[str, str]
) -> None:
    refused = await line.run("template", "publish", new_name("template"), "--subject", "{{ nam", *flat(files))

    assert (refused.status, refused.out) == (1, "")
    first, *faults = refused.err.splitlines()
    assert first.startswith("fencepost: The request can't be taken as it is. (invalid_request, request ")
    assert [fault.partition(": ")[0] for fault in faults] == ["  /subject"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("show", "nothing-has-this-key"), "no template has this key"),
        (("show", "welcome", "999"), "(not_found, request "),
        (("preview", "welcome", "999"), "(not_found, request "),
        (("preview", "welcome", "1"), "(invalid_request, request "),
    ],
    ids=str,
)
async def test_what_is_not_there_or_does_not_fit_is_refused(
    line: CommandLine, words: tuple[str, ...], why: str
) -> None:
    refused = await line.run("template", *words)

    assert (refused.status, refused.out, why in refused.err) == (1, "", True), refused.err
