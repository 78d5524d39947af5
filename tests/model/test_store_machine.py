"""Hypothesis drives the store on a real Postgres beside a pure model of it, rule by rule, and compares what is stored.

FENCEPOST_MODEL_EXAMPLES says how many examples (40 by default, always the same; with the variable set, new ones).
"""

import asyncio
import os
from collections.abc import Iterator
from typing import Final

import asyncpg
import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from db.outcomes import Outcome, Reason
from db.records import CallResult
from db.resolutions import Decision
from tests.conftest import Database
from tests.model.compared_store import Bench, ComparedStore
from tests.model.pure_model import Left, PureModel
from tests.model.tables import POLICIES

EXAMPLES: Final = os.environ.get("FENCEPOST_MODEL_EXAMPLES")
RESULTS: Final = tuple(
    CallResult(outcome=outcome, provider="ses", reason=reason, provider_message_id=provider_id)
    for outcome, reason, provider_id in (
        (Outcome.UNKNOWN, Reason.PROVIDER_TIMEOUT, None),
        (Outcome.REFUSED, Reason.THROTTLED, None),
        (Outcome.ACCEPTED, None, "ses-1"),
        (Outcome.UNKNOWN, Reason.CONNECTION_LOST, None),
        (Outcome.NOT_SUBMITTED, Reason.PROVIDER_UNREACHABLE, None),
        (Outcome.REFUSED, Reason.ACCOUNT_PAUSED, None),
        (Outcome.REFUSED, Reason.QUOTA_EXCEEDED, None),
        (Outcome.REFUSED, Reason.CREDENTIALS_REFUSED, None),
        (Outcome.REJECTED, Reason.REJECTED, None),
    )
)
CLAIMABLE: Final = ("queued", "retryable")
ENDS: Final = ("provider_accepted", "delivered", "hard_bounced", "complained", "suppressed", "dead")
results = st.sampled_from(RESULTS)
events = st.sampled_from(("send", "delay", "reject", "delivery", "bounce", "complaint"))
troubles = st.sampled_from(
    ("none", "switch", "none", "recipient", "none", "switch and sender", "none", "none", *POLICIES)
)
far = st.sampled_from((1, 0, 2, 4, 0, 1, 3))
mostly = st.sampled_from((True, True, True, False))


@pytest.fixture
def bench(database: Database) -> Iterator[Bench]:
    async def connect() -> asyncpg.Connection:
        return await asyncpg.connect(database.superuser_url)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        worker, api = database.engine("fencepost_worker"), database.engine("fencepost_api")
        superuser = runner.run(connect())
        yield Bench(runner=runner, worker=worker, api=api, superuser=superuser)
        runner.run(superuser.close())
        runner.run(worker.dispose())
        runner.run(api.dispose())


class MessageMachine(RuleBasedStateMachine):
    """One message after another, and everything that may happen to it."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench

    @property
    def model(self) -> PureModel:
        return self.both.model

    @property
    def leased(self) -> bool:
        return self.model.state == "leased"

    @property
    def newest(self) -> int:
        return len(self.model.tries)

    def attempt(self, age: int) -> int:
        return max(self.newest - age, 1)

    def is_held(self, number: int) -> bool:
        return self.leased and number == self.newest

    @initialize(on=far)
    def a_tenant_with_a_message(self, on: int) -> None:
        self.both = ComparedStore(self.bench)
        self.go_on(on)

    @precondition(lambda self: self.model.state in ENDS)
    @rule(on=far)
    def a_new_message_after_the_end_of_one(self, on: int) -> None:
        self.both.make_message()
        self.let_weather_be_fine()
        self.go_on(on)

    def go_on(self, far: int) -> None:
        """Bring a fresh message on its way, where most rules need it: leased, begun, recorded as unknown, ambiguous."""
        if far >= 1:
            self.both.claim()
        if far >= 2:
            self.both.begin(1, own=True)
        if far >= 3:
            self.both.record(1, RESULTS[0], own=True)
        if far >= 4:
            self.both.finalize(1)

    @precondition(lambda self: self.model.state in CLAIMABLE)
    @rule(patient=mostly, trouble=troubles)
    def claim(self, patient: bool, trouble: str) -> None:
        if patient:
            self.both.end_wait()
        self.make_trouble(trouble)
        self.both.claim()

    @precondition(lambda self: self.leased)
    @rule(own=mostly, trouble=troubles)
    def begin(self, own: bool, trouble: str) -> None:
        self.make_trouble(trouble)
        self.both.begin(self.newest, own=own)

    @precondition(lambda self: self.leased and self.model.tries[-1].begin)
    @rule(result=results, own=mostly, times=st.sampled_from((1, 1, 2)))
    def record(self, result: CallResult, own: bool, times: int) -> None:
        for _ in range(times):
            self.both.record(self.newest, result, own=own)

    @precondition(lambda self: self.leased)
    @rule()
    def finalize(self) -> None:
        self.both.finalize(self.newest)

    @precondition(lambda self: self.leased)
    @rule()
    def sweep(self) -> None:
        self.both.sweep(self.newest)

    @precondition(lambda self: self.model.state in CLAIMABLE)
    @rule(result=results)
    def a_whole_try_in_fair_weather(self, result: CallResult) -> None:
        self.let_weather_be_fine()
        self.claim(patient=True, trouble="none")
        if self.leased:  # it may have been given up
            self.begin(own=True, trouble="none")
            self.record(result=result, own=True, times=1)
            self.finalize()

    @precondition(lambda self: self.model.tries)
    @rule(age=st.integers(0, 2))
    def a_late_claim(self, age: int) -> None:
        self.both.claim(self.model.tries[self.attempt(age) - 1].claim)
        if self.model.state not in CLAIMABLE:
            self.both.claim()

    @precondition(lambda self: self.model.tries)
    @rule(age=st.integers(0, 2))
    def a_late_begin(self, age: int) -> None:
        number = self.attempt(age)
        self.both.reread_begin(number)
        self.both.begin(number, own=not self.is_held(number))

    @precondition(lambda self: self.model.tries)
    @rule(age=st.integers(0, 2), result=results)
    def a_late_record(self, age: int, result: CallResult) -> None:
        number = self.attempt(age)
        self.both.record(number, result, own=not self.is_held(number))

    @precondition(lambda self: self.model.tries)
    @rule(age=st.integers(0, 2))
    def a_late_finalize_and_sweep(self, age: int) -> None:
        number = self.attempt(age)
        if not self.is_held(number):
            self.both.finalize(number)
            self.both.sweep(number)

    @precondition(lambda self: self.model.tries)
    @rule(age=st.integers(0, 2), decision=st.sampled_from(Decision))
    def a_late_decision(self, age: int, decision: Decision) -> None:
        number = self.attempt(age)
        if number < self.newest or self.model.state != "ambiguous":
            self.both.resolve(number, decision)

    @precondition(lambda self: self.leased)
    @rule()
    def nobody_finalizes(self) -> None:
        self.both.run_down_lease(Left.NOTHING)
        self.both.sweep(self.newest)

    @precondition(lambda self: self.leased and self.model.tries[-1].left > Left.NOTHING)
    @rule(over=mostly)
    def the_lease_runs(self, over: bool) -> None:
        self.both.run_down_lease(Left.NOTHING if over else Left.LITTLE)

    @precondition(lambda self: not self.model.due)
    @rule()
    def the_wait_ends(self) -> None:
        self.both.end_wait()

    @precondition(lambda self: self.model.state in CLAIMABLE and self.model.tries and not self.model.old)
    @rule()
    def the_message_gets_old(self) -> None:
        self.both.get_old()

    @precondition(lambda self: self.model.against or self.model.paused)
    @rule()
    def let_weather_be_fine(self) -> None:
        for which in sorted(self.model.against):
            self.both.set_policy(which, against=False)
        self.both.switch_provider(paused=False)

    def make_trouble(self, trouble: str) -> None:
        if trouble in ("switch", "switch and sender"):
            self.both.switch_provider(paused=True)
        if trouble in POLICIES or trouble == "switch and sender":
            self.both.set_policy(trouble if trouble in POLICIES else "sender", against=True)

    @precondition(lambda self: self.leased and self.model.tries[-1].begin)
    @rule(earlier=st.sampled_from((0, 0, 1)), kind=events)
    def an_event_waits_for_settle(self, earlier: int, kind: str) -> None:
        self.both.event(self.attempt(earlier), kind)

    @precondition(lambda self: self.model.tries)
    @rule(earlier=st.integers(0, 2), kind=events)
    def an_event_comes(self, earlier: int, kind: str) -> None:
        self.both.event(self.attempt(earlier), kind)

    @precondition(lambda self: self.model.state == "ambiguous")
    @rule(decision=st.sampled_from((Decision.ACCEPTED, Decision.ABANDON)))
    def a_person_ends_it(self, decision: Decision) -> None:
        self.both.resolve(self.newest, decision)

    @precondition(lambda self: self.model.state == "ambiguous")
    @rule()
    def a_person_has_it_sent_again_and_it_begins(self) -> None:
        self.both.resolve(self.newest, Decision.RESEND)
        self.let_weather_be_fine()
        self.claim(patient=True, trouble="none")
        self.begin(own=True, trouble="none")

    @precondition(lambda self: self.model.state == "ambiguous")
    @rule()
    def a_person_orders_a_resend(self) -> None:
        self.both.resolve(self.newest, Decision.RESEND)

    @invariant()
    def what_is_stored_is_what_the_model_says(self) -> None:
        self.both.compare()

    @override
    def teardown(self) -> None:
        self.both.switch_provider(paused=False)


def test_the_store_does_what_the_design_says_whatever_the_order(bench: Bench) -> None:
    run_state_machine_as_test(
        lambda: MessageMachine(bench),  # type: ignore[arg-type]  # anything that makes a machine will do
        settings=settings(
            max_examples=int(EXAMPLES or 40),
            stateful_step_count=25,
            derandomize=EXAMPLES is None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
