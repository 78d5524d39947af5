"""The store's transactions in the order in which a message meets them, and out of it."""

from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from db.decisions import BeginAnswer, ClaimAnswer, FinalAnswer, Limits
from db.engine import DatabaseSettings, UnavailableError, create_engine
from db.ids import MessageId, TenantId, new_id, new_message_id
from db.lifecycle import State
from db.outcomes import Outcome, Reason
from db.records import CallResult, ExpiredLease, MessageRef
from db.store import Claimed, MessageStore, Recorded, Reread
from db.transaction import UnknownMessageError
from tests.conftest import free_port
from tests.factories import ADDRESS_HASH, AttemptRow, make_message, make_tenant, snapshot, state_of

LIMITS = Limits(
    attempts=3,
    max_age=timedelta(hours=24),
    backoff_base=timedelta(seconds=2),
    backoff_cap=timedelta(seconds=300),
    account_wait=timedelta(minutes=10),
)
LEASE = timedelta(seconds=60)
NEEDS = timedelta(seconds=13)
BEGIN_ID = UUID("22222222-2222-4222-8222-222222222222")
ACCEPTED = CallResult(outcome=Outcome.ACCEPTED, provider="ses", provider_message_id="ses-1", request_id="r-1")
UNKNOWN = CallResult(outcome=Outcome.UNKNOWN, provider="ses", reason=Reason.PROVIDER_TIMEOUT)
THROTTLED = CallResult(outcome=Outcome.REFUSED, provider="ses", reason=Reason.THROTTLED, code="TooManyRequests")


@pytest.fixture
async def store(worker_engine: AsyncEngine, superuser: asyncpg.Connection) -> MessageStore:
    await make_tenant(superuser)
    return MessageStore(worker_engine)


async def claim(store: MessageStore, message: MessageRef, claim_id: str = "claim-a") -> Claimed:
    return await store.claim(message.id, claim_id=claim_id, owner="worker-1", lease=LEASE, limits=LIMITS)


async def begun(store: MessageStore, message: MessageRef, claim_id: str = "claim-a") -> int:
    """Claim and begin; give the attempt."""
    leased = await claim(store, message, claim_id)
    await store.begin(message.id, leased.attempt, begin_id=BEGIN_ID, needs=NEEDS)
    return leased.attempt


async def timeline(connection: asyncpg.Connection, message: MessageRef) -> list[tuple[str, str | None, str | None]]:
    rows = await connection.fetch("SELECT * FROM timeline WHERE message_id = $1 ORDER BY seq", message.id)
    return [(row["move"], row["to_state"], row["reason"]) for row in rows]


async def test_a_message_goes_from_queued_to_provider_accepted(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)

    attempt = await begun(store, message)
    recorded = await store.record(message.id, attempt, begin_id=BEGIN_ID, result=ACCEPTED)
    final = await store.finalize(message.id, attempt, limits=LIMITS)

    assert recorded is Recorded.RECORDED
    assert (final.answer, final.state) == (FinalAnswer.SETTLED, State.PROVIDER_ACCEPTED)
    assert await timeline(superuser, message) == [
        ("intake", "queued", None),
        ("claim", "leased", None),
        ("accept", "provider_accepted", None),
    ]
    row = await superuser.fetchrow("SELECT * FROM attempts WHERE message_id = $1", message.id)
    assert row is not None
    assert (row["outcome"], row["provider_message_id"], row["lease_owner"]) == ("accepted", "ses-1", "worker-1")
    assert row["closed_at"] is not None
    accepted_at, delivered_at = await superuser.fetchrow(  # type: ignore[misc]  # there is a row
        "SELECT provider_accepted_at, delivered_at FROM messages WHERE id = $1", message.id
    )
    assert accepted_at is not None
    assert delivered_at is None


async def test_a_claim_that_is_run_again_finds_its_own_lease(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)

    first = await claim(store, message)
    before = await snapshot(superuser, message)
    second = await claim(store, message)

    assert (second.answer, second.attempt) == (ClaimAnswer.LEASED, first.attempt)
    assert await snapshot(superuser, message) == before


async def test_a_claim_that_is_run_again_after_its_lease_takes_none_anew(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    attempt = (await claim(store, message)).attempt
    await store.finalize(message.id, attempt, limits=LIMITS)

    again = await claim(store, message)

    assert again.answer is ClaimAnswer.LOST
    assert await state_of(superuser, message) is State.RETRYABLE


async def test_another_claim_is_told_how_long_the_lease_runs(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    await claim(store, message)

    other = await claim(store, message, "claim-b")

    assert other.answer is ClaimAnswer.BUSY
    assert other.wait is not None
    assert timedelta(seconds=50) < other.wait <= LEASE


async def test_a_claim_of_a_message_that_nobody_accepted_is_an_error(store: MessageStore) -> None:
    unknown = MessageRef(id=new_message_id(), tenant_id=TenantId("acme"), request_hash="v1:0")

    with pytest.raises(UnknownMessageError):
        await claim(store, unknown)


async def test_a_lease_is_in_postgres_time(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser)

    await claim(store, message)

    left = await superuser.fetchval(
        "SELECT lease_expires_at - clock_timestamp() FROM attempts WHERE message_id = $1", message.id
    )
    assert LEASE - timedelta(seconds=5) < left <= LEASE


POLICIES = {
    "tenant_disabled": ("UPDATE tenants SET state = 'disabled' WHERE id = $1", Reason.TENANT_DISABLED),
    "sender_disabled": ("UPDATE senders SET state = 'disabled' WHERE tenant_id = $1", Reason.SENDER_DISABLED),
    "credential_revoked": (
        "UPDATE credentials SET revoked_at = now() WHERE tenant_id = $1",
        Reason.CREDENTIAL_REVOKED,
    ),
    "scope_missing": ("UPDATE credentials SET scopes = '{messages:read}' WHERE tenant_id = $1", Reason.SCOPE_MISSING),
}


async def break_policy(connection: asyncpg.Connection, tenant_id: TenantId, policy: str) -> Reason:
    """Let policy say no to a tenant's mail."""
    if policy in POLICIES:
        statement, reason = POLICIES[policy]
        await connection.execute(statement, tenant_id)
        return reason
    scope = "all" if policy == "suppressed" else "transactional"
    await connection.execute(
        """INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason)
        VALUES ($1, $2, 'ada@example.com', $3, $4, 'manual')""",
        new_id(),
        tenant_id,
        ADDRESS_HASH,
        scope,
    )
    return Reason.RECIPIENT_SUPPRESSED


EVERY_POLICY = [*POLICIES, "suppressed", "suppressed for its purpose"]


@pytest.mark.parametrize("policy", EVERY_POLICY)
async def test_policy_that_turns_bad_after_queueing_stops_the_claim(
    store: MessageStore, superuser: asyncpg.Connection, policy: str
) -> None:
    tenant_id = TenantId(f"claim-{EVERY_POLICY.index(policy)}")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    reason = await break_policy(superuser, tenant_id, policy)

    answer = (await claim(store, message)).answer

    assert answer is ClaimAnswer.SUPPRESSED
    assert await timeline(superuser, message) == [
        ("intake", "queued", None),
        ("suppress_at_claim", "suppressed", reason),
    ]
    assert await superuser.fetchval("SELECT count(*) FROM attempts WHERE message_id = $1", message.id) == 0


@pytest.mark.parametrize("policy", EVERY_POLICY)
async def test_policy_that_turns_bad_after_the_claim_stops_the_begin(
    store: MessageStore, superuser: asyncpg.Connection, policy: str
) -> None:
    tenant_id = TenantId(f"begin-{EVERY_POLICY.index(policy)}")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    attempt = (await claim(store, message)).attempt
    reason = await break_policy(superuser, tenant_id, policy)

    answer = await store.begin(message.id, attempt, begin_id=BEGIN_ID, needs=NEEDS)

    assert (answer.answer, answer.reason) == (BeginAnswer.SUPPRESSED, reason)
    assert (await timeline(superuser, message))[-1] == ("suppress_at_begin", "suppressed", reason)
    row = await superuser.fetchrow("SELECT * FROM attempts WHERE message_id = $1", message.id)
    assert row is not None
    assert (row["outcome"], row["begun_at"]) == ("not_begun", None)
    outcome = await superuser.fetchval("SELECT outcome FROM recipients WHERE message_id = $1", message.id)
    assert outcome == ("suppressed" if reason is Reason.RECIPIENT_SUPPRESSED else None)


async def test_a_suppression_for_another_purpose_or_one_that_was_removed_stops_nothing(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("other-purpose")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    await superuser.execute(
        """INSERT INTO suppressions (id, tenant_id, address, address_hash, scope, reason, removed_at)
        VALUES ($1, $3, 'a@example.com', $4, 'marketing', 'manual', NULL),
               ($2, $3, 'a@example.com', $4, 'all', 'manual', now())""",
        new_id(),
        new_id(),
        tenant_id,
        ADDRESS_HASH,
    )

    assert (await claim(store, message)).answer is ClaimAnswer.LEASED


async def test_an_expired_credential_does_not_block_what_it_queued(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    tenant_id = TenantId("expired")
    await make_tenant(superuser, tenant_id)
    message = await make_message(superuser, tenant_id=tenant_id)
    await superuser.execute("UPDATE credentials SET expires_at = now() WHERE tenant_id = $1", tenant_id)

    assert (await claim(store, message)).answer is ClaimAnswer.LEASED


async def test_a_message_that_is_too_old_is_given_up_without_a_call(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    await superuser.execute("UPDATE messages SET age_from = now() - interval '25 hours' WHERE id = $1", message.id)

    assert (await claim(store, message)).answer is ClaimAnswer.DEAD
    assert (await timeline(superuser, message))[-1] == ("give_up", "dead", "expired")


@pytest.mark.parametrize("came_from", [State.QUEUED, State.RETRYABLE])
async def test_a_switched_off_provider_takes_no_lease_and_gives_one_back_that_has_not_begun(
    store: MessageStore, superuser: asyncpg.Connection, came_from: State
) -> None:
    message = await make_message(superuser, came_from)
    waiting = await make_message(superuser, came_from)
    attempt = (await claim(store, message)).attempt
    await superuser.execute("UPDATE providers SET paused = true")
    try:
        paused = await claim(store, waiting)
        released = await store.begin(message.id, attempt, begin_id=BEGIN_ID, needs=NEEDS)
    finally:
        await superuser.execute("UPDATE providers SET paused = false")

    assert paused.answer is ClaimAnswer.PAUSED
    assert released.answer is BeginAnswer.RELEASED
    assert await state_of(superuser, message) is came_from
    row = await superuser.fetchrow(
        "SELECT m.attempts_used, a.outcome FROM messages m JOIN attempts a ON a.message_id = m.id WHERE m.id = $1",
        message.id,
    )
    assert row is not None
    assert tuple(row) == (0, "released")
    assert (await claim(store, message, "claim-b")).attempt == 2


async def test_a_begun_attempt_is_never_begun_again(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser)
    attempt = await begun(store, message)
    before = await snapshot(superuser, message)

    again = await store.begin(message.id, attempt, begin_id=uuid4(), needs=NEEDS)

    assert again.answer is BeginAnswer.REFUSED
    assert await snapshot(superuser, message) == before


async def test_a_late_body_cannot_begin_what_was_settled(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser)
    attempt = (await claim(store, message)).attempt
    await store.finalize(message.id, attempt, limits=LIMITS)
    before = await snapshot(superuser, message)

    late = await store.begin(message.id, attempt, begin_id=BEGIN_ID, needs=NEEDS)

    assert late.answer is BeginAnswer.REFUSED
    assert await snapshot(superuser, message) == before


async def test_begin_of_an_attempt_that_there_is_not_is_refused(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)

    answer = await store.begin(message.id, 99, begin_id=BEGIN_ID, needs=NEEDS)

    assert answer.answer is BeginAnswer.REFUSED


async def test_a_body_that_lost_the_reply_to_begin_finds_its_own_begin(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    attempt = await begun(store, message)

    async def reread(begin_id: UUID, needs: timedelta = NEEDS) -> Reread:
        return await store.reread_begin(message.id, attempt, begin_id=begin_id, needs=needs)

    assert await reread(BEGIN_ID) is Reread.CALL
    assert await reread(uuid4()) is Reread.STOP
    assert await reread(BEGIN_ID, needs=timedelta(minutes=2)) is Reread.UNSENT


async def test_a_body_whose_begin_did_not_happen_stops(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser)
    attempt = (await claim(store, message)).attempt

    assert await store.reread_begin(message.id, attempt, begin_id=BEGIN_ID, needs=NEEDS) is Reread.STOP


async def test_a_body_whose_attempt_was_settled_meanwhile_does_not_call(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    attempt = AttemptRow(begin_id=BEGIN_ID, outcome="unknown", closed=True)
    message = await make_message(superuser, State.AMBIGUOUS, attempt)

    assert await store.reread_begin(message.id, 1, begin_id=BEGIN_ID, needs=NEEDS) is Reread.UNSENT


async def test_a_record_whose_reply_was_lost_is_found_recorded(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    attempt = await begun(store, message)
    await store.record(message.id, attempt, begin_id=BEGIN_ID, result=ACCEPTED)
    before = await snapshot(superuser, message)

    assert await store.record(message.id, attempt, begin_id=BEGIN_ID, result=ACCEPTED) is Recorded.RECORDED
    assert await snapshot(superuser, message) == before


async def test_a_late_result_is_kept_as_evidence_and_moves_nothing(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    attempt = AttemptRow(begin_id=BEGIN_ID, outcome="unknown", reason="lease_expired", closed=True)
    message = await make_message(superuser, State.AMBIGUOUS, attempt)

    late = await store.record(message.id, 1, begin_id=BEGIN_ID, result=ACCEPTED)

    assert late is Recorded.LATE
    assert await state_of(superuser, message) is State.AMBIGUOUS
    row = await superuser.fetchrow("SELECT * FROM evidence WHERE message_id = $1", message.id)
    assert row is not None
    assert (row["kind"], row["outcome"], row["provider_message_id"]) == ("late_result", "accepted", "ses-1")
    assert (await timeline(superuser, message))[-1] == ("late_result", None, None)


async def test_nobody_records_into_an_attempt_that_another_body_began(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow(begin_id=BEGIN_ID))
    before = await snapshot(superuser, message)

    assert await store.record(message.id, 1, begin_id=uuid4(), result=ACCEPTED) is Recorded.NOT_OURS
    assert await snapshot(superuser, message) == before


async def test_finalize_waits_while_a_call_may_be_under_way(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser)
    attempt = await begun(store, message)

    final = await store.finalize(message.id, attempt, limits=LIMITS)

    assert final.answer is FinalAnswer.WAIT
    assert timedelta(seconds=50) < final.wait <= LEASE


async def test_an_unknown_outcome_is_ambiguous_at_once(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser)
    attempt = await begun(store, message)
    await store.record(message.id, attempt, begin_id=BEGIN_ID, result=UNKNOWN)

    final = await store.finalize(message.id, attempt, limits=LIMITS)

    assert (final.answer, final.state) == (FinalAnswer.SETTLED, State.AMBIGUOUS)
    assert (await claim(store, message, "claim-b")).answer is ClaimAnswer.SETTLED


async def test_refusals_are_tried_again_until_the_attempts_are_used_up(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    answers = []
    for number in range(LIMITS.attempts):
        await superuser.execute("UPDATE messages SET due_at = clock_timestamp() WHERE id = $1", message.id)
        attempt = await begun(store, message, f"claim-{number}")
        await store.record(message.id, attempt, begin_id=BEGIN_ID, result=THROTTLED)
        answers.append((await store.finalize(message.id, attempt, limits=LIMITS)).answer)

    assert answers == [FinalAnswer.AGAIN, FinalAnswer.AGAIN, FinalAnswer.SETTLED]
    assert (await timeline(superuser, message))[-1] == ("reject", "dead", "attempts_exhausted")


async def test_an_account_wide_refusal_uses_up_no_attempt(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser)
    attempt = await begun(store, message)
    refusal = CallResult(outcome=Outcome.REFUSED, provider="ses", reason=Reason.ACCOUNT_PAUSED)
    await store.record(message.id, attempt, begin_id=BEGIN_ID, result=refusal)

    final = await store.finalize(message.id, attempt, limits=LIMITS)

    assert final.answer is FinalAnswer.AGAIN
    assert final.wait > timedelta(minutes=9)
    assert await superuser.fetchval("SELECT attempts_used FROM messages WHERE id = $1", message.id) == 0


@pytest.mark.parametrize("state", State)
async def test_a_stale_token_moves_nothing_from_any_state(
    store: MessageStore, superuser: asyncpg.Connection, state: State
) -> None:
    older = AttemptRow(number=1, token=1, begin_id=BEGIN_ID, outcome="refused", reason="throttled", closed=True)
    newer = AttemptRow(number=2, token=2, claim_id="claim-2", begin_id=uuid4())
    if state is not State.LEASED:
        newer = AttemptRow(number=2, token=2, claim_id="claim-2", outcome="not_begun", closed=True)
    message = await make_message(superuser, state, older, newer)
    before = await snapshot(superuser, message)

    await store.finalize(message.id, 1, limits=LIMITS)
    await store.begin(message.id, 1, begin_id=uuid4(), needs=NEEDS)
    await store.record(message.id, 1, begin_id=uuid4(), result=ACCEPTED)
    await store.settle_expired(ExpiredLease(message_id=message.id, attempt=1), limits=LIMITS)

    assert await snapshot(superuser, message) == before


async def test_the_sweep_settles_what_ran_out_and_touches_no_live_lease(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    over = timedelta(seconds=-1)
    never_begun = await make_message(superuser, State.LEASED, AttemptRow(lease=over))
    begun_only = await make_message(superuser, State.LEASED, AttemptRow(lease=over, begin_id=BEGIN_ID))
    accepted = await make_message(
        superuser,
        State.LEASED,
        AttemptRow(lease=over, begin_id=BEGIN_ID, outcome="accepted", provider_message_id="ses-9"),
    )
    live = await make_message(superuser, State.LEASED, AttemptRow(begin_id=BEGIN_ID))
    ours = {never_begun.id, begun_only.id, accepted.id, live.id}

    found = [lease for lease in await store.expired_leases(500) if lease.message_id in ours]
    settled = [await store.settle_expired(lease, limits=LIMITS) for lease in found]
    again = [await store.settle_expired(lease, limits=LIMITS) for lease in found]

    assert settled == [True, True, True]
    assert again == [False, False, False]
    assert ours.isdisjoint(lease.message_id for lease in await store.expired_leases(500))
    assert await state_of(superuser, never_begun) is State.RETRYABLE
    assert await state_of(superuser, begun_only) is State.AMBIGUOUS
    assert await state_of(superuser, accepted) is State.PROVIDER_ACCEPTED
    assert await state_of(superuser, live) is State.LEASED


async def test_the_sweep_refuses_a_lease_that_still_runs(store: MessageStore, superuser: asyncpg.Connection) -> None:
    message = await make_message(superuser, State.LEASED, AttemptRow())

    assert not await store.settle_expired(ExpiredLease(message_id=message.id, attempt=1), limits=LIMITS)
    assert await state_of(superuser, message) is State.LEASED


async def test_forgotten_messages_are_startable_once_in_a_while(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    long_ago = "UPDATE messages SET due_at = clock_timestamp() - interval '1 minute' WHERE id = $1"
    forgotten, fresh, settled = [await make_message(superuser) for _ in range(2)] + [
        await make_message(superuser, State.DEAD)
    ]
    for message in (forgotten, settled):
        await superuser.execute(long_ago, message.id)

    async def listed(again_after: timedelta = timedelta(minutes=1)) -> set[MessageId]:
        found = await store.startable(overdue=timedelta(seconds=10), again_after=again_after, most=500)
        return {message.id for message in found} & {forgotten.id, fresh.id, settled.id}

    first = await listed()
    await store.run_requested(forgotten.id)

    assert first == {forgotten.id}
    assert await listed() == set()
    assert await listed(again_after=timedelta()) == {forgotten.id}


async def test_every_step_says_that_postgres_is_away() -> None:
    away = DatabaseSettings.model_validate({"url": f"postgresql://fencepost_worker:x@127.0.0.1:{free_port()}/x"})
    store = MessageStore(create_engine(away, application="tests"))
    message_id = new_message_id()
    ref = MessageRef(id=message_id, tenant_id=TenantId("acme"), request_hash="v1:0")
    steps = [
        claim(store, ref),
        store.submission(message_id, 1),
        store.begin(message_id, 1, begin_id=BEGIN_ID, needs=NEEDS),
        store.reread_begin(message_id, 1, begin_id=BEGIN_ID, needs=NEEDS),
        store.record(message_id, 1, begin_id=BEGIN_ID, result=ACCEPTED),
        store.finalize(message_id, 1, limits=LIMITS),
        store.expired_leases(1),
        store.settle_expired(ExpiredLease(message_id=message_id, attempt=1), limits=LIMITS),
        store.startable(overdue=LEASE, again_after=LEASE, most=1),
        store.run_requested(message_id),
    ]

    for step in steps:
        with pytest.raises(UnavailableError):
            await step


async def test_a_submission_is_read_whole_and_its_repr_shows_nothing(
    store: MessageStore, superuser: asyncpg.Connection
) -> None:
    message = await make_message(superuser)
    attempt = (await claim(store, message)).attempt

    submission = await store.submission(message.id, attempt)

    assert submission.recipients[0].address == "ada@example.com"
    assert (submission.subject, submission.text, submission.attempt) == ("Hello Ada", "Dear Ada", 1)
    # Not "ada" alone: an id of hexadecimal digits may hold that.
    for protected in ("ada@", "Ada", "example.com", "Dear"):
        assert protected not in repr(submission)
