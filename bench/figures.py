"""What a benchmark comes to: runs in turn, their medians, and whether the reach is met (CONTRACT: figures)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TypedDict

#: Digits after the point: a ratio needs three, and nobody reads more.
_DIGITS = 3


class Better(StrEnum):
    """Which way a figure should go."""

    HIGHER = "higher"
    LOWER = "lower"


class Pair(TypedDict):
    """One run of ours and the baseline's run beside it."""

    ours: float
    baseline: float


class FigureJson(TypedDict):
    """A figure as CONTRACT section 6 shows it."""

    name: str
    value: float
    unit: str
    reach: float | None
    better: Better
    met: bool | None
    ours: float
    baseline: float
    runs: list[Pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that was measured, run by run.

    Attributes:
        measure: The unit of `ours` and `baseline`.
        as_ratio: Whether the value is ours divided by the baseline's, or ours itself with the baseline's beside it.
        reach: What the value should come to at least, or at most; None where it is only shown.

    """

    name: str
    measure: str
    better: Better
    as_ratio: bool
    ours_runs: tuple[float, ...]
    baseline_runs: tuple[float, ...]
    reach: float | None = None

    @property
    def ours(self) -> float:
        """The median of our runs."""
        return median(self.ours_runs)

    @property
    def baseline(self) -> float:
        """The median of the baseline's runs."""
        return median(self.baseline_runs)

    @property
    def value(self) -> float:
        """What is compared with the reach."""
        return self.ours / self.baseline if self.as_ratio else self.ours

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return "ratio" if self.as_ratio else self.measure

    @property
    def met(self) -> bool | None:
        """Whether the reach is met, judged before anything is rounded; None without one."""
        if self.reach is None:
            return None
        return self.value >= self.reach if self.better is Better.HIGHER else self.value <= self.reach

    def as_json(self) -> FigureJson:
        """Return it as latest.json has it."""
        runs = zip(self.ours_runs, self.baseline_runs, strict=True)
        return {
            "name": self.name,
            "value": round(self.value, _DIGITS),
            "unit": self.unit,
            "reach": self.reach,
            "better": self.better,
            "met": self.met,
            "ours": round(self.ours, _DIGITS),
            "baseline": round(self.baseline, _DIGITS),
            "runs": [{"ours": round(ours, _DIGITS), "baseline": round(baseline, _DIGITS)} for ours, baseline in runs],
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of all values don't exceed (nearest rank)."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]
