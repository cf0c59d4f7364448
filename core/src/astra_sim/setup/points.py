"""Points of a study: combinations of values of its axes by number, the changes of each to an experiment, and its row.

`astra compare` is on this, and so do sweeps and searches: they have more kinds of axes, and run points elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from astra_sim.setup.experiment import SECTIONS, Experiment
from astra_sim.setup.plugins import Plugins


@attrs.frozen
class Grid:
    """Every combination of axes with these numbers of values, by number from 0 on; the last axis varies fastest."""

    sizes: Sequence[int]

    @property
    def count(self) -> int:
        """The number of combinations."""
        return math.prod(self.sizes)

    def positions(self, number: int) -> list[int]:
        """The position of the value of each axis at a point."""
        result = []
        for size in reversed(self.sizes):
            number, position = divmod(number, size)
            result.append(position)
        return result[::-1]

    def number(self, positions: Sequence[int]) -> int:
        """The number of the point at these positions."""
        number = 0
        for size, position in zip(self.sizes, positions, strict=True):
            number = number * size + position
        return number


class Change(NamedTuple):
    """A change of an experiment by a point: the section or option `key`, and its value.

    A section takes plugin:NAME, a path or a table; or an experiment, whose sections have been read for it. `where` begins error messages.
    """

    key: str
    value: Any
    where: str

    def apply(self, experiment: Experiment, plugins: Plugins) -> None:
        """Change an experiment. Raises InputError."""
        if isinstance(self.value, Experiment):
            experiment.take(self.value)
        elif self.key in SECTIONS:
            experiment.use(self.key, self.value, plugins, where=self.where)
        else:
            experiment.assign(self.key, self.value, self.where)


def changed(base: Experiment, changes: Sequence[Change], plugins: Plugins) -> Experiment:
    """A copy of an experiment with changes: sections first, in the order of their kinds, then options. Raises InputError."""
    experiment = base.copied()
    for change in sorted(changes, key=lambda change: SECTIONS.index(change.key) if change.key in SECTIONS else len(SECTIONS)):
        change.apply(experiment, plugins)
    return experiment


def row_of(parameters: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a point: its parameters, then the figures of its run. A figure with the name of a parameter is called `result_NAME`."""
    row = dict(parameters)
    for name, value in figures.items():
        while name in parameters:
            name = f"result_{name}"
        row[name] = value
    return row
