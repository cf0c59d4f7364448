"""The fabric of a platform: the graph of NPUs, switches and links that networks simulate."""

from __future__ import annotations

import pathlib
from collections import Counter
from random import Random

import astra_sim
import pytest
from astra_sim.fabric import Fabric, FabricLink, Wire
from astra_sim.fabric.graph import DimensionGraph
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.fabric.routes import first_links
from astra_sim.platform import Dimension, Platform
from astra_sim_network_analytical.topologies import FullyConnected, Ring, Switch
from astra_sim_platforms.garnet import NvSwitchOptions, Torus3dOptions, nv_switch, torus3d
from astra_sim_platforms.graph import GraphOptions, graph
from astra_sim_platforms.shortest_paths import shortest_paths
from astra_sim_platforms.topologies import FatTreeOptions, MeshOptions, fat_tree, mesh
from hypothesis import given
from hypothesis import strategies as st


def platform(*topologies: Ring | Switch | FullyConnected) -> Platform:
    return Platform(tuple(Dimension(t, t.size, t.ports, 12.5, 500.0, 7.0, 9.0) for t in topologies))


def ends(fabric: Fabric) -> list[tuple[int, int]]:
    return [(link.source, link.target) for link in fabric.links]


def test_a_switch_is_a_star() -> None:
    fabric = platform(Switch(3, 2)).fabric()
    assert (fabric.npus, fabric.switches, fabric.switch_latency_ns) == (3, 1, (9.0,))
    assert ends(fabric) == [(0, 3), (3, 0), (1, 3), (3, 1), (2, 3), (3, 2)]
    assert {(link.bandwidth, link.bits_per_s, link.latency_ns, link.nic_latency_ns) for link in fabric.links} == {
        (25.0, 200_000_000_000, 500.0, 7.0)
    }
    assert fabric.ports() == [[0], [2], [4], [1, 3, 5]]
    assert fabric.reverses() == [1, 0, 3, 2, 5, 4]
    assert fabric.link_name(3) == "switch 0 to NPU 1"


def test_rings_and_fully_connected_npus_have_a_link_to_each_neighbour() -> None:
    assert ends(platform(Ring(3, 2)).fabric()) == [(0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1)]
    assert ends(platform(Ring(2, 2)).fabric()) == [(0, 1), (1, 0)]
    assert ends(platform(FullyConnected(3, 2)).fabric()) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert platform(Ring(1, 2)).fabric().links == ()


def test_every_group_of_a_dimension_has_links_and_switches_of_its_own() -> None:
    fabric = platform(Ring(3, 2), Switch(2, 1)).fabric()
    assert (fabric.npus, fabric.switches, fabric.nodes) == (6, 3, 9)
    assert [(link.source, link.target) for link in fabric.links if link.dimension == 1][:4] == [(0, 6), (6, 0), (3, 6), (6, 3)]
    assert fabric.ports()[7] == [fabric.links.index(link) for link in fabric.links if link.source == 7]
    assert fabric.distances(5, through_npus=False)[0] == UNREACHABLE
    assert fabric.distances(5, through_npus=True)[0] == 3
    assert fabric.distances(5, through_npus=False)[2] == 2


def test_meshes_fat_trees_and_graphs_say_their_links(tmp_path: pathlib.Path) -> None:
    link = {"link_bandwidth_gb_per_s": 12.5, "link_latency_ns": 500.0}
    assert ends(Platform(tuple(mesh(MeshOptions(sizes=(3,), **link)))).fabric()) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    tree = Platform(tuple(fat_tree(FatTreeOptions(arity=2, levels=2, **link)))).fabric()
    assert (tree.npus, tree.switches, len(tree.links)) == (4, 4, 16)
    path = tmp_path / "graph.csv"
    path.write_text("source,target,bandwidth_gb_per_s,latency_ns\n0,s,25,100\n1,s,50,200\n")
    own = Platform(tuple(graph(GraphOptions(file=str(path))))).fabric()
    assert [(each.bandwidth, each.latency_ns) for each in own.links] == [(25.0, 100.0)] * 2 + [(50.0, 200.0)] * 2
    assert own.scaled(2, 3).links[0][2:4] == (50.0, 300.0)


def test_topologies_of_garnet_have_a_ring_for_each_queue_or_a_link_to_each_switch() -> None:
    fabric = Platform(tuple(torus3d(Torus3dOptions(npus=6, packages=3, local_rings=2)))).fabric()
    assert fabric.switches == 0
    # Two rings one way of two NPUs in each package; a ring each way along the packages.
    assert ends(fabric)[:4] == [(0, 1), (1, 0), (0, 1), (1, 0)]
    assert [end for end, link in zip(ends(fabric), fabric.links, strict=True) if link.dimension == 1][:6] == [
        (0, 2),
        (2, 4),
        (4, 0),
        (0, 4),
        (2, 0),
        (4, 2),
    ]
    switched = Platform(tuple(nv_switch(NvSwitchOptions(npus=4, packages=2, links_per_tile=3)))).fabric()
    assert Counter(len(ports) for ports in switched.ports()) == {1 + 3: 4, 2: 6}


@given(st.integers(0, 2**32))
def test_ways_in_turn_are_as_short_and_neighbours_take_different_ones(seed: int) -> None:
    random = Random(seed)
    leaves, spines, npus = random.randint(2, 5), random.randint(2, 4), random.randint(1, 5)
    size = leaves * npus
    pairs = [(npu, size + npu // npus) for npu in range(size)]
    pairs += [(size + leaf, size + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    both = [end for pair in pairs for end in (pair, pair[::-1])]
    nodes = size + leaves + spines
    first, distances = shortest_paths(nodes, size, both, "graph")
    links = tuple(FabricLink(*end, 1.0, 1.0) for end in both)
    turned = first_links(DimensionGraph(size, nodes, links, None, range(size)), "graph")
    for node in range(nodes):
        for destination in range(size):
            if (link := turned[node * size + destination]) >= 0:
                assert both[link][0] == node
                assert distances[both[link][1] * size + destination] == distances[node * size + destination] - 1
    up, same = ([table[size * size + destination] for destination in range(size)] for table in (turned, first))
    assert len(set(same[npus:])) == 1
    for block in range(-(-npus // spines), size // spines):  # of the first leaf, destinations at others
        assert len(set(up[block * spines : (block + 1) * spines])) == spines


def test_logical_dimensions_lie_on_one_physical_dimension() -> None:
    star = Dimension(Switch(6, 1), 6, 1, 12.5, 500.0)
    logical = Platform(platform(Ring(3, 2), Ring(2, 2)).dimensions, physical=star)
    assert logical.wired().dimensions == (star,)
    assert logical.fabric() == Platform((star,)).fabric()
    with pytest.raises(astra_sim.AstraError, match="logical dimensions of 8 NPUs on a platform of 6; expected at most as many NPUs"):
        Platform(platform(Ring(8, 2)).dimensions, physical=star)


def test_a_link_costs_something() -> None:
    class Free:
        name = "free"

        def wires(self) -> list[Wire]:
            return [Wire(0, 1, cost=0)]

    with pytest.raises(astra_sim.AstraError, match=r"'free' has a link of cost 0 from node 0 to node 1; expected 1 to 255"):
        Platform((Dimension(Free(), 2, 1, 1.0, 1.0),)).fabric()


def test_a_topology_that_does_not_say_its_links_is_an_error() -> None:
    class Unknown:
        name = "unknown"

    with pytest.raises(astra_sim.AstraError, match=r"dimension 0: topology 'unknown' does not list its links"):
        Platform((Dimension(Unknown(), 2, 1, 1.0, 1.0),)).fabric()
