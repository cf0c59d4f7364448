"""Logical dimensions apart from the physical graph: how collectives see NPUs that are wired otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from astra_sim.errors import InputError
from astra_sim.platform import Platform, Topology
from astra_sim.schedule import Peer


@attrs.frozen
class PartOfGraph:
    """A logical dimension: `size` NPUs, `stride` apart, of one physical dimension. Hops are those of the group of NPU 0."""

    whole: Topology
    size: int
    stride: int

    @property
    def name(self) -> str:
        """The name of the physical topology."""
        return self.whole.name

    def hops(self, source: int, destination: int) -> int:
        """Links between two positions."""
        return self.whole.hops(source * self.stride, destination * self.stride)

    def is_symmetric(self, peer: Peer) -> bool:
        """Not known."""
        return False

    def links_per_message(self) -> int:
        """Those of the whole."""
        return self.whole.links_per_message()

    def links_per_npu(self) -> int:
        """Those of the whole."""
        return self.whole.links_per_npu()


def with_logical_dimensions(platform: Platform, sizes: Sequence[int]) -> Platform:
    """A platform of one physical dimension whose collectives see dimensions of other sizes, the first varying fastest.

    Raises InputError where the platform has several dimensions, or another number of NPUs.
    """
    wired = platform.wired()
    product = " x ".join(map(str, sizes))
    if len(wired.dimensions) != 1:
        raise InputError(f"{product} NPUs on a platform of {len(wired.dimensions)} physical dimensions; expected a platform of one")
    (whole,) = wired.dimensions
    if math.prod(sizes) != whole.size:
        raise InputError(f"{product} NPUs on a platform of {whole.size}; expected as many NPUs")
    dimensions, stride = [], 1
    for size in sizes:
        dimensions.append(attrs.evolve(whole, topology=PartOfGraph(whole.topology, size, stride), size=size))
        stride *= size
    return Platform(tuple(dimensions), platform.name, platform.device, whole)
