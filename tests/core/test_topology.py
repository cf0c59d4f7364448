"""What a topology says of itself is declared in one class, and asked nowhere otherwise."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from astra_sim.fabric import Topology, Wire
from astra_sim.fabric.topology import completed
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Peer
from astra_sim_network_analytical.topologies import Ring
from support import ROOT
from support.platforms import LINK, platform_of

SOURCES = sorted(path for folder in ("core", "plugins") for path in (ROOT / folder).glob("**/src/**/*.py"))


def is_topology(node: ast.AST) -> bool:
    """Whether an expression is a topology by its name."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "topology" or name.endswith("_topology")


def asked_behind_the_class(source: str) -> Iterator[int]:
    """Lines that ask a topology for what may not be there, for its class, or for what it is by its name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args and is_topology(node.args[0]):
            of_a_file = ast.unparse(node.args[-1]) == "str"
            if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr", "isinstance") and not of_a_file:
                yield node.lineno
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            names = [side for side in sides if isinstance(side, ast.Attribute) and side.attr == "name" and is_topology(side.value)]
            if names:
                yield node.lineno


@pytest.mark.parametrize(
    "source",
    [
        "getattr(topology, 'wires', None)",
        "hasattr(dimension.topology, 'next_links')",
        "isinstance(dimension.topology, Ring)",
        "x = dimension.topology.name == 'ring'",
        "x = 'ring' in (topology.name,) or topology.name in PATTERNS",
    ],
)
def test_what_is_looked_for_is_found(source: str) -> None:
    assert list(asked_behind_the_class(source)) == [1]


def test_nobody_asks_a_topology_behind_its_class() -> None:
    """`completed` is the one place that checks the class: of topologies with the base class, and of those that need its defaults."""
    places = [f"{path.relative_to(ROOT)}:{line}" for path in SOURCES for line in asked_behind_the_class(path.read_text(encoding="utf-8"))]
    assert len(SOURCES) > 300
    assert [place.partition(":")[0] for place in places] == ["core/src/astra_sim/fabric/topology.py"]


@pytest.mark.parametrize(
    "spec",
    [
        f"ring?size=4&links=2&{LINK}",
        f"switch?size=4&{LINK}",
        f"fully_connected?size=4&links=3&{LINK}",
        f"mesh?sizes=2,2&{LINK}",
        f"fat_tree?arity=2&levels=2&{LINK}",
        f"dragonfly?routers=2&npus=1&{LINK}",
        f"dragonfly_plus?leaves=2&spines=2&npus=2&groups=2&{LINK}",
        f"slim_fly?q=5&npus=1&{LINK}",
        f"hyperx?sizes=2,2&npus=1&{LINK}",
        f"clos?npus=16&ports=8&{LINK}",
        "torus3d?npus=8&packages=4&package_rows=2",
        "dgx_h100?nodes=2",
    ],
)
def test_our_topologies_have_the_base_class(spec: str) -> None:
    """So that nothing of them is asked for by a name that might not be there."""
    platform = platform_of(spec)
    for dimension in {*platform.dimensions, *platform.wired().dimensions}:
        assert type(dimension.topology).__mro__[-3:] == Topology.__mro__
        assert type(dimension.topology) is not type(completed(Line(4)))


@attrs.frozen
class Line:
    """NPUs in a line, by a class without the base class: with a field that has the name of a method."""

    size: int
    links: int = 2
    name: str = "line"

    def hops(self, source: int, destination: int) -> int:
        return abs(source - destination)

    def is_symmetric(self, peer: Peer) -> bool:
        return False

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 2

    def wires(self) -> list[Wire]:
        ends = [(place, place + 1) for place in range(self.size - 1)]
        return [Wire(*each) for a, b in ends for each in ((a, b), (b, a))]


def test_a_class_of_its_own_gets_the_defaults() -> None:
    topology: Any = completed(Line(4))
    assert (topology.name, topology.size, topology.hops(0, 3)) == ("line", 4, 3)
    assert topology.links() is None
    assert (topology.link_count(), topology.destination_order(), topology.uniform_links(), topology.next_links(0, 1)) == (None,) * 4
    assert (topology.both_ways, topology.irregular, topology.queue_directions, topology.pattern) == (False, False, (), None)
    assert not topology.has("in_network_reduction")
    assert topology.scaled(2.0, 1.0) is topology
    assert len(Platform((Dimension(topology, 4, 2, 1.0, 1.0),)).fabric().links) == 6


def test_it_passes_for_the_object_itself() -> None:
    dimension = Dimension(Line(4), 4, 2, 1.0, 1.0)
    topology: Any = dimension.topology
    assert isinstance(topology, Line)
    assert isinstance(topology, Topology)
    assert topology == Line(4)
    assert dimension == Dimension(Line(4), 4, 2, 1.0, 1.0) != Dimension(Line(5), 4, 2, 1.0, 1.0)
    assert hash(dimension) == hash(Dimension(Line(4), 4, 2, 1.0, 1.0))
    assert repr(topology) == repr(Line(4))
    assert attrs.evolve(topology, name="other").name == "other"
    for again in (copy.copy(topology), copy.deepcopy(topology), pickle.loads(pickle.dumps(topology))):
        assert (again, again.hops(0, 2)) == (topology, 2)


def test_what_has_the_base_class_stays_itself() -> None:
    ring = Ring(4, 2)
    assert completed(ring) is ring
    assert Dimension(ring, 4, 2, 1.0, 1.0).topology is ring


def test_what_a_plugin_changes_in_a_class_of_its_own_is_found() -> None:
    class Open:
        name = "open"

        def __init__(self) -> None:
            self.size = 4

    platform = Platform((Dimension(Open(), 4, 2, 1.0, 1.0),))
    changed: Any = platform.dimensions[0].topology
    changed.size = 5
    with pytest.raises(Exception, match=r"dimension 0: topology: size was 4 and is 5"):
        platform.check_unchanged()
    assert changed.size == 4


def test_methods_that_are_needed_are_needed() -> None:
    class Nothing(Topology):
        name = "nothing"

    with pytest.raises(TypeError, match="hops"):
        Nothing()  # type: ignore[abstract]
