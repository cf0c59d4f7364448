"""Test classes for plugin authors: the contract of each kind of component. They are in `astra_sim_devkit.testing.contracts`.

class TestMine(CollectiveContract):
    name = "mine"                     # as offered through the hook; the package must be installed
    options = {"window": 2}           # if it has options
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
