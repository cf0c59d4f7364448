"""Runs of an experiment over values of some options."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.pool import Pool
from types import TracebackType
from typing import Any, Self

import attrs
from astra_sim import AstraError
from astra_sim.commands import Progress
from astra_sim.experiments import Grid
from astra_sim.processors import processors

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


class SweptRuns:
    """The runs of an experiment over all combinations of values, on Linux side by side in a process for each processor."""

    def __init__(self, case: ServingExperiment, axes: Sequence[tuple[str, Sequence[Any]]]) -> None:
        grid = Grid([len(values) for _, values in axes])
        self.case = case
        self.values = [
            {key: choices[place] for (key, choices), place in zip(axes, grid.positions(number), strict=True)}
            for number in range(grid.count)
        ]
        self._pool: Pool | None = None

    def __enter__(self) -> Self:
        count = min(processors(), len(self.values))
        if count > 1 and sys.platform == "linux":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, which pytest-xdist has
                self._pool = multiprocessing.get_context("fork").Pool(count, _begin, (self,))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()

    def rows(self, progress: Progress) -> tuple[list[ServingRow], ServingRow | None]:
        """A row for each combination, and the one with the highest goodput of those that meet the SLO. Raises InputError."""
        count = len(self.values)
        elsewhere = self._pool.imap(_document, range(count)) if self._pool is not None else itertools.repeat(None)
        rows = []
        for number, values in enumerate(self.values):
            progress.stage(f"run {number + 1} of {count}", number / count, 1 / count)
            document = next(elsewhere) or self.document(number, progress.reached)  # which raises the error of one that failed elsewhere
            rows.append(ServingRow(values, document))
        good = [row for row in rows if row.meets_slo]
        return rows, max(good, key=lambda row: row.document["goodput"]["requests_s"], default=None)

    def document(self, number: int, on_progress: Callable[[float, int], None] | None = None) -> dict[str, Any]:
        """The result of a run."""
        return serve(self.case.with_values(self.values[number]), on_progress=on_progress).document()


_RUNS: list[SweptRuns] = []
"""The runs of which this process does some."""


def _begin(runs: SweptRuns) -> None:
    """Prepare a process. The first one gets Ctrl-C, too, and ends it by SIGTERM: at once, for a handler of Python may never run here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _RUNS[:] = [runs]


def _document(number: int) -> dict[str, Any] | None:
    """The result of a run; None if there is an error."""
    try:
        return _RUNS[0].document(number)
    except AstraError:
        return None
