"""The plan and the execution graph of the workload `llm` of an experiment, without a run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from astra_sim.commands import Experiment, build_platform, shared_plugins
from astra_sim.context import Context
from astra_sim.experiments import build_compute
from astra_sim.graph import ExecutionGraph, Operation
from astra_sim.providers import options_of
from astra_sim.rows import Rows
from astra_sim_llm.plan import TrainingPlan, make_plan
from astra_sim_llm.workload import Durations, llm

COLLECTIVE_PS = 1_000_000
"""How long each collective is taken to be, where the workload asks: there is no system layer."""


def graph_of(arguments: dict[str, Any]) -> tuple[TrainingPlan, ExecutionGraph]:
    """The plan and the graph of the arguments of `astra_sim.simulate`. Raises InputError."""
    plugins, experiment = shared_plugins(), Experiment()
    for kind in ("platform", "compute"):
        experiment.use(kind, arguments[kind], plugins)
    table = {key: value for key, value in arguments["workload"].items() if key != "plugin"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = options_of(plugins.get("workload", "llm"), table, "workload")
        platform, compute = build_platform(experiment, plugins), build_compute(experiment, plugins)
        context = Context(plugins, platform, experiment.run_options(), compute, time_alone=lambda operation, dimensions: COLLECTIVE_PS)
        return make_plan(options, context.platform.npus, Durations(context).weight_of), llm(options, context)


def counted(operations: Any) -> Iterator[tuple[Operation, int]]:
    """The kinds of operations of a program, and how many there are of each."""
    assert isinstance(operations, Rows)
    counts = [0] * len(operations.kinds)
    for kind in operations.kind_of:
        counts[kind] += 1
    return zip(operations.kinds, counts, strict=True)
