"""Runs of points, one after another, and the outcome of each."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from astra_sim import AstraError, CapacityError, InputWarning, simulate
from astra_sim.commands import shared_plugins

from astra_sim_sweep.plan import SweepPlan

NEEDED, CAPACITY = "memory_bytes", "memory_capacity_bytes"
"""The figures of a run that does not fit the memory of an NPU, beside its error."""

_MOST_WARNINGS = 20


@attrs.frozen
class SweepOutcome:
    """The outcome of a point: its figures, or an error as text; the seconds that it took, and warnings about parts without effect.

    A run that does not fit in memory has an error, and the figures NEEDED and CAPACITY. `document` is the whole result as JSON, if the
    plan keeps results.
    """

    number: int
    figures: dict[str, Any] | None
    error: str | None
    wall_s: float
    warnings: tuple[str, ...] = ()
    document: str | None = None


def run_points(plan: SweepPlan, numbers: Sequence[int]) -> Iterator[SweepOutcome]:
    """Run points by their numbers. An error of one is its outcome, and the others are run."""
    for number in numbers:
        began = time.perf_counter()
        figures: dict[str, Any] | None = None
        error = document = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InputWarning)
            try:
                figures, document = _figures(plan, number)
            except CapacityError as problem:
                figures = {NEEDED: problem.needed_bytes, CAPACITY: problem.capacity_bytes}
                error = str(problem)
            except MemoryError:
                error = "the run needs more memory than there is"
            except AstraError as problem:
                error = str(problem)
            except Exception as problem:
                error = f"{type(problem).__name__}: {problem}"
        result = tuple(dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, InputWarning)))
        yield SweepOutcome(number, figures, error, time.perf_counter() - began, result[:_MOST_WARNINGS], document)


def _figures(plan: SweepPlan, number: int) -> tuple[dict[str, Any], str | None]:
    """The figures of a point, and its whole result if the plan keeps results."""
    result = simulate(plan.experiment(number, shared_plugins()), npu_times=plan.keeps_results)
    row = result.row()
    for name in ("run_name", "wall_s"):
        del row[name]
    document = json.dumps(result.document()) if plan.keeps_results else None
    return row | {"audit": "; ".join(finding.message for finding in result.audit)}, document
