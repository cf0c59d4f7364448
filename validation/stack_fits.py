"""Profiles of stacks: at most four numbers, fitted on the fitting half of a stack's lines (PROCEDURE.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs
from astra_sim.fitting import minimise

from validation.iterations import CORE8, FIT, RIDGE, STACKS, Experiment, Line, experiment
from validation.runs import NO_PROFILE, Numbers, Runs, numbers

ROUNDS = 3
_STEP = 0.05
_LOWEST, _HIGHEST = 0.3, 1.25
_BOUNDS = {"gemm_share": (0.3, 1.5), "collective_share": (0.2, 1.0), "elementwise_share": (0.3, 2.0), "launch_us": (0.2, 4.0)}
_UNMOVED = 1e-3
LAUNCH_US = 20.0
"""Where launch_us starts; in a fit it is this over a share, whose bounds are as those of other shares."""


@attrs.frozen
class Point:
    """A measured iteration and its simulated time (seconds)."""

    line: Line
    simulated_s: float

    @property
    def error(self) -> float:
        """The relative error, positive where the simulated time is too long."""
        return self.simulated_s / float(self.line["iteration_s"]) - 1


def undetermined(profile: Mapping[str, float]) -> list[str]:
    """Numbers of a fitted profile that its lines did not determine: on the bound of the fit, or launch_us where the fit began.

    A collective_share of 1 is not one of them: collectives as fast as they are by themselves.
    """
    result = []
    for name, value in profile.items():
        least, most = _BOUNDS.get(name, (_LOWEST, _HIGHEST))
        if name == "launch_us":
            stays = abs(value / LAUNCH_US - 1) < _UNMOVED
        else:
            stays = value < least * (1 + _UNMOVED) or (value > most * (1 - _UNMOVED) and most > 1)
        if stays:
            result.append(name)
    return result


def points(runs: Runs, lines: Sequence[Line], profile: Numbers = NO_PROFILE) -> list[Point]:
    """The lines with their simulated times."""
    times = runs.iterations_s((experiment(line), profile) for line in lines)
    return [Point(line, time) for line, time in zip(lines, times, strict=True)]


def fit(runs: Runs, lines: Sequence[Line], names: Sequence[str], ridge: float = RIDGE) -> Numbers:
    """The profile of numbers with these names that is best on lines, `ridge` being how much they are held to where they start.

    Raises ValueError for a line that must not be in a fit.
    """
    for line in lines:
        if line["stack"] == CORE8 or line["half"] != FIT or not STACKS[line["stack"]].numbers:
            raise ValueError(f"line {line['id']} ({line['stack']}, {line['half']}) is in no fit")
    return Search(runs, lines, names, ridge).profile()


class Search:
    """Simulated times are linearised in the reciprocals of the numbers, and the value is minimised on the linear forms, in turn."""

    def __init__(self, runs: Runs, lines: Sequence[Line], names: Sequence[str], ridge: float = RIDGE) -> None:
        self._runs = runs
        self.experiments: list[Experiment] = [experiment(line) for line in lines]
        self.measured = [float(line["iteration_s"]) for line in lines]
        self._names = names
        self._ridge = ridge

    def profile(self) -> Numbers:
        """The best of the profiles that were simulated."""
        point = [0.0] * len(self._names)
        tried: list[tuple[float, list[float]]] = []
        for _ in range(ROUNDS):
            base, slopes = self._linearised(point)
            tried.append((self._value(base, point), point))
            point = self._best_of_linear(point, base, slopes)
        tried.append((self._value(self._times([point])[0], point), point))
        return self._numbers(min(tried)[1])

    def _linearised(self, point: list[float]) -> tuple[list[float], list[list[float]]]:
        """The times at a point, and their slopes by the reciprocal of each number."""
        steps = [
            [value + _STEP * (axis == own) * (-1 if value > 0 else 1) for own, value in enumerate(point)] for axis in range(len(point))
        ]
        base, *moved = self._times([point, *steps])
        slopes = []
        for axis, times in enumerate(moved):
            change = math.exp(-steps[axis][axis]) - math.exp(-point[axis])
            slopes.append([(after - before) / change for before, after in zip(base, times, strict=True)])
        return base, slopes

    def _best_of_linear(self, point: list[float], base: list[float], slopes: list[list[float]]) -> list[float]:
        def value(at: Sequence[float]) -> float:
            inside = self._inside(at)
            changes = [math.exp(-new) - math.exp(-old) for new, old in zip(inside, point, strict=True)]
            times = [
                max(1e-3 * first, first + sum(change * own[place] for change, own in zip(changes, slopes, strict=True)))
                for place, first in enumerate(base)
            ]
            outside = sum(abs(a - b) for a, b in zip(at, inside, strict=True))
            return self._value(times, inside) + outside

        return self._inside(minimise(value, point)[0])

    def _value(self, times: Sequence[float], point: Sequence[float]) -> float:
        errors = [abs(math.log(time / measured)) for time, measured in zip(times, self.measured, strict=True)]
        return sum(errors) / len(errors) + self._ridge * sum(value**2 for value in point)

    def times(self, profile: Mapping[str, float]) -> list[float]:
        """The times of the lines with a profile, in seconds."""
        return self._runs.iterations_s((own, self._numbers_of(own, numbers(profile))) for own in self.experiments)

    def _numbers_of(self, experiment: Experiment, point: Numbers) -> Numbers:
        """The numbers of a profile that hold for an experiment: all."""
        return point

    def _times(self, at: Sequence[list[float]]) -> list[list[float]]:
        jobs = [(own, self._numbers_of(own, self._numbers(point))) for point in at for own in self.experiments]
        times = self._runs.iterations_s(jobs)
        count = len(self.experiments)
        return [times[first : first + count] for first in range(0, len(times), count)]

    def _inside(self, point: Sequence[float]) -> list[float]:
        result = []
        for name, value in zip(self._names, point, strict=True):
            least, most = _BOUNDS.get(name, (_LOWEST, _HIGHEST))
            result.append(min(max(value, math.log(least)), math.log(most)))
        return result

    def _numbers(self, point: Sequence[float]) -> Numbers:
        shares = {name: math.exp(value) for name, value in zip(self._names, point, strict=True)}
        if "launch_us" in shares:
            shares["launch_us"] = LAUNCH_US / shares["launch_us"]
        return numbers({name: round(value, 3) for name, value in shares.items()})
