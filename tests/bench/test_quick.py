"""`make bench ARGS="--quick"`: every benchmark that it runs is right, and the exact counts are what they are."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from bench.stack import ROOT

#: For a busy machine; alone it takes less than two minutes.
_WITHIN: Final = 600.0
#: Of one message, from its 202 to `provider_accepted`. A change that costs more has to be meant.
COUNTS: Final = {"history_events": 11, "billable_actions": 2, "write_transactions": 3}


async def test_the_quick_bench_is_right_and_counts_what_a_message_costs(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "bench", "--quick", "--results", str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )

    said, _ = await asyncio.wait_for(process.communicate(), _WITHIN)

    assert process.returncode == 0, said.decode()
    figures = {each["name"]: each for each in json.loads((tmp_path / "latest.json").read_text())["figures"]}
    assert {name: figures[name]["value"] for name in COUNTS} == COUNTS
    assert figures["history_bytes"]["met"]


async def test_a_wrong_argument_is_one_line_and_status_2() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench", "--messages", "0", cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )

    _, said = await asyncio.wait_for(process.communicate(), 60)

    assert process.returncode == 2
    assert said.decode().splitlines()[-1].endswith("between 1 and 5000")
