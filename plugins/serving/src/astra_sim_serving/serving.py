"""Runs an experiment of serving."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from typing import Any

from astra_sim.commands import Plugins, shared_plugins

from astra_sim_serving.building import FleetBuilder
from astra_sim_serving.experiment import ServingExperiment, read_experiment
from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.parts import Parts
from astra_sim_serving.prices import add_costs, prices_of
from astra_sim_serving.result import ServingResult


def serve(
    experiment: str | os.PathLike[str] | Mapping[str, Any] | ServingExperiment,
    *,
    on_progress: Callable[[float, int], None] | None = None,
    timeline: Callable[[ServingInstance, float], None] | None = None,
    plugins: Plugins | None = None,
    compiled: bool = True,
) -> ServingResult:
    """Simulate a server, request by request.

    `experiment` is the path of a TOML file, its table, or a `ServingExperiment`. `on_progress` is called with simulated seconds and events
    so far, `timeline` each instance and the time whenever it has begun iterations. Ctrl-C ends the run early, with the results until then.
    `compiled`: the compiled loop simulates what it can (see `compiled.py`); the one in Python gives the same results. Raises InputError.
    """
    plugins = plugins or shared_plugins()
    if isinstance(experiment, Mapping):
        experiment = ServingExperiment(copy.deepcopy(dict(experiment)))
    elif not isinstance(experiment, ServingExperiment):
        experiment = read_experiment(experiment)
    parts = Parts(experiment, plugins)
    prices = prices_of(parts.options, parts.where)
    fleet, result = FleetBuilder(parts).build(on_progress, timeline, compiled)
    try:
        fleet.run()
    except KeyboardInterrupt:
        result.is_complete = False
    result.sequences = fleet.sequences
    for name, part in result.models.items():
        result.include(part, fleet.sequences_of(name))
    result.events = fleet.events
    if fleet.scaler is not None and result.sequences:
        begin = result.sequences[0].request.arrival
        result.scaling = fleet.scaler.document(begin, begin + result.makespan_s)
        for name, part in result.models.items():
            pools = [fleet.scaler.pools[number] for number, model in fleet.models.items() if model == name]
            part.scaling = fleet.scaler.document(begin, begin + result.makespan_s, pools)
    if prices is not None:
        add_costs(result, fleet, parts.options, prices)
    if fleet.hand_over is not None:
        transfers = fleet.hand_over.transfers
        result.transfer_s, result.transfers = transfers.total_s, transfers.count
    return result
