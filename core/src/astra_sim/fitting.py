"""Shared code of commands that fit models to measurements: a minimum without derivatives, and the error of a model with its confidence.

The minimum is that of the simplex of Nelder and Mead (1965), which always takes the same steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Sequence

import attrs

Point = list[float]
_SIZE = 0.15
_MOST_STEPS = 600
_FLAT = 1e-7
_MOST_ROUNDS = 12
_GAIN = 1e-4
_SAMPLES = 2000
_OUTSIDE = (0.025, 0.975)


@attrs.frozen
class ErrorOf:
    """The mean of |model / measured - 1| over rows, with a 95 % interval over measurements."""

    mean: float
    low: float
    high: float
    rows: int

    def __str__(self) -> str:
        return f"{self.mean:.2%} (95 % interval {self.low:.2%} to {self.high:.2%}, {self.rows} rows)" if self.rows else "no rows"


def error_of(errors: Iterable[tuple[Hashable, float]]) -> ErrorOf:
    """The error over rows, each with its measurement and its |model / measured - 1|.

    The interval is that of bootstrap samples of measurements, which may have several rows.
    """
    by_shape: dict[Hashable, list[float]] = {}
    for shape, error in errors:
        by_shape.setdefault(shape, []).append(error)
    if not by_shape:
        return ErrorOf(0.0, 0.0, 0.0, 0)
    sums = [(sum(each), len(each)) for each in by_shape.values()]
    generator = random.Random(0)
    means = sorted(_mean(generator.choices(sums, k=len(sums))) for _ in range(_SAMPLES))
    low, high = (means[round(share * (_SAMPLES - 1))] for share in _OUTSIDE)
    return ErrorOf(_mean(sums), low, high, sum(count for _, count in sums))


def _mean(sums: Sequence[tuple[float, int]]) -> float:
    return sum(total for total, _ in sums) / sum(count for _, count in sums)


def minimise(function: Callable[[Sequence[float]], float], start: Sequence[float]) -> tuple[Point, float]:
    """The best point that is reached from a start, and its value. A new simplex begins there until that gains less than 0.01 %."""
    best, value = list(start), function(start)
    for _ in range(_MOST_ROUNDS):
        point, lower = _round(function, best)
        gained = value - lower
        if lower < value:
            best, value = point, lower
        if gained <= _GAIN * abs(value):
            break
    return best, value


def _round(function: Callable[[Sequence[float]], float], start: Sequence[float]) -> tuple[Point, float]:
    """One simplex, from a start until its corners are equally good."""
    corners = [(function(start), list(start))]
    for axis in range(len(start)):
        point = list(start)
        point[axis] += _SIZE
        corners.append((function(point), point))
    for _ in range(_MOST_STEPS):
        corners.sort()
        if corners[-1][0] - corners[0][0] <= _FLAT:
            break
        _step(function, corners)
    value, point = min(corners)
    return point, value


def _step(function: Callable[[Sequence[float]], float], corners: list[tuple[float, Point]]) -> None:
    """Replace the worst corner, the last: reflected, expanded or contracted; or shrink the simplex towards the best."""
    rest = [point for _, point in corners[:-1]]
    centre = [sum(values) / len(rest) for values in zip(*rest, strict=True)]
    worst_value, worst = corners[-1]

    def tried(factor: float) -> tuple[float, Point]:
        point = [c + factor * (c - w) for c, w in zip(centre, worst, strict=True)]
        return function(point), point

    reflected = tried(1.0)
    if reflected[0] < corners[0][0]:
        corners[-1] = min(reflected, tried(2.0))
    elif reflected[0] < corners[-2][0]:
        corners[-1] = reflected
    else:
        contracted = tried(0.5 if reflected[0] < worst_value else -0.5)
        if contracted[0] < min(reflected[0], worst_value):
            corners[-1] = contracted
            return
        best = corners[0][1]
        for index, (_, point) in enumerate(corners[1:], 1):
            shrunk = [(b + p) / 2 for b, p in zip(best, point, strict=True)]
            corners[index] = function(shrunk), shrunk
