"""Connections that break, workers that freeze, too few sessions: every message reaches its right end."""

import asyncio
import random
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from db.lifecycle import State
from tests.faults.cell import LEASE_SECONDS, Cell, Running
from tests.faults.proxy import FaultProxy, Way
from tests.faults.traffic import accepted, lasts, rightly_ended, traffic
from tests.waiting import until

#: Longer than any outage here takes: a message must not die of it.
PATIENT = {"ATTEMPTS": "50"}


@pytest.fixture
async def worker(shared_cell: Cell) -> AsyncIterator[Running]:
    """Have one worker, alone and healthy."""
    for name in set(shared_cell.running) - {"api", "small-api", "worker-1"}:
        await shared_cell.kill(name)
    if "worker-1" not in shared_cell.running:
        await shared_cell.start_worker("worker-1", **PATIENT)
    yield shared_cell.running["worker-1"]
    await shared_cell.heal()


@pytest.fixture(scope="module")
async def small_api(shared_cell: Cell) -> Running:
    """Run a second API with few connections and little patience; the first stays the one that is asked by default."""
    return await shared_cell.start_api(
        "small-api",
        DATABASE_POOL_SIZE="2",
        DATABASE_POOL_TIMEOUT_SECONDS="1",
        DATABASE_STATEMENT_TIMEOUT_SECONDS="1",
        DATABASE_LOCK_TIMEOUT_SECONDS="10",
    )


def is_unavailable(answer: httpx.Response) -> bool:
    """Tell whether an answer is the only refusal that an outage may bring, with a time to come again."""
    return (
        answer.status_code == 503 and answer.json()["code"] == "unavailable" and int(answer.headers["retry-after"]) > 0
    )


@pytest.mark.parametrize(
    ("target", "lasting"),
    # Postgres is away for longer than a lease, Temporal for longer than a submission.
    [("postgres", (1, 6, 1)), ("temporal", (2, 3, 1)), ("provider", (1, 1, 1))],
)
async def test_a_worker_is_cut_off_each_way_and_every_message_ends_right(
    shared_cell: Cell, worker: Running, target: str, lasting: tuple[float, float, float]
) -> None:
    proxy: FaultProxy = getattr(worker, target)
    faults = (Way.TO_SERVER, Way.TO_CLIENT, None)

    async with traffic(shared_cell) as load:
        for way, seconds in zip(faults, lasting, strict=True):
            await (proxy.cut() if way is None else proxy.swallow(way))
            await lasts(seconds)
            await proxy.heal()
            await lasts(0.5)

    ends = await rightly_ended(shared_cell, load.ids)
    print(f"\n{len(load.ids)} messages while {target} was away: {dict(ends)}")  # noqa: T201
    assert ends[State.PROVIDER_ACCEPTED] > 0
    assert load.refusals == []
    if target == "temporal":  # the call goes on and is recorded, whatever Temporal says of it
        reasons = "SELECT reason FROM attempts WHERE outcome = 'unknown' AND message_id = ANY($1)"
        rows = await shared_cell.superuser.fetch(reasons, [UUID(message_id) for message_id in load.ids])
        assert "lease_expired" not in {row["reason"] for row in rows}


async def test_a_storm_of_ended_sessions_is_503_at_most_and_everything_settles(
    shared_cell: Cell, worker: Running
) -> None:
    end_all = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()"""

    async with traffic(shared_cell) as load:
        for wave in range(10):
            await until(lambda due=2 * wave: len(load.ids) >= due, within=60)  # type: ignore[misc]  # a bound value
            await until(lambda: shared_cell.superuser.fetch(end_all), within=30)  # some: one may be opening just now

    assert all(is_unavailable(answer) for answer in load.refusals)
    ends = await rightly_ended(shared_cell, load.ids)
    print(f"\n{len(load.ids)} messages, {len(load.refusals)} times 503: {dict(ends)}")  # noqa: T201
    assert worker.child.poll() is None


async def test_a_provider_that_is_slower_than_the_lease_leaves_ambiguous_messages_and_one_submission(
    shared_cell: Cell, worker: Running
) -> None:
    await worker.provider.half_open()
    silent = await shared_cell.send()
    await shared_cell.ended([silent])
    await worker.provider.delay(LEASE_SECONDS * 1000 + 500, Way.TO_SERVER)
    slow = await shared_cell.send()
    first = await shared_cell.ended([silent, slow])

    async def has_arrived() -> bool:
        return bool(await shared_cell.submissions(slow))

    await until(has_arrived, within=30, every=0.1)
    assert first == {silent: State.AMBIGUOUS, slow: State.AMBIGUOUS}
    assert await shared_cell.states([silent, slow]) == first
    assert await shared_cell.submissions(silent) == []
    assert len(await shared_cell.submissions(slow)) == 1


async def test_a_worker_that_froze_between_claim_and_begin_does_not_call_when_it_thaws(
    shared_cell: Cell, worker: Running
) -> None:
    await worker.postgres.delay(250, Way.TO_SERVER)
    message_id = await shared_cell.send()

    reads_content = """SELECT count(*) FROM pg_stat_activity JOIN attempts ON query_start > claimed_at
        WHERE application_name = 'fencepost-worker-1' AND query LIKE '%message_contents%' AND message_id = $1::uuid"""

    async def is_in_submit() -> bool:
        return bool(await shared_cell.superuser.fetchval(reads_content, message_id))

    await until(is_in_submit, within=30)
    await shared_cell.suspend("worker-1")
    await worker.temporal.cut()  # its open polls would take task after task, and let each run into its time-out
    (attempt,) = (await shared_cell.read(message_id))["attempts"]
    await shared_cell.start_worker("worker-2", **PATIENT)
    ends = await shared_cell.ended([message_id])
    await shared_cell.heal()
    shared_cell.resume("worker-1")
    await _works_again(shared_cell, "worker-1", "worker-2")

    assert attempt["begun_at"] is None
    assert ends == {message_id: State.PROVIDER_ACCEPTED}
    outcomes = [attempt["outcome"] for attempt in (await shared_cell.read(message_id))["attempts"]]
    assert outcomes == ["not_begun", "accepted"]
    assert len(await shared_cell.submissions(message_id)) == 1


async def test_the_answer_to_a_worker_that_froze_in_its_call_is_evidence_and_moves_nothing(
    shared_cell: Cell, worker: Running
) -> None:
    await worker.provider.delay(700, Way.TO_CLIENT)
    message_id = await shared_cell.send()

    async def is_submitted() -> bool:
        return bool(await shared_cell.submissions(message_id))

    await until(is_submitted, within=30)
    await shared_cell.suspend("worker-1")
    await shared_cell.start_worker("worker-2", **PATIENT)
    ends = await shared_cell.ended([message_id])
    late = shared_cell.count_logged("worker-1")["late_result"]
    shared_cell.resume("worker-1")
    await until(lambda: shared_cell.count_logged("worker-1")["late_result"] > late, within=30)
    await _works_again(shared_cell, "worker-1", "worker-2")

    (submission,) = await shared_cell.submissions(message_id)
    message = await shared_cell.read(message_id)
    assert ends == {message_id: State.AMBIGUOUS}
    assert message["state"] == "ambiguous"
    (evidence,) = message["ambiguity"]["evidence"]
    assert (evidence["kind"], evidence["provider_message_id"]) == ("late_result", submission["ses_message_id"])
    logged = [line for line in shared_cell.logged("worker-1") if line.get("event") == "late_result"][-1]
    assert logged["message_id"] == message_id
    assert logged["provider_message_id"] == submission["ses_message_id"]


async def _works_again(cell: Cell, thawed: str, other: str) -> None:
    """Have the thawed worker carry a message alone, so that all it had left to do is behind it."""
    await cell.kill(other)
    assert cell.running[thawed].child.poll() is None
    await rightly_ended(cell, [await cell.send()])


@pytest.mark.usefixtures("worker")
async def test_clients_that_leave_in_the_middle_of_a_request_leave_nothing_behind(
    shared_cell: Cell, small_api: Running
) -> None:
    chance = random.Random(20261)  # noqa: S311 - a seed, so that every run cuts at the same places
    keys = [str(uuid4()) for _ in range(50)]
    for key in keys:
        await _leave_early(shared_cell, small_api, key, chance)

    async def are_idle() -> bool:
        rows = await shared_cell.superuser.fetch(
            """SELECT state FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'fencepost-api'"""
        )
        return all(row["state"] == "idle" for row in rows)

    await until(are_idle, within=10)
    answers: list[httpx.Response] = []
    ids = [await accepted(shared_cell, key, answers, api=small_api) for key in keys]
    assert {answer.status_code for answer in answers if not is_unavailable(answer)} <= {200, 202}
    assert await shared_cell.superuser.fetchval(
        "SELECT count(*) FROM messages WHERE idempotency_key = ANY($1)", keys
    ) == len(keys)
    await rightly_ended(shared_cell, ids)


async def _leave_early(cell: Cell, api: Running, key: str, chance: random.Random) -> None:
    request = cell.http.build_request(
        "POST",
        f"{api.url}/v1/messages",
        json=cell.command(),
        headers={"Authorization": f"Bearer {cell.keys.api_key}", "Idempotency-Key": key},
    )
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    whole = f"POST /v1/messages HTTP/1.1\r\n{head}\r\n".encode() + request.content
    # Every second one has sent all of it, and leaves while the API is at work.
    sent = chance.choice([len(whole), chance.randrange(len(whole))])
    _, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    writer.write(whole[:sent])
    await asyncio.sleep(chance.uniform(0, 0.03))
    writer.transport.abort()


@pytest.mark.usefixtures("worker")
async def test_too_few_connections_and_a_locked_row_are_503_until_it_is_free(
    shared_cell: Cell, small_api: Running
) -> None:
    keys = [str(uuid4()) for _ in range(40)]
    other = await asyncpg.connect(shared_cell.database.superuser_url)
    async with other.transaction():
        await other.execute("SELECT 1 FROM tenants FOR UPDATE")  # an insert takes a share of its tenant's row
        refused = await asyncio.gather(*(shared_cell.post(shared_cell.command(), key, api=small_api) for key in keys))
    await other.close()
    answers: list[httpx.Response] = []
    ids = [await accepted(shared_cell, key, answers, api=small_api) for key in keys]

    assert [answer.status_code for answer in refused if not is_unavailable(answer)] == []
    assert {answer.status_code for answer in answers if not is_unavailable(answer)} <= {200, 202}
    await rightly_ended(shared_cell, ids)


@pytest.mark.usefixtures("worker")
async def test_a_deadlock_is_503_and_the_same_command_is_accepted_afterwards(shared_cell: Cell) -> None:
    key = str(uuid4())
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'recipients'::regclass AND NOT granted"
    before = await shared_cell.superuser.fetchval(deadlocks)

    async def is_waiting() -> bool:
        return bool(await shared_cell.superuser.fetchval(waiting))

    other = await asyncpg.connect(shared_cell.database.superuser_url)
    async with other.transaction():
        await other.execute("SET LOCAL deadlock_timeout = '1min'")  # so that the API's session is the one that is ended
        await other.execute("LOCK TABLE recipients IN SHARE MODE")
        posting = asyncio.create_task(shared_cell.post(shared_cell.command(), key))
        await until(is_waiting, within=30)
        await other.execute("LOCK TABLE message_contents IN SHARE MODE")
        answer = await posting
    await other.close()

    async def is_counted() -> bool:
        await shared_cell.superuser.execute("SELECT pg_stat_clear_snapshot()")
        return bool(await shared_cell.superuser.fetchval(deadlocks) == before + 1)

    await until(is_counted, within=10)
    assert is_unavailable(answer)
    await rightly_ended(shared_cell, [await accepted(shared_cell, key, [])])
