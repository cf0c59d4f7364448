"""Lets accounts compute the cost of a small run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from astra_sim.graph import Figure

from astra_sim_devkit.testing.bench import PLATFORM
from astra_sim_devkit.testing.reports import bench_result, layered_graph
from astra_sim_devkit.testing.requirement import require


def check_account(figures_of: Callable[..., Any]) -> None:
    """Raise AssertionError or AstraError unless an account gives figures that are ready for JSON, and leaves the result as it is."""
    result = bench_result(layered_graph(), "account", npu_times=True)
    before = result.to_dict(every=True)
    figures = figures_of(result, PLATFORM)
    require(isinstance(figures, Mapping) and figures, f"it returned {figures!r}; expected figures by name")
    require(
        all(isinstance(name, str) for name in figures), f"its figures are {', '.join(map(repr, figures))}; expected names that are text"
    )
    for name, figure in figures.items():
        value = figure.value if isinstance(figure, Figure) else figure
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise AssertionError(f"its figure {name!r} is {value!r}, which is not ready for JSON: {error}") from None
    require(result.to_dict(every=True) == before, "it changes the result; expected that it leaves it as it is")
