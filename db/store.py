"""The steps of a message as transactions: one method, one transaction, one outcome. No connection leaves this file.

A lost race is a value. An exception means an outage or a bug, and leaves open whether the transaction happened: each
method may be called again with the same arguments and then says what stands.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from db import statements, sweep_statements
from db.crash_points import CrashPoint, passing
from db.decisions import (
    BeginAnswer,
    BeginFacts,
    ClaimAnswer,
    ClaimFacts,
    FinalAnswer,
    Limits,
    Policy,
    SettleAnswer,
    SettleFacts,
    Settlement,
    decide_begin,
    decide_claim,
    decide_settle,
)
from db.evidence import AttemptFacts
from db.ids import MessageId, new_id
from db.lifecycle import CLAIMABLE, Move, State, target
from db.outcomes import EventType, Outcome, Reason
from db.records import Addressee, CallResult, ExpiredLease, MessageRef, Submission
from db.transaction import LockedMessage, UnknownMessageError, connected, locked, rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What a claim came to."""

    answer: ClaimAnswer
    state: State
    attempt: int = 0  #: the number of the attempt that the lease is for, when leased
    wait: timedelta | None = None  #: when busy or not due: until it is worth another look


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a begin came to."""

    answer: BeginAnswer
    reason: Reason | None = None
    left_out: frozenset[str] = frozenset()  #: the places of the copies that are suppressed: the mail goes without them


class Reread(StrEnum):
    """What a body that lost the reply to its begin finds."""

    CALL = "call"  #: its own begin stands, and the whole budget is left
    UNSENT = "unsent"  #: its own begin stands, and it is too late to call: record that nothing was submitted
    STOP = "stop"  #: not its begin: somebody else's, or none


class Recorded(StrEnum):
    """What a record came to."""

    RECORDED = "recorded"
    LATE = "late"  #: its attempt was closed meanwhile: kept as evidence, moves nothing
    NOT_OURS = "not_ours"  #: another body began this attempt; nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalized:
    """What a finalize came to."""

    answer: FinalAnswer
    state: State
    wait: timedelta = timedelta()


class MessageStore:
    """Claim, begin, record, settle: every write by the machine, each under the lock of its message row.

    Attributes:
        engine: Where the database is, for the stores beside this one.

    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    async def claim(
        self, message_id: MessageId, *, claim_id: str, owner: str, lease: timedelta, limits: Limits
    ) -> Claimed:
        """Take the lease of a message for `lease`, under `claim_id`, which is unique for each try.

        Called again with the same claim id it finds its own lease, with the same token and expiry, or says `lost`.
        Policy is decided here: suppression, tenant, sender, credential (delivery seed: claim-time suppression).
        """
        async with locked(self.engine, message_id) as message:
            row = await message.one(statements.CLAIM_FACTS, this_claim=claim_id, max_age=limits.max_age)
            state = State(row.state)
            facts = ClaimFacts(
                state=state,
                due=row.due,
                provider_paused=row.provider_paused,
                policy=_policy(row),
                attempts_used=row.attempts_used,
                too_old=row.too_old,
                own_attempt_open=row.own_open,
            )
            answer, reason = decide_claim(facts, limits)
            match answer:
                case ClaimAnswer.LEASED if facts.own_attempt_open:
                    return Claimed(answer=answer, state=state, attempt=row.own_number)
                case ClaimAnswer.LEASED:
                    taken = await message.first(
                        statements.CLAIM, this_token=row.token, this_claim=claim_id, owner=owner, lease=lease
                    )
                    if taken is None:  # the guards of the statement said no, though the decision said yes
                        return Claimed(answer=ClaimAnswer.BUSY, state=state, wait=timedelta())
                    await _leave_out(message, row)
                    return Claimed(answer=answer, state=State.LEASED, attempt=taken.attempt)
                case ClaimAnswer.SUPPRESSED:
                    await message.make(Move.SUPPRESS_AT_CLAIM, token=row.token, from_state=state, reason=reason)
                    await _mark_recipient(message, reason)
                    return Claimed(answer=answer, state=State.SUPPRESSED)
                case ClaimAnswer.DEAD:
                    await message.make(Move.GIVE_UP, token=row.token, from_state=state, reason=reason)
                    return Claimed(answer=answer, state=State.DEAD)
                case ClaimAnswer.BUSY:
                    return Claimed(answer=answer, state=state, wait=_wait(row.lease_in))
                case ClaimAnswer.NOT_DUE:
                    return Claimed(answer=answer, state=state, wait=_wait(row.due_in))
                case ClaimAnswer.LOST | ClaimAnswer.SETTLED | ClaimAnswer.PAUSED:
                    return Claimed(answer=answer, state=state)

    async def submission(self, message_id: MessageId, attempt: int) -> Submission:
        """Read what an attempt submits: protected content, for the provider alone."""
        asked = {"this_message": message_id, "in_attempt": attempt}
        (row,) = await rows_of(self.engine, statements.SUBMISSION, asked)
        return Submission(
            message_id=message_id,
            attempt=attempt,
            request_hash=row.request_hash,
            sender=Addressee(role="from", address=row.sender_address, name=row.sender_name),
            recipients=tuple(Addressee(**to) for to in row.addressees),
            reply_to=tuple(
                Addressee(role="reply_to", address=entry["address"], name=entry["name"]) for entry in row.reply_to
            ),
            subject=row.subject,
            text=row.text,
            html=row.html,
            headers=tuple((name, value) for name, value in row.headers),
            tags=dict(row.tags),
        )

    async def begin(self, message_id: MessageId, attempt: int, *, begin_id: UUID, needs: timedelta) -> Begun:
        """Mark an attempt as begun, for the body that holds `begin_id`; commit before the call.

        `needs` is what must be left of the lease: the call budget and a margin. Anything but `begun` means: no call.
        A raised error means: unknown, ask `reread_begin`.
        """
        async with locked(self.engine, message_id) as message:
            row = await message.first(statements.BEGIN_FACTS, in_attempt=attempt, needs=needs)
            if row is None:
                return Begun(answer=BeginAnswer.REFUSED)
            state = State(row.state)
            answer, reason = decide_begin(
                BeginFacts(
                    state=state,
                    token_is_current=row.token_is_current,
                    attempt_open=row.attempt_open,
                    attempt_begun=row.attempt_begun,
                    lease_suffices=row.lease_suffices,
                    provider_paused=row.provider_paused,
                    policy=_policy(row),
                )
            )
            token: int = row.token
            moving: dict[str, Any] = {"token": token, "from_state": state, "reason": reason, "attempt": attempt}
            match answer:
                case BeginAnswer.REFUSED:
                    pass
                case BeginAnswer.SUPPRESSED:
                    await message.close(token, Outcome.NOT_BEGUN, reason)
                    await message.make(Move.SUPPRESS_AT_BEGIN, **moving)
                    await _mark_recipient(message, reason)
                case BeginAnswer.RELEASED:
                    await message.close(token, Outcome.RELEASED, reason)
                    await message.make(Move.RELEASE, **moving)
                case BeginAnswer.BEGUN:
                    begun = await message.first(statements.BEGIN, this_token=token, this_begin=begin_id, needs=needs)
                    if begun is None:  # the lease ran short between the decision and the write
                        return Begun(answer=BeginAnswer.REFUSED)
                    await message.one(statements.USE_ATTEMPT, this_token=token)
                    await _leave_out(message, row)
                    return Begun(answer=answer, left_out=frozenset(row.suppressed_copies))
            return Begun(answer=answer, reason=reason)

    async def reread_begin(self, message_id: MessageId, attempt: int, *, begin_id: UUID, needs: timedelta) -> Reread:
        """Say what a body may do whose begin got no reply: the COMMIT may have happened (model: PROTOCOL, begin)."""
        async with locked(self.engine, message_id) as message:
            row = await message.first(statements.BEGIN_FACTS, in_attempt=attempt, needs=needs)
        if row is None or row.begin_id != begin_id:
            return Reread.STOP
        current = row.token_is_current and row.state == State.LEASED and row.attempt_open
        return Reread.CALL if current and row.lease_suffices else Reread.UNSENT

    async def suppressed_copies(self, message_id: MessageId) -> frozenset[str]:
        """Say which copies a mail leaves out, for a body whose begin got no reply; their places, such as `cc:0`."""
        async with connected(self.engine) as connection:
            row = await LockedMessage(connection, message_id).one(statements.COPIES)
        return frozenset(row.suppressed_copies)

    async def record(self, message_id: MessageId, attempt: int, *, begin_id: UUID, result: CallResult) -> Recorded:
        """Write what came of the call into its own attempt, once.

        `late` means that the attempt was closed meanwhile: the result is kept as evidence and changes no state
        (hardening seed: stale-claimant protection). There is no lease condition: a result that still finds its attempt
        open is the truth about it.
        """
        async with locked(self.engine, message_id) as message:
            return await _record(message, attempt, begin_id, result)

    async def conclude(
        self, message_id: MessageId, attempt: int, *, begin_id: UUID, result: CallResult, limits: Limits
    ) -> tuple[Recorded, Finalized | None]:
        """Record and finalize as one transaction; None where nothing was recorded.

        A raised error leaves open whether any of it happened, as each of the two does: record, then finalize.
        """
        async with locked(self.engine, message_id) as message:
            recorded = await _record(message, attempt, begin_id, result)
            finalized = await _finalize(message, attempt, limits) if recorded is Recorded.RECORDED else None
        return recorded, finalized

    async def finalize(self, message_id: MessageId, attempt: int, *, limits: Limits) -> Finalized:
        """Settle the lease of this attempt; where its token is stale, change nothing and say where the message is."""
        async with locked(self.engine, message_id) as message:
            return await _finalize(message, attempt, limits)

    async def expired_leases(self, most: int) -> list[ExpiredLease]:
        """List leases that ran out, oldest first, at most `most`."""
        async with connected(self.engine) as connection:
            rows = (await connection.execute(sweep_statements.EXPIRED_LEASES, {"most": most})).all()
        return [ExpiredLease(message_id=row.message_id, attempt=row.number) for row in rows]

    async def settle_expired(self, lease: ExpiredLease, *, limits: Limits) -> bool:
        """Settle a lease that ran out; False where it still runs, or somebody else did it or is just doing it."""
        try:
            async with locked(self.engine, lease.message_id, by=sweep_statements.LOCK_IF_FREE) as message:
                settlement, _ = await _settle(message, lease.attempt, limits, after_lease_only=True)
        except UnknownMessageError:
            return False
        return settlement.answer is SettleAnswer.MOVED

    async def startable(self, *, overdue: timedelta, again_after: timedelta, most: int) -> list[MessageRef]:
        """List messages that a run should have claimed by now: due for `overdue`, none asked for in `again_after`."""
        asked = {"overdue": overdue, "again_after": again_after, "most": most}
        async with connected(self.engine) as connection:
            rows = (await connection.execute(sweep_statements.STARTABLE, asked)).all()
        return [MessageRef(id=row.id, tenant_id=row.tenant_id, request_hash=row.request_hash) for row in rows]

    async def run_requested(self, message_id: MessageId) -> None:
        """Remember that Temporal took a request for a run."""
        async with connected(self.engine) as connection:
            await connection.execute(sweep_statements.RUN_REQUESTED, {"this_message": message_id})
            await connection.commit()


def _policy(row: sa.Row[Any]) -> Policy:
    return Policy(
        tenant_disabled=row.tenant_disabled,
        sender_disabled=row.sender_disabled,
        credential_revoked=row.credential_revoked,
        scope_missing=row.scope_missing,
        recipient_suppressed=row.recipient_suppressed,
    )


def _wait(seconds: float | None) -> timedelta:
    return timedelta(seconds=max(seconds or 0, 0))


async def _mark_recipient(message: LockedMessage, reason: Reason | None) -> None:
    """Write the outcome of the primary recipient, where it is the recipient that stopped the message."""
    if reason is Reason.RECIPIENT_SUPPRESSED:
        await message.connection.execute(statements.SUPPRESS_RECIPIENT, {"this_message": message.message_id})


async def _leave_out(message: LockedMessage, row: sa.Row[Any]) -> None:
    """Write which copies the mail leaves out, where there are any or were any at an earlier try."""
    if row.suppressed_copies or row.left_out_before:
        asked = {"this_message": message.message_id, "left_out": row.suppressed_copies}
        await message.connection.execute(statements.LEAVE_OUT, asked)


async def _record(message: LockedMessage, attempt: int, begin_id: UUID, result: CallResult) -> Recorded:
    came = {"its_outcome": result.outcome, "why": result.reason, "its_provider_id": result.provider_message_id}
    written = await message.first(
        statements.RECORD,
        in_attempt=attempt,
        this_begin=begin_id,
        its_provider=result.provider,
        its_request_id=result.request_id,
        its_code=result.code,
        **came,
    )
    if written is not None:
        return Recorded.RECORDED
    row = await message.first(statements.RECORDED, in_attempt=attempt)
    if row is None or row.begin_id != begin_id:
        return Recorded.NOT_OURS
    if (row.outcome, row.provider_message_id) == (result.outcome, result.provider_message_id):
        return Recorded.RECORDED
    await message.connection.execute(
        statements.KEEP_LATE_RESULT,
        {"evidence_id": new_id(), "this_message": message.message_id, "in_attempt": attempt, **came},
    )
    await message.note("late_result", attempt=attempt, reason=result.reason)
    return Recorded.LATE


async def _finalize(message: LockedMessage, attempt: int, limits: Limits) -> Finalized:
    settlement, lease_left = await _settle(message, attempt, limits, after_lease_only=False)
    finalized = await _standing(message, settlement, lease_left)
    passing(CrashPoint.FINALIZE_UNCOMMITTED)
    return finalized


async def _settle(
    message: LockedMessage, attempt: int, limits: Limits, *, after_lease_only: bool
) -> tuple[Settlement, timedelta]:
    """Decide what the lease of this attempt becomes, and do it; also say how much of the lease is left."""
    asked = {"this_message": message.message_id}
    rows = (await message.connection.execute(statements.SETTLE_FACTS, asked)).all()
    current = next((row for row in rows if row.number == attempt), None)
    if current is None:
        return Settlement(answer=SettleAnswer.STALE), timedelta()
    facts = SettleFacts(
        state=State(current.state),
        token_is_current=current.message_token == current.token,
        attempts_used=current.attempts_used,
        attempts=tuple(attempt_facts(row) for row in rows),
        settle_after_lease_only=after_lease_only,
    )
    settlement = decide_settle(facts, limits)
    if settlement.answer is SettleAnswer.MOVED:
        await message.close(current.token, settlement.closes_as, settlement.closes_because)
        from_state = facts.state
        retry = {"delay": settlement.delay, "gives_back": int(settlement.gives_attempt_back)}
        for move, reason in settlement.moves:
            more = retry if move is Move.RETRY else {}
            await message.make(move, token=current.token, from_state=from_state, reason=reason, attempt=attempt, **more)
            from_state = target(move)
    return settlement, _wait(current.lease_in)


async def _standing(message: LockedMessage, settlement: Settlement, lease_left: timedelta) -> Finalized:
    """Say where a message stands after a settlement, and when to look again."""
    if settlement.answer is SettleAnswer.MOVED and (end := target(settlement.moves[-1][0])) not in CLAIMABLE:
        return Finalized(answer=FinalAnswer.SETTLED, state=end)
    row = await message.one(statements.STANDING)
    state = State(row.state)
    if settlement.answer is SettleAnswer.WAIT:
        return Finalized(answer=FinalAnswer.WAIT, state=state, wait=lease_left)
    if state is State.LEASED:  # a newer claim's lease: look again when it ends
        return Finalized(answer=FinalAnswer.AGAIN, state=state, wait=_wait(row.lease_in))
    if state in CLAIMABLE:
        return Finalized(answer=FinalAnswer.AGAIN, state=state, wait=_wait(row.due_in))
    return Finalized(answer=FinalAnswer.SETTLED, state=state)


def attempt_facts(row: sa.Row[Any]) -> AttemptFacts:
    """Read an attempt out of a row of SETTLE_FACTS."""
    return AttemptFacts(
        number=row.number,
        is_current=row.token == row.message_token,
        begun=row.begun,
        outcome=Outcome(row.outcome) if row.outcome else None,
        reason=Reason(row.reason) if row.reason else None,
        events=frozenset(EventType(event) for event in row.events),
        lease_over=row.lease_over,
        bounced_because=Reason(row.bounced_because) if row.bounced_because else None,
        vouched=getattr(row, "vouched", False),
    )
