"""Runs of an experiment over values of some options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import attrs
from astra_sim.commands import Progress
from astra_sim.experiments import Grid

from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.serving import serve
from astra_sim_serving.workers import Workers

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


class SweptRuns:
    """The runs of an experiment over all combinations of values, side by side in a process for each processor."""

    def __init__(self, case: ServingExperiment, axes: Sequence[tuple[str, Sequence[Any]]]) -> None:
        grid = Grid([len(values) for _, values in axes])
        self.case = case
        self.values = [
            {key: choices[place] for (key, choices), place in zip(axes, grid.positions(number), strict=True)}
            for number in range(grid.count)
        ]
        self.workers = Workers(self.document, grid.count)

    def __enter__(self) -> Self:
        self.workers.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.workers.__exit__(kind, error, trace)

    def rows(self, progress: Progress) -> tuple[list[ServingRow], ServingRow | None]:
        """A row for each combination, and the one with the highest goodput of those that meet the SLO. Raises InputError."""
        count = len(self.values)
        elsewhere = [self.workers.start(number) for number in range(count)] if self.workers.count else []
        rows = []
        for number, values in enumerate(self.values):
            progress.stage(f"run {number + 1} of {count}", number / count, 1 / count)
            document = elsewhere[number]() if elsewhere else None
            if document is None:  # which raises the error of one that failed elsewhere
                document = self.document(number, progress.reached)
            rows.append(ServingRow(values, document))
        good = [row for row in rows if row.meets_slo]
        return rows, max(good, key=lambda row: row.document["goodput"]["requests_s"], default=None)

    def document(self, number: int, on_progress: Callable[[float, int], None] | None = None) -> dict[str, Any]:
        """The result of a run."""
        return serve(self.case.with_values(self.values[number]), on_progress=on_progress).document()
