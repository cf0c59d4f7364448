"""What patterns of messages take of the links of any graph: the bottleneck that `auto` compares algorithms by.

Messages take the ways of networks with one route for each pair: where destinations take turns at equal ways, those of their turns, else
they are spread evenly over all of them. NPUs that hang on the same switches are alike: what goes from such NPUs to others is one flow, so a
Clos fabric of a thousand NPUs is a graph of its switches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs
from astra_sim import InputError
from astra_sim.fabric import FabricLink, Turns, turns_of, uniform_links_of, ways_to, wires_of
from astra_sim.platform import Dimension, Group, LogicalDimension, Platform
from astra_sim.schedule import PeerRun

from astra_sim_systems.loads import LinkLoad, Load, Loads, Way
from astra_sim_systems.rounds import Pairs
from astra_sim_systems.uniform_loads import UniformLoads, pairs_of

MOST_LINKS, MOST_WORK = 1 << 16, 1 << 22
"""Links, and classes of NPUs times links, that are looked at; larger graphs take too long for what it decides."""
MOST_PAIRS = 1 << 20
"""Of ranks that send to each other at once."""
MOST_NPUS = 1 << 10
"""Of a platform whose dimensions are looked at together."""


@attrs.frozen(eq=False)
class Pattern:
    """Messages at once, of a byte each: for each NPU that receives some, how many NPUs of each class send one.

    `most` is how many messages an NPU sends, or receives, at most.
    """

    most: int
    senders: Mapping[int, Mapping[int, int]]


@attrs.frozen(eq=False)
class Wiring:
    """The graph of a dimension, or of a physical one on which it lies, with a number for the class of each NPU.

    `members` are the NPUs of each class, `links` those of one NPU of each class and of switches (latencies with those of the switches that
    they leave), `leaving` their numbers by node, and `entering` by node where they begin, their cost and number. `out` and `into` are the
    bandwidths of all links of an NPU. `turns` are those of its destinations, where they take some.
    """

    class_of: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    links: tuple[FabricLink, ...]
    entering: Mapping[int, list[tuple[int, int, int]]]
    leaving: Mapping[int, list[int]]
    out: Sequence[float]
    into: Sequence[float]
    turns: Turns | None = None
    _nearer: dict[int, _Nearer] = attrs.field(factory=dict)

    @property
    def work(self) -> int:
        """How much there is to look at: classes times links."""
        return len(self.members) * len(self.links)

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

    def load(self, pattern: Pattern) -> Load:
        """What a pattern takes of the links, and last of the NPUs' own."""
        carried: dict[int, _Carried] = {}
        ways = Counter[Way]()
        for number, members in enumerate(self.members):
            flows = list(self._flows(pattern, number))
            if not flows:
                continue
            if number not in self._nearer:
                self._nearer[number] = _Nearer(self, members[0])
            for target, sources in flows:
                beside = sources.get(number, 0)
                if beside:
                    ways[self._beside(members[0])] += beside
                others = {each: count for each, count in sources.items() if each != number}
                for way, count in self._send(target, others, self._nearer[number], carried):
                    ways[way] += count
        inner = [self._of_link(link, carried.get(number)) for number, link in enumerate(self.links)]
        shortest, total = min(ways), sum(ways.values())
        own_ns = max(self._own_ns(pattern.most, npu) for npu in pattern.senders)
        own = LinkLoad(own_ns, shortest.latency_ns, shortest.ns_per_byte - shortest.slowest_ns_per_byte)
        mean = Way(*(sum(way[place] * count for way, count in ways.items()) / total for place in range(3)))
        return Load([*inner, own], max(ways), mean)

    def _flows(self, pattern: Pattern, number: int) -> Iterator[tuple[int, Mapping[int, int]]]:
        """What goes to the NPUs of a class: to each of them where they take turns, else to the first for all."""
        own = [(npu, pattern.senders[npu]) for npu in self.members[number] if npu in pattern.senders]
        if self.turns is not None or len(own) < 2:
            yield from own
            return
        together = Counter[int]()
        for _, sources in own:
            together.update(sources)
        yield own[0][0], together

    def _beside(self, npu: int) -> Way:
        """The way between NPUs of a class."""
        out = min((self.links[number] for number in self.leaving.get(npu, ())), key=lambda link: link.latency_ns)
        into = min((self.links[number] for _, _, number in self.entering.get(npu, ())), key=lambda link: link.latency_ns)
        return Way(0.0, 0.0, 0.0).longer(into.latency_ns, 1 / into.bandwidth).longer(out.latency_ns, 1 / out.bandwidth)

    def _own_ns(self, messages: int, npu: int) -> float:
        """The time for which an NPU's links are busy with so many messages of a byte, of which each takes one link."""
        widest = max(self.links[number].bandwidth for number in self.leaving[self.members[self.class_of[npu]][0]])
        return max(messages / min(self.out[npu], self.into[npu]), 1 / widest)

    def _of_link(self, link: FabricLink, carried: _Carried | None) -> LinkLoad | None:
        if carried is None or self._is_of_class(link):
            return None
        latency_ns, held_ns = (before + after for before, after in zip(carried.before, carried.after, strict=True))
        return LinkLoad(carried.messages / link.bandwidth, latency_ns + link.latency_ns, held_ns)

    def _is_of_class(self, link: FabricLink) -> bool:
        """Whether a link is one of an NPU that stands for others; what these carry is counted for each NPU."""
        npus = len(self.class_of)
        return any(end < npus and len(self.members[self.class_of[end]]) > 1 for end in (link.source, link.target))

    def _send(self, target: int, sources: Mapping[int, int], to: _Nearer, load: dict[int, _Carried]) -> Iterator[tuple[Way, int]]:
        """Add what goes to an NPU to the links. Gives the way from each class, and how many messages take it."""
        flow: dict[int, float] = {}
        by_distance: dict[int, list[int]] = {}

        def add(node: int, amount: float) -> None:
            if node not in flow:
                flow[node] = 0.0
                by_distance.setdefault(to.distance[node], []).append(node)
            flow[node] += amount

        for source, count in sources.items():
            add(self.members[source][0], float(count))
        ways: dict[int, list[int]] = {}
        before = {self.members[source][0]: (0.0, 0.0) for source in sources}
        for steps in range(max(by_distance, default=0), 0, -1):
            for node in by_distance.get(steps, ()):
                ways[node] = self._ways(node, target, to)
                latency, held = before[node]
                for number in ways[node]:
                    link = self.links[number]
                    add(link.target, flow[node] / len(ways[node]))
                    there = latency + link.latency_ns, held + 1 / link.bandwidth
                    before[link.target] = min(before.get(link.target, there), there)
        found = {self.members[self.class_of[target]][0]: Way(0.0, 0.0, 0.0)}
        for node in reversed(ways):
            for number in ways[node]:
                link = self.links[number]
                after = found[link.target]
                carried = load.setdefault(number, _Carried())
                carried.add(flow[node] / len(ways[node]), before[node], (after.latency_ns, after.ns_per_byte))
            found[node] = max(_over(self.links[number], found) for number in ways[node])
        for source, count in sources.items():
            yield found[self.members[source][0]], count

    def _ways(self, node: int, target: int, to: _Nearer) -> list[int]:
        """The links on which messages to an NPU leave a node."""
        ways = to.ways(node)
        if self.turns is None or len(ways) < 2:
            return ways
        first, last = (self.links[ways[place]].target for place in (0, -1))
        return [ways[self.turns.choose(node, target, first, last, len(ways))]]


def _over(link: FabricLink, found: Mapping[int, Way]) -> Way:
    """The way over a link, from where it ends there is one."""
    return found[link.target].longer(link.latency_ns, 1 / link.bandwidth)


@attrs.define
class _Carried:
    """The messages that a link carries, the shortest way of one to it, and from its end: latency, and ns for each byte."""

    messages: float = 0.0
    before: tuple[float, float] = (math.inf, math.inf)
    after: tuple[float, float] = (math.inf, math.inf)

    def add(self, messages: float, before: tuple[float, float], after: tuple[float, float]) -> None:
        """Add what goes to an NPU."""
        self.messages += messages
        self.before = min(self.before, before)
        self.after = min(self.after, after)


class _Nearer:
    """The links that lead nearer to an NPU: of each node, in order of the nodes they lead to."""

    def __init__(self, wiring: Wiring, destination: int) -> None:
        self._wiring = wiring
        self._ways: dict[int, list[int]] = {}
        self.distance = {node: far for node, (far, _) in ways_to(destination, lambda node: wiring.entering.get(node, ())).items()}

    def ways(self, node: int) -> list[int]:
        """Those of a node, found when they are first asked for."""
        if node not in self._ways:
            left, links = self.distance[node], self._wiring.links
            ways = [
                number
                for number in self._wiring.leaving[node]
                if self.distance.get(links[number].target, left) == left - links[number].cost
            ]
            self._ways[node] = sorted(ways, key=lambda number: (links[number].target, number))
        return self._ways[node]


def wiring_of(dimension: Dimension) -> Wiring | None:
    """The graph of a dimension; None where it is too large to look at. Raises InputError where its topology does not say its links."""
    if (dimension.topology.link_count() or 0) > MOST_LINKS:
        return None
    size, router_ns = dimension.size, dimension.router_latency_ns
    links = [link._replace(latency_ns=link.latency_ns + router_ns) if link.source >= size else link for link in wires_of(dimension, "auto")]
    return _wiring(size, links, turns_of(dimension.topology))


def _wiring_of_platform(platform: Platform) -> Wiring | None:
    """The graph of all dimensions; None where it is too large to look at. Raises InputError where a topology does not say its links."""
    if platform.npus > MOST_NPUS:
        return None
    fabric = platform.fabric()
    links = [
        link._replace(latency_ns=link.latency_ns + fabric.switch_latency_ns[link.source - fabric.npus])
        if fabric.is_switch(link.source)
        else link
        for link in fabric.links
    ]
    return _wiring(platform.npus, links, None)


def _wiring(size: int, links: Sequence[FabricLink], turns: Sequence[int] | None) -> Wiring | None:
    """The graph of some links between so many NPUs, and switches; None where it is too large to look at."""
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
    for npu, own in enumerate(hangs):
        on_switches = all(other >= size for other, _, _ in own)
        classes.setdefault(tuple(sorted(own)) if on_switches else npu, []).append(npu)
    class_of = [0] * size
    for number, members in enumerate(classes.values()):
        for npu in members:
            class_of[npu] = number
    first = {members[0] for members in classes.values()}
    kept = tuple(link for link in links if all(end >= size or end in first for end in (link.source, link.target)))
    entering: dict[int, list[tuple[int, int, int]]] = {}
    leaving: dict[int, list[int]] = {}
    for number, link in enumerate(kept):
        entering.setdefault(link.target, []).append((link.source, link.cost, number))
        leaving.setdefault(link.source, []).append(number)
    made = Wiring(tuple(class_of), tuple(map(tuple, classes.values())), kept, entering, leaving, out, into)
    if made.work > MOST_WORK:
        return None
    if turns is None:
        return made
    ends = [(link.source, link.target) for link in links]
    return attrs.evolve(made, turns=Turns(max(map(max, ends)) + 1, ends, turns))


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
    _known: dict[PeerRun | Pairs, Load | None] = attrs.field(factory=dict)

    @property
    def ranks(self) -> int:
        """The ranks of a group."""
        return len(self.groups[0])

    @property
    def links_of_npu(self) -> int:
        """The links of the NPU that has fewest."""
        return min(len(self.wiring.leaving.get(members[0], ())) for members in self.wiring.members)

    def load(self, pattern: PeerRun | Pairs) -> Load | None:
        """What messages of a byte each take in a pattern; None where it has too many messages to look at."""
        if pattern not in self._known:
            found = self._pattern(pattern)
            self._known[pattern] = None if found is None else self.wiring.load(found)
        return self._known[pattern]

    def _pattern(self, pattern: PeerRun | Pairs) -> Pattern | None:
        messages = self.ranks * pattern.length if isinstance(pattern, PeerRun) else len(pattern)
        if messages * len(self.groups) > MOST_PAIRS:
            return None
        if isinstance(pattern, PeerRun) and pattern.first.operator == "shift" and pattern.length == self.ranks - 1 > 1:
            return self.wiring.each_to_each(self.groups)
        pairs = pairs_of(pattern, self.ranks)
        return self.wiring.pattern(tuple((group[a], group[b]) for group in self.groups for a, b in pairs))


def loads_of(platform: Platform, logical: LogicalDimension | Group) -> Loads | None:
    """The links on which the groups of a dimension, or a group, meet; None where they are too many to look at, or not known."""
    try:
        return _loads_of(platform, logical)
    except InputError:
        return None


def _loads_of(platform: Platform, logical: LogicalDimension | Group) -> Loads | None:
    number = 0 if len(platform.dimensions) == 1 else logical.physical
    if platform.physical is not None:
        wiring = wiring_of(platform.physical)
        return None if wiring is None else GraphLoads(wiring, _complete(logical.groups(platform.npus), platform.npus))
    if number is None:
        wiring = _wiring_of_platform(platform)
        return None if wiring is None else GraphLoads(wiring, _complete(logical.groups(platform.npus), platform.npus))
    own = platform.dimensions[number]
    uniform = uniform_links_of(own)
    is_whole = logical.size == own.size and isinstance(logical, LogicalDimension)
    if uniform is not None and (is_whole or uniform.pattern in ("switch", "fully_connected")):
        return UniformLoads(own, uniform, logical.size)
    wiring = wiring_of(own)
    if wiring is None:
        return None
    if isinstance(logical, Group):
        return GraphLoads(wiring, [logical.members])
    groups = LogicalDimension(logical.size, logical.stride // platform.strides[number], number).groups(own.size)
    return GraphLoads(wiring, _complete(groups, own.size))


def _complete(groups: Sequence[Sequence[int]], npus: int) -> list[Sequence[int]]:
    """The groups of which all ranks are NPUs of the platform: a program may be for fewer than there are."""
    return [group for group in groups if max(group) < npus]
