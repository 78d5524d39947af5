"""Every branch of the message workflow, as a script of what its activities answer."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.contracts import (
    CLAIM,
    FINALIZE,
    SUBMIT,
    ClaimReply,
    ClaimRequest,
    FinalizeReply,
    FinalizeRequest,
    SubmitReply,
    SubmitRequest,
)
from db.decisions import ClaimAnswer, FinalAnswer
from db.lifecycle import State


def leased(attempt: int = 1) -> ClaimReply:
    return ClaimReply(answer=ClaimAnswer.LEASED, state=State.LEASED, attempt=attempt, submit_within_seconds=20)


def went(final: FinalAnswer | None, state: State, attempt: int = 1) -> ClaimReply:
    """Give the reply of a body that went on with its attempt; no final: it was broken off after submit."""
    return replace(leased(attempt), state=state, submitted="accepted", final=final, wait_seconds=0.05)


def told(answer: ClaimAnswer, state: State = State.QUEUED, wait: float = 0.05) -> ClaimReply:
    return ClaimReply(answer=answer, state=state, wait_seconds=wait)


def settled(state: State) -> FinalizeReply:
    return FinalizeReply(answer=FinalAnswer.SETTLED, state=state)


def again(wait: float = 0.05) -> FinalizeReply:
    return FinalizeReply(answer=FinalAnswer.AGAIN, state=State.RETRYABLE, wait_seconds=wait)


def wait(seconds: float = 0.05) -> FinalizeReply:
    return FinalizeReply(answer=FinalAnswer.WAIT, state=State.LEASED, wait_seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What the activities answer, in turn, and where the message ends."""

    claims: Sequence[ClaimReply]
    finals: Sequence[FinalizeReply] = ()
    submits_fail: bool = False
    ends: State = State.PROVIDER_ACCEPTED


ACCEPTED = settled(State.PROVIDER_ACCEPTED)
BRANCHES = {
    "accepted": Branch(claims=[leased()], finals=[ACCEPTED]),
    "ambiguous": Branch(claims=[leased()], finals=[settled(State.AMBIGUOUS)], ends=State.AMBIGUOUS),
    "rejected": Branch(claims=[leased()], finals=[settled(State.DEAD)], ends=State.DEAD),
    "retried": Branch(claims=[leased(1), leased(2)], finals=[again(), ACCEPTED]),
    "submit_failed": Branch(claims=[leased()], finals=[ACCEPTED], submits_fail=True),
    "waited_for_the_lease": Branch(
        claims=[leased()], finals=[wait(), settled(State.AMBIGUOUS)], submits_fail=True, ends=State.AMBIGUOUS
    ),
    "accepted_in_one": Branch(claims=[went(FinalAnswer.SETTLED, State.PROVIDER_ACCEPTED)]),
    "retried_in_one": Branch(
        claims=[
            went(FinalAnswer.AGAIN, State.RETRYABLE),
            went(FinalAnswer.SETTLED, State.PROVIDER_ACCEPTED, attempt=2),
        ]
    ),
    "broken_off": Branch(claims=[went(None, State.LEASED)], finals=[ACCEPTED]),
    "waited_in_one": Branch(
        claims=[went(FinalAnswer.WAIT, State.LEASED)], finals=[settled(State.AMBIGUOUS)], ends=State.AMBIGUOUS
    ),
    "suppressed_at_claim": Branch(claims=[told(ClaimAnswer.SUPPRESSED, State.SUPPRESSED)], ends=State.SUPPRESSED),
    "suppressed_at_begin": Branch(claims=[leased()], finals=[settled(State.SUPPRESSED)], ends=State.SUPPRESSED),
    "given_up": Branch(claims=[told(ClaimAnswer.DEAD, State.DEAD)], ends=State.DEAD),
    "nothing_to_do": Branch(claims=[told(ClaimAnswer.SETTLED, State.DELIVERED)], ends=State.DELIVERED),
    "paused": Branch(claims=[told(ClaimAnswer.PAUSED), told(ClaimAnswer.PAUSED), leased()], finals=[ACCEPTED]),
    "busy": Branch(claims=[told(ClaimAnswer.BUSY, State.LEASED), leased()], finals=[ACCEPTED]),
    "not_due": Branch(claims=[told(ClaimAnswer.NOT_DUE, State.RETRYABLE), leased()], finals=[ACCEPTED]),
    "lost": Branch(claims=[told(ClaimAnswer.LOST, State.RETRYABLE), leased()], finals=[ACCEPTED]),
}


@dataclass(slots=True)
class ScriptedActivities:
    """Activities that answer as a branch says, and remember what they were asked."""

    branch: Branch
    claimed: list[ClaimRequest] = field(default_factory=list)
    submitted: list[SubmitRequest] = field(default_factory=list)
    finalized: list[FinalizeRequest] = field(default_factory=list)

    def all(self) -> list[Callable[..., Any]]:
        claims, finals = itertools.chain(self.branch.claims), itertools.chain(self.branch.finals)

        @activity.defn(name=CLAIM)
        async def claim(request: ClaimRequest) -> ClaimReply:
            self.claimed.append(request)
            return next(claims)

        @activity.defn(name=SUBMIT)
        async def submit(request: SubmitRequest) -> SubmitReply:
            self.submitted.append(request)
            if self.branch.submits_fail:
                raise ApplicationError("internal", type="internal")
            return SubmitReply(result="accepted")

        @activity.defn(name=FINALIZE)
        async def finalize(request: FinalizeRequest) -> FinalizeReply:
            self.finalized.append(request)
            return next(finals)

        return [claim, submit, finalize]
