"""The figures that have a reach as one chart, beside latest.json; `python -m bench.chart` draws it again from that."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.figures import Better, FigureJson
from bench.results import Machine, Results
from bench.stack import ROOT
from dev.refusals import StartRefused

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

NAMES: Final = ("latest.svg", "latest.png")
#: Bars end here, three times past the reach, and say so.
LONGEST: Final = 3.0

_TITLES: Final = {
    "throughput_vs_bare_workflow": ("Throughput, beside a bare workflow", "messages/s"),
    "latency_vs_bare_workflow": ("Latency one at a time, beside a bare workflow", "ms"),
    "history_events": ("History events a message", ""),
    "billable_actions": ("Billable actions a message", ""),
    "history_bytes": ("History bytes a message", ""),
    "write_transactions": ("Write transactions a message", ""),
    "worker_cpu_vs_dbos": ("Worker CPU a message, beside DBOS", "ms"),
    "intake_vs_bare_insert": ("Intake, beside a bare INSERT", "requests/s"),
    "intake_p99_temporal_stopped": ("Intake p99, Temporal stopped and running", "ms"),
    "fairness_p95": ("p95 behind a backlog of another tenant, and alone", "ms"),
    "paced_rate": ("Paced rate, and the set one: not slower", "messages/s"),
    "paced_rate_at_most": ("Paced rate, and the set one: not faster", "messages/s"),
    "worker_memory": ("Worker memory, and after a tenth of the messages", "MiB"),
}
"""What a figure is called on the chart, and the unit of its sides where its value is a ratio."""
_AT_SCALE: Final = "_at_scale"

#: Told apart by hatching and by word; the colours are Okabe and Ito's, for those who see them.
_MET, _UNMET = "#0072B2", "#D55E00"
_INK, _FAINT = "#1f2328", "#59636e"
#: Inches; a picture in a README is as wide as this at 100 dots an inch.
_WIDTH, _ROW, _ABOVE, _BELOW = 8.0, 0.44, 0.78, 0.5
#: Where the bars are, in parts of the width: names stand to the left, values to the right.
_BARS_FROM, _BARS_TO = 0.415, 0.735
_DOTS: Final = 200
_SHORT_COMMIT: Final = 12
_WHOLE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One bar and its words.

    Attributes:
        share: How long the bar is: 1 is the reach, and less is better, whichever way the figure should go.

    """

    title: str
    sides: str
    share: float
    value: str
    met: bool


def rows(figures: Sequence[FigureJson]) -> list[Row]:
    """Return a row for each figure that has a reach, in order."""
    return [_row(figure, figure["reach"]) for figure in figures if figure["reach"] is not None]


def draw(results: Results, directory: Path) -> None:
    """Draw latest.svg and latest.png; the same results make the same bytes with the same matplotlib.

    Where no figure has a reach, an earlier chart is taken away, for it would show other results.

    Raises:
        StartRefused: matplotlib is not installed.

    """
    shown = rows(results["figures"])
    if not shown:
        for name in NAMES:
            (directory / name).unlink(missing_ok=True)
        return
    if find_spec("matplotlib") is None:
        raise StartRefused("matplotlib is not installed, which the chart needs: `make bench` installs it.")
    import matplotlib as mpl  # noqa: PLC0415 - only `make bench` installs it

    with mpl.rc_context({"svg.hashsalt": "fencepost", "font.family": "DejaVu Sans", "hatch.linewidth": 0.8}):
        canvas = _canvas(shown, heading=_heading(results["machine"], results["commit"]))
        # Nothing of the day and of the program: a chart changes where its figures do.
        canvas.savefig(directory / NAMES[0], metadata={"Date": None, "Creator": None})
        canvas.savefig(directory / NAMES[1], dpi=_DOTS, metadata={"Software": None})


def _row(figure: FigureJson, reach: float) -> Row:
    title, measure = _named(figure["name"])
    is_ratio = figure["unit"] == "ratio"
    higher = figure["better"] == Better.HIGHER
    share = reach / figure["value"] if higher and figure["value"] else figure["value"] / reach
    unit = measure if is_ratio else figure["unit"]
    sign = "≥" if higher else "≤"
    return Row(
        title=title,
        sides=f"{_short(figure['ours'])} beside {_short(figure['baseline'])} {unit}".strip(),
        share=LONGEST if higher and not figure["value"] else share,
        value=f"{_short(figure['value'])}{' times' if is_ratio else ''}, reach {sign} {_short(reach)}",
        met=bool(figure["met"]),
    )


def _named(name: str) -> tuple[str, str]:
    if name.endswith(_AT_SCALE):
        return f"{name.removesuffix(_AT_SCALE).replace('_', ' ').capitalize()}, with many messages and few", "ms"
    return _TITLES.get(name, (name.replace("_", " "), ""))


def _heading(machine: Machine, commit: str) -> str:
    digest, _, rest = commit.partition("-")
    return (
        f"{machine['cores']} cores, Python {machine['python']}, PostgreSQL {machine['postgres'].split()[0]},"
        f" Temporal {machine['temporal']}, commit {digest[:_SHORT_COMMIT]}{'-' if rest else ''}{rest}"
    )


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= _WHOLE or float(number).is_integer() else f"{number:.3g}"


def _canvas(shown: Sequence[Row], *, heading: str) -> "Canvas":
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - see draw
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 - see draw

    height = _ABOVE + _ROW * len(shown) + _BELOW
    canvas = Canvas(figsize=(_WIDTH, height), facecolor="white")
    FigureCanvasAgg(canvas)
    met = sum(row.met for row in shown)
    canvas.text(
        0.015, 1 - 0.27 / height, f"Fencepost: {met} of {len(shown)} reaches met", size=12, weight="bold", color=_INK
    )
    canvas.text(0.015, 1 - 0.49 / height, heading, size=8, color=_FAINT)
    axes = canvas.add_axes(
        (_BARS_FROM, _BELOW / height, _BARS_TO - _BARS_FROM, _ROW * len(shown) / height), facecolor="none"
    )
    axes.set_xlim(0, LONGEST)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xticks([0, 1, 2, 3], ["0", "reach", "2 times", "3 times"], size=8, color=_FAINT)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.axvline(1, color=_INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=3)
    for place, row in enumerate(shown):
        _draw_row(axes, place, row)
    canvas.text(
        0.015,
        0.12 / height,
        "A bar that ends left of the line meets its reach. Where more is better, it is the reach divided by the value.",
        size=7.5,
        color=_FAINT,
    )
    return canvas


def _draw_row(axes: "Axes", place: int, row: Row) -> None:
    colour = _MET if row.met else _UNMET
    axes.barh(
        place,
        min(row.share, LONGEST),
        height=0.5,
        facecolor=colour if row.met else "white",
        edgecolor=colour,
        hatch=None if row.met else "////",
        linewidth=1,
    )
    if row.share > LONGEST:
        axes.text(
            LONGEST * 0.985,
            place,
            f"{row.share:.0f} times ▸",
            size=8,
            ha="right",
            va="center",
            color=_INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    across = axes.get_yaxis_transform()
    left, right = -_BARS_FROM / (_BARS_TO - _BARS_FROM) * 0.964, 1.03
    axes.text(left, place - 0.17, row.title, size=8.5, va="center", color=_INK, transform=across)
    axes.text(left, place + 0.21, row.sides, size=7.5, va="center", color=_FAINT, transform=across)
    axes.text(
        right,
        place - 0.17,
        "met" if row.met else "NOT MET",
        size=8.5,
        va="center",
        color=_INK,
        weight="normal" if row.met else "bold",
        transform=across,
    )
    axes.text(right, place + 0.21, row.value, size=7.5, va="center", color=_FAINT, transform=across)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the chart of a latest.json again; return 0, or 1 without matplotlib."""
    parser = argparse.ArgumentParser(prog="python -m bench.chart", description="Draws latest.json as SVG and PNG.")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="where it is")
    directory: Path = parser.parse_args(arguments).results
    results: Results = json.loads((directory / "latest.json").read_text(encoding="utf-8"))
    try:
        draw(results, directory)
    except StartRefused as refusal:
        print(f"fencepost bench: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
