"""Our own components keep the contracts that the kit checks for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from astra_sim.platform import Dimension, Platform
from astra_sim.setup.known_components import BUILT_IN
from astra_sim.setup.plugin_modules import KINDS
from astra_sim.setup.plugins import Plugins
from astra_sim_devkit.testing import check_component, contracts
from astra_sim_network_analytical.topologies import Ring
from support import ROOT

SHIPPED = [
    (kind, name)
    for plugins in [Plugins()]
    for kind in contracts.CONTRACTS
    for name in plugins.components(kind)
    if any(info.name == plugins.owner(kind, name) and info.distribution in BUILT_IN for info in plugins.infos())
]
LINK = {"link_bandwidth_gib_per_s": 25, "link_latency_ns": 500}


@pytest.mark.parametrize(("kind", "name"), SHIPPED, ids=":".join)
def test_every_component_keeps_the_contract_of_its_kind_with_its_examples(kind: str, name: str) -> None:
    assert check_component(kind, Plugins().get(kind, name)) == ""


def test_there_is_a_contract_for_every_kind() -> None:
    assert set(KINDS) - set(contracts.CONTRACTS) == {"format", "command", "explainer"}
    assert {kind for kind, _ in SHIPPED} == set(contracts.CONTRACTS)


class TestRing(contracts.CollectiveContract):
    name = "ring"


class TestDirectWithWindow(contracts.CollectiveContract):
    name = "direct"
    options: Mapping[str, Any] = {"window": 3}


class TestHalvingDoubling(contracts.CollectiveContract):
    name = "halving_doubling"


class TestDoubleBinaryTree(contracts.CollectiveContract):
    name = "double_binary_tree"


class TestInNetwork(contracts.CollectiveContract):
    name = "in_network"


class TestMscclRing(contracts.CollectiveContract):
    name = "msccl"
    options: Mapping[str, Any] = {"file": str(ROOT / "examples" / "collectives" / "ring_all_reduce_4.xml")}


class TestMscclAllPairs(contracts.CollectiveContract):
    name = "msccl"
    options: Mapping[str, Any] = {"file": str(ROOT / "examples" / "collectives" / "all_pairs_all_gather_4.xml")}


class TestRingTopology(contracts.TopologyContract):
    name = "ring"
    options: Mapping[str, Any] = {"size": 8, "links": 2, **LINK}


class TestFullyConnectedTopology(contracts.TopologyContract):
    name = "fully_connected"
    options: Mapping[str, Any] = {"size": 5, "links": 4, **LINK}


class TestSwitchTopology(contracts.TopologyContract):
    name = "switch"
    options: Mapping[str, Any] = {"size": 6, "links": 1, **LINK}


class TestTorusTopology(contracts.TopologyContract):
    name = "torus"
    options: Mapping[str, Any] = {"sizes": [4, 7], **LINK}


class TestAnalytical(contracts.NetworkContract):
    name = "analytical"
    platform = Platform((Dimension(Ring(4, 2), 4, 2, 25.0, 500.0),))


class TestRecorded(contracts.ComputeContract):
    name = "recorded"


class TestRoofline(contracts.ComputeContract):
    name = "roofline"
    options: Mapping[str, Any] = {"peak_tera_ops_per_s": 50, "memory_bandwidth_gb_per_s": 100}


class TestLocal(contracts.MemoryContract):
    name = "local"
