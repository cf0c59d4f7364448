"""All networks route by one room: over the same sets of next links on every topology, and by the same rule over the same links."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("astra_sim_platforms")
pytest.importorskip("astra_sim_network_packet")
pytest.importorskip("astra_sim_network_flow")
pytest.importorskip("astra_sim_network_roce")
pytest.importorskip("astra_sim_systems")

from astra_sim.fabric import FabricLink, RouteRules
from astra_sim.fabric.graph import DimensionGraph
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.fabric.routes import Routes, dimension_graph, first_links
from astra_sim.fabric.ties import tie_by_destination, tie_first
from astra_sim.network import EventNetwork, Message
from astra_sim.platform import Platform
from astra_sim_network_analytical.link_map import LinkMap
from astra_sim_network_flow.network import FlowNetwork
from astra_sim_network_flow.options import FlowOptions
from astra_sim_network_packet.network import PacketNetwork
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_roce.network import RoceNetwork
from astra_sim_network_roce.options import RoceOptions
from astra_sim_systems.busiest_link import OWN_LINKS, loads_of
from support.components import components_of
from support.links import numbered
from support.message_parts import parts_of_message, tie_by_hash
from support.platforms import LINK, platform_of

SPECS = [
    "ring?size=6&links=2",
    "switch?size=5",
    "fully_connected?size=5&links=4",
    "mesh?sizes=9",
    "fat_tree?arity=2&levels=3",
    "dragonfly?routers=3&npus=2&global_links=1",
    "dragonfly_plus?leaves=2&spines=2&npus=2&groups=3",
    "slim_fly?q=5&npus=1",
    "hyperx?sizes=3,3&npus=2",
    "clos?npus=16&ports=8",
    "clos?npus=32&ports=8&levels=3&rails=2",
    "clos?npus=32&ports=8&planes=2",
]
SWITCHED = [spec for spec in SPECS if not spec.startswith(("ring", "fully", "mesh"))]
TURNS = [spec for spec in SPECS if spec.startswith(("fat_tree", "dragonfly_plus", "hyperx", "clos"))]

Links = list[tuple[int, int]]
"""Links by their ends: numbers of nodes, which all networks share where a platform has one dimension."""


def some_pairs(platform: Platform, most: int = 30) -> list[tuple[int, int]]:
    every = list(itertools.permutations(range(platform.npus), 2))
    return Random(1).sample(every, min(len(every), most))


def made(spec: str) -> tuple[Platform, DimensionGraph]:
    platform = platform_of(f"{spec}&{LINK}")
    (dimension,) = platform.dimensions
    return platform, dimension_graph(dimension, "here")


def ends(graph: DimensionGraph, links: list[int]) -> Links:
    return [graph.ends[number] for number in links]


def allowed(routes: Routes, source: int, destination: int) -> set[tuple[int, int]]:
    """All links of all routes of least cost between two positions."""
    result, waiting = set(), [source]
    for node in waiting:
        for number in routes.next_links(node, destination, source):
            result.add(routes.graph.ends[number])
            waiting.append(routes.graph.ends[number][1])
        assert len(waiting) < 10_000
    return result


def carry(network: EventNetwork, pair: tuple[int, int], number: int, size: int = 1) -> None:
    network.inject(0, [Message(number, *pair, size, -1)])
    while network.advance(None) is not None:
        pass


def flow_links(platform: Platform, pair: tuple[int, int], **options: Any) -> dict[tuple[int, int], float]:
    """The ends of the links that a message takes on the flow network, with its part on each (in bytes, acknowledgements left out)."""
    network = FlowNetwork(FlowOptions(**options), platform)
    carry(network, pair, 0, 1_000_000)
    result: Counter[tuple[int, int]] = Counter()
    for load in network.links():
        result[numbered(load, platform)] += load.bytes / 1_000_000  # type: ignore[assignment]
    return {each: part for each, part in result.items() if part > 0.01}


def walked(links: Links, source: int, destination: int) -> Links:
    """Links of a path in its order; fails where they are none."""
    path, left = [], dict(links)
    assert len(left) == len(links)
    node = source
    while node != destination:
        path.append((node, left.pop(node)))
        node = path[-1][1]
    assert not left
    return path


# -- The room itself ---------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> DimensionGraph:
    """Connected graphs of NPUs and switches, with costs, parallel links, and perhaps turns."""
    random = Random(draw(st.integers(0, 2**32)))
    size, switches = random.randint(2, 6), random.randint(0, 4)
    nodes = size + switches
    pairs = [(node, random.randrange(node)) for node in range(1, nodes)]
    pairs += [(a, b) for a, b in ((random.randrange(nodes), random.randrange(nodes)) for _ in range(random.randint(0, 12))) if a != b]
    links = [FabricLink(*each, 1.0, 1.0, cost=random.choice((1, 1, 1, 2, 3))) for pair in pairs for each in (pair, pair[::-1])]
    destination_order = random.sample(range(size), size) if random.random() < 0.5 else None
    return DimensionGraph(size, nodes, tuple(links), None, destination_order)


def costs(graph: DimensionGraph, destination: int, through_npus: bool) -> list[float]:
    """Distances by Bellman and Ford: as plain as can be."""
    distance = [float("inf")] * graph.nodes
    distance[destination] = 0
    for _ in range(graph.nodes):
        for link in graph.links:
            if through_npus or link.target == destination or graph.is_switch(link.target):
                distance[link.source] = min(distance[link.source], distance[link.target] + link.cost)
    return distance


@settings(deadline=None)
@given(graphs(), st.booleans())
def test_next_links_are_those_of_least_cost(graph: DimensionGraph, through_npus: bool) -> None:
    routes = Routes(graph, "always" if through_npus else "never")
    for destination in range(graph.size):
        right = costs(graph, destination, through_npus)
        assert dict(routes.distances(destination)) == {node: cost for node, cost in enumerate(right) if cost < float("inf")}
        for node in range(graph.nodes):
            leading = [
                number
                for number, link in enumerate(graph.links)
                if link.source == node != destination
                and right[node] < float("inf")
                and right[link.target] + link.cost == right[node]
                and (through_npus or link.target == destination or graph.is_switch(link.target))
            ]
            assert routes.next_links(node, destination) == sorted(leading, key=lambda number: graph.links[number].target)
            assert node == destination or bool(routes.next_links(node, destination)) == (right[node] < float("inf"))


@settings(deadline=None)
@given(graphs())
def test_the_table_of_all_destinations_is_the_rule_by_destination(graph: DimensionGraph) -> None:
    """Two searches give one result: that of all destinations at once, and that of one when it is asked for."""
    table, routes, tie = first_links(graph, "here"), Routes(graph), tie_by_destination(graph)
    for destination in range(graph.size):
        for node in range(graph.nodes):
            links = routes.next_links(node, destination)
            right = links[tie(node, destination, links) if len(links) > 1 else 0] if links else UNREACHABLE
            assert table[node * graph.size + destination] == right


@settings(deadline=None)
@given(graphs(), st.integers(0, 2**32))
def test_routes_around_a_failed_link_are_those_of_the_graph_without_it(graph: DimensionGraph, seed: int) -> None:
    failed = {Random(seed).randrange(len(graph.links))}
    left = DimensionGraph(graph.size, graph.nodes, tuple(link for number, link in enumerate(graph.links) if number not in failed))
    numbers = [number for number in range(len(graph.links)) if number not in failed]
    around, without = Routes(graph, failed=failed), Routes(left)
    for destination in range(graph.size):
        for node in range(graph.nodes):
            assert around.next_links(node, destination) == [numbers[number] for number in without.next_links(node, destination)]


@settings(deadline=None)
@given(graphs())
def test_parts_of_a_message_add_up(graph: DimensionGraph) -> None:
    """What leaves the source and reaches the destination is one message; and a path by a rule is as short as any."""
    routes = Routes(graph)
    for source, destination in itertools.permutations(range(graph.size), 2):
        carried = parts_of_message(routes, source, destination)
        for node, net in ((source, 1.0), (destination, -1.0)):
            out = sum(part for number, part in carried.items() if graph.links[number].source == node)
            into = sum(part for number, part in carried.items() if graph.links[number].target == node)
            assert out - into == pytest.approx(net)
        path = routes.path(source, destination, tie_first)
        assert sum(graph.links[number].cost for number in path) == routes.distances(destination)[source]


def test_where_npus_forward_if_needed_those_without_switches_do() -> None:
    """NPUs 0 and 1 hang on switch 3, and NPU 2 on NPU 1 alone."""
    pairs = [(0, 3), (1, 3), (1, 2), (0, 1)]
    links = tuple(FabricLink(*each, 1.0, 1.0) for pair in pairs for each in (pair, pair[::-1]))
    graph = DimensionGraph(3, 4, links)
    needed, never, always = (Routes(graph, forwarding) for forwarding in ("if_needed", "never", "always"))
    assert [len(routes.path(0, 2, tie_first)) for routes in (needed, always)] == [2, 2]
    assert not never.next_links(0, 2)
    assert never.next_links(1, 2)
    assert not Routes(graph, "always", failed=range(4, 6)).next_links(0, 2)
    with pytest.raises(Exception, match="there is no route from position 0 to position 2"):
        never.path(0, 2, tie_first)


# -- The networks ------------------------------------------------------------------------------------------------------


def aware_path(platform: Platform, source: int, destination: int) -> Links:
    (links,) = LinkMap(platform).dimensions
    path: Links = []
    node = source
    while node != destination:
        number = links.next_link(node, destination)
        path.append((links.source(number), links.target(number)))
        node = path[-1][1]
    return path


@pytest.mark.parametrize("spec", SPECS)
def test_aware_takes_the_links_of_the_rule_by_destination(spec: str) -> None:
    platform, graph = made(spec)
    routes, tie = Routes(graph), tie_by_destination(graph, upwards=spec.startswith("ring"))
    for pair in some_pairs(platform):
        assert aware_path(platform, *pair) == ends(graph, routes.path(*pair, tie))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("npus_forward", ["if_needed", "always"])
def test_flow_takes_the_links_of_each_rule(spec: str, npus_forward: Any) -> None:
    platform, graph = made(spec)
    by_target, listed = (Routes(graph, npus_forward, order) for order in ("target", "listed"))
    upwards = tie_by_destination(graph, upwards=True)
    for pair in some_pairs(platform, 12):
        rules = {
            "destination": by_target.path(*pair, upwards),
            "first": listed.path(*pair, tie_first),
            "hash": listed.path(*pair, tie_by_hash(*pair, seed=3)),
        }
        for routing, path in rules.items():
            taken = flow_links(platform, pair, routing=routing, npus_forward=npus_forward, seed=3)
            assert walked(list(taken), *pair) == ends(graph, path), routing


@pytest.mark.parametrize("spec", SPECS)
def test_flow_that_splits_takes_all_links_of_the_sets_in_equal_parts(spec: str) -> None:
    platform, graph = made(spec)
    routes = Routes(graph, "if_needed")
    for pair in some_pairs(platform, 12):
        parts: Counter[tuple[int, int]] = Counter()
        for number, part in parts_of_message(routes, *pair).items():
            parts[graph.ends[number]] += part
        taken = flow_links(platform, pair, routing="split")
        assert set(taken) == set(parts) == allowed(routes, *pair)
        whole = sum(part for (source, _), part in taken.items() if source == pair[0])
        assert {each: part / whole for each, part in taken.items()} == pytest.approx(dict(parts))


@pytest.mark.parametrize("options", [{}, {"routing": "adaptive"}, {"preset": "garnet"}], ids=str)
@pytest.mark.parametrize("spec", SPECS)
def test_packets_stay_within_the_sets(spec: str, options: dict[str, Any]) -> None:
    """Balanced, random and adaptive alike; where destinations take turns, the lists of links are equal by default."""
    platform, graph = made(spec)
    options = {"exact": "every-npu", **options}
    network, routes, tie = PacketNetwork(PacketOptions(**options), platform), Routes(graph), tie_by_destination(graph)
    before: Counter[tuple[int, int]] = Counter()
    for number, pair in enumerate(some_pairs(platform)):
        carry(network, pair, number)
        now: Counter[tuple[int, int]] = Counter()
        for link in network.links():
            now[numbered(link, platform)] += link.bytes
        taken = +(now - before)
        before = now
        assert taken.keys() <= allowed(routes, *pair)
        if spec in TURNS and len(options) == 1:
            assert walked(list(taken), *pair) == ends(graph, routes.path(*pair, tie))


@pytest.mark.parametrize("routing", ["destination", "first", "split"])
@pytest.mark.parametrize("spec", TURNS)
def test_auto_foretells_the_loads_of_the_network_that_it_is_for(spec: str, routing: str) -> None:
    """Between switches the busiest link carries what it does on the flow network, whose routes `auto` asks for."""
    platform, _ = made(spec)
    (logical,) = platform.logical_dimensions()
    network = FlowNetwork(FlowOptions(routing=routing), platform)
    loads = loads_of(platform, logical, network.route_rules)
    assert loads is not None
    for offset in (1, platform.npus // 2):
        pairs = tuple((npu, (npu + offset) % platform.npus) for npu in range(platform.npus))
        load = loads.load(pairs)
        assert load is not None
        network = FlowNetwork(FlowOptions(routing=routing), platform)
        network.inject(0, [Message(number, *pair, 1000) for number, pair in enumerate(pairs)])
        while network.advance(None) is not None:
            pass
        links = platform.fabric().links
        used = ((links[used.number], used.bytes) for used in network._used())
        between = [size / 1000 / link.bandwidth for link, size in used if min(link.source, link.target) >= platform.npus]
        foretold = [link.busy_ns for number, link in load.links.items() if number != OWN_LINKS]
        assert max(foretold, default=0.0) == pytest.approx(max(between, default=0.0))


def roce_links(platform: Platform, pair: tuple[int, int], balancing: str) -> Iterator[tuple[int, int]]:
    """Links that have carried data, and not only acknowledgements."""
    network = RoceNetwork(RoceOptions(load_balancing=balancing), platform)
    network.begin()
    carry(network, pair, 0, 20_000)
    for load in network.links():
        if load.bytes > 4_000:
            yield numbered(load, platform)


@pytest.mark.parametrize(
    ("network", "options", "rules"),
    [
        ("analytical", {"congestion": "aware"}, RouteRules()),
        ("flow", {}, RouteRules("if_needed")),
        ("flow", {"routing": "ugal", "npus_forward": "never"}, RouteRules("never", "all")),
        ("packet", {}, RouteRules()),
        ("packet", {"routing": "adaptive"}, RouteRules("always", "all")),
        ("packet", {"preset": "booksim"}, RouteRules("always", "all")),
        ("roce", {}, RouteRules("if_needed")),
        ("roce", {"load_balancing": "ecmp", "npu_forwarding": False}, RouteRules("never", "all")),
    ],
)
def test_networks_say_how_they_route(network: str, options: dict[str, Any], rules: RouteRules) -> None:
    """By this `auto` estimates the loads of links."""
    chosen = {"plugin": network, **options}
    components = components_of(platform=f"plugin:switch?size=4&{LINK}", network=chosen, workload="plugin:collective?bytes=1024")
    assert isinstance(components.network, EventNetwork)
    assert components.network.route_rules == rules
    assert components.system.context.route_rules == rules  # type: ignore[attr-defined]


@pytest.mark.parametrize("balancing", ["destination", "ecmp"])
@pytest.mark.parametrize("spec", SWITCHED)
def test_roce_stays_within_the_sets(spec: str, balancing: str) -> None:
    """And takes the destination's turn where topologies number destinations."""
    platform, graph = made(spec)
    routes, tie = Routes(graph, "never"), tie_by_destination(graph)
    for pair in some_pairs(platform, 8):
        taken = list(roce_links(platform, pair, balancing))
        assert set(taken) <= allowed(routes, *pair)
        path = walked(taken, *pair)
        if spec in TURNS and balancing == "destination":
            assert path == ends(graph, routes.path(*pair, tie))
