"""Medians, percentiles and reaches."""

import pytest

from bench.figures import Better, Figure, percentile


def figure(*, as_ratio: bool = True, better: Better = Better.HIGHER, reach: float | None = 0.8) -> Figure:
    return Figure(
        name="throughput_vs_bare_workflow",
        measure="messages/s",
        better=better,
        as_ratio=as_ratio,
        reach=reach,
        ours_runs=(30.0, 10.0, 40.0),
        baseline_runs=(60.0, 50.0, 20.0),
    )


def test_a_ratio_is_of_the_medians_and_not_of_single_runs() -> None:
    assert figure().ours == 30
    assert figure().baseline == 50
    assert figure().value == pytest.approx(0.6)
    assert figure().unit == "ratio"


def test_a_cost_is_ours_and_the_baseline_stands_beside_it() -> None:
    cost = figure(as_ratio=False)

    assert (cost.value, cost.baseline, cost.unit) == (30, 50, "messages/s")


@pytest.mark.parametrize(
    ("better", "reach", "met"),
    [
        (Better.HIGHER, 0.6, True),
        (Better.HIGHER, 0.61, False),
        (Better.LOWER, 0.6, True),
        (Better.LOWER, 0.59, False),
        (Better.HIGHER, None, None),
    ],
)
def test_a_reach_is_met_from_the_right_side(better: Better, reach: float | None, met: bool | None) -> None:
    assert figure(better=better, reach=reach).met is met


def test_a_figure_is_shown_as_the_contract_has_it() -> None:
    assert figure().as_json() == {
        "name": "throughput_vs_bare_workflow",
        "value": 0.6,
        "unit": "ratio",
        "reach": 0.8,
        "better": "higher",
        "met": False,
        "ours": 30.0,
        "baseline": 50.0,
        "runs": [
            {"ours": 30.0, "baseline": 60.0},
            {"ours": 10.0, "baseline": 50.0},
            {"ours": 40.0, "baseline": 20.0},
        ],
    }


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (0, 1)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], percent) == value


def test_one_value_is_every_percentile_of_itself() -> None:
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7
