"""A small platform, and components built from sections of an experiment."""

from __future__ import annotations

from typing import Any

from astra_sim.setup.components import Components, build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins

RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"


def components_of(**sections: Any) -> Components:
    """The components of an experiment with these sections."""
    experiment = Experiment()
    for kind, value in sections.items():
        experiment.use(kind, value, shared_plugins())
    return build(experiment, shared_plugins())
