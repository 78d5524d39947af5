"""Where figures go: latest.json and its dated copy, and a table for the person."""

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from rich.table import Table
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

from bench.figures import Better, Figure, FigureJson
from bench.measuring import Measuring
from bench.stack import ROOT

#: From here on, nobody reads what stands behind the point.
_WHOLE = 1000


class Machine(TypedDict):
    """What the figures were measured on; no name of a machine and no path."""

    cores: int
    python: str
    platform: str
    postgres: str
    temporal: str
    load_at_start: list[float]


class Results(TypedDict):
    """latest.json (CONTRACT section 6)."""

    machine: Machine
    commit: str
    figures: list[FigureJson]


def load() -> list[float]:
    """Return how busy the machine has been for the last 1, 5 and 15 minutes."""
    return [round(average, 2) for average in os.getloadavg()]


async def describe_machine(measuring: Measuring, load_at_start: list[float]) -> Machine:
    """Say on what it is measured."""
    temporal = await measuring.client.workflow_service.get_system_info(GetSystemInfoRequest())
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "postgres": await measuring.database.fetchval("SHOW server_version"),
        "temporal": temporal.server_version,
        "load_at_start": load_at_start,
    }


def commit() -> str:
    """Return the commit that is checked out, with `-dirty` where files differ from it; `unknown` without git."""
    git = shutil.which("git")
    head = _git(git, "rev-parse", "HEAD") if git else None
    if not git or not head:
        return "unknown"
    return f"{head}-dirty" if _git(git, "status", "--porcelain", "--", ".", ":!bench/results") else head


def _git(git: str, *arguments: str) -> str | None:
    done = subprocess.run([git, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def write(directory: Path, results: Results) -> Path:
    """Write latest.json and a copy under today's date and time (UTC); return the former."""
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2) + "\n"
    (directory / time.strftime("%Y-%m-%dT%H%M%SZ.json", time.gmtime())).write_text(text, encoding="utf-8")
    latest = directory / "latest.json"
    unfinished = directory / "latest.json.unfinished"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(latest)
    return latest


def table(figures: Sequence[Figure]) -> Table:
    """Draw the figures."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("figure", "ours", "baseline", "unit", "ratio", "reach", "met"):
        drawn.add_column(heading, justify="left" if heading in {"figure", "unit"} else "right", overflow="fold")
    for figure in figures:
        drawn.add_row(
            figure.name,
            _short(figure.ours),
            _short(figure.baseline),
            figure.measure,
            _short(figure.value) if figure.as_ratio else "",
            _reach(figure),
            {True: "yes", False: "NO", None: ""}[figure.met],
        )
    return drawn


def _reach(figure: Figure) -> str:
    if figure.reach is None:
        return ""
    return f"{'≥' if figure.better is Better.HIGHER else '≤'} {figure.reach:g}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or value >= _WHOLE else f"{value:,.2f}"
