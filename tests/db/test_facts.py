"""What the store reads before it decides, fact by fact: rows that differ from a good one in that fact alone.

Some of them no transaction leaves behind: each of two facts that always change together has to be looked at.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from db.decisions import BeginAnswer, ClaimAnswer, FinalAnswer
from db.ids import TenantId, new_id
from db.lifecycle import State
from db.records import MessageRef
from db.store import MessageStore, Recorded, Reread
from tests.db.test_store import ACCEPTED, BEGIN_ID, LEASE, LIMITS, NEEDS, break_policy, claim, timeline
from tests.factories import ADDRESS_HASH, AttemptRow, make_message, make_tenant, snapshot

NEVER_BEGUN = AttemptRow(outcome="not_begun", closed=True)


@pytest.fixture
async def store(worker_engine: AsyncEngine, superuser: asyncpg.Connection) -> MessageStore:
    await make_tenant(superuser)
    return MessageStore(worker_engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A message and its attempt as they stand while one fact is off."""

    attempt: AttemptRow
    state: State = State.LEASED
    token: int = 1

    async def make(self, connection: asyncpg.Connection, tenant_id: TenantId) -> MessageRef:
        await make_tenant(connection, tenant_id)
        return await make_message(connection, self.state, self.attempt, token=self.token, tenant_id=tenant_id)


BEGIN_REFUSED = {
    "without an attempt": Held(attempt=AttemptRow(number=2, token=2), token=2),
    "under a stale token": Held(attempt=AttemptRow(), token=2),
    "of a message that is not leased": Held(attempt=AttemptRow(), state=State.DEAD),
    "of a closed attempt": Held(attempt=NEVER_BEGUN),
    "of a begun attempt": Held(attempt=AttemptRow(begin_id=uuid4())),
    "with too little lease": Held(attempt=AttemptRow(lease=timedelta(seconds=12))),
}


@pytest.mark.parametrize("case", BEGIN_REFUSED)
async def test_a_begin_is_refused_and_writes_nothing_though_policy_says_no(
    store: MessageStore, superuser: asyncpg.Connection, case: str
) -> None:
    tenant_id = TenantId("refused")
    message = await BEGIN_REFUSED[case].make(superuser, tenant_id)
    await break_policy(superuser, tenant_id, "tenant_disabled")
    before = await snapshot(superuser, message)

    answer = await store.begin(message.id, 1, begin_id=uuid4(), needs=NEEDS)

    assert answer.answer is BeginAnswer.REFUSED
    assert await snapshot(superuser, message) == before


BEGUN = AttemptRow(begin_id=BEGIN_ID)
REREAD = {
    "without an attempt": (Held(attempt=AttemptRow(number=2, token=2), token=2), Reread.STOP),
    "its own": (Held(attempt=BEGUN), Reread.CALL),
    "somebody else's": (Held(attempt=AttemptRow(begin_id=uuid4())), Reread.STOP),
    "under a stale token": (Held(attempt=BEGUN, token=2), Reread.UNSENT),
    "of a message that is not leased": (Held(attempt=BEGUN, state=State.AMBIGUOUS), Reread.UNSENT),
    "of a closed attempt": (Held(attempt=AttemptRow(begin_id=BEGIN_ID, outcome="unknown", closed=True)), Reread.UNSENT),
    "with too little lease": (
        Held(attempt=AttemptRow(begin_id=BEGIN_ID, lease=timedelta(seconds=12))),
        Reread.UNSENT,
    ),
}


@pytest.mark.parametrize("case", REREAD)
async def test_a_body_that_rereads_a_begin_may_call_only_if_everything_is_as_begin_left_it(
    store: MessageStore, superuser: asyncpg.Connection, case: str
) -> None:
    held, expected = REREAD[case]
    message = await held.make(superuser, TenantId("reread"))

    assert await store.reread_begin(message.id, 1, begin_id=BEGIN_ID, needs=NEEDS) is expected


@pytest.mark.parametrize("attempt", [1, 9], ids=["stale", "nobody's"])
async def test_a_finalize_that_is_not_the_lease_holders_changes_nothing_and_says_when_the_lease_ends(
    store: MessageStore, superuser: asyncpg.Connection, attempt: int
) -> None:
    newer = AttemptRow(number=2, token=2, claim_id="claim-2", lease=LEASE)
    message = await make_message(superuser, State.LEASED, NEVER_BEGUN, newer)
    before = await snapshot(superuser, message)

    final = await store.finalize(message.id, attempt, limits=LIMITS)

    assert (final.answer, final.state) == (FinalAnswer.AGAIN, State.LEASED)
    assert LEASE - timedelta(seconds=10) < final.wait <= LEASE
    assert await snapshot(superuser, message) == before


async def test_nobody_records_into_an_attempt_that_there_is_not(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.LEASED, BEGUN)

    assert await store.record(message.id, 9, begin_id=BEGIN_ID, result=ACCEPTED) is Recorded.NOT_OURS


@pytest.mark.parametrize(
    "stored",
    [
        AttemptRow(begin_id=BEGIN_ID, outcome="unknown"),
        AttemptRow(begin_id=BEGIN_ID, outcome="accepted", provider_message_id="ses-0"),
    ],
    ids=["another outcome", "another id"],
)
async def test_only_the_very_same_result_counts_as_recorded_already(
    store: MessageStore, superuser: asyncpg.Connection, stored: AttemptRow
) -> None:
    message = await make_message(superuser, State.LEASED, stored)

    assert await store.record(message.id, 1, begin_id=BEGIN_ID, result=ACCEPTED) is Recorded.LATE


async def _event(connection: asyncpg.Connection, message: MessageRef, attempt: int, event_type: str) -> None:
    await connection.execute(
        "INSERT INTO evidence (id, message_id, attempt, kind, event_type) VALUES ($1, $2, $3, 'event', $4)",
        new_id(),
        message.id,
        attempt,
        event_type,
    )


async def test_an_event_that_was_stored_before_finalize_is_its_evidence(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.LEASED, BEGUN)
    await _event(superuser, message, 1, "delivery")

    final = await store.finalize(message.id, 1, limits=LIMITS)

    assert (final.answer, final.state) == (FinalAnswer.SETTLED, State.DELIVERED)


async def test_an_event_counts_for_its_own_attempt_of_its_own_message_only(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    older = AttemptRow(begin_id=uuid4(), outcome="unknown", closed=True)
    newer = AttemptRow(
        number=2, token=2, claim_id="claim-2", begin_id=BEGIN_ID, outcome="accepted", provider_message_id="ses-1"
    )
    message = await make_message(superuser, State.LEASED, older, newer)
    other = await make_message(superuser, State.LEASED, older, newer)
    await _event(superuser, message, 1, "reject")
    await _event(superuser, other, 2, "reject")

    assert (await store.finalize(message.id, 2, limits=LIMITS)).state is State.PROVIDER_ACCEPTED


async def test_a_late_result_is_no_event(store: MessageStore, superuser: asyncpg.Connection) -> None:
    given_up = AttemptRow(begin_id=uuid4(), outcome="unknown", closed=True)
    newer = AttemptRow(number=2, token=2, claim_id="claim-2")
    message = await make_message(superuser, State.LEASED, given_up, newer)
    await superuser.execute(
        "INSERT INTO evidence (id, message_id, attempt, kind, outcome) VALUES ($1, $2, 1, 'late_result', 'accepted')",
        new_id(),
        message.id,
    )

    assert (await store.finalize(message.id, 2, limits=LIMITS)).state is State.RETRYABLE


async def test_a_message_that_is_not_due_is_told_how_long_to_wait(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    await superuser.execute(
        "UPDATE messages SET due_at = clock_timestamp() + interval '60 s' WHERE id = $1", message.id
    )

    answer = await claim(store, message)

    assert answer.answer is ClaimAnswer.NOT_DUE
    assert answer.wait is not None
    assert timedelta(seconds=50) < answer.wait <= timedelta(seconds=60)
    assert await timeline(superuser, message) == [("intake", "queued", None)]


OTHER_HASH = b"o" * 32


async def _suppress(connection: asyncpg.Connection, tenant_id: TenantId, address_hash: bytes) -> None:
    await connection.execute(
        """INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason)
        VALUES ($1, $2, 'somebody@example.com', $3, 'all', 'manual')""",
        new_id(),
        tenant_id,
        address_hash,
    )


async def _cc(connection: asyncpg.Connection, message: MessageRef, address_hash: bytes, *, position: int = 0) -> None:
    await connection.execute(
        """INSERT INTO recipients (message_id, role, position, tenant_id, address, address_hash, redacted)
        VALUES ($1, 'cc', $4, $2, 'bob@example.com', $3, 'b***@example.com')""",
        message.id,
        message.tenant_id,
        address_hash,
        position,
    )


async def test_another_tenants_suppression_stops_nothing(store: MessageStore, superuser: asyncpg.Connection) -> None:
    await make_tenant(superuser, TenantId("theirs"))
    await _suppress(superuser, TenantId("theirs"), ADDRESS_HASH)
    message = await make_message(superuser)

    assert (await claim(store, message)).answer is ClaimAnswer.LEASED


async def test_another_messages_recipient_stops_nothing(store: MessageStore, superuser: asyncpg.Connection) -> None:
    tenant_id = TenantId("another-message")
    await make_tenant(superuser, tenant_id)
    suppressed = await make_message(superuser, tenant_id=tenant_id)
    await _suppress(superuser, tenant_id, ADDRESS_HASH)
    message = await make_message(superuser, tenant_id=tenant_id)
    await superuser.execute(
        f"""SET session_replication_role = replica;
        UPDATE recipients SET address_hash = '\\x{OTHER_HASH.hex()}' WHERE message_id = '{message.id}';
        SET session_replication_role = origin"""
    )

    assert (await claim(store, suppressed)).answer is ClaimAnswer.SUPPRESSED
    assert (await claim(store, message)).answer is ClaimAnswer.LEASED


async def _outcome_of_copy(connection: asyncpg.Connection, message: MessageRef) -> object:
    return await connection.fetchval("SELECT outcome FROM recipients WHERE message_id = $1 AND role = 'cc'", message.id)


async def test_a_suppressed_copy_is_left_out_and_the_others_are_not(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("copies")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    await _cc(superuser, message, OTHER_HASH)
    await _cc(superuser, message, b"c" * 32, position=1)
    await _suppress(superuser, tenant_id, OTHER_HASH)

    assert (await claim(store, message)).answer is ClaimAnswer.LEASED
    assert await _outcome_of_copy(superuser, message) == "suppressed"
    begun = await store.begin(message.id, 1, begin_id=BEGIN_ID, needs=NEEDS)

    assert (begun.answer, begun.left_out) == (BeginAnswer.BEGUN, frozenset({"cc:0"}))
    assert await store.suppressed_copies(message.id) == {"cc:0"}
    mail = (await store.submission(message.id, 1)).without(begun.left_out)
    assert [to.place for to in mail.recipients] == ["cc:1", "to:0"]


async def test_a_copy_that_is_suppressed_after_the_claim_is_left_out_by_begin(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("copies-at-begin")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    await _cc(superuser, message, OTHER_HASH)
    await claim(store, message)
    await _suppress(superuser, tenant_id, OTHER_HASH)

    begun = await store.begin(message.id, 1, begin_id=BEGIN_ID, needs=NEEDS)

    assert (begun.answer, begun.left_out) == (BeginAnswer.BEGUN, frozenset({"cc:0"}))
    assert await _outcome_of_copy(superuser, message) == "suppressed"


async def test_a_copy_whose_suppression_was_removed_is_in_again_at_the_next_try(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("copies-again")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    await _cc(superuser, message, OTHER_HASH)
    await _suppress(superuser, tenant_id, OTHER_HASH)
    await claim(store, message)
    await superuser.execute("UPDATE suppressions SET removed_at = now() WHERE tenant_id = $1", tenant_id)

    begun = await store.begin(message.id, 1, begin_id=BEGIN_ID, needs=NEEDS)

    assert (begun.answer, begun.left_out) == (BeginAnswer.BEGUN, frozenset())
    assert await _outcome_of_copy(superuser, message) is None


async def test_a_copy_that_bounced_before_keeps_its_outcome_and_is_left_out(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("copies-bounced")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    await _cc(superuser, message, OTHER_HASH)
    await _suppress(superuser, tenant_id, OTHER_HASH)
    await superuser.execute(
        "UPDATE recipients SET outcome = 'bounced' WHERE message_id = $1 AND role = 'cc'", message.id
    )
    await claim(store, message)

    begun = await store.begin(message.id, 1, begin_id=BEGIN_ID, needs=NEEDS)

    assert begun.left_out == {"cc:0"}
    assert await _outcome_of_copy(superuser, message) == "bounced"


async def test_the_primary_recipient_is_no_copy(store: MessageStore, superuser: asyncpg.Connection) -> None:
    tenant_id = TenantId("no-copy")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    await _suppress(superuser, tenant_id, ADDRESS_HASH)

    assert await store.suppressed_copies(message.id) == frozenset()
