"""The edges over which a rank can send to another one without passing a third: its neighbours as a schedule sees them.

An edge is the route that a network takes between two NPUs: of one link, or of links that lead over switches alone. A schedule names only
ends of messages, so each edge has the links of that one route. If NPUs forward, longer ways are made of several edges.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt
from astra_sim.fabric import RouteRules
from astra_sim.fabric.routes import Routes, TieRule, dimension_graph
from astra_sim.fabric.ties import tie_by_destination, tie_first
from astra_sim.platform import Platform

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@attrs.frozen(eq=False)
class RankEdge:
    """A route from rank `source` to rank `target`: its links in order, the bandwidth of the slowest (bytes/ns), and its latency (ns)."""

    source: int
    target: int
    links: tuple[int, ...]
    bandwidth: float
    latency_ns: float


@attrs.frozen(eq=False)
class RankGraph:
    """The NPUs of a platform as ranks, and the edges between them. `link_bandwidth` is that of each link of the fabric (bytes/ns)."""

    ranks: int
    link_bandwidth: Floats
    edges: tuple[RankEdge, ...]
    number_of: dict[tuple[int, int], int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.number_of.update({(edge.source, edge.target): number for number, edge in enumerate(self.edges)})

    @number_of.default
    def _empty(self) -> dict[tuple[int, int], int]:
        return {}

    def edge(self, source: int, target: int) -> RankEdge:
        """The edge from a rank to another. Raises KeyError if there is none."""
        return self.edges[self.number_of[source, target]]

    def reversed(self) -> RankGraph:
        """The same edges from their targets to their sources: a broadcast along them becomes a sum the other way."""
        turned = (attrs.evolve(edge, source=edge.target, target=edge.source, links=edge.links[::-1]) for edge in self.edges)
        return RankGraph(self.ranks, self.link_bandwidth, tuple(turned))


def rank_graph(
    platform: Platform, rules: RouteRules | None = None, through_npus: bool = False, in_one_dimension: bool = False
) -> RankGraph:
    """The edges of a platform whose NPUs are ranks 0 to n - 1.

    `rules` describe how the network routes; a route that it spreads over several links counts as the one of its destination. With
    `through_npus` every pair of ranks has its edge, which is the whole way of a single message, as an all-to-all sends it; with
    `in_one_dimension` only ranks that differ in one dimension of the platform, which may be logical, have one.
    """
    rules = rules or RouteRules()
    fabric = platform.fabric()
    bandwidth = np.array([link.bandwidth for link in fabric.links])
    latency = [link.latency_ns + (fabric.switch_latency_ns[link.source - fabric.npus] if fabric.is_switch(link.source) else 0.0)
               for link in fabric.links]  # fmt: skip
    routes = {(source, target): links for source, target, links in _routes(platform, rules, through_npus, in_one_dimension)}
    if through_npus:
        routes = _across(platform.wired(), routes, platform.npus)

    def edge(source: int, target: int, links: tuple[int, ...]) -> RankEdge:
        entered = {fabric.links[link].dimension: fabric.links[link].nic_latency_ns for link in links}
        whole = sum(latency[link] for link in links) + 2 * sum(entered.values())
        return RankEdge(source, target, links, float(min(bandwidth[link] for link in links)), whole)

    result = [edge(*ends, links) for ends, links in routes.items() if max(ends) < platform.npus]
    return RankGraph(platform.npus, bandwidth, tuple(result))


def _pairs(platform: Platform, size: int, in_one_dimension: bool) -> Iterator[tuple[int, int]]:
    """Sources and targets in a dimension of a platform as it is wired."""
    if not (in_one_dimension and platform.physical):
        yield from itertools.permutations(range(size), 2)
        return
    for target in range(platform.npus):  # the target first: routes are found by target
        for number, (dimension, stride) in enumerate(zip(platform.dimensions, platform.strides, strict=True)):
            place = platform.coordinate(target, number)
            yield from ((target + (other - place) * stride, target) for other in range(dimension.size) if other != place)


def _across(wired: Platform, routes: dict[tuple[int, int], tuple[int, ...]], npus: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """Routes between all pairs: those within dimensions one after another, the first dimension first."""
    result = {}
    for source in range(npus):
        for target in range(npus):
            if source == target:
                continue
            at: int = source
            links: tuple[int, ...] = ()
            for number, stride in enumerate(wired.strides):
                then = at + (wired.coordinate(target, number) - wired.coordinate(at, number)) * stride
                links += routes[at, then] if then != at else ()
                at = then
            result[source, target] = links
    return result


def _routes(
    platform: Platform, rules: RouteRules, through_npus: bool, in_one_dimension: bool
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The ends and links of all edges, in the numbers of the fabric, which lists links dimension by dimension and group by group."""
    wired, first_link = platform.wired(), 0
    for number, dimension in enumerate(wired.dimensions):
        graph = dimension_graph(dimension, f"dimension {number}")
        routes = Routes(graph, rules.forwarding)
        tie: TieRule = tie_first if rules.choice == "first" else tie_by_destination(graph, upwards=True)
        groups = [npu for npu in range(wired.npus) if wired.coordinate(npu, number) == 0]
        for source, target in _pairs(platform, graph.size, in_one_dimension):
            path = routes.path(source, target, tie)
            if not through_npus and any(not graph.is_switch(graph.links[link].target) for link in path[:-1]):
                continue
            for place, base in enumerate(groups):
                shift = first_link + place * len(graph.links)
                stride = wired.strides[number]
                yield base + source * stride, base + target * stride, tuple(link + shift for link in path)
        first_link += len(groups) * len(graph.links)
