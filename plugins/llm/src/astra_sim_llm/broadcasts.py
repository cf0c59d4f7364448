"""Weights that each rank in turn broadcasts to all: how long the first data of a broadcast take to the last node.

NCCL broadcasts along a ring, and a NIC passes whole steps on (NVIDIA/nccl, `src/enqueue.cc`, `src/include/device.h`). So the last of n
nodes is n - 1 steps of all channels later than the first, in which the channels share the NICs of their node.
"""

from __future__ import annotations

import attrs
from astra_sim.platform import Platform

STEP_BYTES = 120 * 640 * 8
"""A step of protocol LL128, which NCCL takes for the sizes of weights on many ranks."""
CHANNELS_OF_NIC = 2
"""NCCL finds a ring for each NIC, and doubles them (`src/graph/connect.cc`)."""
_PS_PER_NS = 1000


@attrs.frozen
class BroadcastChain:
    """The way of broadcasts over nodes: their channels, and the bandwidth of the NICs that the ranks of a group have in a node (10^9
    bytes/s).
    """

    nodes: int = 1
    channels: int = CHANNELS_OF_NIC
    gb_per_s: float = 1.0

    def filling_ps(self, size: int) -> int:
        """Picoseconds until the last node begins to get a broadcast of some bytes."""
        step = min(size / self.channels, STEP_BYTES)
        return round((self.nodes - 1) * self.channels * step / self.gb_per_s * _PS_PER_NS)


def chain_of(platform: Platform, ranks: int, stride: int, nics: int | None) -> BroadcastChain:
    """The way of broadcasts over ranks with a stride that share parameters, of whose node they use `nics` NICs; none: one each."""
    reach = ranks * stride
    nodes = -(-reach // platform.dimensions[0].size)
    crossed = [
        dimension.link_bandwidth * dimension.topology.links_per_message()
        for dimension, inner in zip(platform.dimensions[1:], platform.strides[1:], strict=True)
        if inner < reach
    ]
    if nodes == 1 or not crossed:
        return BroadcastChain()
    each = max(1, ranks // nodes)
    return BroadcastChain(nodes, CHANNELS_OF_NIC * (nics or each), each * min(crossed))
