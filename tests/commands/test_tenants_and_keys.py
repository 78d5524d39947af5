"""`fencepost tenant` and `fencepost key`, against the API."""

import re

import pytest

from tests.commands.conftest import CommandLine, new_name
from tests.dev.running_stack import RunningStack

KEY = re.compile(r"fp_test_(?P<id>[0-9A-Za-z]{16})_[0-9A-Za-z]{49}")


async def make_tenant(line: CommandLine) -> str:
    made = await line.run("tenant", "create", new_name("Tenant"), "--json")
    tenant_id: str = made.json()["id"]
    return tenant_id


async def test_a_tenant_is_made_and_listed(line: CommandLine) -> None:
    name = new_name("Acme Ltd")

    made = await line.run("tenant", "create", name)
    listed = await line.run("tenant", "list")

    assert made.status == listed.status == 0
    (row,) = made.rows()
    assert (row["name"], row["state"]) == (name, "active")
    assert row in listed.rows()


async def test_a_tenant_is_switched_off_and_on(line: CommandLine) -> None:
    tenant = await make_tenant(line)

    off = await line.run("tenant", "disable", tenant, "--json")
    on = await line.run("tenant", "enable", tenant, "--json")

    assert (off.json()["state"], on.json()["state"]) == ("disabled", "active")


async def test_a_list_as_json_is_one_object_that_was_read_to_its_end(line: CommandLine) -> None:
    tenant = await make_tenant(line)

    listed = await line.run("tenant", "list", "--json")

    assert listed.json()["next_cursor"] is None
    assert tenant in [each["id"] for each in listed.json()["data"]]


async def test_a_new_key_stands_alone_on_stdout_and_opens_what_its_scopes_say(line: CommandLine) -> None:
    tenant = await make_tenant(line)

    issued = await line.run("key", "issue", "--tenant", tenant, "--scope", "senders", "--scope", "templates")

    key = issued.out.removesuffix("\n")
    assert (issued.status, bool(KEY.fullmatch(key))) == (0, True)
    assert key not in issued.err
    assert "senders, templates" in issued.err
    assert (await line.run("sender", "list", FENCEPOST_API_KEY=key)).status == 0
    refused = await line.run("message", "list", FENCEPOST_API_KEY=key)
    assert (refused.status, "(forbidden, request " in refused.err) == (1, True)
    assert "needs a key with messages:read in FENCEPOST_API_KEY" in refused.err


async def test_a_new_key_as_json_is_what_the_api_said(line: CommandLine) -> None:
    tenant = await make_tenant(line)

    issued = await line.run(
        "key", "issue", "--tenant", tenant, "--scope", "senders", "--expires-at", "2060-01-31T12:00:00+01:00", "--json"
    )

    assert set(issued.json()) == {"id", "key", "scopes", "expires_at"}
    assert issued.json()["expires_at"] == "2060-01-31T11:00:00Z"


async def test_a_rotated_key_has_a_successor_and_the_list_shows_both(line: CommandLine) -> None:
    tenant = await make_tenant(line)
    old = (await line.run("key", "issue", "--tenant", tenant, "--scope", "senders", "--json")).json()["id"]

    rotated = await line.run("key", "rotate", "--tenant", tenant, old, "--overlap-seconds", "0")
    listed = await line.run("key", "list", "--tenant", tenant)

    match = KEY.fullmatch(rotated.out.strip())
    assert match
    rows = {row["id"]: row for row in listed.rows()}
    assert rows[old]["replaced_by"] == match["id"]
    assert (rows[old]["state"], rows[match["id"]]["state"]) == ("expired", "active")


async def test_a_revoked_key_opens_nothing_any_more(line: CommandLine) -> None:
    tenant = await make_tenant(line)
    issued = (await line.run("key", "issue", "--tenant", tenant, "--scope", "senders", "--json")).json()

    revoked = await line.run("key", "revoke", "--tenant", tenant, issued["id"], "--json")

    assert (revoked.status, revoked.json()) == (0, {"id": issued["id"], "state": "revoked"})
    assert (await line.run("sender", "list", FENCEPOST_API_KEY=issued["key"])).status == 1


async def test_a_tenants_key_is_no_operators(line: CommandLine) -> None:
    tenant = await make_tenant(line)
    key = (await line.run("key", "issue", "--tenant", tenant, "--scope", "senders")).out.strip()

    refused = await line.run("tenant", "list", FENCEPOST_OPERATOR_KEY=key)

    assert (refused.status, "needs an operator's key in FENCEPOST_OPERATOR_KEY" in refused.err) == (1, True)


async def test_where_no_operators_key_is_set_the_other_variable_counts(
    line: CommandLine, nowhere: CommandLine, stack: RunningStack
) -> None:
    key = (await line.run("key", "issue", "--operator")).out.strip()

    listed = await nowhere.run(
        "tenant", "list", FENCEPOST_API_URL=stack.describe()["api_url"], FENCEPOST_API_KEY=f"{key}\n"
    )

    assert listed.status == 0


@pytest.mark.parametrize("words", [("disable", "nobody"), ("enable", ".."), ("disable", "")], ids=str)
async def test_an_unknown_tenant_is_one_line(line: CommandLine, words: tuple[str, str]) -> None:
    refused = await line.run("tenant", *words)

    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith("fencepost: There is nothing here. (not_found, request ")
    assert "Fix: " in refused.err
    assert refused.err.count("\n") == 1
