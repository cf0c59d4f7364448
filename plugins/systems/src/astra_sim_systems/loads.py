"""The loads of a pattern of messages on the links of a dimension."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import attrs
from astra_sim.schedule import PeerRun

from astra_sim_systems.rounds import Pairs


class PathTime(NamedTuple):
    """The time of a message besides the links: latencies (ns), and ns that each byte needs on all links, and on the slowest."""

    latency_ns: float
    ns_per_byte: float
    slowest_ns_per_byte: float

    def longer(self, latency_ns: float, ns_per_byte: float) -> PathTime:
        """The way with another link before it."""
        return PathTime(self.latency_ns + latency_ns, self.ns_per_byte + ns_per_byte, max(self.slowest_ns_per_byte, ns_per_byte))


class RoundLinkLoad(NamedTuple):
    """The load of a link by messages of a byte each: its busy ns, and the waits of the first and the last of them elsewhere.

    That is the way of the first until it is there, and of the last from there on: latencies, with that of the link, and ns for each byte
    that nodes hold before they pass it on.
    """

    busy_ns: float
    latency_ns: float
    held_ns: float


@attrs.frozen(eq=False)
class RoundLoad:
    """The loads by messages of a byte each: of links by their numbers, but for those without load, and the longest and the mean path."""

    links: Mapping[int, RoundLinkLoad]
    longest: PathTime
    mean: PathTime

    @functools.cached_property
    def different(self) -> frozenset[RoundLinkLoad]:
        """The different loads of links."""
        return frozenset(self.links.values())


def busiest_ns(loads: Sequence[tuple[RoundLoad, int]]) -> float:
    """The busy time of the busiest link if each of some patterns has messages of these bytes."""
    busy: dict[int, float] = {}
    for load, size in loads:
        for number, link in load.links.items():
            busy[number] = busy.get(number, 0.0) + link.busy_ns * size
    return max(busy.values(), default=0.0)


class Loads(Protocol):
    """The links that a collective has, as its ranks are on them. Loads of one object have the same numbers of links."""

    @property
    def links_of_npu(self) -> int:
        """The links of the NPU that has fewest."""
        ...

    def load(self, pattern: PeerRun | Pairs) -> RoundLoad | None:
        """The loads of a pattern with messages of a byte each; None if it has too many messages to look at."""
        ...
