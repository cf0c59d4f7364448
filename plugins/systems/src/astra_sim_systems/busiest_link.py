"""What the busiest link of a dimension carries when all ranks send at once: the bottleneck that `auto` compares algorithms by.

Messages are spread evenly over all shortest ways, as good routing does. NPUs that hang on the same switches are alike: what goes from such
NPUs to others is one flow, so a Clos fabric of a thousand NPUs is a graph of its switches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs
from astra_sim import InputError
from astra_sim.fabric import FabricLink, wires_of
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.shortest_paths import ways_to

MOST_LINKS, MOST_WORK = 1 << 16, 1 << 22
"""Links, and classes of NPUs times links, that are looked at; larger graphs take too long for what it decides."""

Pairs = Iterable[tuple[int, int]]


@attrs.frozen(eq=False)
class Wiring:
    """The graph of a dimension, or of a physical one on which it lies, with a number for the class of each NPU.

    `members` are the NPUs of each class, `links` those of one NPU of each class and of switches, `leaving` their numbers by node, and
    `entering` by node where they begin, their cost and number. `out` and `into` are the bandwidths of all links of an NPU.
    """

    class_of: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    links: tuple[FabricLink, ...]
    entering: Mapping[int, list[tuple[int, int, int]]]
    leaving: Mapping[int, list[int]]
    out: Sequence[float]
    into: Sequence[float]

    @property
    def work(self) -> int:
        """How much there is to look at: classes times links."""
        return len(self.members) * len(self.links)

    def ns_per_byte(self, pairs: Pairs) -> float:
        """The time of the busiest link (ns) if each of these pairs of NPUs sends a byte at once."""
        sent, received = Counter[int](), Counter[int]()
        flows: dict[int, Counter[int]] = {}
        for source, target in pairs:
            sent[source] += 1
            received[target] += 1
            a, b = self.class_of[source], self.class_of[target]
            if a != b:
                flows.setdefault(b, Counter())[a] += 1
        busiest = max((count / self.out[npu] for npu, count in sent.items()), default=0.0)
        busiest = max(busiest, max((count / self.into[npu] for npu, count in received.items()), default=0.0))
        load = [0.0] * len(self.links)
        for target, sources in flows.items():
            self._spread(target, sources, load)
        inner = (amount / link.bandwidth for amount, link in zip(load, self.links, strict=True) if not self._is_of_class(link))
        return max(busiest, max(inner, default=0.0))

    def _is_of_class(self, link: FabricLink) -> bool:
        """Whether a link is one of an NPU that stands for others; what these carry is counted for each NPU."""
        npus = len(self.class_of)
        return any(end < npus and len(self.members[self.class_of[end]]) > 1 for end in (link.source, link.target))

    def _spread(self, target: int, sources: Mapping[int, int], load: list[float]) -> None:
        """Add what goes to a class to the links, evenly over all shortest ways."""
        destination = self.members[target][0]
        distance = {node: far for node, (far, _) in ways_to(destination, lambda node: self.entering.get(node, ())).items()}
        flow: dict[int, float] = {}
        by_distance: dict[int, list[int]] = {}

        def add(node: int, amount: float) -> None:
            if node not in flow:
                flow[node] = 0.0
                by_distance.setdefault(distance[node], []).append(node)
            flow[node] += amount

        for source, count in sources.items():
            add(self.members[source][0], float(count))
        for steps in range(max(by_distance), 0, -1):
            for node in by_distance.get(steps, ()):
                ways = [
                    number
                    for number in self.leaving[node]
                    if distance.get(self.links[number].target, steps) == steps - self.links[number].cost
                ]
                for number in ways:
                    load[number] += flow[node] / len(ways)
                    add(self.links[number].target, flow[node] / len(ways))


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
    return made if made.work <= MOST_WORK else None


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
