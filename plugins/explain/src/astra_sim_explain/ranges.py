"""The range of a parameter in which its sensitivity holds, until another chain of events is the longest.

With the same chain the time of a run is a straight line over the quantity that its parts are in proportion to: the latency, 1 / bandwidth,
the time of compute. Of several chains the longest counts, so the time bends upwards when another takes over, and is on the line before.
Runs on either side of the bend find it: at the intersection of the lines of two of them, another chain may be longer still, and the search
goes on between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
from astra_sim.records import ExplainedRun

from astra_sim_explain.explanation import PathExplanation, Range, Sensitivity, of_path
from astra_sim_explain.what_if import varied

LEAST, MOST = 0.5, 2.0
"""Factors of a parameter beyond which no range is looked for."""
SAME = 1e-3
"""By how much of it a slope may differ and still be the same."""
_CLOSE = 5e-4
_TRIES = 20
_LAYERS = 10


@attrs.frozen
class _RangeRun:
    """A run with a parameter at one value: its time, and the slope of its line (picoseconds)."""

    x: float
    ps: float
    slope: float


class _SlopeLine:
    """Runs over a parameter: the parts of the path are in proportion to `x`. Those on the line of the first are alike."""

    def __init__(self, sensitivity: Sensitivity, run: ExplainedRun) -> None:
        self._key = sensitivity.parameter, sensitivity.dimension, sensitivity.layer
        self._inverse = sensitivity.parameter in ("bandwidth", "compute speed")
        self._varied = varied(run, *self._key)
        finish_ps = run.record.finish_ps
        self.first = _RangeRun(1.0, finish_ps, abs(sensitivity.derivative_ns) * 1000)
        least = max(1e-6 * finish_ps, len(run.path.segments))
        self._slope_error = max(SAME * self.first.slope, least)
        self._error = SAME * finish_ps if run.path.rounded else least

    def factor(self, x: float) -> float:
        """The factor of the parameter."""
        return 1 / x if self._inverse else x

    def run(self, x: float) -> _RangeRun | None:
        """The run at a place; None if there can be none, or its path does not tell its slope."""
        run = self._varied(self.factor(x), True)
        if run is None or not run.path.exact:
            return None
        sensitivities = {(each.parameter, each.dimension, each.layer): each for each in of_path(run)}
        derivative = sensitivities[self._key].derivative_ns if self._key in sensitivities else 0.0
        return _RangeRun(x, run.record.finish_ps, abs(derivative) * 1000 / x)

    def is_alike(self, run: _RangeRun) -> bool:
        """Whether a run is on the line of the first, and goes on as it does."""
        expected = self.first.ps + self.first.slope * (run.x - 1)
        error = self._error + SAME * self.first.slope * abs(run.x - 1)
        return abs(run.slope - self.first.slope) <= self._slope_error and abs(run.ps - expected) <= error

    def end(self, limit: float) -> float | None:
        """The last place towards a limit at which a run is on the line; the limit itself, if it does. None if that is not known."""
        other = self.run(limit)
        if other is None:
            return None
        if self.is_alike(other):
            return limit
        alike, side = 1.0, _CLOSE if limit > 1 else -_CLOSE
        for number in range(_TRIES):
            if abs(other.x - alike) <= 2 * _CLOSE:
                break
            # On this side of the intersection, then on the other; else in the middle, because there is a step if queues change order.
            low, high = sorted((alike + side, other.x - side))
            place = self._crossing(other) + side * (number % 2 * 2 - 1)
            run = self.run(place if low <= place <= high and number % 4 < 2 else (alike + other.x) / 2)
            if run is None:
                return None
            if self.is_alike(run):
                alike = run.x
            else:
                other = run
        return alike

    def _crossing(self, other: _RangeRun) -> float:
        """The intersection of the lines of two runs; None if both have one slope."""
        first = self.first
        if abs(first.slope - other.slope) <= self._slope_error:
            return math.inf
        return 1 + (other.ps - first.ps - other.slope * (other.x - 1)) / (first.slope - other.slope)


def with_ranges(explanation: PathExplanation, run: ExplainedRun) -> PathExplanation:
    """The explanation with the ranges of the path's exact results: of the layers that matter most, and of all other parameters."""
    return attrs.evolve(explanation, sensitivities=tuple(_ranged(explanation, run)))


def _ranged(explanation: PathExplanation, run: ExplainedRun) -> Iterator[Sensitivity]:
    layers = 0
    for each in explanation.sensitivities:
        layers += each.layer is not None
        if each.method not in ("path", "unrounded path") or layers > _LAYERS:
            yield each
            continue
        yield attrs.evolve(each, range=_range_of(_SlopeLine(each, run)))


def _range_of(line: _SlopeLine) -> Range | None:
    """From and to which change of the parameter its sensitivity stays true; None if that is not known."""
    first = line.end(LEAST)
    last = None if first is None else line.end(MOST)
    if first is None or last is None:
        return None
    low, high = sorted((line.factor(first), line.factor(last)))
    return Range(100 * (low - 1), 100 * (high - 1), low > LEAST, high < MOST)
