"""Platforms by their specs."""

from __future__ import annotations

from astra_sim.platform import Platform
from astra_sim.setup.components import build_platform
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins

LINK = "link_bandwidth_gb_per_s=50&link_latency_ns=500"


def platform_of(spec: str) -> Platform:
    """The platform of a spec without `plugin:`; raises InputError."""
    experiment = Experiment()
    experiment.use("platform", f"plugin:{spec}", shared_plugins(), where="--platform")
    return build_platform(experiment, shared_plugins())
