"""Resolving: about which message and attempt a person may decide, what each decision does, and that one counts."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db import statements
from db.decisions import ClaimAnswer
from db.engine import DatabaseSettings, UnavailableError, create_engine
from db.ids import new_message_id
from db.lifecycle import TRANSITIONS, Actor, State, target
from db.records import MessageRef
from db.resolutions import MOVES, Decision, Resolution, ResolutionRefusal, ResolutionStore
from db.store import MessageStore
from tests.conftest import Database
from tests.db.test_store import LEASE, LIMITS
from tests.factories import AttemptRow, make_message, make_tenant, snapshot, state_of
from tests.faults.proxy import Loss, fault_proxy
from tests.waiting import somebody_waits

OPERATOR = "operator00000001"
HOUR = timedelta(hours=1)
DOUBTFUL = AttemptRow(begin_id=uuid4(), outcome="unknown", reason="provider_timeout", closed=True)
NEWER = AttemptRow(
    number=2, token=2, claim_id="claim-2", begin_id=uuid4(), outcome="unknown", reason="provider_timeout", closed=True
)

every_decision = pytest.mark.parametrize("decision", Decision)


@pytest.fixture
async def operator(superuser: asyncpg.Connection) -> None:
    await make_tenant(superuser)
    await superuser.execute(
        """INSERT INTO credentials (id, secret_hash, scopes) VALUES ($1, '', '{operator}') ON CONFLICT DO NOTHING""",
        OPERATOR,
    )


@pytest.fixture
async def store(api_engine: AsyncEngine, operator: None) -> ResolutionStore:
    del operator
    return ResolutionStore(api_engine)


@pytest.fixture
async def connection(api_engine: AsyncEngine, operator: None) -> AsyncIterator[AsyncConnection]:
    del operator
    async with api_engine.connect() as connection:
        yield connection


def about(attempt: int, decision: Decision = Decision.RESEND) -> Resolution:
    return Resolution(attempt=attempt, decision=decision, reason="asked the recipient", by=OPERATOR)


async def audited(connection: asyncpg.Connection, message: MessageRef) -> list[asyncpg.Record]:
    return await connection.fetch("SELECT * FROM operator_audit WHERE message_id = $1", message.id)


@every_decision
async def test_a_decision_moves_an_ambiguous_message_and_stands_in_timeline_and_audit(
    store: ResolutionStore, superuser: asyncpg.Connection, decision: Decision
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
    resolution = Resolution(attempt=1, decision=decision, reason="asked them", provider_message_id="ses-1", by=OPERATOR)

    resolved = await store.resolve(message.id, resolution)

    assert resolved == message
    assert await state_of(superuser, message) is target(MOVES[decision])
    (line,) = await superuser.fetch("SELECT * FROM timeline WHERE message_id = $1 AND seq > 1", message.id)
    assert (line["from_state"], line["to_state"]) == ("ambiguous", target(MOVES[decision]))
    assert (line["move"], line["reason"], line["attempt"], line["actor"]) == (
        MOVES[decision],
        "operator",
        1,
        "operator",
    )
    (row,) = await audited(superuser, message)
    assert (row["id"], row["credential_id"], row["action"]) == (resolution.id, OPERATOR, "message_resolved")
    assert (row["tenant_id"], row["attempt"], row["decision"]) == (message.tenant_id, 1, decision)
    assert (row["reason"], row["provider_message_id"]) == ("asked them", "ses-1")


async def test_only_what_was_accepted_has_the_time_of_acceptance(
    store: ResolutionStore, superuser: asyncpg.Connection
) -> None:
    accepted_at = {}
    for decision in Decision:
        message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
        await store.resolve(message.id, about(1, decision))
        accepted_at[decision] = await superuser.fetchval(
            "SELECT provider_accepted_at > now() - interval '1 minute' FROM messages WHERE id = $1", message.id
        )

    assert accepted_at == {Decision.ACCEPTED: True, Decision.RESEND: None, Decision.ABANDON: None}


@every_decision
@pytest.mark.parametrize("state", [state for state in State if state is not State.AMBIGUOUS])
async def test_a_message_that_is_not_ambiguous_is_left_alone(
    store: ResolutionStore, superuser: asyncpg.Connection, decision: Decision, state: State
) -> None:
    attempt = AttemptRow() if state is State.LEASED else DOUBTFUL
    message = await make_message(superuser, state, attempt)
    before = await snapshot(superuser, message)

    resolved = await store.resolve(message.id, about(1, decision))

    assert resolved is ResolutionRefusal.NOT_AMBIGUOUS
    assert await snapshot(superuser, message) == before
    assert await audited(superuser, message) == []


@every_decision
@pytest.mark.parametrize("attempt", [1, 3])
async def test_a_decision_about_another_attempt_than_the_present_one_is_none(
    store: ResolutionStore, superuser: asyncpg.Connection, decision: Decision, attempt: int
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL, NEWER)
    # Somebody else's attempt of this number has the token of ours.
    other = await make_message(superuser, State.AMBIGUOUS, replace(NEWER, number=attempt))
    before = await snapshot(superuser, message)

    resolved = await store.resolve(message.id, about(attempt, decision))

    assert resolved is ResolutionRefusal.NOT_AMBIGUOUS
    assert await snapshot(superuser, message) == before
    assert await audited(superuser, message) == []
    assert await store.resolve(message.id, about(2, decision)) == message
    assert await state_of(superuser, other) is State.AMBIGUOUS


async def test_a_message_that_nobody_has_is_unknown(store: ResolutionStore) -> None:
    assert await store.resolve(new_message_id(), about(1)) is ResolutionRefusal.UNKNOWN


@every_decision
@pytest.mark.parametrize(("state", "token"), [*((state, 1) for state in State), (State.AMBIGUOUS, 2)])
async def test_the_statement_itself_moves_an_ambiguous_message_under_its_own_token_only(
    connection: AsyncConnection, superuser: asyncpg.Connection, decision: Decision, state: State, token: int
) -> None:
    message = await make_message(superuser, state, AttemptRow() if state is State.LEASED else DOUBTFUL)
    await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
    values = {"this_message": message.id, "this_token": token, "state_before": state, "why": None, "in_attempt": 1}

    async with connection.begin() as transaction:
        await connection.exec_driver_sql(
            """INSERT INTO operator_audit (id, credential_id, action, message_id, attempt, decision, reason)
            VALUES (gen_random_uuid(), $1, 'message_resolved', $2, 1, $3, 'asked')""",
            (OPERATOR, message.id, decision.value),
        )
        moved = (await connection.execute(statements.MOVES[MOVES[decision]], values)).all()
        await transaction.rollback()

    assert len(moved) == (1 if (state, token) == (State.AMBIGUOUS, 1) else 0)


def test_each_decision_is_a_move_of_an_operators() -> None:
    assert set(MOVES) == set(Decision)
    assert sorted(MOVES.values()) == sorted(move for move, each in TRANSITIONS.items() if each.by is Actor.OPERATOR)


async def test_of_many_operators_at_once_one_wins(store: ResolutionStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
    decisions = [*Decision] * 4

    answers = await asyncio.gather(*(store.resolve(message.id, about(1, decision)) for decision in decisions))

    (winner,) = [decision for decision, answer in zip(decisions, answers, strict=True) if answer == message]
    assert answers.count(ResolutionRefusal.NOT_AMBIGUOUS) == len(decisions) - 1
    assert await state_of(superuser, message) is target(MOVES[winner])
    assert [row["decision"] for row in await audited(superuser, message)] == [winner]
    assert await superuser.fetchval("SELECT count(*) FROM timeline WHERE message_id = $1", message.id) == 2


async def test_a_decision_that_waited_for_the_row_sees_what_came_meanwhile(
    store: ResolutionStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
    async with superuser.transaction():
        await superuser.execute(
            "UPDATE messages SET state = 'provider_accepted', provider_accepted_at = now() WHERE id = $1", message.id
        )
        deciding = asyncio.create_task(store.resolve(message.id, about(1)))
        await somebody_waits(superuser)

    assert await deciding is ResolutionRefusal.NOT_AMBIGUOUS


async def test_a_resend_can_be_claimed_at_once_with_a_fresh_count_and_age(
    store: ResolutionStore, superuser: asyncpg.Connection, worker_engine: AsyncEngine
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL, attempts_used=LIMITS.attempts)
    await superuser.execute(
        """UPDATE messages SET age_from = now() - $2::interval, due_at = now() + interval '1 hour',
            run_requested_at = now() WHERE id = $1""",
        message.id,
        LIMITS.max_age + HOUR,
    )
    worker = MessageStore(worker_engine)

    await store.resolve(message.id, about(1))
    startable = await worker.startable(overdue=timedelta(), again_after=HOUR, most=500)
    used, fresh = await superuser.fetchrow(  # type: ignore[misc]  # there is a row
        "SELECT attempts_used, age_from > now() - interval '1 minute' FROM messages WHERE id = $1", message.id
    )
    claimed = await worker.claim(message.id, claim_id="anew", owner="w", lease=LEASE, limits=LIMITS)

    assert message in startable
    assert (used, fresh) == (0, True)
    assert (claimed.answer, claimed.attempt) == (ClaimAnswer.LEASED, 2)


@every_decision
async def test_nothing_is_resolved_without_its_row_in_the_audit(
    store: ResolutionStore, superuser: asyncpg.Connection, decision: Decision
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
    nobody = Resolution(attempt=1, decision=decision, reason="asked", by="nobody")

    with pytest.raises(Exception, match="fk_operator_audit_credential_id"):
        await store.resolve(message.id, nobody)

    assert await state_of(superuser, message) is State.AMBIGUOUS


async def test_nothing_stands_in_the_audit_that_did_not_happen(
    store: ResolutionStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
    await superuser.execute("REVOKE INSERT ON timeline FROM fencepost_api")
    try:
        with pytest.raises(Exception, match="permission denied"):
            await store.resolve(message.id, about(1, Decision.ABANDON))
    finally:
        await superuser.execute("GRANT INSERT ON timeline TO fencepost_api")

    assert await audited(superuser, message) == []


@pytest.mark.parametrize(("loss", "happened"), [(Loss.REPLY, True), (Loss.COMMIT, False)])
async def test_a_decision_whose_commit_got_no_reply_can_be_asked_for(
    database: Database, store: ResolutionStore, superuser: asyncpg.Connection, loss: Loss, happened: bool
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
    resolution = about(1)
    async with fault_proxy(database.server.port, postgres=True) as proxy:
        url = proxy.url(database.url("fencepost_api"))
        engine = create_engine(DatabaseSettings.model_validate({"url": url}), application="tests")
        behind = ResolutionStore(engine)
        await behind.reread(message.id, resolution)
        proxy.lose(loss)
        with pytest.raises(UnavailableError):
            await behind.resolve(message.id, resolution)
        await engine.dispose()

    assert await store.reread(message.id, resolution) == (message if happened else None)
    assert await store.reread(message.id, about(1)) is None


async def test_a_decision_is_not_asked_for_before_its_transaction_has_ended(
    store: ResolutionStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, DOUBTFUL)
    resolution = about(1)
    async with superuser.transaction():
        await superuser.execute("SELECT 1 FROM messages WHERE id = $1 FOR UPDATE", message.id)
        asking = asyncio.create_task(store.reread(message.id, resolution))
        await somebody_waits(superuser)
        await superuser.execute(
            """INSERT INTO operator_audit (id, credential_id, action, message_id, attempt, decision, reason)
            VALUES ($1, $2, 'message_resolved', $3, 1, 'abandon', 'asked')""",
            resolution.id,
            OPERATOR,
            message.id,
        )

    assert await asking == message
