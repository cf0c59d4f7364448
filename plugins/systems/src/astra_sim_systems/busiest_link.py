"""Link loads of message patterns on any graph: the bottleneck by which `auto` compares algorithms.

Messages take the routes of the network (`RouteRules`): of several links the first, that of the destination if the topology
numbers destinations, or all in equal parts. NPUs on the same switches are alike: traffic from such NPUs to others is one flow,
so a Clos fabric of a thousand NPUs is a graph of its switches.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs
from astra_sim import InputError
from astra_sim.fabric import FabricLink, RouteRules
from astra_sim.fabric.destination_order import destination_order_of
from astra_sim.fabric.graph import DimensionGraph, names_routes, uniform_links_of, wires_of
from astra_sim.fabric.routes import NextLinkOrder, Routes, TieRule
from astra_sim.fabric.ties import tie_by_destination, tie_first
from astra_sim.memo import cached
from astra_sim.platform import Dimension, Group, LogicalDimension, Platform
from astra_sim.schedule import PeerRun

from astra_sim_systems.loads import Loads, PathTime, RoundLinkLoad, RoundLoad
from astra_sim_systems.rounds import Pairs
from astra_sim_systems.uniform_loads import UniformLoads, pairs_of

MOST_LINKS, MOST_WORK = 1 << 16, 1 << 22
"""Links, and classes of NPUs times links, that are considered; larger graphs take too long for the choice of an algorithm."""
MOST_PAIRS = 1 << 20
"""Of ranks that send to each other at once."""
MOST_NPUS = 1 << 10
"""Of a platform whose dimensions are looked at together."""

OWN_LINKS = -1
"""The number by which the links of NPUs have a load together."""

_USUAL = RouteRules()


@attrs.frozen(eq=False)
class Pattern:
    """Messages at once, of a byte each: for each NPU that receives some, how many NPUs of each class send one.

    `most` is how many messages an NPU sends, or receives, at most.
    """

    most: int
    senders: Mapping[int, Mapping[int, int]]


@attrs.frozen(eq=False)
class Wiring:
    """The graph of a dimension, or of the physical one that contains it, with a number for the class of each NPU.

    `graph` has all links (latencies with those of the switches that they leave). `members` are the NPUs of each class, of which the first
    represents all: `routes` are over the links of these and of switches. `out` and `into` are the bandwidths of all links of an NPU. `tie`
    is which of several links a message takes; None: all, in equal parts.
    """

    graph: DimensionGraph
    class_of: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    routes: Routes
    tie: TieRule | None
    out: Sequence[float]
    into: Sequence[float]
    _next: dict[tuple[int, int, bool], list[int]] = attrs.field(factory=dict)

    @functools.cached_property
    def links_of_npu(self) -> int:
        """The links of the NPU that has fewest."""
        return min(len(self.graph.leaving[members[0]]) for members in self.members)

    def pattern(self, pairs: Pairs) -> Pattern:
        """The pattern of messages between some pairs of NPUs."""
        senders: dict[int, Counter[int]] = {}
        for source, target in pairs:
            senders.setdefault(target, Counter())[self.class_of[source]] += 1
        return Pattern(max(max(Counter(ends).values()) for ends in zip(*pairs, strict=True)), senders)

    def each_to_each(self, groups: Sequence[Sequence[int]]) -> Pattern:
        """The pattern in which each NPU of a group sends to each other one."""
        senders: dict[int, Counter[int]] = {}
        for group in groups:
            members = Counter(self.class_of[npu] for npu in group)
            for npu in group:
                senders[npu] = members - Counter([self.class_of[npu]])
        return Pattern(len(groups[0]) - 1, senders)

    def load(self, pattern: Pattern) -> RoundLoad:
        """The loads of a pattern on the links, and on the NPUs' own."""
        carried, links = dict[int, _Carried](), self.graph.links
        paths = Counter[PathTime]()
        for number in sorted({self.class_of[npu] for npu in pattern.senders}):
            members = self.members[number]
            flows = self._flows(pattern, number)
            for target, sources in flows:
                beside = sources.get(number, 0)
                if beside:
                    paths[self._beside(members[0])] += beside
                over_npus = {each: self.routes.passes_npus(self.members[each][0], members[0]) for each in sources if each != number}
                for through_npus in set(over_npus.values()):
                    part = {each: sources[each] for each, passes in over_npus.items() if passes == through_npus}
                    for path, count in self._send(target, part, through_npus, carried):
                        paths[path] += count
        inner = {number: self._of_link(link, each) for number, each in carried.items() if not self._is_of_class(link := links[number])}
        shortest, total = min(paths), sum(paths.values())
        own_ns = max(self._own_ns(pattern.most, npu) for npu in pattern.senders)
        load = RoundLinkLoad(own_ns, shortest.latency_ns, shortest.ns_per_byte - shortest.slowest_ns_per_byte)
        mean = PathTime(*(sum(path[place] * count for path, count in paths.items()) / total for place in range(3)))
        return RoundLoad({**inner, OWN_LINKS: load}, max(paths), mean)

    def _flows(self, pattern: Pattern, number: int) -> Iterator[tuple[int, Mapping[int, int]]]:
        """The loads towards the NPUs of a class: to each of them if routes are by destination, else to the first for all."""
        senders = [(npu, pattern.senders[npu]) for npu in self.members[number] if npu in pattern.senders]
        # With routes by destination, two NPUs of a leaf are reached over different links; otherwise one flow represents all of them.
        if self.tie not in (None, tie_first) or len(senders) < 2:
            yield from senders
            return
        together = Counter[int]()
        for _, sources in senders:
            together.update(sources)
        yield senders[0][0], together

    def _beside(self, npu: int) -> PathTime:
        """The way between NPUs of a class."""
        links = self.graph.links
        out = min((links[number] for number in self.graph.leaving[npu]), key=lambda link: link.latency_ns)
        into = min((links[number] for _, _, number in self.graph.entering[npu]), key=lambda link: link.latency_ns)
        return PathTime(0.0, 0.0, 0.0).longer(into.latency_ns, 1 / into.bandwidth).longer(out.latency_ns, 1 / out.bandwidth)

    def _own_ns(self, messages: int, npu: int) -> float:
        """The time for which an NPU's links are busy with messages of a byte, of which each takes one link."""
        together = messages / min(self.out[npu], self.into[npu])
        if len(self.members[self.class_of[npu]]) == 1:
            return together  # its links are counted each by itself: messages of other rounds may take those that are free
        widest = max(self.graph.links[number].bandwidth for number in self.graph.leaving[npu])
        return max(together, 1 / widest)

    def _of_link(self, link: FabricLink, carried: _Carried) -> RoundLinkLoad:
        latency_ns, held_ns = (before + after for before, after in zip(carried.before, carried.after, strict=True))
        return RoundLinkLoad(carried.messages / link.bandwidth, latency_ns + link.latency_ns, held_ns)

    def _is_of_class(self, link: FabricLink) -> bool:
        """Whether a link is one of an NPU that represents others; their loads are counted for each NPU."""
        npus = len(self.class_of)
        return any(end < npus and len(self.members[self.class_of[end]]) > 1 for end in (link.source, link.target))

    def _send(
        self, target: int, sources: Mapping[int, int], through_npus: bool, load: dict[int, _Carried]
    ) -> Iterator[tuple[PathTime, int]]:
        """Add the traffic to an NPU to the links. Gives the path from each class, and how many messages take it.

        Raises InputError if there is no route.
        """
        distance, links = self.routes.distances(self.members[self.class_of[target]][0], through_npus), self.graph.links
        flow: dict[int, float] = {}
        by_distance: dict[int, list[int]] = {}

        def add(node: int, amount: float) -> None:
            if node not in distance:
                raise InputError(f"there is no route from NPU {node} to NPU {target}")
            if node not in flow:
                flow[node] = 0.0
                by_distance.setdefault(distance[node], []).append(node)
            flow[node] += amount

        for source, count in sources.items():
            add(self.members[source][0], float(count))
        next_links: dict[int, list[int]] = {}
        before = {self.members[source][0]: (0.0, 0.0) for source in sources}
        # The farthest nodes go first, so all traffic through a node has arrived there before it is passed on.
        for steps in range(max(by_distance, default=0), 0, -1):
            for node in by_distance.get(steps, ()):
                next_links[node] = self._next_links(node, target, through_npus)
                latency, held = before[node]
                for number in next_links[node]:
                    link = links[number]
                    add(link.target, flow[node] / len(next_links[node]))
                    there = latency + link.latency_ns, held + 1 / link.bandwidth
                    before[link.target] = min(before.get(link.target, there), there)
        result = {self.members[self.class_of[target]][0]: PathTime(0.0, 0.0, 0.0)}
        # Back from the target, so that the rest of each way is known before the links that lead to it.
        for node in reversed(next_links):
            for number in next_links[node]:
                link = links[number]
                after = result[link.target]
                carried = load.setdefault(number, _Carried())
                carried.add(flow[node] / len(next_links[node]), before[node], (after.latency_ns, after.ns_per_byte))
            result[node] = max(_over(links[number], result) for number in next_links[node])
        for source, count in sources.items():
            yield result[self.members[source][0]], count

    def _next_links(self, node: int, target: int, through_npus: bool) -> list[int]:
        """The links on which messages to an NPU leave a node."""
        key = node, self.members[self.class_of[target]][0], through_npus
        links = self._next.get(key)
        if links is None:
            links = self._next[key] = self.routes.cheapest_links(*key)
        return links if self.tie is None or len(links) < 2 else [links[self.tie(node, target, links)]]


def _over(link: FabricLink, path_times: Mapping[int, PathTime]) -> PathTime:
    """The path that begins with a link: the one from its end, made longer by the link."""
    return path_times[link.target].longer(link.latency_ns, 1 / link.bandwidth)


@attrs.define
class _Carried:
    """The messages that a link carries, the shortest way of one to it, and from its end: latency, and ns for each byte."""

    messages: float = 0.0
    before: tuple[float, float] = (math.inf, math.inf)
    after: tuple[float, float] = (math.inf, math.inf)

    def add(self, messages: float, before: tuple[float, float], after: tuple[float, float]) -> None:
        """Add the traffic to an NPU."""
        self.messages += messages
        self.before = min(self.before, before)
        self.after = min(self.after, after)


@cached("systems: wiring", 64)
def wiring_of(place: Dimension | Platform, rules: RouteRules = _USUAL) -> Wiring | None:
    """The graph of a dimension or platform; None if it is too large. Raises InputError if a topology does not list its links."""
    return _wiring_of_platform(place, rules) if isinstance(place, Platform) else _wiring_of_dimension(place, rules)


def _wiring_of_dimension(dimension: Dimension, rules: RouteRules) -> Wiring | None:
    if (dimension.topology.link_count() or 0) > MOST_LINKS:
        return None
    size, router_ns = dimension.size, dimension.router_latency_ns
    links = [link._replace(latency_ns=link.latency_ns + router_ns) if link.source >= size else link for link in wires_of(dimension, "auto")]
    return _wiring(size, links, destination_order_of(dimension.topology), rules)


def _wiring_of_platform(platform: Platform, rules: RouteRules) -> Wiring | None:
    if platform.npus > MOST_NPUS:
        return None
    fabric = platform.fabric()
    links = [
        link._replace(latency_ns=link.latency_ns + fabric.switch_latency_ns[link.source - fabric.npus])
        if fabric.is_switch(link.source)
        else link
        for link in fabric.links
    ]
    return _wiring(platform.npus, links, None, rules)


def _wiring(size: int, links: Sequence[FabricLink], destination_order: Sequence[int] | None, rules: RouteRules) -> Wiring | None:
    """The graph of some links between NPUs and switches; None if it is too large."""
    if len(links) > MOST_LINKS:
        return None
    hangs: list[list[tuple[int, float, bool]]] = [[] for _ in range(size)]
    out, into = [0.0] * size, [0.0] * size
    for link in links:
        if link.source < size:
            hangs[link.source].append((link.target, link.bandwidth, True))
            out[link.source] += link.bandwidth
        if link.target < size:
            hangs[link.target].append((link.source, link.bandwidth, False))
            into[link.target] += link.bandwidth
    classes: dict[object, list[int]] = {}
    for npu, neighbours in enumerate(hangs):
        # NPUs that forward are never alike: on a ring of 4, NPUs 0 and 2 have the same neighbours, and each carries the traffic of others.
        on_switches = all(other >= size for other, _, _ in neighbours)
        classes.setdefault(tuple(sorted(neighbours)) if on_switches else npu, []).append(npu)
    class_of = [0] * size
    for number, members in enumerate(classes.values()):
        for npu in members:
            class_of[npu] = number
    first = {members[0] for members in classes.values()}
    result = [number for number, link in enumerate(links) if all(end >= size or end in first for end in (link.source, link.target))]
    if len(classes) * len(result) > MOST_WORK:
        return None
    graph = DimensionGraph(size, max([size, *(max(link.source, link.target) + 1 for link in links)]), tuple(links), None, destination_order)
    order: NextLinkOrder = "listed" if rules.choice == "first" else "target"
    routes = Routes(graph, rules.forwarding, order, set(range(len(links))).difference(result))
    tie: TieRule | None = tie_first if rules.choice == "first" else None
    if rules.choice == "destination" and destination_order is not None:
        tie = tie_by_destination(graph)
    return Wiring(graph, tuple(class_of), tuple(map(tuple, classes.values())), routes, tie, out, into)


def are_switched(dimension: Dimension) -> bool:
    """Whether NPUs hang on switches alone, as far as is known."""
    if (dimension.topology.link_count() or 0) > MOST_LINKS:
        return True  # those that count links without listing them are fabrics of switches
    try:
        return all(max(link.source, link.target) >= dimension.size for link in wires_of(dimension, "auto"))
    except InputError:
        return False


@attrs.define(eq=False)
class GraphLoads:
    """The links of a graph, on which the ranks of some groups send at once."""

    wiring: Wiring
    groups: Sequence[Sequence[int]]
    _known: dict[PeerRun | Pairs, RoundLoad | None] = attrs.field(factory=dict)

    @property
    def ranks(self) -> int:
        """The ranks of a group."""
        return len(self.groups[0])

    @property
    def links_of_npu(self) -> int:
        """The links of the NPU that has fewest."""
        return self.wiring.links_of_npu

    def load(self, pattern: PeerRun | Pairs) -> RoundLoad | None:
        """The loads of a pattern with messages of a byte each; None if it has too many messages to look at, or one without a route."""
        if pattern not in self._known:
            messages = self._pattern(pattern)
            try:
                self._known[pattern] = None if messages is None else self.wiring.load(messages)
            except InputError:
                self._known[pattern] = None
        return self._known[pattern]

    def _pattern(self, pattern: PeerRun | Pairs) -> Pattern | None:
        messages = self.ranks * pattern.length if isinstance(pattern, PeerRun) else len(pattern)
        if messages * len(self.groups) > MOST_PAIRS:
            return None
        # All to all goes by classes: a Clos fabric of 1024 NPUs has a million pairs, but 32 leaves.
        if isinstance(pattern, PeerRun) and pattern.first.operator == "shift" and pattern.length == self.ranks - 1 > 1:
            return self.wiring.each_to_each(self.groups)
        pairs = pairs_of(pattern, self.ranks)
        return self.wiring.pattern(tuple((group[a], group[b]) for group in self.groups for a, b in pairs))


def loads_of(platform: Platform, logical: LogicalDimension | Group, rules: RouteRules = _USUAL) -> Loads | None:
    """The links on which the groups of a dimension, or a group, meet, on a network with these rules of routes.

    None if they are too many to look at, or not known.
    """
    try:
        return _loads_of(platform, logical, rules)
    except InputError:
        return None


def _loads_of(platform: Platform, logical: LogicalDimension | Group, rules: RouteRules) -> Loads | None:
    """As `loads_of`, with InputError if the routes of the platform cannot be found."""
    number = 0 if len(platform.dimensions) == 1 else logical.physical
    if platform.physical is not None:
        wiring = wiring_of(platform.physical, rules)
        return None if wiring is None else GraphLoads(wiring, _complete(logical.groups(platform.npus), platform.npus))
    if number is None:
        wiring = wiring_of(platform, rules)
        return None if wiring is None else GraphLoads(wiring, _complete(logical.groups(platform.npus), platform.npus))
    dimension = platform.dimensions[number]
    uniform = uniform_links_of(dimension)
    # Four neighbours of a ring of 8 are a line: their last reaches the first over the others, so the links of all must be looked at.
    is_whole = logical.size == dimension.size and isinstance(logical, LogicalDimension)
    if uniform is not None and (is_whole or uniform.pattern in ("switch", "fully_connected")):
        return UniformLoads(dimension, uniform, logical.size)
    wiring = wiring_of(dimension, rules)
    if wiring is None:
        return None
    if isinstance(logical, Group):
        return GraphLoads(wiring, [logical.members])
    # All groups send at once: eight NPUs of a leaf that send to other leaves share its links up.
    groups = LogicalDimension(logical.size, logical.stride // platform.strides[number], number).groups(dimension.size)
    return GraphLoads(wiring, _complete(groups, dimension.size))


@attrs.define(eq=False)
class AlikeGroups:
    """Groups of NPUs by their loads: those that are shifts of each other on a platform have the same."""

    platform: Platform
    _known: dict[Group, Group] = attrs.field(factory=dict)
    _lines: dict[int, bool] = attrs.field(factory=dict)

    def first(self, group: Group) -> Group:
        """The group with the same loads that is nearest to NPU 0.

        In a dimension that looks the same from all places its first rank goes to the first of them. On a line of like links, all shortest
        paths are between the ends of a group. There its lowest rank goes to the second place, unless it has an end of the line, where NPUs
        have one link fewer.
        """
        if group not in self._known:
            self._known[group] = group if self.platform.physical is not None else Group(self._moved(group.members))
        return self._known[group]

    def _moved(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """The NPUs of the group that is nearest to NPU 0."""
        for number, (dimension, stride) in enumerate(zip(self.platform.dimensions, self.platform.strides, strict=True)):
            size = dimension.size
            places = [npu // stride % size for npu in members]
            if uniform_links_of(dimension) is not None:
                moved = [(place - places[0]) % size for place in places]
            elif min(places) > 1 and max(places) < size - 1 and self._is_line(number):
                moved = [place - min(places) + 1 for place in places]
            else:
                continue
            members = tuple(npu + (new - old) * stride for npu, old, new in zip(members, places, moved, strict=True))
        return members

    def _is_line(self, number: int) -> bool:
        if number not in self._lines:
            self._lines[number] = is_line(self.platform.dimensions[number])
        return self._lines[number]


def is_line(dimension: Dimension) -> bool:
    """Whether the links of a dimension are two, alike, between each two neighbours, and it names no routes."""
    try:
        links = [] if names_routes(dimension) else wires_of(dimension, "auto")
    except InputError:
        return False
    neighbours = {pair for place in range(dimension.size - 1) for pair in ((place, place + 1), (place + 1, place))}
    is_like = {(link.source, link.target) for link in links} == neighbours and len({link[2:] for link in links}) == 1
    return is_like and len(links) == len(neighbours)


def _complete(groups: Sequence[Sequence[int]], npus: int) -> list[Sequence[int]]:
    """The groups of which all ranks are NPUs of the platform: a program may be for fewer than there are."""
    return [group for group in groups if max(group) < npus]
