"""The network as a backend: builds the core for a platform, and passes messages to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from astra_sim import InputError
from astra_sim.errors import AstraError, DeadlockError, warn
from astra_sim.fabric import Fabric, FabricLink, RouteRules
from astra_sim.fabric.graph import names_routes
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.fabric.routes import dimension_graph, first_links
from astra_sim.network import EventNetwork, LinkLoad, Message, MessageFigures
from astra_sim.platform import Platform

from astra_sim_network_roce import _core, reports
from astra_sim_network_roce.options import RoceOptions
from astra_sim_network_roce.settings import LinkRows, addresses, clock_of, failures_of, settings_of

MAX_FORWARDING_ENTRIES = 1 << 29
"""Of all nodes: each has one for each NPU."""


class RoceNetwork(EventNetwork):
    """Messages as packets of queue pairs through switches with shared memory."""

    accounting_dimension = "lowest"
    reports_completion = True
    has_traffic_classes = True

    def __init__(self, options: RoceOptions, platform: Platform) -> None:
        super().__init__(platform)
        self.options = options
        self.held_bytes = options.chosen("payload_bytes")
        self.route_rules = RouteRules(
            "if_needed" if options.chosen("npu_forwarding") else "never",
            "destination" if options.chosen("load_balancing") == "destination" else "all",
        )
        self.fabric = fabric_for(options, platform)
        self._nodes = platform.fabric().nodes
        _check_size(self.fabric)
        self._named = named_routes(options, platform, self.fabric)
        self._tell: Callable[[int], None] | None = None
        self._keeps_flows = options.fct
        self._sent: list[int] = []
        self._core = self._build()
        self._is_new = True

    def _build(self) -> Any:
        """A new core for a run, with the settings, links and routes of the platform."""
        network = _core.Network(**self._inputs)
        network.keep(self._keeps_flows, self.options.pfc_log)
        if self.options.qlen_interval_us:
            network.sample_queues(max(1, clock_of(self.options).ticks(1000 * self.options.qlen_interval_us)))
        network.watch(self._tell)
        return network

    @functools.cached_property
    def _inputs(self) -> dict[str, Any]:
        """What a core is built from, the same for all runs."""
        fabric, within_servers = self.fabric, _within_servers(self.platform, self.fabric)
        links = LinkRows(self.options, fabric, within_servers, forwarding=fabric.switches > self.platform.fabric().switches)
        return {
            "settings": settings_of(self.options),
            "npus": fabric.npus,
            "ids": list(fabric.ids),
            "memory": links.memory(),
            "addresses": addresses(fabric.npus),
            "links": links.rows(),
            "reverse": _reverses(fabric),
            "descending_order": self.options.chosen("equal_cost_paths") == "descending",
            "preferred": within_servers,
            "failures": failures_of(self.options, fabric),
            **self._destination_rules(),
            "named": self._named,
            "middles": self._middles(),
        }

    def _destination_rules(self) -> dict[str, Any]:
        """With load_balancing=destination, the number that selects a destination's path of equal cost: see `Plan` of the core."""
        if self.options.chosen("load_balancing") != "destination":
            return {"dimensions": [], "places": [], "is_switch": []}
        wired, fabric = self.platform.wired(), self.fabric
        dimensions, places = [], list(range(fabric.npus))
        for number, (dimension, stride) in enumerate(zip(wired.dimensions, wired.strides, strict=True)):
            graph = dimension_graph(dimension, f"dimension {number}")
            dimensions.append((stride, dimension.size, graph.nodes, graph.ends, list(graph.destination_order or ())))
            places += [*range(dimension.size, graph.nodes)] * (fabric.npus // dimension.size)
        inside = fabric.nodes - len(places)  # switches within NPUs
        is_switch = [False] * fabric.npus + [True] * (len(places) - fabric.npus) + [False] * inside
        return {"dimensions": dimensions, "places": places + list(range(inside)), "is_switch": is_switch}

    def _middles(self) -> list[int]:
        """Switches next to NPUs, through which packets may go around with load_balancing=valiant and ugal."""
        if self.options.chosen("load_balancing") not in ("valiant", "ugal"):
            return []
        fabric = self.fabric
        return sorted({link.target for link in fabric.links if not fabric.is_switch(link.source) and fabric.is_switch(link.target)})

    def begin(self) -> int:
        """Begin a run at time 0."""
        if not self._is_new:
            self._core = None  # frees the last run first
            self._core = self._build()
        self._is_new = False
        return 0

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Take messages that are sent at `time` (picoseconds). Raises InputError if one cannot be sent."""
        self._is_new = False
        for message in messages:
            try:
                self._core.inject(
                    time,
                    message.number,
                    message.source,
                    message.destination,
                    message.bytes,
                    message.traffic_class,
                    message.queue,
                    message.flow,
                )
            except (_core.InvalidMessage, TypeError) as error:
                raise InputError(str(error)) from None

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Go on to the next arrivals. Raises DeadlockError if none can come any more."""
        try:
            answer = self._core.advance(until)
        except _core.Deadlock as error:
            raise self.failure(str(error)) from None
        except _core.InvalidMessage as error:
            raise InputError(str(error)) from None
        if answer is None:
            return None
        time, deliveries = answer
        self._sent = [number for number, sent in deliveries if sent]
        return time, [number for number, sent in deliveries if not sent]

    def take_completed(self) -> list[int]:
        """Messages whose last acknowledgement came with the last answer."""
        return self._sent

    def keep_message_figures(self) -> None:
        """Keep figures of each message of the next run."""
        self._keeps_flows = True
        self._core.keep(True, self.options.pfc_log)

    def message_figures(self) -> dict[int, MessageFigures]:
        """The figures of messages that have ended."""
        records = (FlowRecord(*row) for row in self._core.flows())
        return {
            each.number: MessageFigures(each.started, each.received, each.ended, each.packets, each.acks, each.nacks, each.marked_acks)
            for each in records
        }

    def on_progress(self, tell: Callable[[int], None] | None) -> None:
        """Call `tell` with the simulated time repeatedly, also within a long `advance`."""
        self._tell = tell
        self._core.watch(tell)

    def failure(self, why: str) -> AstraError:
        """The error that the core reports: nothing moves any more, with a line for each link or message that waits; or no way."""
        first, *waiting = why.split("\n")
        is_deadlock = "deadlocked" in first or "nothing moves" in first or "lost its last way" in first
        return DeadlockError(why, [line.strip() for line in waiting]) if is_deadlock else InputError(why)

    def function_table(self) -> Any:
        """A capsule with the network function table of the kernel's header, for the run that has begun."""
        return _core.function_table(self._core)

    def statistics(self) -> dict[str, object]:
        """Figures of the run so far. `highest_queue_bytes`: of a port of a switch."""
        figures: dict[str, object] = dict(self._core.statistics())
        loads = self._core.link_loads()
        figures["highest_queue_bytes"] = max((highest for _, _, highest in loads), default=0)
        if figures["drops"]:
            warn(f"network roce: switches dropped {figures['drops']} packets for want of memory (buffer_mib, headroom_factor, pfc)")
        return figures

    def links(self) -> list[LinkLoad]:
        """The links that have carried something; queues are those of the ports of switches."""
        now, link_loads = max(1, self._core.now_ps), []
        for number, (size, busy, highest) in enumerate(self._core.link_loads()):
            dimension, source, target = self._ends(number)
            if size and source != target:
                link_loads.append(LinkLoad(dimension, source, target, size, min(1.0, busy / now), highest_queue_bytes=highest))
        return link_loads

    def _ends(self, link: int) -> tuple[int, str, str]:
        """The dimension and ends of a link in the fabric of the platform, in which a switch inside an NPU is that NPU."""
        at, inside = self.fabric.links[link], self._nodes
        source, target = (node - inside if node >= inside else node for node in (at.source, at.target))
        return at.dimension, self.fabric.name(source), self.fabric.name(target)

    def reports(self) -> dict[str, str]:
        """On request, fct.txt and pfc.txt in the form of ASTRA-sim's ns-3 back end, and qlen.csv."""
        files = {}
        if self._keeps_flows:
            files["fct.txt"] = reports.fct(self.options, self.fabric, self._core)
        if self.options.pfc_log:
            files["pfc.txt"] = reports.pauses(self.fabric, self._core.pauses())
        if self.options.qlen_interval_us:
            files["qlen.csv"] = reports.queues(self.fabric, self._core.queue_samples())
        return files


class FlowRecord(NamedTuple):
    """A message that has ended; times in picoseconds. `ended`: when the sender had its last acknowledgement."""

    number: int
    source: int
    destination: int
    source_port: int
    bytes: int
    sent: int
    started: int
    received: int
    ended: int
    packets: int
    acks: int
    nacks: int
    marked_acks: int


def fabric_for(options: RoceOptions, platform: Platform) -> Fabric:
    """The fabric on which packets move. Raises InputError if some NPU has no way to another, and NPUs do not forward."""
    fabric = platform.fabric()
    unreachable = _unreachable(fabric)
    if unreachable is None:
        return fabric
    if not options.chosen("npu_forwarding"):
        source, target = unreachable
        raise InputError(
            f"there is no route from NPU {source} to NPU {target} over switches; expected npu_forwarding = true, or links to a switch"
        )
    inside = with_switches_inside(fabric)
    unreachable = _unreachable(inside)
    if unreachable is not None:
        raise InputError(f"there is no route from NPU {unreachable[0]} to NPU {unreachable[1]}")
    return inside


def named_routes(options: RoceOptions, platform: Platform, fabric: Fabric) -> list[list[int]]:
    """Ports by node * NPUs + NPU if a topology names its routes, dimension by dimension; else none: routes are the shortest.

    Raises InputError if such a route passes an NPU that does not forward, or packets should go around.
    """
    wired = platform.wired()
    wheres = [f"dimension {number}" for number in range(len(wired.dimensions))]
    if not any(map(names_routes, wired.dimensions)):
        return []
    graphs = [dimension_graph(dimension, where) for dimension, where in zip(wired.dimensions, wheres, strict=True)]
    balancing, npus = options.chosen("load_balancing"), fabric.npus
    names = [dimension.topology.name for dimension in wired.dimensions if names_routes(dimension)]
    if balancing in ("valiant", "ugal"):
        raise InputError(f"load_balancing is {balancing!r}, and the topology {names[0]!r} names its routes; expected destination or ecmp")
    inside = fabric.switches - platform.fabric().switches == npus  # each NPU has a switch inside, the last nodes
    routes: list[list[int]] = [[] for _ in range(fabric.nodes * npus)]
    first_link, first_switch, host = 0, npus, len(fabric.links) - 2 * npus
    for number, (graph, stride) in enumerate(zip(graphs, wired.strides, strict=True)):
        size, nodes, table = graph.size, graph.nodes, graph.named
        if table is None:
            table = [() if link == UNREACHABLE else (link,) for link in first_links(graph, wheres[number])]
        for first in (npu for npu in range(npus) if npu // stride % size == 0):
            place = [first + at * stride for at in range(size)] + [first_switch + at for at in range(nodes - size)]
            for at, node in enumerate(place):
                for npu in range(npus):
                    # Dimensions below are crossed before: a switch serves only messages that have come so far.
                    if at < size and any(
                        (node // lower - npu // lower) % wired.dimensions[d].size for d, lower in enumerate(wired.strides[:number])
                    ):
                        continue
                    wanted = npu // stride % size
                    if at == wanted:
                        continue
                    entry = [first_link + link for link in table[at * size + wanted]]
                    routes[(node + fabric.switches if inside and at < size else node) * npus + npu] = entry
            first_link, first_switch = first_link + len(graph.links), first_switch + nodes - size
    if inside:
        for npu in range(npus):
            for destination in range(npus):
                routes[npu * npus + destination] = [host + 2 * npu] if npu != destination else []
            routes[(fabric.nodes - npus + npu) * npus + npu] = [host + 2 * npu + 1]
    _check_forwarding(routes, fabric, names[0])
    return [entry[:1] for entry in routes] if balancing == "destination" else routes


def _check_forwarding(routes: list[list[int]], fabric: Fabric, topology: str) -> None:
    """Raise InputError if a route passes an NPU, which does not forward packets."""
    npus = fabric.npus
    for number, entry in enumerate(routes):
        for link in entry:
            if fabric.links[link].target not in (number % npus, *range(npus, fabric.nodes)):
                raise InputError(
                    f"a route to NPU {number % npus} that the topology {topology!r} names passes NPU {fabric.links[link].target}; expected"
                    " routes over switches, where every NPU is joined to one"
                )


def with_switches_inside(fabric: Fabric) -> Fabric:
    """The fabric with a switch in each NPU, to which the NPU has one link, as fast as all its links together and without latency."""
    offset = fabric.npus + fabric.switches
    links = [
        link._replace(
            source=link.source if fabric.is_switch(link.source) else offset + link.source,
            target=link.target if fabric.is_switch(link.target) else offset + link.target,
        )
        for link in fabric.links
    ]
    for npu, leaving in enumerate(fabric.ports()[: fabric.npus]):
        bandwidth = sum(fabric.links[number].bandwidth for number in leaving)
        links += [FabricLink(npu, offset + npu, bandwidth, 0.0), FabricLink(offset + npu, npu, bandwidth, 0.0)]
    first = max(fabric.ids, default=0) + 1
    latency = (*fabric.switch_latency_ns, *[0.0] * fabric.npus)
    ids = (*fabric.ids, *range(first, first + fabric.npus))
    return Fabric(fabric.npus, fabric.switches + fabric.npus, tuple(links), latency, ids)


def _unreachable(fabric: Fabric) -> tuple[int, int] | None:
    """Two NPUs without a way over switches, or None."""
    if _one_side(fabric):
        return None
    for target in range(fabric.npus):
        distances = fabric.distances(target, through_npus=False)
        for source in range(fabric.npus):
            if distances[source] == UNREACHABLE:
                return source, target
    return None


def _one_side(fabric: Fabric) -> bool:
    """Whether the switches that some NPU reaches over switches alone are neighbours of all NPUs."""
    if not fabric.switches or not fabric.npus:
        return False
    distances = fabric.distances(0, through_npus=False)
    attached = {link.source for link in fabric.links if fabric.is_switch(link.target) and distances[link.target] != UNREACHABLE}
    return all(npu in attached for npu in range(fabric.npus))


def _check_size(fabric: Fabric) -> None:
    """Raise InputError if the forwarding tables of all nodes are too large."""
    if fabric.nodes * fabric.npus > MAX_FORWARDING_ENTRIES:
        raise InputError(
            f"the platform has {fabric.npus} NPUs and {fabric.nodes} nodes, each with a forwarding entry for each NPU;"
            f" expected at most {MAX_FORWARDING_ENTRIES} entries in all"
        )


def _within_servers(platform: Platform, fabric: Fabric) -> list[int]:
    """Switches that join the NPUs of a server, which go before others with as many links (files of SimAI)."""
    known = platform.wired().dimensions[0].topology.within_server
    return [node for node, number in enumerate(fabric.ids) if fabric.is_switch(node) and number in known]


def _reverses(fabric: Fabric) -> list[int]:
    reverse = fabric.reverses()
    for number, back in enumerate(reverse):
        if back == UNREACHABLE:
            raise InputError(
                f"the link {fabric.link_name(number)} has no link back; expected links both ways, for acknowledgements and pauses"
            )
    return reverse
