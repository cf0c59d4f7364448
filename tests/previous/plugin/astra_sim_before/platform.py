"""The topology: how the NPUs of one dimension are joined. Positions count from 0."""

from __future__ import annotations

import functools

import attrs
from astra_sim import InputError, option
from astra_sim.platform import Dimension
from astra_sim.schedule import Peer


@attrs.frozen
class ChordOptions:
    """Options of the topology."""

    size: int = option(minimum=1, maximum=100_000, help="NPUs along the dimension")
    chord: int = option(3, minimum=2, help="places that a chord spans")
    link_bandwidth_gb_per_s: float = option(above=0, help="bandwidth of a link and direction", unit="10^9 bytes/s")
    link_latency_ns: float = option(0.0, minimum=0, help="latency of a link", unit="ns")


@attrs.frozen
class ChordalRing:
    """NPU i is joined with i + 1, i - 1, i + chord and i - chord."""

    size: int
    chord: int
    bandwidth: float
    latency_ns: float
    name: str = "before_platform"

    def hops(self, source: int, destination: int) -> int:
        """The fewest links between two positions."""
        return _hops(self.size, self.chord)[(destination - source) % self.size]

    def is_symmetric(self, peer: Peer) -> bool:
        """A distance is as many links from everywhere; a bit pattern (xor) is not."""
        return peer.operator == "shift"

    def links_per_message(self) -> int:
        """A message goes over one link at a time."""
        return 1

    def links_per_npu(self) -> int:
        """Links of an NPU."""
        return len(_neighbours(self.size, self.chord))

    def links(self) -> list[tuple[int, int, float, float]]:
        """The links, for networks that simulate each: source, target, bandwidth (bytes/ns), latency (ns)."""
        joined = [(place, (place + step) % self.size) for place in range(self.size) for step in sorted(_neighbours(self.size, self.chord))]
        return [(source, target, self.bandwidth, self.latency_ns) for source, target in joined]

    def scaled(self, bandwidth: float, latency: float) -> ChordalRing:
        """The topology with that many times the bandwidth and latency."""
        return attrs.evolve(self, bandwidth=self.bandwidth * bandwidth, latency_ns=self.latency_ns * latency)


def dimensions(options: ChordOptions) -> list[Dimension]:
    """The platform: one dimension. Raises InputError where the chord goes round the ring."""
    if options.chord > max(2, options.size // 2):
        raise InputError(f"chord is {options.chord}; expected at most {options.size // 2}, half of the {options.size} NPUs")
    topology = ChordalRing(options.size, options.chord, options.link_bandwidth_gb_per_s, options.link_latency_ns)
    return [Dimension(topology, options.size, topology.links_per_npu(), options.link_bandwidth_gb_per_s, options.link_latency_ns)]


def _neighbours(size: int, chord: int) -> set[int]:
    """The distances of the NPUs that one NPU is joined with."""
    return {step % size for step in (1, -1, chord, -chord)} - {0}


@functools.lru_cache(maxsize=16)
def _hops(size: int, chord: int) -> list[int]:
    """The fewest links to each distance: those one link away first, then those two away, and so on."""
    hops = [0] * size
    reached = [0]
    for place in reached:
        for step in sorted(_neighbours(size, chord)):
            other = (place + step) % size
            if other and not hops[other]:
                hops[other] = hops[place] + 1
                reached.append(other)
    return hops
