"""Runs of an experiment over values of some options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim.commands import Progress
from astra_sim.experiments import Grid

from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.serving import serve

LEAST_WITHIN = 0.99
"""Share of the requests that must meet the SLO."""


@attrs.frozen
class ServingRow:
    """A run: the values of the axes, and the JSON object of its result."""

    values: dict[str, Any]
    document: dict[str, Any]

    @property
    def meets_slo(self) -> bool:
        """Whether enough of the requests meet the SLO, of which there is one."""
        goodput = self.document["goodput"]
        return bool(goodput["slo"]) and goodput["fraction"] is not None and goodput["fraction"] >= LEAST_WITHIN


def sweep(
    case: ServingExperiment, axes: Sequence[tuple[str, Sequence[Any]]], progress: Progress
) -> tuple[list[ServingRow], ServingRow | None]:
    """A row for each combination of values, and the one with the highest goodput of those that meet the SLO."""
    grid = Grid([len(values) for _, values in axes])
    rows = []
    for number in range(grid.count):
        progress.stage(f"run {number + 1} of {grid.count}", number / grid.count, 1 / grid.count)
        values = {key: choices[place] for (key, choices), place in zip(axes, grid.positions(number), strict=True)}
        rows.append(ServingRow(values, serve(case.with_values(values), on_progress=progress.reached).document()))
    good = [row for row in rows if row.meets_slo]
    return rows, max(good, key=lambda row: row.document["goodput"]["requests_s"], default=None)
