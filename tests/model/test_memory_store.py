"""The simulator's store beside the pure model, which the store on Postgres is compared with too: so the two agree."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Final
from uuid import UUID

from db.decisions import Limits
from db.lifecycle import Move, State
from db.outcomes import EventType, Outcome, Reason
from tests.model.memory_rows import Clock
from tests.model.memory_store import FINE, MemoryStore
from tests.model.pure_model import Left, PureModel

LEASE: Final = 100.0
NEEDS: Final = 20.0
LIMITS: Final = Limits(
    attempts=3,
    max_age=timedelta(seconds=1000),
    backoff_base=timedelta(days=4000),
    backoff_cap=timedelta(days=4000),
    account_wait=timedelta(days=1),
)
RESULTS: Final = (
    (Outcome.ACCEPTED, None),
    (Outcome.REFUSED, Reason.THROTTLED),
    (Outcome.REFUSED, Reason.ACCOUNT_PAUSED),
    (Outcome.REJECTED, Reason.REJECTED),
    (Outcome.UNKNOWN, Reason.PROVIDER_TIMEOUT),
    (Outcome.UNKNOWN, Reason.CONNECTION_LOST),
    (Outcome.NOT_SUBMITTED, Reason.PROVIDER_UNREACHABLE),
)
EVENTS: Final = (EventType.SEND, EventType.REJECT, EventType.DELIVERY, EventType.BOUNCE, EventType.COMPLAINT)
DECISIONS: Final = {
    "resend": Move.RESOLVE_RESEND,
    "accepted": Move.RESOLVE_ACCEPTED,
    "abandon": Move.RESOLVE_ABANDON,
}


class Walk:
    """A random walk of one message through both."""

    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)  # noqa: S311  (to be repeated, not to be secret)
        self.clock = Clock()
        self.store = MemoryStore(self.clock, self.choices, limits=LIMITS, lease=LEASE)
        self.model = PureModel(limit=LIMITS.attempts)
        self.steps = (
            self.claim,
            self.claim,
            self.begin,
            self.begin,
            self.record,
            self.record,
            self.finalize,
            self.sweep,
            self.resolve,
            self.event,
            self.let_time_pass,
            self.change_policy,
        )

    def step(self) -> None:
        self.choices.choice(self.steps)()
        message, model = self.store.message, self.model
        assert [line.goal for line in message.timeline] == model.path
        assert (message.state, message.attempts_used, message.token) == (model.state, model.used, len(model.tries))
        assert [(a.outcome, a.closed, a.begin_id is None) for a in message.attempts] == [
            (one.outcome, one.closed, one.begin is None) for one in model.tries
        ]
        assert sum(len(attempt.late) for attempt in message.attempts) == model.late

    def claim(self) -> None:
        claim_id = self.choices.choice((*range(len(self.model.tries)), 1000 + len(self.model.path)))
        assert self.store.claim(claim_id).answer == self.model.claim(str(claim_id))

    def begin(self) -> None:
        if number := self.number():
            begin_id = self.begin_id(number)
            assert self.store.reread_begin(number, begin_id, NEEDS) == self.model.reread(number, UUID(int=begin_id))
            assert self.store.begin(number, begin_id, NEEDS) == self.model.begin(number, UUID(int=begin_id))

    def record(self) -> None:
        if number := self.number():
            begin_id, (outcome, reason) = self.begin_id(number), self.choices.choice(RESULTS)
            recorded = self.store.record(number, begin_id, outcome, reason)
            assert recorded == self.model.record(number, UUID(int=begin_id), outcome, reason)

    def finalize(self) -> None:
        if number := self.number():
            assert self.store.finalize(number).answer == self.model.finalize(number)

    def sweep(self) -> None:
        assert self.store.expired_leases() == self.model.expired()
        if number := self.number():
            assert self.store.settle_expired(number) == self.model.sweep(number)

    def resolve(self) -> None:
        if number := self.number():
            decision = self.choices.choice(("resend", "resend", "accepted", "abandon"))
            assert self.store.resolve(number, DECISIONS[decision]) == self.model.resolve(number, decision)

    def event(self) -> None:
        waits = self.model.state == "leased" and self.model.tries[-1].begin is not None
        if waits and self.choices.random() < 0.3:
            number, kind = self.number(), self.choices.choice(EVENTS)
            self.store.event(number, kind)
            self.model.event(number, kind)

    def let_time_pass(self) -> None:
        message, model = self.store.message, self.model
        message.due_at, model.due = self.clock.now, True
        if model.state == "leased" and self.choices.random() < 0.7:
            left = self.choices.choice((Left.NOTHING, Left.LITTLE))
            if left < model.tries[-1].left:
                model.tries[-1].left = left
                message.attempts[-1].lease_until = self.clock.now + (NEEDS / 2 if left else 0)
        elif self.choices.random() < 0.1:
            message.age_from, model.old = -LIMITS.max_age.total_seconds(), True

    def change_policy(self) -> None:
        self.store.paused = self.model.paused = self.choices.random() < 0.2
        against = self.choices.random() < 0.1
        self.store.policy = replace(FINE, recipient_suppressed=against)
        self.model.against = {"recipient"} if against else set()

    def number(self) -> int:
        """Give an attempt, mostly the newest; 0 where there is none."""
        newest = len(self.model.tries)
        return max(newest - self.choices.choice((0, 0, 0, 1, 2)), min(newest, 1))

    def begin_id(self, number: int) -> int:
        return number if self.choices.random() < 0.8 else 1000 + number


def test_what_the_simulator_runs_on_does_what_the_design_says() -> None:
    seen: set[str] = set()
    for seed in range(300):
        walk = Walk(seed)
        for _ in range(60):
            walk.step()
        seen.update(walk.model.path)

    assert seen == set(State)
