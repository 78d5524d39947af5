"""What nobody may change, not even at a `psql` prompt."""

from uuid import uuid4

import asyncpg
import pytest

from db.ids import MessageId
from db.lifecycle import State
from tests.factories import CREDENTIAL, TENANT, AttemptRow, make_message, make_tenant, state_of


async def _audit(connection: asyncpg.Connection, message_id: object, attempt: int, decision: str = "resend") -> None:
    await connection.execute(
        """INSERT INTO operator_audit (id, credential_id, action, tenant_id, message_id, attempt, decision, reason)
        VALUES ($1, $2, 'resolution', $3, $4, $5, $6, 'asked the recipient')""",
        uuid4(),
        CREDENTIAL,
        TENANT,
        message_id,
        attempt,
        decision,
    )


async def _decide_and_requeue(
    connection: asyncpg.Connection, message_id: MessageId, *, about: MessageId, decision: str = "resend"
) -> None:
    async with connection.transaction():
        await _audit(connection, about, attempt=1, decision=decision)
        await connection.execute(REQUEUE, message_id)


REQUEUE = "UPDATE messages SET state = 'queued' WHERE id = $1"
AMBIGUOUS_ATTEMPT = AttemptRow(number=1, token=7, begin_id=uuid4(), outcome="unknown", closed=True)


async def test_nobody_sends_an_ambiguous_message_again_without_an_audited_decision(
    superuser: asyncpg.Connection,
) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.AMBIGUOUS, AMBIGUOUS_ATTEMPT)

    with pytest.raises(asyncpg.CheckViolationError, match="audited decision"):
        await superuser.execute(REQUEUE, message.id)


async def test_an_audited_decision_in_the_same_transaction_sends_it_again(superuser: asyncpg.Connection) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.AMBIGUOUS, AMBIGUOUS_ATTEMPT)

    await _decide_and_requeue(superuser, message.id, about=message.id)

    assert await state_of(superuser, message) is State.QUEUED


async def test_a_decision_of_an_earlier_transaction_does_not_count(superuser: asyncpg.Connection) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.AMBIGUOUS, AMBIGUOUS_ATTEMPT)
    await _audit(superuser, message.id, attempt=1)

    with pytest.raises(asyncpg.CheckViolationError, match="audited decision"):
        await superuser.execute(REQUEUE, message.id)


@pytest.mark.parametrize("decision", ["accepted", "abandon"])
async def test_another_decision_does_not_send_it_again(superuser: asyncpg.Connection, decision: str) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.AMBIGUOUS, AMBIGUOUS_ATTEMPT)

    with pytest.raises(asyncpg.CheckViolationError, match="audited decision"):
        await _decide_and_requeue(superuser, message.id, about=message.id, decision=decision)


async def test_a_decision_about_an_older_attempt_does_not_count(superuser: asyncpg.Connection) -> None:
    await make_tenant(superuser)
    older = AttemptRow(number=1, token=1, begin_id=uuid4(), outcome="unknown", closed=True)
    newer = AttemptRow(number=2, token=2, claim_id="claim-2", begin_id=uuid4(), outcome="unknown", closed=True)
    message = await make_message(superuser, State.AMBIGUOUS, older, newer)

    with pytest.raises(asyncpg.CheckViolationError, match="audited decision"):
        await _decide_and_requeue(superuser, message.id, about=message.id)


async def test_a_decision_about_another_message_does_not_count(superuser: asyncpg.Connection) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.AMBIGUOUS, AMBIGUOUS_ATTEMPT)
    other = await make_message(superuser, State.AMBIGUOUS, AMBIGUOUS_ATTEMPT)

    with pytest.raises(asyncpg.CheckViolationError, match="audited decision"):
        await _decide_and_requeue(superuser, message.id, about=other.id)


@pytest.mark.parametrize("jump", [0, 2, -1])
async def test_the_token_grows_by_one_with_each_claim(superuser: asyncpg.Connection, jump: int) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.QUEUED, token=5)

    with pytest.raises(asyncpg.CheckViolationError):
        await superuser.execute(
            "UPDATE messages SET state = 'leased', came_from = 'queued', token = token + $2 WHERE id = $1",
            message.id,
            jump,
        )


@pytest.mark.parametrize("state", [State.QUEUED, State.LEASED])
async def test_the_token_does_not_change_without_a_claim(superuser: asyncpg.Connection, state: State) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, state)

    with pytest.raises(asyncpg.CheckViolationError, match="token"):
        await superuser.execute("UPDATE messages SET token = token + 1 WHERE id = $1", message.id)


@pytest.mark.parametrize(
    "change",
    [
        "idempotency_key = 'another'",
        "request_hash = 'v1:' || repeat('0', 64)",
        "sender_address = 'x@example.com'",
        "purpose = 'another'",
        'tags = \'{"a": "b"}\'',
        "created_at = created_at - interval '1 day'",
    ],
)
async def test_what_a_message_is_never_changes(superuser: asyncpg.Connection, change: str) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser)

    with pytest.raises(asyncpg.CheckViolationError, match="never changes"):
        await superuser.execute(f"UPDATE messages SET {change} WHERE id = $1", message.id)


@pytest.mark.parametrize(
    "change",
    [
        "message_id = gen_random_uuid()",
        "number = 2",
        "token = 2",
        "claim_id = 'other'",
        "lease_owner = 'other'",
        "claimed_at = now() - interval '1 hour'",
        "lease_expires_at = lease_expires_at + interval '1 hour'",
        "begin_id = gen_random_uuid()",
        "begun_at = now()",
        "begun_at = NULL, begin_id = NULL",
        "outcome = 'unknown'",
        "outcome = NULL, ended_at = NULL",
        "reason = 'rejected'",
        "provider = 'other'",
        "provider_message_id = 'other'",
        "provider_request_id = 'other'",
        "provider_code = 'other'",
        "ended_at = now()",
        "closed_at = NULL",
        "closed_at = now()",
    ],
)
async def test_an_attempt_is_written_once(superuser: asyncpg.Connection, change: str) -> None:
    await make_tenant(superuser)
    attempt = AttemptRow(begin_id=uuid4(), outcome="refused", reason="throttled", closed=True)
    message = await make_message(superuser, State.RETRYABLE, attempt)
    await superuser.execute(
        """UPDATE attempts SET provider = 'ses', provider_message_id = 'ses-1', provider_request_id = 'r-1',
            provider_code = 'Throttling' WHERE message_id = $1""",
        message.id,
    )

    with pytest.raises(asyncpg.CheckViolationError, match="written once"):
        await superuser.execute(f"UPDATE attempts SET {change} WHERE message_id = $1", message.id)


@pytest.mark.parametrize("role", ["fencepost_api", "fencepost_worker", "fencepost_events"])
async def test_who_may_move_messages_may_look_for_decisions_however_postgres_plans_that(
    superuser: asyncpg.Connection, role: str
) -> None:
    """A generic plan asks for the right to the audit on every change, and not only on those that need a decision."""
    await make_tenant(superuser)
    message = await make_message(superuser)
    await superuser.execute(f"SET ROLE {role}; SET plan_cache_mode = force_generic_plan")

    changed = await superuser.execute("UPDATE messages SET updated_at = clock_timestamp() WHERE id = $1", message.id)

    assert changed == "UPDATE 1"


INSERT_ONLY = ["timeline", "provider_events", "evidence", "template_versions", "operator_audit"]
NEVER_DELETED = ["messages", "attempts", "recipients", "message_contents"]


async def _fill(connection: asyncpg.Connection) -> None:
    await make_tenant(connection)
    message = await make_message(connection, State.AMBIGUOUS, AMBIGUOUS_ATTEMPT)
    await _audit(connection, message.id, attempt=1)
    event = uuid4()
    await connection.execute(
        """INSERT INTO provider_events (id, provider, notification_id, type, detail)
        VALUES ($1, 'ses', gen_random_uuid()::text, 'send', '{}')""",
        event,
    )
    await connection.execute(
        """INSERT INTO evidence (id, message_id, attempt, kind, event_type, provider_event_id)
        VALUES ($1, $2, 1, 'event', 'send', $3)""",
        uuid4(),
        message.id,
        event,
    )


@pytest.mark.parametrize("table", [*INSERT_ONLY, *NEVER_DELETED])
async def test_no_row_of_a_record_is_taken_away(superuser: asyncpg.Connection, table: str) -> None:
    await _fill(superuser)

    with pytest.raises(asyncpg.CheckViolationError, match="is refused"):
        await superuser.execute(f"DELETE FROM {table}")
    with pytest.raises(asyncpg.CheckViolationError, match="is refused"):
        await superuser.execute(f"TRUNCATE {table} CASCADE")


@pytest.mark.parametrize("table", INSERT_ONLY)
async def test_no_row_of_an_insert_only_record_changes(superuser: asyncpg.Connection, table: str) -> None:
    await _fill(superuser)
    column = await superuser.fetchval(
        "SELECT column_name FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position LIMIT 1",
        table,
    )

    with pytest.raises(asyncpg.CheckViolationError, match="is refused"):
        await superuser.execute(f"UPDATE {table} SET {column} = {column}")


async def test_content_and_recipients_stay_as_they_were_accepted(superuser: asyncpg.Connection) -> None:
    await _fill(superuser)

    with pytest.raises(asyncpg.CheckViolationError, match="is refused"):
        await superuser.execute("UPDATE message_contents SET subject = 'another'")
    with pytest.raises(asyncpg.CheckViolationError, match="never changes"):
        await superuser.execute("UPDATE recipients SET address = 'eve@example.com'")


async def test_a_tenants_key_makes_one_message(superuser: asyncpg.Connection) -> None:
    await make_tenant(superuser)
    await make_message(superuser, idempotency_key="once")

    with pytest.raises(asyncpg.UniqueViolationError, match="idempotency_key"):
        await make_message(superuser, idempotency_key="once")


async def test_a_message_has_one_open_attempt_at_most(superuser: asyncpg.Connection) -> None:
    await make_tenant(superuser)

    with pytest.raises(asyncpg.UniqueViolationError, match="uq_attempts_open"):
        await make_message(superuser, State.LEASED, AttemptRow(), AttemptRow(number=2, token=2, claim_id="claim-2"))


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("fencepost_worker", "SELECT secret_hash FROM credentials"),
        ("fencepost_worker", "DELETE FROM timeline"),
        ("fencepost_worker", "INSERT INTO messages (id) VALUES (gen_random_uuid())"),
        ("fencepost_worker", "UPDATE messages SET idempotency_key = 'x'"),
        ("fencepost_api", "SELECT subject FROM message_contents"),
        ("fencepost_api", "SELECT name FROM recipients"),
        ("fencepost_api", "UPDATE messages SET token = token + 1"),
        ("fencepost_api", "SELECT reason FROM operator_audit"),
        ("fencepost_api", "INSERT INTO providers (name) VALUES ('other')"),
        ("fencepost_worker", "UPDATE providers SET paused = true"),
        ("fencepost_worker", "INSERT INTO operator_audit (action) VALUES ('message_resolved')"),
        ("fencepost_api", "UPDATE attempts SET begun_at = now()"),
        ("fencepost_events", "SELECT subject FROM message_contents"),
        ("fencepost_events", "SELECT secret_hash FROM credentials"),
        ("fencepost_events", "INSERT INTO attempts (number) VALUES (1)"),
    ],
)
async def test_each_role_holds_only_what_its_process_needs(
    superuser: asyncpg.Connection, role: str, statement: str
) -> None:
    await superuser.execute(f"SET ROLE {role}")

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await superuser.execute(statement)
