"""The analytical network, built from texts as a command has them."""

from __future__ import annotations

from typing import Any

from astra_sim.network import RouteDelayNetwork
from astra_sim.setup.components import build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins

LINKS = "link_bandwidth_gib_per_s={}&link_latency_ns={}"
WORKLOAD = "plugin:collective?bytes=1000003&collective=all_reduce"


def network(platform: Any, options: str = "") -> RouteDelayNetwork:
    """The analytical network with these options (`?name=value`) on a platform."""
    experiment = Experiment()
    experiment.use("platform", platform, shared_plugins())
    experiment.use("workload", WORKLOAD, shared_plugins())
    experiment.use("network", f"plugin:analytical{options}", shared_plugins())
    route_delay_network = build(experiment, shared_plugins()).network
    assert isinstance(route_delay_network, RouteDelayNetwork)
    return route_delay_network
