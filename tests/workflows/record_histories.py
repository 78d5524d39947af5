"""Record the history of each branch that has none: `python -m tests.workflows.record_histories`.

One that is there stays: histories of the present code say nothing about whether it still reads those of the last
release. Delete them for a change that is meant to break running workflows.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from temporalio.client import Client

from dev.temporal import Temporal
from tests.conftest import free_port
from tests.workflows.branches import BRANCHES, ScriptedActivities
from tests.workflows.running import ended, scripted_workers, start

FOLDER = Path(__file__).parent / "histories"


async def record(client: Client) -> None:
    """Run each branch without a history, and keep the one that it makes."""
    for name, branch in BRANCHES.items():
        if (FOLDER / f"{name}.json").exists():
            continue
        async with scripted_workers(client, ScriptedActivities(branch)):
            handle = await start(client, f"acme/{name}")
            await ended(handle)
        recorded = json.loads((await handle.fetch_history()).to_json())
        (FOLDER / f"{name}.json").write_text(json.dumps(_anonymous(recorded), indent=1) + "\n", encoding="utf-8")


def _anonymous(value: Any) -> Any:
    """Leave out what tells of the machine: who the processes were, and where the code lay."""
    if isinstance(value, dict):
        return {key: _anonymous(inner) for key, inner in value.items() if key not in ("identity", "stackTrace")}
    return [_anonymous(inner) for inner in value] if isinstance(value, list) else value


def main() -> None:
    """Record on a server of our own."""
    with tempfile.TemporaryDirectory() as folder:
        server = Temporal(Path(folder), port=free_port(), durable=False)
        server.prepare()
        server.start()
        try:
            server.wait(60)
            FOLDER.mkdir(exist_ok=True)
            asyncio.run(_record_on(server.address))
        finally:
            server.stop()


async def _record_on(address: str) -> None:
    await record(await Client.connect(address))


if __name__ == "__main__":
    main()
