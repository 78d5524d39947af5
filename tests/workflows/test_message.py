"""The order of steps: which activity follows which answer, and how long the workflow waits between them."""

import shutil
import sysconfig
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment

from db.decisions import ClaimAnswer
from db.lifecycle import State
from tests.workflows.branches import ACCEPTED, BRANCHES, Branch, ScriptedActivities, again, leased, told, wait
from tests.workflows.running import ended, scripted_workers, start
from workflows import policies

TIMER: Final = "timer_started_event_attributes"


@pytest.fixture
def client(temporal_client: Client) -> Client:
    return temporal_client


@pytest.fixture(scope="module")
async def skipping() -> AsyncIterator[WorkflowEnvironment]:
    """Run a server that skips the time for which every workflow waits."""
    beside_python = Path(sysconfig.get_path("scripts")) / "temporal-test-server"
    binary = beside_python if beside_python.exists() else shutil.which("temporal-test-server")
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=str(binary)) as environment:
        yield environment


@pytest.mark.parametrize("name", BRANCHES)
async def test_each_branch_ends_where_it_should_and_uses_its_whole_script(client: Client, name: str) -> None:
    branch = BRANCHES[name]
    activities = ScriptedActivities(branch)

    async with scripted_workers(client, activities):
        result = await ended(await start(client))

    assert result.state is branch.ends
    assert len(activities.claimed) == len(branch.claims)
    assert len(activities.finalized) == len(branch.finals)
    only_claimed = [claim for claim in branch.claims if claim.answer is ClaimAnswer.LEASED and not claim.submitted]
    assert len(activities.submitted) == len(only_claimed)


async def test_each_claim_has_an_id_of_its_own(client: Client) -> None:
    activities = ScriptedActivities(BRANCHES["retried"])

    async with scripted_workers(client, activities):
        await ended(await start(client))

    first, second = activities.claimed
    assert first.message_id == second.message_id
    assert first.claim_id != second.claim_id


async def test_submit_and_finalize_name_the_attempt_of_their_own_claim(client: Client) -> None:
    activities = ScriptedActivities(BRANCHES["retried"])

    async with scripted_workers(client, activities):
        await ended(await start(client))

    assert [request.attempt for request in activities.submitted] == [1, 2]
    assert [request.attempt for request in activities.finalized] == [1, 2]


@pytest.mark.parametrize(
    ("branch", "waited"),
    [
        (Branch(claims=[leased(1), leased(2)], finals=[again(3600), ACCEPTED]), timedelta(hours=1)),
        (Branch(claims=[told(ClaimAnswer.PAUSED, wait=45), leased()], finals=[ACCEPTED]), timedelta(seconds=45)),
        (
            Branch(claims=[told(ClaimAnswer.BUSY, State.LEASED, 60), leased()], finals=[ACCEPTED]),
            timedelta(seconds=60),
        ),
        (Branch(claims=[leased()], finals=[wait(50), ACCEPTED]), timedelta(seconds=50)),
    ],
    ids=["backoff", "paused", "busy", "unanswered"],
)
async def test_it_waits_as_long_as_it_is_told(skipping: WorkflowEnvironment, branch: Branch, waited: timedelta) -> None:
    async with scripted_workers(skipping.client, ScriptedActivities(branch)):
        handle = await start(skipping.client)
        await ended(handle)

    history = await handle.fetch_history()
    timers = [event.timer_started_event_attributes for event in history.events if event.HasField(TIMER)]
    assert [timer.start_to_fire_timeout.ToTimedelta() for timer in timers] == [waited]


async def test_a_wait_of_nothing_does_not_spin(client: Client) -> None:
    branch = Branch(claims=[told(ClaimAnswer.BUSY, wait=0), leased()], finals=[ACCEPTED])
    activities = ScriptedActivities(branch)

    async with scripted_workers(client, activities):
        handle = await start(client)
        await ended(handle)

    history = await handle.fetch_history()
    timers = [event.timer_started_event_attributes for event in history.events if event.HasField(TIMER)]
    assert [timer.start_to_fire_timeout.ToTimedelta() for timer in timers] == [policies.SHORTEST_WAIT]


async def test_a_history_that_grows_long_is_continued_in_a_new_run(client: Client) -> None:
    """A provider that is switched off for a day: the server says when a history is long enough."""
    looks = 10
    branch = Branch(claims=[*[told(ClaimAnswer.PAUSED, wait=0.0)] * looks, leased()], finals=[ACCEPTED])
    activities = ScriptedActivities(branch)

    async with scripted_workers(client, activities):
        handle = await start(client)
        result = await ended(handle)

    first = await client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id).describe()
    assert result.state is State.PROVIDER_ACCEPTED
    assert len(activities.claimed) == looks + 1
    assert first.status is WorkflowExecutionStatus.CONTINUED_AS_NEW
