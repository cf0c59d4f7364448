"""Where the system layers name collective algorithms, which other plugins offer."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from astra_sim.platform import Dimension
from astra_sim.schedule import Collective
from astra_sim.setup.plugins import shared_plugins
from astra_sim.setup.specs import component_of
from astra_sim_network_analytical.topologies import FullyConnected, Ring, Switch
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


@pytest.mark.parametrize("kind", Collective)
@pytest.mark.parametrize("topology", [Ring(4, 2), Ring(6, 2), FullyConnected(4, 3), Switch(8, 1), Switch(6, 1)])
def test_a_default_exists_and_suits_the_dimension(kind: Collective, topology: Ring | FullyConnected | Switch) -> None:
    spec = names.default_algorithm(kind, Dimension(topology, topology.size, 1, 1.0, 1.0))
    provider, _ = component_of(shared_plugins(), "collective", spec, "auto")
    assert provider.name == spec.partition("?")[0]
    assert spec != "halving_doubling" or topology.size == 8


def test_rings_use_both_directions_unless_a_message_does_or_the_ranks_are_no_ring() -> None:
    for ring, ranks, spec in (
        (Ring(8, 2), None, "ring?directions=2"),
        (Ring(8, 2), 4, "ring"),
        (Ring(2, 2), None, "ring"),
        (Ring(8, 2, both_ways=True), None, "ring"),
    ):
        dimension = Dimension(ring, ring.size, 2, 1.0, 1.0)
        assert names.default_algorithm(Collective.ALL_REDUCE, dimension, ranks) == spec
        assert spec in names.candidates(Collective.ALL_REDUCE, dimension)


@pytest.mark.parametrize("text", ["ring", "oneRing", "direct", "direct4", "oneDirect2", "halvingDoubling", "doubleBinaryTree"])
def test_what_astra_sim_calls_an_algorithm_is_one_here(text: str) -> None:
    assert component_of(shared_plugins(), "collective", names.algorithm(text), text)[0].name in COLLECTIVES


def test_what_astra_sim_does_not_know_is_kept() -> None:
    assert names.algorithm("my_algorithm?speed=2") == "my_algorithm?speed=2"


@pytest.mark.parametrize(("whole", "expected"), [(True, "one_chakra?prefix=a/b"), (False, "chakra?prefix=a/b")])
def test_traces_are_algorithms(whole: bool, expected: str) -> None:
    assert names.chakra_algorithm("a/b", whole) == expected
    assert component_of(shared_plugins(), "collective", expected, "custom")[0].name in COLLECTIVES
