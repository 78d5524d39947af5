"""latest.json, as CONTRACT section 6 has it."""

import json
import re
from pathlib import Path

from bench.__main__ import RESULTS
from bench.figures import Better, Figure
from bench.results import Machine, commit, write

MACHINE: Machine = {
    "cores": 2,
    "python": "3.11.7",
    "platform": "Linux",
    "postgres": "15.1",
    "temporal": "1.32.0",
    "load_at_start": [0.1, 0.2, 0.3],
}
FIGURE = Figure(
    name="history_events", measure="events", better=Better.LOWER, as_ratio=False, ours_runs=(18,), baseline_runs=(11,)
)


def test_results_are_written_as_latest_and_under_their_date(tmp_path: Path) -> None:
    latest = write(tmp_path / "results", {"machine": MACHINE, "commit": "0" * 40, "figures": [FIGURE.as_json()]})

    (dated,) = (path for path in latest.parent.iterdir() if path != latest)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d{6}Z\.json", dated.name)
    assert dated.read_text() == latest.read_text()
    assert json.loads(latest.read_text()) == {
        "machine": MACHINE,
        "commit": "0" * 40,
        "figures": [FIGURE.as_json()],
    }


def test_the_kept_results_have_the_contracts_shape_and_no_path() -> None:
    kept = json.loads((RESULTS / "latest.json").read_text())

    assert kept.keys() == {"machine", "commit", "figures"}
    assert kept["machine"].keys() == MACHINE.keys()
    assert all(figure.keys() == FIGURE.as_json().keys() for figure in kept["figures"])
    assert "/" not in json.dumps(kept["machine"])


def test_the_commit_is_a_hash_or_unknown() -> None:
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", commit())
