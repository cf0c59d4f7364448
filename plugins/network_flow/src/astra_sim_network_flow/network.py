"""The flow network as a backend: hands the fabric of a platform to the core, and reads figures of links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from astra_sim import InputError
from astra_sim.errors import AstraError
from astra_sim.fabric import RouteRules
from astra_sim.fabric.routes import HostForwarding, RouteChoice, dimension_graph
from astra_sim.function_table import CompiledNetwork
from astra_sim.network import LinkLoad
from astra_sim.platform import Platform
from astra_sim.units import PS_PER_NS

from astra_sim_network_flow import _core
from astra_sim_network_flow.options import FlowOptions

Group = tuple[int, int, float, list[float], list[tuple[int, int, float, float, int]], list[int], list[tuple[int, ...]]]
"""One group of a dimension: NPUs, nodes, NIC latency (ns), latency of each switch (ns), links by position (bytes/ns, ns, cost), the
turns of positions (none if they take none), and the links on which messages leave by node * size + destination, if the topology names
them.
"""

_CHOICES: Mapping[str, RouteChoice] = {"destination": "destination", "first": "first"}


class FlowNetwork(CompiledNetwork[_core.Network]):
    """Messages as flows: each waits for the latency of its route, and then takes its max-min fair share of every link on it.

    Raises InputError if a topology of the platform does not list its links.
    """

    accounting_dimension = "lowest"

    def __init__(self, options: FlowOptions, platform: Platform) -> None:
        super().__init__(platform)
        self._options = options.resolved()
        self.route_rules = RouteRules(cast(HostForwarding, options.npus_forward), _CHOICES.get(options.routing, "all"))
        self._wired = platform.wired()
        self._fabric = platform.fabric()
        self._groups = [self._group(number) for number in range(len(self._wired.dimensions))]

    def make_core(self) -> _core.Network:
        """The flows of a run."""
        return _core.Network(self._groups, self._options)

    def failure(self, why: str) -> AstraError:
        """A message that has no route, or takes too long."""
        return InputError(why)

    def statistics(self) -> dict[str, object]:
        """Flows, how often their rates were computed, and figures of dimensions.

        Utilisation is the share of the bytes that links could have carried until the last message came, over all links of a dimension, and
        of the busiest one. With `link_figures` all links that carried something are listed.
        """
        figures = self.core.figures()
        result = {"flows": figures["flows"], "rate_updates": figures["shared"], "dimensions": self._totals()}
        return {**result, "links": list(map(self._listed, self._used()))} if self._options.link_figures else result

    def links(self) -> list[LinkLoad]:
        """The links that have carried something. A flow counts while it uses a link, and bytes are those with acknowledgements."""
        return [
            LinkLoad(
                *self._fabric.link_ends(link.number),
                round(link.bytes),
                min(1.0, link.utilisation),
                transfers=link.messages,
                most_waiting=link.largest_flows,
            )
            for link in self._used()
        ]

    def _group(self, number: int) -> Group:
        """The graph of one group of a dimension. The fabric lists links and switches group by group, and all groups are alike."""
        dimension = self._wired.dimensions[number]
        graph = dimension_graph(dimension, f"dimension {number}")
        if graph.named and self._options.routing in ("valiant", "ugal"):
            raise InputError(
                f"routing is {self._options.routing!r}, and the topology {dimension.topology.name!r} of dimension {number} names its"
                " routes; expected destination, hash, first or split"
            )
        listed = [(link.source, link.target, link.bandwidth, link.latency_ns, link.cost) for link in graph.links]
        latencies = [dimension.router_latency_ns] * (graph.nodes - graph.size)
        destination_order, named = list(graph.destination_order or ()), graph.named or []
        return graph.size, graph.nodes, dimension.nic_latency_ns, latencies, listed, destination_order, named

    def _used(self) -> Iterator[_UsedLink]:
        """The links that have carried something."""
        figures = self.core.figures()
        now_ns = figures["now_ps"] / PS_PER_NS
        for number, messages, size, largest in figures["links"]:
            share = size / (self._fabric.links[number].bandwidth * now_ns) if now_ns else 0.0
            yield _UsedLink(number, messages, size, share, largest)

    def _listed(self, link: _UsedLink) -> dict[str, object]:
        """A link as `statistics` lists it."""
        number, *figures = link
        ends = dict(zip(("dimension", "source", "target"), self._fabric.link_ends(number), strict=True))
        return {"number": number, **ends, **dict(zip(_UsedLink._fields[1:], figures, strict=True))}

    def _totals(self) -> list[dict[str, float]]:
        """The figures of each dimension."""
        links: list[list[_UsedLink]] = [[] for _ in self._wired.dimensions]
        for load in self._used():
            links[self._fabric.links[load.number].dimension].append(load)
        counts = [0] * len(links)
        for link in self._fabric.links:
            counts[link.dimension] += 1
        return [
            {
                "links": count,
                "bytes": sum(load.bytes for load in mine),
                "largest_flows": max((load.largest_flows for load in mine), default=0),
                "utilisation": sum(load.utilisation for load in mine) / max(1, count),
                "highest_utilisation": max((load.utilisation for load in mine), default=0.0),
            }
            for count, mine in zip(counts, links, strict=True)
        ]


class _UsedLink(NamedTuple):
    """The load of a link of the fabric: messages, bytes, the share of its capacity, and the largest number of concurrent flows."""

    number: int
    messages: int
    bytes: float
    utilisation: float
    largest_flows: int
