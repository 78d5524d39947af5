"""Each conditional write, run on its own, from every state and against each of its guards.

The store decides before it writes; these tests leave the decision out, so that the guard in the statement is what is
seen. A guard that is taken out of `db/statements.py` fails here by name.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db import statements, sweep_statements
from db.lifecycle import TRANSITIONS, Actor, Move, State, sources
from db.records import MessageRef
from tests.factories import AttemptRow, make_message, make_tenant

MINUTE = timedelta(minutes=1)
BEGIN_ID = UUID("11111111-1111-4111-8111-111111111111")


@pytest.fixture
async def connection(worker_engine: AsyncEngine, superuser: asyncpg.Connection) -> AsyncIterator[AsyncConnection]:
    await make_tenant(superuser)
    async with worker_engine.connect() as connection:
        yield connection


async def _rows(connection: AsyncConnection, statement: sa.Executable, message: MessageRef, **values: Any) -> int:
    """Run a statement in a transaction of its own and roll it back; give how many rows it wrote."""
    async with connection.begin() as transaction:
        rows = (await connection.execute(statement, {"this_message": message.id, **values})).all()
        await transaction.rollback()
    return len(rows)


@pytest.mark.parametrize("state", State)
async def test_claim_takes_a_message_from_its_sources_only(
    connection: AsyncConnection, superuser: asyncpg.Connection, state: State
) -> None:
    message = await make_message(superuser, state, token=3)

    taken = await _rows(connection, statements.CLAIM, message, this_token=3, **CLAIMING)

    assert taken == (1 if state in (State.QUEUED, State.RETRYABLE) else 0)


async def test_claim_needs_the_token_that_was_read(connection: AsyncConnection, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.QUEUED, token=3)

    assert await _rows(connection, statements.CLAIM, message, this_token=2, **CLAIMING) == 0


async def test_claim_leaves_a_message_that_is_not_due(
    connection: AsyncConnection, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.RETRYABLE)
    await superuser.execute(
        "UPDATE messages SET due_at = clock_timestamp() + interval '1 hour' WHERE id = $1", message.id
    )

    assert await _rows(connection, statements.CLAIM, message, this_token=0, **CLAIMING) == 0


async def test_claim_raises_the_token_by_one(connection: AsyncConnection, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.QUEUED, token=3)

    await connection.execute(statements.CLAIM, {"this_message": message.id, "this_token": 3, **CLAIMING})
    await connection.commit()

    assert await superuser.fetchval("SELECT token FROM messages WHERE id = $1", message.id) == 4
    attempt = await superuser.fetchrow("SELECT token, number FROM attempts WHERE message_id = $1", message.id)
    assert attempt is not None
    assert tuple(attempt) == (4, 1)


CLAIMING: dict[str, Any] = {"this_claim": "c", "owner": "o", "lease": MINUTE}
BEGINNING = {"this_token": 1, "this_begin": BEGIN_ID, "needs": timedelta(seconds=13)}


async def test_begin_marks_an_open_attempt(connection: AsyncConnection, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(lease=MINUTE))

    assert await _rows(connection, statements.BEGIN, message, **BEGINNING) == 1


@pytest.mark.parametrize(
    ("attempt", "change"),
    [
        pytest.param(AttemptRow(outcome="not_begun", closed=True), {}, id="closed"),
        pytest.param(AttemptRow(begin_id=uuid4()), {}, id="begun already"),
        pytest.param(AttemptRow(lease=timedelta(seconds=12)), {}, id="too little lease"),
        pytest.param(AttemptRow(), {"this_token": 2}, id="another token"),
    ],
)
async def test_begin_refuses_an_attempt_that_is(
    connection: AsyncConnection, superuser: asyncpg.Connection, attempt: AttemptRow, change: dict[str, Any]
) -> None:
    state = State.RETRYABLE if attempt.closed else State.LEASED
    message = await make_message(superuser, state, attempt)

    assert await _rows(connection, statements.BEGIN, message, **BEGINNING | change) == 0


@pytest.mark.parametrize("state", State)
async def test_an_attempt_is_counted_on_a_leased_message_only(
    connection: AsyncConnection, superuser: asyncpg.Connection, state: State
) -> None:
    message = await make_message(superuser, state, token=1)

    assert await _rows(connection, statements.USE_ATTEMPT, message, this_token=1) == (1 if state is State.LEASED else 0)


async def test_a_stale_token_counts_no_attempt(connection: AsyncConnection, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(token=2))

    assert await _rows(connection, statements.USE_ATTEMPT, message, this_token=1) == 0


RECORDING = {
    "in_attempt": 1,
    "this_begin": BEGIN_ID,
    "its_outcome": "accepted",
    "why": None,
    "its_provider": "ses",
    "its_provider_id": "id-1",
    "its_request_id": None,
    "its_code": None,
}


async def test_record_writes_into_its_own_open_attempt(
    connection: AsyncConnection, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(begin_id=BEGIN_ID))

    assert await _rows(connection, statements.RECORD, message, **RECORDING) == 1


async def test_record_does_not_ask_for_the_lease(connection: AsyncConnection, superuser: asyncpg.Connection) -> None:
    """A result that still finds its attempt open is the truth about it, however late."""
    message = await make_message(superuser, State.LEASED, AttemptRow(begin_id=BEGIN_ID, lease=-MINUTE))

    assert await _rows(connection, statements.RECORD, message, **RECORDING) == 1


@pytest.mark.parametrize(
    ("attempt", "change"),
    [
        pytest.param(AttemptRow(begin_id=BEGIN_ID, outcome="unknown", closed=True), {}, id="closed"),
        pytest.param(AttemptRow(begin_id=uuid4()), {}, id="begun by another body"),
        pytest.param(AttemptRow(), {}, id="never begun"),
        pytest.param(AttemptRow(begin_id=BEGIN_ID, outcome="unknown"), {}, id="recorded already"),
        pytest.param(AttemptRow(begin_id=BEGIN_ID), {"in_attempt": 2}, id="another number's"),
    ],
)
async def test_record_leaves_an_attempt_alone_that_is(
    connection: AsyncConnection, superuser: asyncpg.Connection, attempt: AttemptRow, change: dict[str, Any]
) -> None:
    message = await make_message(superuser, State.AMBIGUOUS if attempt.closed else State.LEASED, attempt)

    assert await _rows(connection, statements.RECORD, message, **RECORDING | change) == 0


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("token", [1, 2])
async def test_close_closes_the_open_attempt_of_its_token(
    connection: AsyncConnection,
    superuser: asyncpg.Connection,
    closed: bool,
    token: int,
) -> None:
    attempt = AttemptRow(outcome="not_begun" if closed else None, closed=closed)
    message = await make_message(superuser, State.RETRYABLE if closed else State.LEASED, attempt)
    closing = {"this_token": token, "closes_as": "not_begun", "closes_because": None}

    assert await _rows(connection, statements.CLOSE, message, **closing) == (0 if closed or token == 2 else 1)


MOVING = {"why": None, "in_attempt": 1}
#: What a person decides is the API's to do, beside an audit (test_resolutions.py).
OF_THE_WORKER = [move for move in statements.MOVES if TRANSITIONS[move].by is not Actor.OPERATOR]


def _moving(move: Move) -> dict[str, Any]:
    return MOVING | ({"delay": MINUTE, "gives_back": 0} if move is Move.RETRY else {})


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("move", OF_THE_WORKER)
async def test_each_move_starts_from_its_sources_only(
    connection: AsyncConnection, superuser: asyncpg.Connection, move: Move, state: State
) -> None:
    message = await make_message(superuser, state, token=1, came_from="retryable")
    # Read as it stood when the decision was made; the guard is what looks at it now.
    moved = await _rows(connection, statements.MOVES[move], message, this_token=1, state_before=state, **_moving(move))

    assert moved == (1 if state in sources(move) else 0)


@pytest.mark.parametrize("move", OF_THE_WORKER)
async def test_no_move_is_made_under_a_stale_token(
    connection: AsyncConnection, superuser: asyncpg.Connection, move: Move
) -> None:
    source = sources(move)[0]
    message = await make_message(superuser, source, token=2)

    assert (
        await _rows(connection, statements.MOVES[move], message, this_token=1, state_before=source, **_moving(move))
        == 0
    )
    assert (
        await _rows(connection, statements.MOVES[move], message, this_token=3, state_before=source, **_moving(move))
        == 0
    )


OWN: dict[str, tuple[State, list[AttemptRow], dict[str, Any]]] = {
    "CLAIM": (State.QUEUED, [], {"this_token": 0, **CLAIMING}),
    "BEGIN": (State.LEASED, [AttemptRow(lease=MINUTE)], BEGINNING),
    "USE_ATTEMPT": (State.LEASED, [AttemptRow()], {"this_token": 1}),
    "RECORD": (State.LEASED, [AttemptRow(begin_id=BEGIN_ID)], RECORDING),
    "CLOSE": (State.LEASED, [AttemptRow()], {"this_token": 1, "closes_as": "not_begun", "closes_because": None}),
}


@pytest.mark.parametrize("name", OWN)
async def test_each_write_touches_its_own_message_only(
    connection: AsyncConnection, superuser: asyncpg.Connection, name: str
) -> None:
    state, attempts, values = OWN[name]
    message, _ = [await make_message(superuser, state, *attempts) for _ in range(2)]

    assert await _rows(connection, getattr(statements, name), message, **values) == 1


@pytest.mark.parametrize("move", OF_THE_WORKER)
async def test_each_move_moves_its_own_message_only(
    connection: AsyncConnection, superuser: asyncpg.Connection, move: Move
) -> None:
    source = sources(move)[0]
    message, _ = [await make_message(superuser, source, token=1, came_from="queued") for _ in range(2)]
    moving = _moving(move) | {"this_token": 1, "state_before": source}

    assert await _rows(connection, statements.MOVES[move], message, **moving) == 1


async def test_each_move_writes_its_line_of_the_timeline(
    connection: AsyncConnection, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(begin_id=BEGIN_ID))
    values = {
        "this_message": message.id,
        "this_token": 1,
        "state_before": State.LEASED,
        **MOVING,
        "why": "connection_lost",
    }

    await connection.execute(statements.MOVES[Move.QUARANTINE], values)
    await connection.commit()

    line = await superuser.fetchrow("SELECT * FROM timeline WHERE message_id = $1 AND seq = 2", message.id)
    assert line is not None
    assert (line["from_state"], line["to_state"], line["move"]) == ("leased", "ambiguous", "quarantine")
    assert (line["reason"], line["attempt"], line["actor"]) == ("connection_lost", 1, "machine")


@pytest.mark.parametrize("came_from", ["queued", "retryable"])
async def test_a_release_goes_back_to_where_the_claim_came_from(
    connection: AsyncConnection, superuser: asyncpg.Connection, came_from: str
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(), came_from=came_from)
    values = {"this_message": message.id, "this_token": 1, "state_before": State.LEASED, **MOVING}

    await connection.execute(statements.MOVES[Move.RELEASE], values)
    await connection.commit()

    assert await superuser.fetchval("SELECT state FROM messages WHERE id = $1", message.id) == came_from


SCANNED: dict[str, dict[str, Any]] = {
    "CLAIM_FACTS": {"this_claim": "c", "max_age": MINUTE},
    "CLAIM": {"this_token": 1, **CLAIMING},
    "BEGIN_FACTS": {"in_attempt": 1, "needs": MINUTE},
    "BEGIN": BEGINNING,
    "USE_ATTEMPT": {"this_token": 1},
    "RECORD": RECORDING,
    "RECORDED": {"in_attempt": 1},
    "CLOSE": {"this_token": 1, "closes_as": None, "closes_because": None},
    "SETTLE_FACTS": {},
    "STANDING": {},
    "LOCK": {},
    "SUBMISSION": {"in_attempt": 1},
    "SUPPRESS_RECIPIENT": {},
    "LOCK_IF_FREE": {},
    "EXPIRED_LEASES": {"most": 10},
    "STARTABLE": {"most": 10, "overdue": MINUTE, "again_after": MINUTE},
    "RUN_REQUESTED": {},
}


@pytest.mark.parametrize("name", SCANNED)
async def test_each_statement_has_an_index_to_go_by(
    superuser: asyncpg.Connection, worker_engine: AsyncEngine, name: str
) -> None:
    """With sequential scans priced out, only a query without an index still makes one."""
    await make_tenant(superuser)
    message = await make_message(superuser)
    statement = getattr(statements, name, None)
    if statement is None:
        statement = getattr(sweep_statements, name)
    async with worker_engine.connect() as connection:
        await connection.exec_driver_sql("SET enable_seqscan = off")
        ran: list[tuple[str, tuple[Any, ...]]] = []
        sa.event.listen(
            connection.sync_connection, "before_cursor_execute", lambda *seen: ran.append((seen[2], seen[3]))
        )
        await connection.execute(statement, {"this_message": message.id, **SCANNED[name]})
        sql, values = ran[-1]
        plan = [str(row[0]) for row in await connection.exec_driver_sql(f"EXPLAIN {sql}", values)]
        await connection.rollback()

    scanned = [
        line for line in plan if "Seq Scan" in line and not any(small in line for small in ("providers", "tenants"))
    ]
    assert not scanned, plan
