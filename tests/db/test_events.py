"""Provider events at the store: kept once, applied in whatever order, from every state, on three roles' rights."""

import asyncio
from datetime import timedelta
from itertools import permutations
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from db.events import EventStore, Taken
from db.ids import TenantId
from db.lifecycle import State
from db.outcomes import EventType, Reason
from db.records import MessageRef, NamedRecipient, ProviderEvent
from tests.conftest import Database
from tests.factories import ADDRESS_HASH, AttemptRow, make_message, make_tenant, snapshot, state_of

BOB_HASH = b"b" * 32
NOBODYS = "01920000-0000-7000-8000-000000000000"
ACCEPTED = AttemptRow(begin_id=uuid4(), outcome="accepted", provider_message_id="ses-1", closed=True)
UNKNOWN = AttemptRow(begin_id=uuid4(), outcome="unknown", closed=True)
NEWER = AttemptRow(number=2, token=2, claim_id="claim-2")
ENDS = {
    EventType.SEND: State.PROVIDER_ACCEPTED,
    EventType.REJECT: State.DEAD,
    EventType.DELIVERY: State.DELIVERED,
    EventType.BOUNCE: State.HARD_BOUNCED,
    EventType.COMPLAINT: State.COMPLAINED,
}
WEAK = (EventType.SOFT_BOUNCE, EventType.DELAY, EventType.OTHER)


@pytest.fixture
async def store(api_engine: AsyncEngine, superuser: asyncpg.Connection) -> EventStore:
    await make_tenant(superuser)
    return EventStore(api_engine)


def an_event(
    message: MessageRef | None,
    kind: EventType = EventType.SEND,
    *names: bytes,
    attempt: int = 1,
    provider_message_id: str | None = None,
    reason: Reason | None = None,
) -> ProviderEvent:
    """Make an event about a message's attempt, by its tags; it names the primary recipient unless others are given."""
    whole = kind in (EventType.SEND, EventType.REJECT, EventType.OTHER)
    named = names or (() if whole else (ADDRESS_HASH,))
    return ProviderEvent(
        provider="ses",
        notification_id=str(uuid4()),
        natural_key=uuid4().hex,
        type=kind,
        recipients=tuple(NamedRecipient(address_hash=name) for name in named),
        provider_message_id=provider_message_id,
        message_tag=str(message.id) if message else None,
        attempt_tag=str(attempt) if message else None,
        reason=reason,
    )


async def moves(connection: asyncpg.Connection, message: MessageRef) -> list[str]:
    rows = await connection.fetch("SELECT move FROM timeline WHERE message_id = $1 ORDER BY seq", message.id)
    return [row["move"] for row in rows][1:]


async def outcomes(connection: asyncpg.Connection, message: MessageRef) -> dict[str, str | None]:
    rows = await connection.fetch("SELECT role, position, outcome FROM recipients WHERE message_id = $1", message.id)
    return {f"{row['role']}:{row['position']}": row["outcome"] for row in rows}


async def suppressed(connection: asyncpg.Connection, tenant_id: TenantId) -> list[tuple[str, str, str]]:
    rows = await connection.fetch(
        "SELECT address, scope, reason FROM suppressions WHERE tenant_id = $1 AND removed_at IS NULL", tenant_id
    )
    return [tuple(row) for row in rows]


async def add_copy(connection: asyncpg.Connection, message: MessageRef, address_hash: bytes = BOB_HASH) -> None:
    await connection.execute(
        """INSERT INTO recipients (message_id, role, position, tenant_id, address, address_hash, redacted)
        VALUES ($1, 'cc', 0, $2, 'bob@example.com', $3, 'b***@example.com')""",
        message.id,
        message.tenant_id,
        address_hash,
    )


async def test_in_whatever_order_events_come_the_strongest_wins_and_each_stands_once(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    orders = {order: await make_message(superuser, State.PROVIDER_ACCEPTED, ACCEPTED) for order in permutations(ENDS)}

    async def take(order: tuple[EventType, ...], message: MessageRef) -> None:
        for kind in order:
            event = an_event(message, kind)
            assert [await store.take(event), await store.take(event)] == [Taken.APPLIED, Taken.DUPLICATE]

    await asyncio.gather(*(take(*each) for each in orders.items()))

    for order, message in orders.items():
        assert await state_of(superuser, message) is State.COMPLAINED, order
        # What comes after a rejection takes it back first: the mail went out after all.
        lines = [move for move in await moves(superuser, message) if move != "prove"]
        assert len(lines) == len(order), order


async def test_on_the_way_a_message_stands_where_the_events_so_far_take_it(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    for order in permutations(list(ENDS)[1:]):
        message = await make_message(superuser, State.PROVIDER_ACCEPTED, ACCEPTED)
        for number, kind in enumerate(order, 1):
            await store.take(an_event(message, kind))
            strongest = max(order[:number], key=list(ENDS).index)
            assert await state_of(superuser, message) is ENDS[strongest], order[:number]


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("state", [state for state in State if state is not State.LEASED])
async def test_an_event_takes_a_message_from_every_state_to_where_its_evidence_points(
    store: EventStore, superuser: asyncpg.Connection, state: State, kind: EventType
) -> None:
    message = await make_message(superuser, state, UNKNOWN)

    await store.take(an_event(message, kind))

    ranks: list[State] = [State.PROVIDER_ACCEPTED, State.DELIVERED, State.HARD_BOUNCED, State.COMPLAINED]
    wanted: State
    if kind is EventType.REJECT:
        wanted = State.DEAD if state in (State.AMBIGUOUS, State.PROVIDER_ACCEPTED) else state
    elif state in ranks:
        wanted = ranks[max(ranks.index(state), ranks.index(ENDS[kind]))]
    else:
        wanted = ENDS[kind]
    assert await state_of(superuser, message) is wanted


@pytest.mark.parametrize("kind", WEAK)
async def test_a_delay_a_soft_bounce_and_what_we_do_not_know_prove_acceptance_and_no_more(
    store: EventStore, superuser: asyncpg.Connection, kind: EventType
) -> None:
    tenant_id = TenantId(f"weak-{kind.replace('_', '-')}")
    await make_tenant(superuser, tenant_id)
    ambiguous = await make_message(superuser, State.AMBIGUOUS, UNKNOWN, tenant_id=tenant_id)
    delivered = await make_message(superuser, State.DELIVERED, ACCEPTED, tenant_id=tenant_id)

    await store.take(an_event(ambiguous, kind, ADDRESS_HASH))
    await store.take(an_event(delivered, kind, ADDRESS_HASH))

    assert [await state_of(superuser, each) for each in (ambiguous, delivered)] == ["provider_accepted", "delivered"]
    assert await moves(superuser, delivered) == [f"event_{kind}"]
    assert await suppressed(superuser, tenant_id) == []
    assert await outcomes(superuser, delivered) == {"to:0": None}


async def test_an_event_waits_for_settle_while_its_attempt_is_begun(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(begin_id=uuid4()))

    assert await store.take(an_event(message, EventType.DELIVERY)) is Taken.APPLIED

    assert await state_of(superuser, message) is State.LEASED
    assert await moves(superuser, message) == ["event_delivery"]


async def test_an_event_about_an_older_attempt_closes_one_that_has_not_begun(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.LEASED, UNKNOWN, NEWER)

    await store.take(an_event(message, EventType.DELIVERY))

    assert await state_of(superuser, message) is State.DELIVERED
    rows = await superuser.fetch(
        "SELECT outcome, closed_at FROM attempts WHERE message_id = $1 ORDER BY number", message.id
    )
    assert rows[1]["outcome"] == "not_begun"
    assert rows[1]["closed_at"] is not None


async def test_a_rejection_of_an_older_attempt_leaves_a_newer_ones_ambiguity_alone(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    newer = AttemptRow(number=2, token=2, claim_id="claim-2", begin_id=uuid4(), outcome="unknown", closed=True)
    message = await make_message(superuser, State.AMBIGUOUS, UNKNOWN, newer)

    await store.take(an_event(message, EventType.REJECT, attempt=1))
    assert await state_of(superuser, message) is State.AMBIGUOUS
    await store.take(an_event(message, EventType.REJECT, attempt=2))

    assert await state_of(superuser, message) is State.DEAD


async def test_what_a_person_vouched_for_outlives_the_rejection_of_another_attempt(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    newer = AttemptRow(number=2, token=2, claim_id="claim-2", begin_id=uuid4(), outcome="unknown", closed=True)
    message = await make_message(superuser, State.PROVIDER_ACCEPTED, UNKNOWN, newer)
    await superuser.execute(
        """INSERT INTO operator_audit (id, credential_id, action, message_id, attempt, decision, reason)
        SELECT $2, credential_id, 'message_resolved', id, 2, 'accepted', 'seen in the log' FROM messages
        WHERE id = $1""",
        message.id,
        uuid4(),
    )

    await store.take(an_event(message, EventType.REJECT, attempt=1))
    assert await state_of(superuser, message) is State.PROVIDER_ACCEPTED
    await store.take(an_event(message, EventType.REJECT, attempt=2))

    assert await state_of(superuser, message) is State.DEAD


@pytest.mark.parametrize("kind", [EventType.DELIVERY, EventType.BOUNCE, EventType.COMPLAINT])
async def test_an_event_that_names_only_a_copy_proves_acceptance_and_writes_the_copys_outcome(
    store: EventStore, superuser: asyncpg.Connection, kind: EventType
) -> None:
    tenant_id = TenantId(f"copy-{kind}")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, State.AMBIGUOUS, UNKNOWN, tenant_id=tenant_id)
    await add_copy(superuser, message)

    await store.take(an_event(message, kind, BOB_HASH))
    await store.take(an_event(message, kind, b"nobody we know" * 2))

    assert await state_of(superuser, message) is State.PROVIDER_ACCEPTED
    words = {EventType.DELIVERY: "delivered", EventType.BOUNCE: "bounced", EventType.COMPLAINT: "complained"}
    assert await outcomes(superuser, message) == {"to:0": None, "cc:0": words[kind]}
    assert await moves(superuser, message) == ["prove", f"event_{kind}"]
    reasons = {EventType.BOUNCE: "hard_bounce", EventType.COMPLAINT: "complaint"}
    wanted = [("bob@example.com", "all", reasons[kind])] if kind in reasons else []
    assert await suppressed(superuser, tenant_id) == wanted


async def test_each_recipient_keeps_its_strongest_outcome_whatever_the_order(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    for order in permutations(list(ENDS)[1:]):
        message = await make_message(superuser, State.PROVIDER_ACCEPTED, ACCEPTED)
        await add_copy(superuser, message)
        for kind in order:
            await store.take(an_event(message, kind, ADDRESS_HASH))
            if kind is not EventType.COMPLAINT:
                await store.take(an_event(message, kind, BOB_HASH))

        assert await outcomes(superuser, message) == {"to:0": "complained", "cc:0": "bounced"}, order


@pytest.mark.parametrize("role", ["fencepost_api", "fencepost_events"])
async def test_each_door_has_the_rights_that_an_event_takes(
    database: Database, superuser: asyncpg.Connection, role: str
) -> None:
    tenant_id = TenantId(role.replace("_", "-"))
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, State.LEASED, UNKNOWN, NEWER, tenant_id=tenant_id)
    engine = database.engine(role)
    store = EventStore(engine)

    taken = [
        await store.take(an_event(message, EventType.COMPLAINT)),
        await store.take(an_event(message, EventType.SEND)),
        await store.take(an_event(None)),
    ]

    assert taken == [Taken.APPLIED, Taken.APPLIED, Taken.UNMATCHED]
    assert await state_of(superuser, message) is State.COMPLAINED
    assert await suppressed(superuser, tenant_id) == [("ada@example.com", "all", "complaint")]
    await engine.dispose()


async def test_a_bounce_or_complaint_suppresses_once_and_a_removal_is_not_undone_by_a_repeat(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId(f"suppressing-{uuid4().hex[:8]}")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, State.PROVIDER_ACCEPTED, ACCEPTED, tenant_id=tenant_id)
    bounce = an_event(message, EventType.BOUNCE, reason=Reason.PROVIDER_SUPPRESSION_LIST)

    await store.take(bounce)
    await store.take(an_event(message, EventType.COMPLAINT))
    assert await suppressed(superuser, tenant_id) == [("ada@example.com", "all", "hard_bounce")]
    await superuser.execute("UPDATE suppressions SET removed_at = now() WHERE tenant_id = $1", tenant_id)
    await store.take(bounce)

    assert await suppressed(superuser, tenant_id) == []
    line = await superuser.fetchrow("SELECT * FROM timeline WHERE message_id = $1 AND move = 'bounce'", message.id)
    assert line is not None
    assert (line["reason"], line["actor"]) == ("provider_suppression_list", "provider")


async def test_an_event_without_our_tags_is_matched_by_the_id_that_the_provider_gave(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    given = uuid4().hex
    attempt = AttemptRow(begin_id=uuid4(), outcome="accepted", provider_message_id=given, closed=True)
    message = await make_message(superuser, State.PROVIDER_ACCEPTED, attempt)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE attempts SET provider = 'ses' WHERE message_id = $1", message.id)

    assert await store.take(an_event(None, EventType.DELIVERY, provider_message_id=given)) is Taken.APPLIED

    assert await state_of(superuser, message) is State.DELIVERED


@pytest.mark.parametrize(
    ("message_tag", "attempt_tag"),
    [("nonsense", "1"), (NOBODYS, "nonsense"), (NOBODYS, "99999999999"), (NOBODYS, "0"), (NOBODYS, "1")],
)
async def test_tags_that_we_never_wrote_match_nothing(store: EventStore, message_tag: str, attempt_tag: str) -> None:
    event = ProviderEvent(
        provider="ses",
        notification_id=str(uuid4()),
        natural_key=uuid4().hex,
        type=EventType.SEND,
        recipients=(),
        provider_message_id=None,
        message_tag=message_tag,
        attempt_tag=attempt_tag,
    )

    assert [await store.take(event), await store.take(event)] == [Taken.UNMATCHED, Taken.DUPLICATE]


async def test_an_event_that_comes_before_its_message_waits_and_is_applied_once(
    store: EventStore, worker_engine: AsyncEngine, superuser: asyncpg.Connection
) -> None:
    await _forget_waiting(superuser)
    given = uuid4().hex
    bounce = an_event(None, EventType.BOUNCE, provider_message_id=given, reason=Reason.PROVIDER_SUPPRESSION_LIST)
    assert await store.take(bounce) is Taken.UNMATCHED
    sweeping = EventStore(worker_engine)
    (early,) = await sweeping.waiting(10)
    assert await sweeping.match(early) is False
    assert await sweeping.waiting(10) == []  # not yet again

    tenant_id = TenantId(f"early-{uuid4().hex[:8]}")
    await make_tenant(superuser, tenant_id)
    attempt = AttemptRow(begin_id=uuid4(), outcome="accepted", provider_message_id=given, closed=True)
    message = await make_message(superuser, State.PROVIDER_ACCEPTED, attempt, tenant_id=tenant_id)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE attempts SET provider = 'ses' WHERE message_id = $1", message.id)
    await superuser.execute("SET session_replication_role = origin")
    await superuser.execute("UPDATE unmatched_events SET look_at = now()")
    (waiting,) = await sweeping.waiting(10)
    assert waiting.event == bounce
    assert [await sweeping.match(waiting), await sweeping.match(waiting)] == [True, True]

    assert await state_of(superuser, message) is State.HARD_BOUNCED
    assert await moves(superuser, message) == ["bounce"]
    assert await suppressed(superuser, tenant_id) == [("ada@example.com", "all", "hard_bounce")]
    assert await superuser.fetchval("SELECT count(*) FROM unmatched_events") == 0


async def test_a_repeat_that_finds_its_message_ends_the_wait(store: EventStore, superuser: asyncpg.Connection) -> None:
    await _forget_waiting(superuser)
    message = await make_message(superuser, State.PROVIDER_ACCEPTED, ACCEPTED)
    event = an_event(message, EventType.DELIVERY)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE attempts SET number = 7 WHERE message_id = $1", message.id)
    assert await store.take(event) is Taken.UNMATCHED
    await superuser.execute("UPDATE attempts SET number = 1 WHERE message_id = $1", message.id)
    await superuser.execute("SET session_replication_role = origin")

    assert await store.take(event) is Taken.APPLIED

    assert await state_of(superuser, message) is State.DELIVERED
    assert await superuser.fetchval("SELECT count(*) FROM unmatched_events") == 0


async def test_an_event_whose_message_never_comes_is_kept_and_looked_for_ever_more_rarely(
    store: EventStore, worker_engine: AsyncEngine, superuser: asyncpg.Connection
) -> None:
    await _forget_waiting(superuser)
    await store.take(an_event(None))
    sweeping = EventStore(worker_engine)
    for _ in range(3):
        await superuser.execute("UPDATE unmatched_events SET look_at = now()")
        for waiting in await sweeping.waiting(10):
            await sweeping.match(waiting)
    in_turn = "SELECT looks, look_at - clock_timestamp() AS wait FROM unmatched_events"
    row = await superuser.fetchrow(in_turn)
    assert row is not None
    assert row["looks"] == 3
    assert timedelta(seconds=4) < row["wait"] <= timedelta(seconds=8)

    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        """UPDATE provider_events SET received_at = now() - interval '8 days'
        WHERE id = (SELECT event_id FROM unmatched_events)"""
    )
    await superuser.execute("UPDATE unmatched_events SET look_at = now()")
    for waiting in await sweeping.waiting(10):
        await sweeping.match(waiting)

    row = await superuser.fetchrow(in_turn)
    assert row is not None
    assert row["wait"] is None


async def test_the_same_event_under_another_notification_is_a_repeat(
    store: EventStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.PROVIDER_ACCEPTED, ACCEPTED)
    event = an_event(message, EventType.DELIVERY)
    again = ProviderEvent(
        **{name: getattr(event, name) for name in event.__slots__} | {"notification_id": str(uuid4())}
    )

    assert [await store.take(event), await store.take(again)] == [Taken.APPLIED, Taken.DUPLICATE]

    assert await moves(superuser, message) == ["deliver"]


async def test_of_many_doors_that_take_one_event_at_once_one_writes_it(
    database: Database, superuser: asyncpg.Connection
) -> None:
    await make_tenant(superuser)
    message = await make_message(superuser, State.AMBIGUOUS, UNKNOWN)
    event = an_event(message, EventType.DELIVERY)
    engines = [database.engine(role) for role in ("fencepost_api", "fencepost_events")]

    taken = await asyncio.gather(*(EventStore(engine).take(event) for engine in engines for _ in range(8)))

    assert taken.count(Taken.APPLIED) == 1
    assert await moves(superuser, message) == ["prove", "deliver"]
    assert await superuser.fetchval("SELECT count(*) FROM evidence WHERE message_id = $1", message.id) == 1
    for engine in engines:
        await engine.dispose()


async def test_an_event_writes_nothing_but_what_it_says(store: EventStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.AMBIGUOUS, UNKNOWN)
    other = await make_message(superuser, State.AMBIGUOUS, UNKNOWN)
    before = await snapshot(superuser, other)

    await store.take(an_event(message, EventType.COMPLAINT))

    assert await snapshot(superuser, other) == before


async def _forget_waiting(connection: asyncpg.Connection) -> None:
    await connection.execute("DELETE FROM unmatched_events")
