"""HyperX: switches in a grid, in each of its dimensions every two joined (Ahn et al., SC 2009)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.fabric import Wire, both_ways
from astra_sim.fabric.graph import LARGEST_FABRIC
from astra_sim.platform import Dimension, Topology
from astra_sim.schedule import Peer

from astra_sim_platforms.topologies import LinkOptions


@attrs.frozen
class HyperXOptions(LinkOptions):
    """Options of a HyperX."""

    sizes: tuple[int, ...] = option(minimum=1, help="switches along each dimension (S)")
    npus: int = option(1, minimum=1, help="NPUs of a switch (T)")
    width: float = option(1.0, above=0, help="bandwidth of a link between switches, in bandwidths of a link (K)")
    ports: int | None = option(None, minimum=1, help="ports of a switch, for NPUs and other switches; default: as many as it needs")


@attrs.frozen
class HyperX(Topology):
    """A HyperX: switch number in mixed radix over `sizes`, the first varying fastest."""

    sizes: tuple[int, ...]
    npus: int
    width: float
    name: str = attrs.field(default="hyperx", init=False)

    @property
    def size(self) -> int:
        """The NPUs."""
        return math.prod(self.sizes) * self.npus

    @property
    def ports(self) -> int:
        """The ports of a switch."""
        return self.npus + sum(size - 1 for size in self.sizes)

    def destination_order(self) -> Sequence[int]:
        """NPUs spread over paths of equal cost in their order, which is that of their switches."""
        return range(self.size)

    def hops(self, source: int, destination: int) -> int:
        """Two, and one for each dimension in which the switches differ."""
        a, b = source // self.npus, destination // self.npus
        hops = 2
        for size in self.sizes:
            hops += a % size != b % size
            a, b = a // size, b // size
        return hops

    def is_symmetric(self, peer: Peer) -> bool:
        """Not known."""
        return False

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """One."""
        return 1

    def link_count(self) -> int:
        """The links, each way counted."""
        return 2 * self.size + math.prod(self.sizes) * sum(size - 1 for size in self.sizes)

    def wires(self) -> list[Wire]:
        """Links of NPUs, then those along each dimension. Raises InputError if they are too many to list."""
        if self.link_count() > LARGEST_FABRIC:
            raise InputError(f"a {self.name} of {self.size} NPUs has {self.link_count()} links; expected at most {LARGEST_FABRIC}")
        return both_ways(self._pairs())

    def _pairs(self) -> Iterator[Wire]:
        for npu in range(self.size):
            yield Wire(npu, self.size + npu // self.npus)
        stride = 1
        for size in self.sizes:
            for switch in range(math.prod(self.sizes)):
                for further in range(1, size - switch // stride % size):
                    yield Wire(self.size + switch, self.size + switch + further * stride, self.width)
            stride *= size


def hyperx(options: HyperXOptions) -> list[Dimension]:
    """A HyperX. Raises InputError if its switches have too few ports."""
    if not options.sizes:
        raise InputError("sizes is empty; a HyperX needs at least one dimension")
    hyper_x = HyperX(tuple(options.sizes), options.npus, options.width)
    if options.ports is not None and hyper_x.ports > options.ports:
        raise InputError(
            f"ports is {options.ports}, and a switch needs {hyper_x.ports}: {options.npus} for NPUs and {hyper_x.ports - options.npus} for"
            " switches; expected more ports"
        )
    return [options.dimension(hyper_x, hyper_x.size)]
