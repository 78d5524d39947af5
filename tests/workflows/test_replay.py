"""The workflow's code still reads the histories that it wrote: no running message breaks at a deploy."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from tests.workflows.branches import BRANCHES
from workflows.message import MessageWorkflow
from workflows.sweep import SweepWorkflow

FOLDER = Path(__file__).parent / "histories"


def _history(name: str) -> WorkflowHistory:
    return WorkflowHistory.from_json(f"acme/{name}", json.loads((FOLDER / f"{name}.json").read_text()))


def test_every_branch_has_a_recorded_history() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(BRANCHES)


@pytest.mark.parametrize("name", BRANCHES)
async def test_a_recorded_history_is_replayed_without_a_difference(name: str) -> None:
    replayer = Replayer(workflows=[MessageWorkflow, SweepWorkflow])

    await replayer.replay_workflow(_history(name))


async def test_a_history_of_other_code_is_found_out() -> None:
    """The replay can fail: a history in which submit came before claim is refused."""
    recorded = json.loads((FOLDER / "accepted.json").read_text())
    text = json.dumps(recorded).replace('"claim"', '"other"').replace('"name": "other"', '"name": "submit"')
    replayer = Replayer(workflows=[MessageWorkflow])

    result = await replayer.replay_workflow(
        WorkflowHistory.from_json("acme/accepted", json.loads(text)), raise_on_replay_failure=False
    )

    assert result.replay_failure is not None
