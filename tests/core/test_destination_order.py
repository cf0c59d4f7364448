"""Destinations spread over paths of equal cost: what meets, on which networks, and what it brings on rails."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("astra_sim_platforms")

import astra_sim
from astra_sim.fabric import Fabric
from astra_sim.fabric.destination_order import DestinationOrder, destination_order_of
from astra_sim.fabric.graph import DimensionGraph, wires_of
from astra_sim.fabric.routes import first_links
from astra_sim.network import Message
from astra_sim.platform import Dimension
from astra_sim_platforms.clos import Clos
from astra_sim_platforms.shortest_paths import shortest_paths
from astra_sim_platforms.topologies import DragonflyOptions, dragonfly
from support.links import numbered

LINK = "link_bandwidth_gb_per_s=50&link_latency_ns=500"


def clos(rails: int, servers: int, leaf_npus: int, spines: int, **more: Any) -> Clos:
    """A Clos fabric with as many links up from a leaf as down, of servers with an NPU on each rail."""
    shape: dict[str, Any] = {"planes": 1, "levels": 2, "pod_leaves": 1, "shared": 1, "uplinks": leaf_npus} | more
    return Clos(size=rails * servers, rails=rails, server=rails, leaf_npus=leaf_npus, spines=spines, **shape)


def routes(topology: Any) -> dict[tuple[int, int], list[int]]:
    """For every two NPUs the links of the way between them."""
    links = wires_of(Dimension(topology, topology.size, 1, 50.0, 500.0), "here")
    size, ends = topology.size, [(link.source, link.target) for link in links]
    graph = DimensionGraph(size, max(map(max, ends)) + 1, tuple(links), None, destination_order_of(topology))
    table = first_links(graph, "here")
    result: dict[tuple[int, int], list[int]] = {}
    for pair in itertools.permutations(range(size), 2):
        node, result[pair] = pair[0], []
        while node != pair[1]:
            result[pair].append(table[node * size + pair[1]])
            node = ends[result[pair][-1]][1]
    return result


def check_messages_between_leaves(topology: Clos, random: Random) -> None:
    """For every two leaves, where each NPU of one sends to an NPU of the other, no link carries two messages."""
    ways = routes(topology)
    leaves: dict[int, list[int]] = {}
    for npu in range(topology.size):
        leaves.setdefault(topology.leaf(npu), []).append(npu)
    for one, other in itertools.permutations(leaves.values(), 2):
        random.shuffle(other)
        used = Counter(link for pair in zip(one, other, strict=True) for link in ways[pair])
        assert set(used.values()) == {1}


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_what_goes_from_one_leaf_to_another_never_meets(seed: int) -> None:
    """Whoever of a leaf sends to whomever of the other, and however many links there are between a leaf and a spine."""
    random = Random(seed)
    spines, parallel = random.randint(1, 4), random.randint(1, 3)
    leaf_npus = spines * parallel
    rails, blocks = random.randint(1, 4), random.randint(1, 3)
    topology = clos(rails, blocks * leaf_npus, leaf_npus, spines)
    check_messages_between_leaves(topology, random)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_nor_does_it_over_planes(seed: int) -> None:
    """Also where each plane has fewer links up than a leaf has NPUs, as long as all planes together have as many."""
    random = Random(seed)
    planes, spines, parallel = random.randint(2, 3), random.randint(1, 2), random.randint(1, 2)
    uplinks = spines * parallel
    leaf_npus = uplinks * random.randint(1, planes)
    rails, blocks = random.randint(1, 3), random.randint(1, 3)
    topology = clos(rails, blocks * leaf_npus, leaf_npus, spines, planes=planes, uplinks=uplinks)
    check_messages_between_leaves(topology, random)


@pytest.mark.parametrize(("planes", "leaf_npus", "blocks"), [(2, 8, 4), (4, 4, 5), (2, 4, 8), (2, 16, 1)])
def test_what_an_npu_sends_and_gets_comes_over_all_planes(planes: int, leaf_npus: int, blocks: int) -> None:
    """No link of an NPU carries more of an all-to-all than its part, and a leaf: all of a leaf send to an NPU over one plane."""
    uplinks = leaf_npus if blocks > 1 else 0
    topology = clos(1, blocks * leaf_npus, leaf_npus, max(1, uplinks), planes=planes, uplinks=uplinks)
    carried = Counter(link for way in routes(topology).values() for link in way)
    of_npus = [carried[number] for number, wire in enumerate(topology.wires()) if min(wire.source, wire.target) < topology.size]
    assert max(of_npus) <= topology.size // planes + (leaf_npus if blocks > 1 else 0)


def test_those_that_share_a_link_up_are_the_same_towards_every_leaf() -> None:
    """Of 8 NPUs at each leaf with 3 links up, one at each place sends to the one at this place of another leaf."""
    topology = clos(8, 8, 8, 3, uplinks=3)
    ways = routes(topology)
    at = {(topology.leaf(npu), npu // 8): npu for npu in range(64)}
    for leaf in range(8):
        for other in set(range(8)) - {leaf}:
            up = [ways[at[leaf, place], at[other, place]][1] for place in range(8)]
            sharing = [[place for place in range(8) if up[place] == link] for link in dict.fromkeys(up)]
            assert sharing == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.parametrize(
    "topology", [clos(4, 8, 4, 2), clos(8, 16, 8, 1, levels=3, pod_leaves=8), clos(1, 64, 4, 2, levels=3, pod_leaves=4)]
)
def test_all_links_of_a_level_carry_the_same(topology: Clos) -> None:
    """Of an all-to-all: what leaves an aggregation switch spreads over all of its links to cores, and comes down over all."""
    carried = Counter(link for way in routes(topology).values() for link in way)
    loads: dict[tuple[bool, bool], set[int]] = {}
    for number, wire in enumerate(topology.wires()):
        if min(wire.source, wire.target) >= topology.size:
            to_core = height(topology, max(wire.source, wire.target)) == 3
            loads.setdefault((wire.source < wire.target, to_core), set()).add(carried[number])
    assert all(len(result) == 1 and min(result) > 0 for result in loads.values()), loads


def height(topology: Clos, switch: int) -> int:
    """Of a switch: 1 for a leaf, 2 for what leaves are joined to, 3 for a core."""
    place = (switch - topology.size) % topology.switches_of_plane
    if place < topology.leaves:
        return 1
    return 2 if topology.levels == 2 or place < topology.leaves + topology.leaves // topology.pod_leaves * topology.uplinks else 3


def test_a_number_is_divided_by_the_links_of_the_switches_below() -> None:
    """A 2-ary 3-tree of switches 8 to 11 (leaves), 12 to 15 and 16 to 19 (cores): d-mod-k."""
    pairs = [(npu, 8 + npu // 2) for npu in range(8)]
    pairs += [(8 + 2 * pod + leaf, 12 + 2 * pod + up) for pod in range(2) for leaf in range(2) for up in range(2)]
    pairs += [(12 + 2 * pod + up, 16 + 2 * up + core) for pod in range(2) for up in range(2) for core in range(2)]
    destination_order = DestinationOrder(20, [end for pair in pairs for end in (pair, pair[::-1])], range(8))
    assert [destination_order.choose(8, npu, 12, 13, 2) for npu in range(8)] == [0, 1] * 4
    assert [destination_order.choose(12, npu, 16, 17, 2) for npu in range(8)] == [0, 0, 1, 1] * 2


@pytest.mark.parametrize(
    "spec",
    [
        "clos?npus=64&ports=16&rails=8",
        "clos?npus=32&ports=8&levels=3&rails=2",
        "clos?npus=32&ports=8&planes=2",
        "clos?npus=64&ports=16&planes=2&rails=4&oversubscription=2",
        "clos?npus=60&ports=16&oversubscription=3&rails=4",
        "fat_tree?arity=4&levels=3",
        "dragonfly?routers=4&npus=2&global_links=1",
        "dragonfly_plus?leaves=4&npus=2&groups=4&global_links=3",
        "hyperx?sizes=3,4&npus=2",
    ],
)
def test_networks_with_one_route_for_each_pair_have_the_same(spec: str) -> None:
    """A message for each of some pairs: what every link carries on the congestion-aware network, on packets, and as a flow."""
    pytest.importorskip("astra_sim_network_packet")
    pytest.importorskip("astra_sim_network_flow")
    from astra_sim_network_flow.network import FlowNetwork
    from astra_sim_network_flow.options import FlowOptions
    from astra_sim_network_packet.network import PacketNetwork
    from astra_sim_network_packet.options import PacketOptions
    from astra_sim_network_packet.traffic import read_platform

    platform = read_platform(f"plugin:{spec}&{LINK}")
    topology: Any = platform.dimensions[0].topology
    every = list(itertools.permutations(range(platform.npus), 2))
    pairs = Random(1).sample(every, min(len(every), 200))
    messages = [Message(number, *pair, 1, -1) for number, pair in enumerate(pairs)]
    fabric: Fabric = platform.fabric()
    of_table = Counter(fabric.links[link][:2] for pair, way in routes(topology).items() if pair in set(pairs) for link in way)

    packet = PacketNetwork(PacketOptions(), platform)
    flow = FlowNetwork(FlowOptions(routing="destination"), platform)
    for network in (packet, flow):
        network.inject(0, messages)
        while network.advance(None) is not None:
            pass
    of_packet: Counter[tuple[int, int]] = Counter()
    for link in packet.links():
        of_packet[numbered(link, platform)] += link.transfers or 0
    of_flow: Counter[tuple[int, int]] = Counter()
    for link in flow.links():
        of_flow[numbered(link, platform)] += link.transfers or 0
    assert of_packet == of_table
    assert of_flow == of_table


@pytest.mark.parametrize("rails", [1, 2, 4, 8])
@pytest.mark.parametrize("network", ["packet", "analytical?congestion=aware&switching=cut_through", "flow?routing=destination"])
def test_rails_do_not_collide_at_the_spines(network: str, rails: int) -> None:
    """Halving-doubling goes to one leaf at a time: it takes what it would with each message on all ways at once."""
    pytest.importorskip("astra_sim_network_packet")
    pytest.importorskip("astra_sim_network_flow")
    run: dict[str, Any] = {
        "workload": "plugin:collective?collective=all_reduce&bytes=1048576",
        "platform": f"plugin:clos?npus=64&ports=16&rails={rails}&{LINK}",
        "system": "plugin:astra1?all_reduce=halving_doubling",
    }
    spread = astra_sim.simulate(**run, network="plugin:flow?routing=split").finish_ns
    assert astra_sim.simulate(**run, network=f"plugin:{network}").finish_ns == pytest.approx(spread, rel=0.01)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_a_dragonfly_has_one_way_of_least_cost_for_each_pair(seed: int) -> None:
    """So there is nothing at which its NPUs could take turns."""
    random = Random(seed)
    routers, links = random.randint(1, 4), random.randint(1, 3)
    groups = random.randint(1, routers * links + 1)
    options: dict[str, Any] = {"routers": routers, "npus": random.randint(1, 3), "global_links": links, "groups": groups}
    (dimension,) = dragonfly(DragonflyOptions(**options, link_bandwidth_gb_per_s=50.0))
    wires = dimension.topology.wires() or ()
    nodes = max([dimension.size, *(max(wire.source, wire.target) + 1 for wire in wires)])
    _, distances = shortest_paths(
        nodes, dimension.size, [(wire.source, wire.target) for wire in wires], "here", [wire.cost for wire in wires]
    )
    for source, destination in itertools.permutations(range(dimension.size), 2):
        node = source
        while node != destination:
            left = distances[node * dimension.size + destination]
            (node,) = (
                wire.target
                for wire in wires
                if wire.source == node
                and wire.cost + distances[wire.target * dimension.size + destination] == left
                and distances[wire.target * dimension.size + destination] >= 0
            )


@pytest.mark.parametrize("network", ["packet", "analytical?congestion=aware&switching=cut_through", "flow?routing=destination"])
def test_a_fat_tree_takes_what_it_would_with_each_message_on_all_ways(network: str) -> None:
    pytest.importorskip("astra_sim_network_packet")
    pytest.importorskip("astra_sim_network_flow")
    for collective in ("all_reduce", "all_to_all"):
        run: dict[str, Any] = {
            "workload": f"plugin:collective?collective={collective}&bytes=1048576",
            "platform": f"plugin:fat_tree?arity=4&levels=3&{LINK}",
        }
        spread = astra_sim.simulate(**run, network="plugin:flow?routing=split").finish_ns
        assert astra_sim.simulate(**run, network=f"plugin:{network}").finish_ns == pytest.approx(spread, rel=0.15)
