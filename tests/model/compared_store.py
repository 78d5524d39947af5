"""The store on Postgres and the pure model side by side: each step is taken in both, and must come to the same."""

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from db.decisions import Limits
from db.events import EventStore, Taken
from db.ids import TenantId
from db.outcomes import EventType
from db.records import CallResult, ExpiredLease, MessageRef, NamedRecipient, ProviderEvent
from db.resolutions import Decision, Resolution, ResolutionStore
from db.store import MessageStore
from tests.factories import ADDRESS_HASH, credential_of, make_message, make_tenant
from tests.model.pure_model import DEFINITE_NO, EDGES, Left, PureModel
from tests.model.tables import Rows, Tables, add_suppression

Result = TypeVar("Result")

# Each wait is so long that no slow machine reaches its end: time passes only where a rule lets it.
_LEASE: Final = timedelta(hours=1)
_NEEDS: Final = timedelta(minutes=10)
_LIMITS: Final = Limits(
    attempts=3,
    max_age=timedelta(hours=24),
    backoff_base=timedelta(days=4000),
    backoff_cap=timedelta(days=4000),
    account_wait=timedelta(days=1),
)
_numbers: Final = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Postgres for a test that knows no async: with a loop of its own."""

    runner: asyncio.Runner
    worker: AsyncEngine
    api: AsyncEngine
    superuser: asyncpg.Connection

    def do(self, step: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(step)


class ComparedStore:
    """One tenant, and its message of now in Postgres and in the model."""

    def __init__(self, bench: Bench) -> None:
        self._do = bench.do
        self._superuser = bench.superuser
        self._store = MessageStore(bench.worker)
        self._resolutions = ResolutionStore(bench.api)
        self._events = EventStore(bench.api)
        self._tenant_id = TenantId(f"model-{next(_numbers)}")
        self._do(make_tenant(self._superuser, self._tenant_id))
        self._do(add_suppression(self._superuser, self._tenant_id))
        self.model = PureModel(limit=_LIMITS.attempts)
        self.make_message()

    def make_message(self) -> None:
        """Make a fresh message; policy and the switch stay as they are."""
        self._message = self._do(make_message(self._superuser, tenant_id=self._tenant_id)).id
        self._tables = Tables(self._superuser, self._message, self._tenant_id)
        self.model = PureModel(limit=_LIMITS.attempts, against=self.model.against, paused=self.model.paused)
        self._begins: list[UUID] = []  # one for each attempt: what its own body begins with

    def claim(self, claim_id: str | None = None) -> None:
        """Claim under a fresh id, or again under one that was used."""
        claim_id = claim_id or f"claim-{next(_numbers)}"

        claimed = self._do(
            self._store.claim(self._message, claim_id=claim_id, owner="worker", lease=_LEASE, limits=_LIMITS)
        )

        assert (claimed.answer, claimed.state) == (self.model.claim(claim_id), self.model.state)
        if claimed.attempt:
            assert self.model.tries[claimed.attempt - 1].claim == claim_id
        if len(self.model.tries) > len(self._begins):
            self._begins.append(uuid4())

    def begin(self, number: int, *, own: bool) -> None:
        begin_id = self._begin_id(number, own=own)
        begun = self._do(self._store.begin(self._message, number, begin_id=begin_id, needs=_NEEDS))
        assert begun.answer == self.model.begin(number, begin_id)

    def reread_begin(self, number: int) -> None:
        begin_id = self._begin_id(number, own=True)
        reread = self._do(self._store.reread_begin(self._message, number, begin_id=begin_id, needs=_NEEDS))
        assert reread == self.model.reread(number, begin_id)

    def record(self, number: int, result: CallResult, *, own: bool) -> None:
        begin_id = self._begin_id(number, own=own)
        recorded = self._do(self._store.record(self._message, number, begin_id=begin_id, result=result))
        assert recorded == self.model.record(number, begin_id, result.outcome, result.reason)

    def finalize(self, number: int) -> None:
        final = self._do(self._store.finalize(self._message, number, limits=_LIMITS))
        assert (final.answer, final.state) == (self.model.finalize(number), self.model.state)

    def sweep(self, number: int) -> None:
        found = self._do(self._store.expired_leases(500))
        assert [lease.attempt for lease in found if lease.message_id == self._message] == self.model.expired()
        lease = ExpiredLease(message_id=self._message, attempt=number)
        assert self._do(self._store.settle_expired(lease, limits=_LIMITS)) == self.model.sweep(number)

    def resolve(self, number: int, decision: Decision) -> None:
        resolution = Resolution(attempt=number, decision=decision, reason="asked", by=credential_of(self._tenant_id))
        resolved = self._do(self._resolutions.resolve(self._message, resolution))
        assert isinstance(resolved, MessageRef) == self.model.resolve(number, decision)

    def event(self, number: int, kind: str) -> None:
        """Let an event come that names the primary recipient; a bounce or a complaint suppresses them."""
        event = ProviderEvent(
            provider="ses",
            notification_id=str(uuid4()),
            natural_key=uuid4().hex,
            type=EventType(kind),
            recipients=(NamedRecipient(address_hash=ADDRESS_HASH),),
            provider_message_id=None,
            message_tag=str(self._message),
            attempt_tag=str(number),
        )
        assert self._do(self._events.take(event)) is Taken.APPLIED
        self.model.event(number, kind)
        if kind in ("bounce", "complaint"):
            self.model.against |= {"recipient"}

    def set_policy(self, which: str, *, against: bool) -> None:
        self._do(self._tables.set_policy(which, against))
        self.model.against = self.model.against | {which} if against else self.model.against - {which}

    def switch_provider(self, *, paused: bool) -> None:
        self._do(self._tables.switch_provider(paused))
        self.model.paused = paused

    def run_down_lease(self, left: Left) -> None:
        self._do(self._tables.leave_of_lease(left))
        self.model.tries[-1].left = left

    def end_wait(self) -> None:
        self._do(self._tables.let_wait_end())
        self.model.due = True

    def get_old(self) -> None:
        self._do(self._tables.let_age())
        self.model.old = True

    def compare(self) -> None:
        """Compare all that is stored with the model, and with what no message may ever show."""
        rows, model = self._do(self._tables.read()), self.model
        attempts = [(row["number"], row["token"], row["begin_id"], row["outcome"]) for row in rows.attempts]
        expected = [(n, n, one.begin and str(one.begin), one.outcome) for n, one in enumerate(model.tries, 1)]

        assert (rows.state, rows.attempts_used, rows.due) == (model.state, model.used, model.due)
        assert rows.token == len(model.tries)
        assert rows.late_results == model.late
        assert attempts == expected
        assert [row["closed_at"] is not None for row in rows.attempts] == [one.closed for one in model.tries]
        assert [row["closed_at"] for row in rows.attempts].count(None) == (model.state == "leased")
        assert _begun_once_but_for_refusals_and_resends(rows)
        self._compare_timeline(rows)

    def _compare_timeline(self, rows: Rows) -> None:
        moves = [row for row in rows.timeline if row["to_state"]]

        assert [row["seq"] for row in rows.timeline] == list(range(1, len(rows.timeline) + 1))
        assert [row["from_state"] for row in moves[1:]] == [row["to_state"] for row in moves[:-1]]
        assert [row["to_state"] for row in moves] == self.model.path
        assert {(row["from_state"], row["to_state"], row["actor"]) for row in moves[1:]} <= EDGES

    def _begin_id(self, number: int, *, own: bool) -> UUID:
        return self._begins[number - 1] if own else uuid4()


def _begun_once_but_for_refusals_and_resends(rows: Rows) -> bool:
    begun = sum(row["begun_at"] is not None for row in rows.attempts)
    refused = sum(row["outcome"] in DEFINITE_NO for row in rows.attempts)
    resent = sum(row["move"] == "resolve_resend" for row in rows.timeline)
    return bool(begun <= 1 + refused + resent)
