"""Routes of a dimension: which links lead on to a destination at least cost, and which of them a message takes.

The first is a set for each node and destination, and the same for all networks. It follows from the costs of links, from the links that
are up, and from whether NPUs forward; or from the topology, if it names its routes. The second is a rule that breaks ties, a small
function on top of the set. Networks differ in the rule; their additions (virtual channels, adaptive routing) are their own.

Rows are computed on demand by destination: a graph of many thousand NPUs costs only the rows in use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from astra_sim.errors import InputError
from astra_sim.fabric.destination_order import destination_order_of
from astra_sim.fabric.graph import DimensionGraph, next_links_of, wires_of
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.fabric.ties import tie_by_destination
from astra_sim.value_objects import ValueObject

if TYPE_CHECKING:
    from astra_sim.platform import Dimension

HostForwarding = Literal["always", "if_needed", "never"]
"""Whether messages pass through NPUs: wherever that is cheaper, if no switches lead on, or never. Without switches NPUs forward."""

NextLinkOrder = Literal["listed", "target"]
"""The order of next links: that of the topology's list, or of the nodes they lead to (of one node: of the list)."""

RouteChoice = Literal["destination", "first", "all"]
"""Of several next links a message takes that of its destination (`tie_by_destination`, if the topology numbers destinations; else all),
the first that the topology lists, or all: any of them by a hash, by queues or at random, or each a part of it.
"""

TieRule = Callable[[int, int, Sequence[int]], int]
"""Of a node, a destination and the links of a set in order, two at least: the place of the link that a message takes."""


@attrs.frozen(eq=False, repr=False)
class RouteRules(ValueObject):
    """The routing rule of a network: whether NPUs forward, and which of several next links a message takes. System layers use it."""

    forwarding: HostForwarding = "always"
    choice: RouteChoice = "destination"


def dimension_graph(dimension: Dimension, where: str) -> DimensionGraph:
    """The graph of a dimension. Raises InputError, which begins with `where`, if its topology lists no links, or impossible ones."""
    links = wires_of(dimension, where)
    nodes = max([dimension.size, *(max(link.source, link.target) + 1 for link in links)])
    return DimensionGraph(dimension.size, nodes, tuple(links), next_links_of(dimension, where), destination_order_of(dimension.topology))


def first_links(graph: DimensionGraph, where: str) -> list[int]:
    """For all nodes and destinations at once, at node * `size` + destination: the link on which a message leaves: see `DestinationRoutes`.

    Raises InputError, which begins with `where`, if an NPU cannot reach another.
    """
    check_connected(graph, where)
    routes = DestinationRoutes(graph)
    return [routes.next_link(node, destination) for node in range(graph.nodes) for destination in range(graph.size)]


def check_connected(graph: DimensionGraph, where: str) -> None:
    """Raise InputError, which begins with `where`, if an NPU cannot reach another, even through NPUs."""
    forwards, back = (_reached(graph, back) for back in (False, True))
    if all(node in forwards and node in back for node in range(graph.size)):
        return  # over NPU 0 all reach all
    routes = Routes(graph)
    for destination in range(graph.size):
        source = next((npu for npu in range(graph.size) if npu not in routes.distances(destination)), None)
        if source is not None:
            raise InputError(f"{where}: there is no route from NPU {source} to NPU {destination}")


def _reached(graph: DimensionGraph, back: bool) -> set[int]:
    """The nodes that can be reached from NPU 0, or from which it can be reached."""
    reached, waiting = {0}, [0]
    while waiting:
        at = waiting.pop()
        onwards = [source for source, _, _ in graph.entering[at]] if back else [graph.links[number].target for number in graph.leaving[at]]
        waiting += (fresh := set(onwards) - reached)
        reached |= fresh
    return reached


_MOST_DISTANCES = 1 << 22


class Routes:
    """The routes of least cost in a graph, destination by destination.

    `failed` are the numbers of links that are down: without them named routes are not followed either, as no switch follows an entry to a
    link that is down, and the cheapest paths that are left are taken.
    """

    def __init__(
        self,
        graph: DimensionGraph,
        forwarding: HostForwarding = "always",
        order: NextLinkOrder = "target",
        failed: Collection[int] = (),
    ) -> None:
        self.graph = graph
        self._forwarding = forwarding
        self._may_pass_npus = forwarding != "never"
        self._named = graph.named if not failed else None
        self._leaving = [[number for number in numbers if number not in failed] for numbers in graph.leaving]
        self._entering = [[link for link in links if link[2] not in failed] for links in graph.entering] if failed else graph.entering
        if order == "target":
            for leaving in self._leaving:
                leaving.sort(key=lambda number: graph.links[number].target)
        self._distances: dict[tuple[int, bool], Mapping[int, int]] = {}

    def distances(self, destination: int, through_npus: bool | None = None) -> Mapping[int, int]:
        """The cost of the cheapest route from each node that has one, nearest first. `through_npus`: whether NPUs forward.

        By default NPUs forward as if no switches led on, unless they never do.
        """
        if through_npus is None:
            through_npus = self._may_pass_npus
        key = destination, through_npus
        if key not in self._distances:
            if len(self._distances) * self.graph.nodes > _MOST_DISTANCES:  # the cache of a large graph is bounded
                self._distances.clear()
            paths = self.graph.paths_to(destination, through_npus, self._entering)
            self._distances[key] = {node: cost for node, (cost, _) in paths.items()}
        return self._distances[key]

    def next_links(self, node: int, destination: int, source: int | None = None) -> list[int]:
        """The links on which routes to a destination leave a node, in order; none at the destination, and if it cannot be reached.

        `source` is the node of origin, which decides whether the message passes NPUs (default: the node).
        """
        if node == destination:
            return []
        if self._named is not None:
            return list(self._named[node * self.graph.size + destination])
        return self.cheapest_links(node, destination, self.passes_npus(node if source is None else source, destination))

    def cheapest_links(self, node: int, destination: int, through_npus: bool) -> list[int]:
        """The links with which paths of least cost leave a node, in order, whatever the topology names."""
        distance, links, result = self.distances(destination, through_npus), self.graph.links, []
        left = distance.get(node, UNREACHABLE)
        for number in self._leaving[node]:
            link = links[number]
            # An NPU that does not forward has a distance, too: that of its own messages.
            forwards = through_npus or link.target == destination or self.graph.is_switch(link.target)
            # A target without a route is never nearer, since a link costs at least 1.
            if forwards and distance.get(link.target, left) == left - link.cost:
                result.append(number)
        return result

    def path(self, source: int, destination: int, tie: TieRule) -> list[int]:
        """The links of a message's route, in order. Raises InputError if there is none."""
        path, node = [], source
        while node != destination:
            links = self.next_links(node, destination, source)
            if not links:
                raise InputError(f"there is no route from position {source} to position {destination}")
            path.append(links[tie(node, destination, links) if len(links) > 1 else 0])
            node = self.graph.links[path[-1]].target
        return path

    def passes_npus(self, source: int, destination: int) -> bool:
        """Whether a message passes NPUs: "if_needed" those alone do whose source has no route over switches."""
        if self._forwarding != "if_needed" or self.graph.nodes == self.graph.size:
            return self._may_pass_npus
        # NPUs 0 and 1 are on a switch, NPU 2 hangs on NPU 1 alone: messages of NPU 2 pass NPU 1, those between 0 and 1 never do.
        return source not in self.distances(destination, through_npus=False)


class DestinationRoutes:
    """One link for each node and destination, that of `tie_by_destination`, if NPUs forward. Links are found when first asked for."""

    def __init__(self, graph: DimensionGraph) -> None:
        self._size = graph.size
        self._routes, self._tie = Routes(graph), tie_by_destination(graph)
        self._links: dict[int, int] = {}

    def next_link(self, node: int, destination: int) -> int:
        """The link on which a message leaves a node for a position; `UNREACHABLE`: there is none."""
        key = node * self._size + destination
        link = self._links.get(key)
        if link is None:
            links = self._routes.next_links(node, destination) or [UNREACHABLE]
            link = self._links[key] = links[self._tie(node, destination, links) if len(links) > 1 else 0]
        return link
