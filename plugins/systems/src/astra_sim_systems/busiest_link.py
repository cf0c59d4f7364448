"""What the busiest link of a dimension carries when all ranks send at once: the bottleneck that `auto` compares algorithms by.

Messages take the ways of networks with one route for each pair: where destinations take turns at equal ways, those of their turns, else
they are spread evenly over all of them. NPUs that hang on the same switches are alike: what goes from such NPUs to others is one flow, so a
Clos fabric of a thousand NPUs is a graph of its switches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
from astra_sim import InputError
from astra_sim.fabric import FabricLink, wires_of
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.shortest_paths import ways_to
from astra_sim.turns import Turns, turns_of

MOST_LINKS, MOST_WORK = 1 << 16, 1 << 22
"""Links, and classes of NPUs times links, that are looked at; larger graphs take too long for what it decides."""

Pairs = Iterable[tuple[int, int]]


@attrs.frozen(eq=False)
class Pattern:
    """Messages at once, of a byte each: for each NPU that receives some, how many NPUs of each class send one. Each sends `each`."""

    each: int
    senders: Mapping[int, Mapping[int, int]]


@attrs.frozen
class Load:
    """What a pattern takes: the time (ns) that the busiest link needs for it, and latencies of its messages (ns): longest and mean."""

    ns_per_byte: float
    longest_ns: float
    mean_ns: float


@attrs.frozen(eq=False)
class Wiring:
    """The graph of a dimension, or of a physical one on which it lies, with a number for the class of each NPU.

    `members` are the NPUs of each class, `links` those of one NPU of each class and of switches, `leaving` their numbers by node, and
    `entering` by node where they begin, their cost and number. `out` and `into` are the bandwidths of all links of an NPU. `turns` are
    those of its destinations, where they take some.
    """

    class_of: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    links: tuple[FabricLink, ...]
    entering: Mapping[int, list[tuple[int, int, int]]]
    leaving: Mapping[int, list[int]]
    out: Sequence[float]
    into: Sequence[float]
    turns: Turns | None = None

    @property
    def work(self) -> int:
        """How much there is to look at: classes times links."""
        return len(self.members) * len(self.links)

    def pattern(self, pairs: Pairs) -> Pattern:
        """The pattern of some pairs, in which each NPU sends and receives one message."""
        senders: dict[int, Counter[int]] = {}
        for source, target in pairs:
            senders.setdefault(target, Counter())[self.class_of[source]] += 1
        return Pattern(1, senders)

    def each_to_each(self, groups: Sequence[Sequence[int]]) -> Pattern:
        """The pattern in which each NPU of a group sends to each other one."""
        senders: dict[int, Counter[int]] = {}
        for group in groups:
            members = Counter(self.class_of[npu] for npu in group)
            for npu in group:
                senders[npu] = members - Counter([self.class_of[npu]])
        return Pattern(len(groups[0]) - 1, senders)

    def loads(self, patterns: Sequence[Pattern]) -> list[Load]:
        """What each of some patterns takes."""
        carried = [[0.0] * len(self.links) for _ in patterns]
        latencies: list[Counter[float]] = [Counter() for _ in patterns]
        for number, members in enumerate(self.members):
            to = _Nearer(self, members[0])
            for pattern, load, of_pattern in zip(patterns, carried, latencies, strict=True):
                for target, sources in self._flows(pattern, number):
                    beside = sources.get(number, 0)
                    if beside:
                        of_pattern[self._beside_ns(members[0])] += beside
                    others = {each: count for each, count in sources.items() if each != number}
                    for latency, count in self._send(target, others, to, load):
                        of_pattern[latency] += count
        return [self._load(*each) for each in zip(patterns, carried, latencies, strict=True)]

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

    def _beside_ns(self, npu: int) -> float:
        """The latency between NPUs of a class."""
        out = min((self.links[number].latency_ns for number in self.leaving.get(npu, ())), default=0.0)
        return out + min((self.links[number].latency_ns for _, _, number in self.entering.get(npu, ())), default=0.0)

    def _load(self, pattern: Pattern, carried: Sequence[float], latencies: Mapping[float, int]) -> Load:
        busiest = max((self._own_ns(pattern.each, npu) for npu in pattern.senders), default=0.0)
        inner = (amount / link.bandwidth for amount, link in zip(carried, self.links, strict=True) if not self._is_of_class(link))
        mean = sum(latency * count for latency, count in latencies.items()) / max(1, sum(latencies.values()))
        return Load(max(busiest, max(inner, default=0.0)), max(latencies, default=0.0), mean)

    def _own_ns(self, messages: int, npu: int) -> float:
        """The time for which an NPU's links are busy with so many messages, of which each takes one link."""
        widest = max(self.links[number].bandwidth for number in self.leaving[self.members[self.class_of[npu]][0]])
        return max(messages / min(self.out[npu], self.into[npu]), 1 / widest)

    def _is_of_class(self, link: FabricLink) -> bool:
        """Whether a link is one of an NPU that stands for others; what these carry is counted for each NPU."""
        npus = len(self.class_of)
        return any(end < npus and len(self.members[self.class_of[end]]) > 1 for end in (link.source, link.target))

    def _send(self, target: int, sources: Mapping[int, int], to: _Nearer, load: list[float]) -> Iterator[tuple[float, int]]:
        """Add what goes to an NPU to the links. Gives the latency from each class, and how many messages have it."""
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
        for steps in range(max(by_distance, default=0), 0, -1):
            for node in by_distance.get(steps, ()):
                ways[node] = self._ways(node, target, to)
                for number in ways[node]:
                    load[number] += flow[node] / len(ways[node])
                    add(self.links[number].target, flow[node] / len(ways[node]))
        latency = {self.members[self.class_of[target]][0]: 0.0}
        for node in reversed(ways):
            latency[node] = max(self.links[number].latency_ns + latency[self.links[number].target] for number in ways[node])
        for source, count in sources.items():
            yield latency[self.members[source][0]], count

    def _ways(self, node: int, target: int, to: _Nearer) -> list[int]:
        """The links on which messages to an NPU leave a node."""
        ways = to.ways(node)
        if self.turns is None or len(ways) < 2:
            return ways
        first, last = (self.links[ways[place]].target for place in (0, -1))
        return [ways[self.turns.choose(node, target, first, last, len(ways))]]


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
    count = getattr(dimension.topology, "link_count", None)
    if count is not None and count() > MOST_LINKS:
        return None
    links = wires_of(dimension, "auto")
    size = dimension.size
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
    turns = turns_of(dimension.topology)
    if turns is None:
        return made
    ends = [(link.source, link.target) for link in links]
    return attrs.evolve(made, turns=Turns(max(map(max, ends)) + 1, ends, turns))


def are_switched(dimension: Dimension) -> bool:
    """Whether NPUs hang on switches alone, as far as is known."""
    count = getattr(dimension.topology, "link_count", None)
    if count is not None and count() > MOST_LINKS:
        return True  # those that count links without listing them are fabrics of switches
    try:
        return all(max(link.source, link.target) >= dimension.size for link in wires_of(dimension, "auto"))
    except InputError:
        return False


def groups_of(platform: Platform, dimension: int) -> tuple[Dimension, list[Sequence[int]]]:
    """The graph that a dimension of a platform lies on, and its groups there: those of a logical dimension all meet on the physical one."""
    own = platform.dimensions[dimension]
    if platform.physical is None:
        return own, [range(own.size)]
    return platform.physical, LogicalDimension(own.size, platform.strides[dimension], dimension).groups(platform.npus)
