"""A process that dies at each named point of its work: what its message becomes once another process goes on.

Each row of the crash table in ARCHITECTURE.md names one of these tests.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.client import Client

from db.crash_points import CrashPoint
from db.ids import MessageId
from db.lifecycle import State
from db.records import ExpiredLease
from db.store import MessageStore
from tests.conftest import Database
from tests.db.test_store import LIMITS
from tests.faults.cell import Cell, Running, cell
from tests.waiting import until

LEASE_SECONDS: Final = 4.0

#: Deaths that follow each other before a whole worker starts: what is left to do for the messages of the earlier ones
#: (a claim that runs again, a submit that is refused, a finalize that waits) doesn't pass the points of the later ones.
GROUPS: Final = (
    (
        CrashPoint.FINALIZE_UNCOMMITTED,
        CrashPoint.FINALIZE_COMMITTED,
        CrashPoint.BEGIN_COMMITTED,
        CrashPoint.HEADERS_SENT,
        CrashPoint.REQUEST_SENT,
        CrashPoint.ANSWER_READ,
        CrashPoint.RECORD_COMMITTED,
    ),
    (CrashPoint.SUBMIT_TAKEN_UP,),
    (CrashPoint.CLAIM_COMMITTED,),
    (CrashPoint.CLAIM_TAKEN_UP,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What became of the message of a process that died."""

    message: dict[str, Any]
    submissions: int
    attempts_used: int

    @property
    def calls(self) -> list[str]:
        """The outcomes of the attempts that began; on a busy machine a lease can end before its attempt does."""
        return [attempt["outcome"] for attempt in self.message["attempts"] if attempt["begun_at"]]

    @property
    def ends(self) -> list[str]:
        """What settled it, each move but claims and the leases that ended before anything began."""
        return [line["move"] for line in self.message["timeline"] if line["move"] not in {"intake", "claim", "retry"}]


@dataclass(slots=True)
class Deaths:
    """Lets workers die, a group at a time and each group once."""

    cell: Cell
    found: dict[CrashPoint, Aftermath]

    async def at(self, point: CrashPoint) -> Aftermath:
        """Give what became of the message whose worker died at this point."""
        if point not in self.found:
            (group,) = (group for group in GROUPS if point in group)
            ids = {each: await self._die(each) for each in group}
            await self.cell.start_worker("whole")
            await self.cell.ended(ids.values())
            # What a run has not told Temporal yet would be done again by the next worker, which would die of it.
            await asyncio.gather(*(self._run_is_over(message_id) for message_id in ids.values()))
            await self.cell.kill("whole")
            self.found |= {each: await aftermath(self.cell, message_id) for each, message_id in ids.items()}
        return self.found[point]

    async def _run_is_over(self, message_id: str) -> None:
        workflow_id = (await self.cell.read(message_id))["workflow_id"]
        await asyncio.wait_for(self.cell.temporal.get_workflow_handle(workflow_id).result(), 60)

    async def _die(self, point: CrashPoint) -> str:
        worker = await self.cell.start_worker(f"dies-{point}", CRASH_POINT=point)
        message_id = await self.cell.send()
        await until(lambda: worker.child.poll() is not None, within=30)
        assert await self.cell.kill(worker.name) == -signal.SIGKILL
        return message_id


async def aftermath(running: Cell, message_id: str) -> Aftermath:
    return Aftermath(
        message=await running.read(message_id),
        submissions=len(await running.submissions(message_id)),
        attempts_used=await running.superuser.fetchval(
            "SELECT attempts_used FROM messages WHERE id = $1", UUID(message_id)
        ),
    )


@pytest.fixture(scope="module")
async def crashing(
    database: Database, temporal_client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cell]:
    folder = tmp_path_factory.mktemp("cell")
    async with cell(database, temporal_client, folder, LEASE_SECONDS=str(LEASE_SECONDS)) as made:
        await made.start_api()
        yield made


@pytest.fixture(scope="module")
def deaths(crashing: Cell) -> Deaths:
    return Deaths(crashing, {})


@pytest.fixture
async def worked(crashing: Cell) -> AsyncIterator[Cell]:
    """The cell with a whole worker."""
    await crashing.start_worker("whole")
    yield crashing
    await crashing.kill("whole")


async def test_a_worker_that_dies_before_it_claims_leaves_the_claim_to_another(deaths: Deaths) -> None:
    after = await deaths.at(CrashPoint.CLAIM_TAKEN_UP)

    assert (after.message["state"], after.submissions, after.attempts_used) == ("provider_accepted", 1, 1)
    assert (after.calls, after.ends) == (["accepted"], ["accept"])


@pytest.mark.parametrize("point", [CrashPoint.CLAIM_COMMITTED, CrashPoint.SUBMIT_TAKEN_UP])
async def test_a_worker_that_dies_before_begin_has_made_no_call_and_used_up_no_attempt(
    deaths: Deaths, point: CrashPoint
) -> None:
    after = await deaths.at(point)

    assert (after.message["state"], after.submissions, after.attempts_used) == ("provider_accepted", 1, 1)
    assert after.message["attempts"][0]["outcome"] == "not_begun"
    assert (after.calls, after.ends) == (["accepted"], ["accept"])


@pytest.mark.parametrize(
    ("point", "submitted"),
    [
        (CrashPoint.BEGIN_COMMITTED, 0),
        (CrashPoint.HEADERS_SENT, 0),
        (CrashPoint.REQUEST_SENT, 1),
        (CrashPoint.ANSWER_READ, 1),
        (CrashPoint.FINALIZE_UNCOMMITTED, 1),
    ],
)
async def test_a_worker_that_dies_between_begin_and_record_leaves_an_ambiguous_message(
    deaths: Deaths, point: CrashPoint, submitted: int
) -> None:
    after = await deaths.at(point)

    assert (after.message["state"], after.submissions) == ("ambiguous", submitted)
    assert (after.calls, after.ends) == (["unknown"], ["quarantine"])
    last = after.message["attempts"][-1]
    assert last["reason"] == "lease_expired"
    assert after.message["ambiguity"]["attempt"] == last["number"]


async def test_what_was_recorded_is_no_longer_unknown_when_its_worker_dies(deaths: Deaths) -> None:
    after = await deaths.at(CrashPoint.RECORD_COMMITTED)

    assert (after.message["state"], after.submissions) == ("provider_accepted", 1)
    assert (after.calls, after.ends) == (["accepted"], ["accept"])


async def test_a_worker_that_dies_before_temporal_knows_of_the_end_leaves_it_done_once(deaths: Deaths) -> None:
    after = await deaths.at(CrashPoint.FINALIZE_COMMITTED)

    assert (after.message["state"], after.submissions) == ("provider_accepted", 1)
    assert (after.calls, after.ends) == (["accepted"], ["accept"])


@pytest.mark.parametrize(
    ("point", "replayed"),
    [(CrashPoint.INTAKE_UNCOMMITTED, 202), (CrashPoint.INTAKE_COMMITTED, 200), (CrashPoint.RUN_STARTED, 200)],
)
async def test_an_api_that_dies_at_intake_leaves_one_message_for_the_clients_next_try(
    worked: Cell, point: CrashPoint, replayed: int
) -> None:
    key, command, whole = str(uuid4()), worked.command(), worked.running["api"]
    dying = await worked.start_api("dying", CRASH_POINT=point)

    try:
        first = (await worked.post(command, key, api=dying)).status_code
    except httpx.TransportError:
        first = None
    await until(lambda: dying.child.poll() is not None, within=10)
    assert await worked.kill("dying") == -signal.SIGKILL
    again = await worked.post(command, key, api=whole)

    # The run is asked for in the background: the answer may have left by then, and need not.
    assert first is None or (first == 202 and point is CrashPoint.RUN_STARTED)
    assert again.status_code == replayed, again.text
    message_id = again.json()["id"]
    assert await worked.ended([message_id]) == {message_id: State.PROVIDER_ACCEPTED}
    assert len(await worked.submissions(message_id)) == 1
    assert await worked.superuser.fetchval("SELECT count(*) FROM messages WHERE idempotency_key = $1", key) == 1
    assert await runs(worked, message_id) == 1


async def runs(running: Cell, message_id: str) -> int:
    """Count the runs that Temporal has had of a message, once its list has caught up."""
    query = f"WorkflowId = '{(await running.read(message_id))['workflow_id']}'"
    counted = 0

    async def any_run() -> bool:
        nonlocal counted
        counted = (await running.temporal.count_workflows(query)).count
        return counted > 0

    await until(any_run, within=10)
    return counted


async def sweep(running: Cell, point: CrashPoint | None) -> int:
    """Sweep once as people do it, with the environment of the cell's worker."""
    environment = {
        **os.environ,
        "FENCEPOST_DATABASE_URL": running.database.url("fencepost_worker"),
        "FENCEPOST_ENVIRONMENT": "test",
        "FENCEPOST_SWEEP_SECONDS": "1",
        "FENCEPOST_CRASH_POINT": point or "",
        "TEMPORAL_ADDRESS": running.temporal.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": running.temporal.namespace,
    }
    command = (sys.executable, "-m", "cli", "sweep", "--once")
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.DEVNULL)
    return await asyncio.wait_for(process.wait(), 60)


@pytest.mark.parametrize(
    ("point", "left", "again"),
    [(CrashPoint.RESOLUTION_UNCOMMITTED, State.AMBIGUOUS, 200), (CrashPoint.RESOLUTION_COMMITTED, State.QUEUED, 409)],
)
async def test_an_api_that_dies_at_a_resolution_leaves_it_done_whole_or_not_at_all(
    crashing: Cell, worker_engine: AsyncEngine, point: CrashPoint, left: State, again: int
) -> None:
    message_id = await ambiguous(crashing, MessageStore(worker_engine))
    whole = crashing.running["api"]
    dying = await crashing.start_api("dying", CRASH_POINT=point)

    with pytest.raises(httpx.TransportError):
        await resend(crashing, message_id, dying)
    await until(lambda: dying.child.poll() is not None, within=10)
    assert await crashing.kill("dying") == -signal.SIGKILL
    states = await crashing.states([message_id])
    audited = "SELECT count(*) FROM operator_audit WHERE message_id = $1"
    was_audited = await crashing.superuser.fetchval(audited, UUID(message_id))
    answer = await resend(crashing, message_id, whole)
    await crashing.start_worker("whole")
    # The run of a resend that nobody was told of is the sweep's.
    ended = await crashing.ended([message_id])
    await crashing.kill("whole")

    assert states == {message_id: left}
    assert was_audited == int(left is State.QUEUED)
    assert answer.status_code == again, answer.text
    assert ended == {message_id: State.PROVIDER_ACCEPTED}
    assert len(await crashing.submissions(message_id)) == 1
    assert await crashing.superuser.fetchval(audited, UUID(message_id)) == 1


async def ambiguous(running: Cell, store: MessageStore) -> str:
    """Accept a message whose first attempt began and was never heard of; no worker may run."""
    message_id = await running.send()
    id_, over = MessageId(UUID(message_id)), timedelta(milliseconds=1)
    await store.claim(id_, claim_id="dead", owner="dead", lease=over, limits=LIMITS)
    await store.begin(id_, 1, begin_id=uuid4(), needs=timedelta(seconds=-60))
    lease = ExpiredLease(message_id=id_, attempt=1)
    await until(lambda: store.settle_expired(lease, limits=LIMITS), within=10)
    return message_id


async def resend(running: Cell, message_id: str, api: Running) -> httpx.Response:
    return await running.http.post(
        f"{api.url}/v1/operator/messages/{message_id}/resolution",
        json={"decision": "resend", "attempt": 1, "reason": "nobody has it", "acknowledge_duplicate_risk": True},
        headers={"Authorization": f"Bearer {running.keys.operator_key}"},
    )


async def test_a_sweep_that_dies_between_two_leases_leaves_the_rest_to_the_next(
    crashing: Cell, worker_engine: AsyncEngine
) -> None:
    ids = [await crashing.send() for _ in range(2)]
    store = MessageStore(worker_engine)
    for message_id in ids:
        id_, over = MessageId(UUID(message_id)), timedelta(milliseconds=1)
        await store.claim(id_, claim_id="dead", owner="dead", lease=over, limits=LIMITS)

    assert await sweep(crashing, CrashPoint.SWEEP_SETTLED) == -signal.SIGKILL
    between = sorted((await crashing.states(ids)).values())
    assert await sweep(crashing, None) == 0
    afterwards = set((await crashing.states(ids)).values())
    await crashing.start_worker("whole")
    ended = await crashing.ended(ids)
    await crashing.kill("whole")

    assert between == [State.LEASED, State.RETRYABLE]
    assert afterwards == {State.RETRYABLE}
    assert set(ended.values()) == {State.PROVIDER_ACCEPTED}
    assert [len(await crashing.submissions(each)) for each in ids] == [1, 1]


async def test_a_sweep_that_dies_after_it_started_a_run_has_it_joined_by_the_next(crashing: Cell) -> None:
    dying = await crashing.start_api("dying", CRASH_POINT=CrashPoint.INTAKE_COMMITTED)
    key, command, whole = str(uuid4()), crashing.command(), crashing.running["api"]
    with pytest.raises(httpx.TransportError):
        await crashing.post(command, key, api=dying)
    await crashing.kill("dying")
    find = "SELECT id FROM messages WHERE idempotency_key = $1 AND due_at < clock_timestamp() - interval '1 second'"
    await until(lambda: crashing.superuser.fetchval(find, key), within=10)
    message_id = str(await crashing.superuser.fetchval(find, key))

    assert await sweep(crashing, CrashPoint.SWEEP_RUN_STARTED) == -signal.SIGKILL
    assert await sweep(crashing, None) == 0
    await crashing.start_worker("whole")
    ended = await crashing.ended([message_id])
    await crashing.kill("whole")

    assert ended == {message_id: State.PROVIDER_ACCEPTED}
    assert (await crashing.post(command, key, api=whole)).status_code == 200
    assert len(await crashing.submissions(message_id)) == 1
    assert await runs(crashing, message_id) == 1
