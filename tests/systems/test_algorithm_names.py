"""Where the system layers name collective algorithms, which other plugins offer."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Collective
from astra_sim.setup.plugins import shared_plugins
from astra_sim.setup.specs import component_of
from astra_sim_network_analytical.topologies import FullyConnected, Ring, Switch
from astra_sim_platforms.topologies import MeshOptions, mesh
from astra_sim_systems import names

SYSTEMS = Path(names.__file__).parent
OTHERS = sorted(path for path in SYSTEMS.glob("*.py") if path.name not in ("names.py", "plugin.py"))
"""In plugin.py are examples of options, as users would write them."""
COLLECTIVES = sorted(shared_plugins().components("collective"))


def named_in(path: Path) -> set[str]:
    """The algorithms that a module names in a text that could be a spec."""
    texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {name for name in COLLECTIVES for text in texts if text.partition("?")[0] == name}


def test_the_test_knows_a_name_when_it_sees_one() -> None:
    assert {"ring", "direct", "halving_doubling", "double_binary_tree"} <= named_in(SYSTEMS / "names.py")


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_algorithms_are_named_in_one_module(path: Path) -> None:
    assert not named_in(path)


@pytest.mark.parametrize("spec", [*names.CANDIDATES, names.DEFAULT_IN_GROUPS])
def test_what_auto_stands_for_is_there(spec: str) -> None:
    provider, _ = component_of(shared_plugins(), "collective", spec, "auto")
    assert provider.name == spec.partition("?")[0]


@pytest.mark.parametrize("kind", Collective)
@pytest.mark.parametrize("ranks", [4, 6])
@pytest.mark.parametrize("switched", [True, False])
def test_what_is_taken_without_a_forecast_is_a_candidate(kind: Collective, ranks: int, switched: bool) -> None:
    spec = names.without_forecast(kind, ranks, switched)
    assert spec in names.CANDIDATES
    assert spec != "halving_doubling" or ranks == 4


@attrs.frozen
class Named:
    """A third-party topology: the links of one of ours, and another's name."""

    own: Any
    name: str

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.own, attribute)


MESH: Any = mesh(MeshOptions(sizes=(6,), link_bandwidth_gb_per_s=25))[0].topology
OURS = [Ring(6, 2), FullyConnected(6, 5), Switch(6, 1), MESH]
NAMES = [*(topology.name for topology in OURS), "theirs"]
PAIRS = [(own, name) for own in OURS for name in NAMES if own.name != name]


def dimension_of(topology: Any) -> Dimension:
    return Dimension(topology, 6, 2, 25.0, 500.0, 100.0, 300.0)


@pytest.mark.parametrize(("own", "name"), PAIRS, ids=[f"{own.name} named {name}" for own, name in PAIRS])
def test_nothing_follows_from_the_name_of_a_topology(own: Any, name: str) -> None:
    ours, named = (Platform((dimension_of(topology),)) for topology in (own, Named(own, name)))
    specs = "analytical", "analytical?congestion=aware", "packet", "flow", "roce?buffer_mib=64"

    def run(platform: Platform, network: str, operation: str) -> list[object]:
        workload = f"plugin:collective?collective={operation}&bytes=100000"
        result = astra_sim.simulate(workload=workload, platform=platform, network=f"plugin:{network}")
        links = {key: value for key, value in result.network.items() if key != "simulated_s"}
        chosen = [(each.algorithm, each.reason) for each in result.algorithms]
        return [result.finish_ns, result.messages, chosen, links, [finding.ratio for finding in result.audit]]

    for network in specs:
        for operation in ("all_reduce", "all_to_all"):
            assert run(named, network, operation) == run(ours, network, operation), (network, operation)


@pytest.mark.parametrize("text", ["ring", "oneRing", "direct", "direct4", "oneDirect2", "halvingDoubling", "doubleBinaryTree"])
def test_what_astra_sim_calls_an_algorithm_is_one_here(text: str) -> None:
    assert component_of(shared_plugins(), "collective", names.algorithm(text), text)[0].name in COLLECTIVES


def test_what_astra_sim_does_not_know_is_kept() -> None:
    assert names.algorithm("my_algorithm?speed=2") == "my_algorithm?speed=2"


@pytest.mark.parametrize(("whole", "expected"), [(True, "one_chakra?prefix=a/b"), (False, "chakra?prefix=a/b")])
def test_traces_are_algorithms(whole: bool, expected: str) -> None:
    assert names.chakra_algorithm("a/b", whole) == expected
    assert component_of(shared_plugins(), "collective", expected, "custom")[0].name in COLLECTIVES
