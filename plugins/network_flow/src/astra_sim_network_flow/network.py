"""The flow network as a backend: hands the fabric of a platform to the core, and reads figures of links."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
from astra_sim import InputError
from astra_sim.errors import AstraError
from astra_sim.fabric import HostForwarding, RouteChoice, RouteRules, dimension_graph
from astra_sim.function_table import TableNetwork
from astra_sim.network import Message
from astra_sim.platform import Platform
from astra_sim.units import PS_PER_NS

from astra_sim_network_flow import _core
from astra_sim_network_flow.options import FlowOptions

Group = tuple[int, int, float, list[float], list[tuple[int, int, float, float, int]], list[int], list[tuple[int, ...]]]
"""One group of a dimension: NPUs, nodes, NIC latency (ns), latency of each switch (ns), links by position (bytes/ns, ns, cost), the
turns of positions (none where they take none), and the links on which messages leave by node * size + destination, where the topology names
them.
"""

_CHOICES: Mapping[str, RouteChoice] = {"destination": "destination", "first": "first"}


class FlowNetwork(TableNetwork):
    """Messages as flows: each waits for the latency of its route, and then takes its max-min fair share of every link on it.

    Raises InputError where a topology of the platform does not say its links.
    """

    charged_dimension = "lowest"

    def __init__(self, options: FlowOptions, platform: Platform) -> None:
        super().__init__(platform)
        self._options = options
        self._rules = options.rules()
        self.route_rules = RouteRules(cast(HostForwarding, options.npus_forward), _CHOICES.get(options.routing, "all"))
        self._wired = platform.wired()
        self._fabric = platform.fabric()
        self._groups = [self._group(number) for number in range(len(self._wired.dimensions))]

    def make_table(self) -> object:
        """The table of a run."""
        return _core.function_table(self._groups, self._rules)

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Take messages. Raises InputError where one has no route, or takes too long."""
        try:
            _core.inject(self.function_table(), time, [tuple(message[:4]) for message in messages])
        except (ValueError, OverflowError) as error:
            raise self.failure(str(error)) from None

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """The next instant at which messages arrive. Raises InputError where one takes too long."""
        try:
            return _core.advance(self.function_table(), until)
        except (ValueError, OverflowError) as error:
            raise self.failure(str(error)) from None

    def failure(self, why: str) -> AstraError:
        """A message that has no route, or takes too long."""
        return InputError(why)

    def statistics(self) -> dict[str, object]:
        """Flows, how often their rates were computed, and figures of dimensions.

        Utilisation is the share of the bytes that links could have carried until the last message came, over all links of a dimension, and
        of the busiest one. With `link_figures` all links that carried something are listed.
        """
        figures = _core.figures(self.function_table())
        links = self._links(figures)
        found: dict[str, object] = {"flows": figures["flows"], "rate_updates": figures["shared"], "dimensions": self._totals(links)}
        return {**found, "links": [attrs.asdict(link) for link in links]} if self._options.link_figures else found

    def link_loads(self) -> list[LinkLoad]:
        """The load of every link of the last run that carried something."""
        return self._links(_core.figures(self.function_table()))

    def reports(self) -> dict[str, str]:
        """The file `links.csv`: the load of every link that carried something, with the numbers of the nodes at its ends."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("domain", "name", "dimension", "source", "sink", "messages", "bytes", "utilisation", "largest_flows"))
        for load in self.link_loads():
            link = self._fabric.links[load.number]
            figures = load.messages, load.bytes, load.utilisation, load.largest_flows
            rows.writerow((0, self._fabric.link_name(load.number), load.dimension, link.source, link.target, *figures))
        return {"links.csv": text.getvalue()}

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
        turns, named = list(graph.turns or ()), graph.named or []
        return graph.size, graph.nodes, dimension.nic_latency_ns, latencies, listed, turns, named

    def _links(self, figures: Mapping[str, Any]) -> list[LinkLoad]:
        now_ns = figures["now_ps"] / PS_PER_NS
        loads = []
        for number, messages, size, largest in figures["links"]:
            link = self._fabric.links[number]
            ends = self._fabric.name(link.source), self._fabric.name(link.target)
            share = size / (link.bandwidth * now_ns) if now_ns else 0.0
            loads.append(LinkLoad(number, link.dimension, *ends, messages, size, share, largest))
        return loads

    def _totals(self, loads: list[LinkLoad]) -> list[dict[str, float]]:
        own: list[list[LinkLoad]] = [[] for _ in self._wired.dimensions]
        for load in loads:
            own[load.dimension].append(load)
        counts = [0] * len(own)
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
            for count, mine in zip(counts, own, strict=True)
        ]


@attrs.frozen
class LinkLoad:
    """The load of a link: its number in the fabric, its dimension and ends, messages, bytes with acknowledgements, the share of the bytes
    that it could have carried, and the most flows that used it at a time.
    """

    number: int
    dimension: int
    source: str
    target: str
    messages: int
    bytes: float
    utilisation: float
    largest_flows: int
