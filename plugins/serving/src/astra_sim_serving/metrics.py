"""Percentiles and means, by linear interpolation between order statistics (the default of NumPy)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

PERCENTILES = (50, 90, 95, 99)
STATISTICS = ("mean", *(f"p{percentile}" for percentile in PERCENTILES), "max")
"""The keys of a summary, in order."""


@attrs.define(eq=False)
class WeightedValues:
    """Values with counts: gaps between tokens, of which many requests have the same."""

    counts: dict[float, int] = attrs.field(factory=dict)

    def add(self, value: float, count: int = 1) -> None:
        """Add a value `count` times."""
        self.counts[value] = self.counts.get(value, 0) + count

    def include(self, other: WeightedValues) -> None:
        """Add all values of another."""
        for value, count in other.counts.items():
            self.add(value, count)

    def summary(self) -> dict[str, float] | None:
        """Mean, percentiles and maximum; None if there are no values."""
        return summary_of(sorted(self.counts.items()))


def summary_of(values: Sequence[tuple[float, int]]) -> dict[str, float] | None:
    """Mean, percentiles and maximum of sorted values with counts; None if there are none."""
    total = sum(count for _, count in values)
    if not total:
        return None
    mean = sum(value * count for value, count in values) / total
    result = {"mean": mean}
    ranks = [(percentile, percentile / 100 * (total - 1)) for percentile in PERCENTILES]
    position, passed = 0, 0
    for percentile, rank in ranks:
        low = int(rank)
        while passed + values[position][1] <= low:
            passed += values[position][1]
            position += 1
        value, count = values[position]
        share = rank - low
        if share and passed + count <= low + 1:
            value += share * (values[position + 1][0] - value)
        result[f"p{percentile}"] = value
    result["max"] = values[-1][0]
    return result


def summarize(values: Iterable[float]) -> dict[str, float] | None:
    """The same of plain values."""
    return summary_of([(value, 1) for value in sorted(values)])


def percentile_of(values: Sequence[float], percentile: float) -> float:
    """A percentile of sorted values."""
    rank = percentile / 100 * (len(values) - 1)
    low = int(rank)
    high = min(low + 1, len(values) - 1)
    return values[low] + (rank - low) * (values[high] - values[low])
