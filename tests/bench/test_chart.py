"""The chart's rows; what matplotlib makes of them is looked at by eye, for it is installed for `make bench` only."""

import sys
from pathlib import Path

import pytest

from bench.chart import NAMES, draw, rows
from bench.figures import Better, Figure, FigureJson
from bench.results import Results
from dev.refusals import StartRefused


def figure(
    *,
    name: str = "throughput_vs_bare_workflow",
    better: Better = Better.HIGHER,
    as_ratio: bool = True,
    ours: float = 30.0,
    reach: float | None = 0.8,
) -> FigureJson:
    return Figure(
        name=name,
        measure="events",
        better=better,
        as_ratio=as_ratio,
        reach=reach,
        ours_runs=(ours,),
        baseline_runs=(50.0,),
    ).as_json()


def results(*figures: FigureJson) -> Results:
    return {
        "machine": {
            "cores": 2,
            "python": "3.11.7",
            "platform": "Linux",
            "postgres": "15.1 (Debian)",
            "temporal": "1.32.0",
            "load_at_start": [0.1, 0.2, 0.3],
        },
        "commit": "0" * 40,
        "figures": list(figures),
    }


def test_only_figures_with_a_reach_are_on_the_chart() -> None:
    assert [row.title for row in rows([figure(reach=None), figure(name="some_cost")])] == ["some cost"]


@pytest.mark.parametrize(
    ("better", "ours", "share", "met"),
    [
        (Better.LOWER, 20.0, 0.5, True),
        (Better.LOWER, 80.0, 2.0, False),
        (Better.HIGHER, 80.0, 0.5, True),
        (Better.HIGHER, 20.0, 2.0, False),
    ],
)
def test_a_bar_is_shorter_than_the_reach_where_it_is_met(better: Better, ours: float, share: float, met: bool) -> None:
    (row,) = rows([figure(better=better, ours=ours)])

    assert row.share == pytest.approx(share)
    assert row.met is met


def test_a_figure_that_should_be_high_and_is_nothing_has_the_longest_bar() -> None:
    (row,) = rows([figure(ours=0.0)])

    assert (row.share, row.met) == (3.0, False)


def test_a_ratio_shows_both_sides_with_their_unit() -> None:
    (row,) = rows([figure()])

    assert (row.sides, row.value) == ("30 beside 50 messages/s", "0.6 times, reach ≥ 0.8")


def test_a_count_shows_itself_with_its_unit() -> None:
    (row,) = rows([figure(name="history_events", as_ratio=False, better=Better.LOWER, ours=3166.0, reach=2500)])

    assert (row.title, row.sides) == ("History events a message", "3,166 beside 50 events")
    assert row.value == "3,166, reach ≤ 2,500"


def test_an_earlier_chart_goes_away_where_no_figure_has_a_reach(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).touch()

    draw(results(figure(reach=None)), tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_one_line_says_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What Python itself puts there for a module that must not be found.
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(StartRefused, match=r"matplotlib is not installed.*make bench"):
        draw(results(figure()), tmp_path)
