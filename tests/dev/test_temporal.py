"""Our own Temporal server."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import ListTaskQueuePartitionsRequest
from temporalio.client import Client

from dev.temporal import Temporal
from tests.dev.free_ports import free_port


@pytest.fixture(params=[True, False], ids=["durable", "in memory"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Temporal]:
    temporal = Temporal(tmp_path / "temporal", port=free_port(), durable=request.param)
    temporal.prepare()
    yield temporal
    temporal.stop()


async def test_it_answers_again_after_kill_9(server: Temporal) -> None:
    process = server.start()
    await server.ready(30)

    process.send_signal(signal.SIGKILL)
    process.wait()
    server.start()

    await server.ready(10)


async def test_every_port_that_it_opens_is_on_this_machine_only(server: Temporal) -> None:
    process = server.start()
    await server.ready(30)

    listening = [each for each in psutil.Process(process.pid).net_connections() if each.status == psutil.CONN_LISTEN]

    assert {each.laddr.ip for each in listening} == {"127.0.0.1"}
    assert server.port in {each.laddr.port for each in listening}


async def test_its_queues_have_one_partition(server: Temporal) -> None:
    server.start()
    await server.ready(30)
    client = await Client.connect(server.address)

    partitions = await client.workflow_service.list_task_queue_partitions(
        ListTaskQueuePartitionsRequest(namespace="default", task_queue=TaskQueue(name="any"))
    )

    assert len(partitions.activity_task_queue_partitions) == 1
    assert len(partitions.workflow_task_queue_partitions) == 1


async def test_workflows_outlive_a_restart_of_a_durable_server(tmp_path: Path) -> None:
    server = Temporal(tmp_path / "temporal", port=free_port())
    server.prepare()
    process = server.start()
    await server.ready(30)
    client = await Client.connect(server.address)
    await client.start_workflow("Any", id="kept", task_queue="any")

    process.send_signal(signal.SIGKILL)
    process.wait()
    server.start()
    await server.ready(30)

    client = await Client.connect(server.address)
    assert (await client.get_workflow_handle("kept").describe()).workflow_type == "Any"
    server.stop()


async def test_a_port_in_use_ends_it_with_a_word_in_its_log(server: Temporal, tmp_path: Path) -> None:
    server.start()
    await server.ready(30)
    second = Temporal(tmp_path / "second", port=server.port)
    second.prepare()
    process = second.start()
    process.wait()

    assert "in use" in second.log.read_text()
