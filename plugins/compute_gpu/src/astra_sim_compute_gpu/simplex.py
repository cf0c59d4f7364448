"""Minimisation without derivatives: the simplex of Nelder and Mead (1965), which always takes the same steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Point = list[float]
_SIZE = 0.15
_MOST_STEPS = 600
_FLAT = 1e-7
_MOST_ROUNDS = 12
_GAIN = 1e-4


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
    """One simplex, from a start to where its corners are equally good."""
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
