"""`fencepost ambiguous` and `fencepost provider`, against the API."""

from collections.abc import AsyncIterator, Mapping
from uuid import UUID, uuid4

import asyncpg
import pytest

from db.resolutions import Decision
from tests.commands.conftest import SEND, CommandLine
from tests.waiting import until

NOBODY = "0192f0c0-e5b0-7a3c-9f0d-5a0d6a1b2c3d"


@pytest.fixture
async def paused(psql: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """Hold what is sent, so that a test can say where it stands; at the end the provider is on."""
    await psql.execute("UPDATE providers SET paused = true")
    yield psql
    await psql.execute("UPDATE providers SET paused = false")


async def make_ambiguous(line: CommandLine, psql: asyncpg.Connection) -> str:
    """Send a message, and put it into doubt as a provider that never answers would."""
    sent = await line.run(*SEND, "--to", "ada@example.com", "--json")
    message_id: str = sent.json()["id"]
    async with psql.transaction():
        await psql.execute("SET LOCAL session_replication_role = replica")
        await psql.execute(
            "UPDATE messages SET state = 'ambiguous', token = 1, updated_at = clock_timestamp() WHERE id = $1",
            UUID(message_id),
        )
        await psql.execute(
            """INSERT INTO attempts (message_id, number, token, claim_id, lease_owner, lease_expires_at, begin_id,
                begun_at, outcome, reason, ended_at, closed_at)
            VALUES ($1, 1, 1, 'one', 'worker', now(), $2, now(), 'unknown', 'provider_timeout', now(), now())""",
            UUID(message_id),
            uuid4(),
        )
        await psql.execute(
            """INSERT INTO timeline (message_id, seq, from_state, to_state, move, reason, attempt, actor)
            VALUES ($1, 2, 'leased', 'ambiguous', 'quarantine', 'provider_timeout', 1, 'machine')""",
            UUID(message_id),
        )
    return message_id


def resolve(message_id: str, decision: str, *words: str, attempt: int = 1) -> tuple[str, ...]:
    given = ("--attempt", str(attempt), "--decision", decision, "--reason", "asked the recipient")
    return ("ambiguous", "resolve", message_id, *given, *words)


async def test_what_waits_is_listed_and_each_decision_settles_it(line: CommandLine, paused: asyncpg.Connection) -> None:
    ids = [await make_ambiguous(line, paused) for _ in range(3)]

    table = await line.run("ambiguous", "list")
    as_json = await line.run("ambiguous", "list", "--json")
    accepted = await line.run(*resolve(ids[0], "accepted", "--provider-message-id", "0100-abc"))
    resent = await line.run(*resolve(ids[1], "resend", "--acknowledge-duplicate-risk", "--json"))
    abandoned = await line.run(*resolve(ids[2], "abandon"))
    left = await line.run("ambiguous", "list")

    rows: dict[str, Mapping[str, str]] = {row["id"]: row for row in table.rows()}
    assert [row["id"] for row in table.rows() if row["id"] in ids] == ids
    assert {rows[message_id]["to"] for message_id in ids} == {"a***@example.com"}
    assert {(rows[each]["tenant"], rows[each]["attempt"], rows[each]["evidence"]) for each in ids} == {
        ("demo", "1", "")
    }
    assert (set(ids) <= {item["id"] for item in as_json.json()["data"]}, as_json.json()["next_cursor"]) == (True, None)
    assert (accepted.rows()[0]["state"], abandoned.rows()[0]["state"]) == ("provider_accepted", "dead")
    assert (resent.json()["id"], resent.json()["timeline"][-1]["move"]) == (ids[1], "resolve_resend")
    assert not {row["id"] for row in left.rows()} & set(ids)
    reasons = await paused.fetch("SELECT reason FROM operator_audit WHERE message_id = ANY($1)", [UUID(i) for i in ids])
    assert [row["reason"] for row in reasons] == ["asked the recipient"] * 3


async def test_a_decision_that_is_refused_is_one_line_with_its_code_and_its_fix(
    line: CommandLine, paused: asyncpg.Connection
) -> None:
    message_id = await make_ambiguous(line, paused)

    refused = {
        "duplicate_risk_not_acknowledged": await line.run(*resolve(message_id, "resend")),
        "not_ambiguous": await line.run(*resolve(message_id, "abandon", attempt=2)),
        "not_found": await line.run(*resolve(NOBODY, "abandon")),
        "forbidden": await line.run(*resolve(message_id, "abandon"), FENCEPOST_OPERATOR_KEY=await _tenants_key(line)),
    }

    fixes = (
        "--acknowledge-duplicate-risk.",
        "`fencepost ambiguous list`",
        "`ambiguous list`",
        "FENCEPOST_OPERATOR_KEY",
    )
    for (code, said), fix in zip(refused.items(), fixes, strict=True):
        assert (said.status, said.out, said.err.count("\n")) == (1, "", 1), said.err
        assert f"({code}, request " in said.err
        assert fix in said.err.partition("Fix: ")[2]
    assert (await line.run(*resolve(message_id, "abandon"))).status == 0


async def _tenants_key(line: CommandLine) -> str:
    return (await line.run("key", "issue", "--tenant", "demo", "--scope", "messages:send")).out.strip()


async def test_a_provider_is_paused_and_resumed_and_what_waited_goes_out(
    line: CommandLine, psql: asyncpg.Connection
) -> None:
    off = await line.run("provider", "pause", "ses", "--reason", "an incident")
    try:
        listed = await line.run("provider", "list")
        sent = await line.run(*SEND, "--to", "ada@example.com", "--json")
    finally:
        on = await line.run("provider", "resume", "ses", "--json")
    as_json = await line.run("provider", "list", "--json")

    assert (off.rows()[0]["name"], off.rows()[0]["state"]) == ("ses", "paused")
    assert off.rows()[0] in listed.rows()
    assert (on.json()["name"], on.json()["paused"]) == ("ses", False)
    assert on.json() in as_json.json()["data"]
    state = "SELECT state FROM messages WHERE id = $1"

    async def accepted() -> bool:
        return await psql.fetchval(state, UUID(sent.json()["id"])) in ("provider_accepted", "delivered")

    await until(accepted, within=60, every=0.1)


async def test_a_provider_that_there_is_not_is_one_line(line: CommandLine) -> None:
    refused = await line.run("provider", "pause", "../ses")

    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "(not_found, request " in refused.err
    assert "`provider list`" in refused.err


async def test_the_command_knows_every_decision(nowhere: CommandLine) -> None:
    refused = await nowhere.run(*resolve(NOBODY, "retry"))

    assert ", ".join(f"'{decision}'" for decision in Decision) in refused.err
