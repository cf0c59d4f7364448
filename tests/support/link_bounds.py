"""What messages need of links: the time that no network can go below."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from astra_sim.fabric import Fabric

SPARE = 0.001
"""By how much bandwidths count as larger: clocks of links are whole picoseconds."""


class Messages(NamedTuple):
    """What messages need of a fabric, in nanoseconds."""

    total_ns: float
    busiest_npu_ns: float

    @property
    def bound_ns(self) -> float:
        """The time that no network can go below."""
        return max(self) / (1 + SPARE)


def distances(ends: Iterable[tuple[int, int]], source: int) -> dict[int, int]:
    """The fewest links from a node to each other one."""
    leaving: dict[int, list[int]] = {}
    for a, b in ends:
        leaving.setdefault(a, []).append(b)
    result, queue = {source: 0}, deque([source])
    while queue:
        node = queue.popleft()
        for target in leaving.get(node, ()):
            if target not in result:
                result[target] = result[node] + 1
                queue.append(target)
    return result


def link_needs(fabric: Fabric, messages: Sequence[tuple[int, int, int]], rounds_down: bool = False) -> Messages:
    """What messages (source, destination, bytes) need of a fabric; `rounds_down`: links take whole nanoseconds, rounded down."""
    ends = [(link.source, link.target) for link in fabric.links]
    far = {source: distances(ends, source) for source in {message[0] for message in messages}}
    out, into = [0.0] * fabric.nodes, [0.0] * fabric.nodes
    for link in fabric.links:
        out[link.source] += link.bandwidth
        into[link.target] += link.bandwidth
    sent, received = [0.0] * fabric.nodes, [0.0] * fabric.nodes
    total, fastest = 0.0, max(link.bandwidth for link in fabric.links)
    for source, destination, size in messages:
        counted = max(0.0, size - fastest) if rounds_down else size
        sent[source] += counted
        received[destination] += counted
        total += counted * far[source][destination]
    busiest = max(max(sent[npu] / out[npu], received[npu] / into[npu]) for npu in range(fabric.npus))
    return Messages(total / sum(link.bandwidth for link in fabric.links), busiest)
