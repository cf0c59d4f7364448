"""Test classes for plugin authors: the contract of each kind of component. They are in `astra_sim_devkit.testing.contracts`.

class TestMine(CollectiveContract):
    name = "mine"                     # as offered through the hook; the package must be installed
    options = {"window": 2}           # if it has options

Example:

    >>> from astra_sim.testing.contracts import CollectiveContract, NetworkContract
    >>> class TestRing(CollectiveContract):
    ...     name = "ring"  # as the hook offers it; its package is installed
    ...     ranks = (2, 3, 8)
    >>> class TestCongestion(NetworkContract):
    ...     name = "analytical"
    ...     options = {"congestion": "aware"}

pytest runs their tests. Without it, or for a provider that no package offers, `run_contract` raises what is wrong:

    >>> from astra_sim import PluginError, Provider
    >>> from astra_sim.compute import Compute
    >>> from astra_sim.testing.contracts import run_contract
    >>> class Negative(Compute):
    ...     def duration_ns(self, work):
    ...         return -1.0
    >>> try:
    ...     run_contract("compute", Provider("negative", "Less than nothing", Negative), {})
    ... except PluginError as error:
    ...     print(str(error)[-46:])
    e=None) is -1.0; expected a time of at least 0

There is a contract for every kind of component:

    >>> from astra_sim.testing.contracts import (
    ...     AccountContract, ComputeContract, EngineContract, MemoryContract, ModelContract, PlacementContract, ReportContract,
    ...     SchedulerContract, ServingPolicyContract, SystemContract, TopologyContract, TrainingLoopContract, VariationContract,
    ...     WorkloadContract,
    ... )
    >>> training = (WorkloadContract, TrainingLoopContract, ModelContract, ServingPolicyContract, ReportContract)
    >>> machines = (TopologyContract, ComputeContract, MemoryContract, SystemContract, SchedulerContract, EngineContract)
    >>> months = (VariationContract, PlacementContract, AccountContract)
    >>> len(training + machines + months)
    14
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from astra_sim.testing import kit

if TYPE_CHECKING:
    from astra_sim_devkit.testing.contracts import (
        AccountContract,
        CollectiveContract,
        ComputeContract,
        EngineContract,
        MemoryContract,
        ModelContract,
        NetworkContract,
        PlacementContract,
        ReportContract,
        SchedulerContract,
        ServingPolicyContract,
        SystemContract,
        TopologyContract,
        TrainingLoopContract,
        VariationContract,
        WorkloadContract,
        run_contract,
    )

__all__ = [
    "AccountContract",
    "CollectiveContract",
    "ComputeContract",
    "EngineContract",
    "MemoryContract",
    "ModelContract",
    "NetworkContract",
    "PlacementContract",
    "ReportContract",
    "SchedulerContract",
    "ServingPolicyContract",
    "SystemContract",
    "TopologyContract",
    "TrainingLoopContract",
    "VariationContract",
    "WorkloadContract",
    "run_contract",
]


def __getattr__(name: str) -> Any:
    return getattr(kit("astra_sim_devkit.testing.contracts"), name)
