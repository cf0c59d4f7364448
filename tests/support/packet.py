"""Platforms, options and loads for the packet network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_sim.network import Message
from astra_sim.platform import Dimension, Platform
from astra_sim_network_analytical.topologies import (
    DimensionOptions,
    RingOptions,
    SwitchOptions,
    fully_connected,
    ring,
    switch,
)
from astra_sim_network_packet.network import PacketNetwork
from astra_sim_network_packet.options import PacketOptions
from astra_sim_platforms.topologies import (
    DragonflyOptions,
    FatTreeOptions,
    MeshOptions,
    dragonfly,
    fat_tree,
    mesh,
)
from hypothesis import strategies as st

BANDWIDTH: dict[str, Any] = {"link_bandwidth_gb_per_s": 32.0}


def torus(*sizes: int, **options: Any) -> list[Dimension]:
    """Rings of a number of NPUs."""
    return [dimension for size in sizes for dimension in ring(RingOptions(size=size, links=2, **BANDWIDTH, **options))]


PLATFORMS = {
    "ring": lambda: ring(RingOptions(size=5, links=2, link_latency_ns=20.0, **BANDWIDTH)),
    "torus": lambda: torus(4, 3, link_latency_ns=7.0),
    "mesh": lambda: mesh(MeshOptions(sizes=(3, 3), link_latency_ns=1.0, **BANDWIDTH)),
    "switch": lambda: switch(SwitchOptions(size=5, links=1, link_latency_ns=20.0, **BANDWIDTH)),
    "fully_connected": lambda: fully_connected(DimensionOptions(size=4, links=3, link_latency_ns=20.0, **BANDWIDTH)),
    "hierarchy": lambda: [
        *ring(RingOptions(size=3, links=2, link_latency_ns=2.0, **BANDWIDTH)),
        *switch(SwitchOptions(size=3, links=1, link_latency_ns=20.0, link_bandwidth_gb_per_s=11.0)),
    ],
    "fat_tree": lambda: fat_tree(FatTreeOptions(arity=2, levels=3, link_latency_ns=5.0, **BANDWIDTH)),
    "dragonfly": lambda: dragonfly(DragonflyOptions(routers=2, npus=2, link_latency_ns=5.0, **BANDWIDTH)),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "small buffers": {"vcs": 2, "buffers": 2},
    "cut through": {"vcs": 4, "buffers": 16, "flow_control": "cut_through"},
    "bubble": {"vcs": 4, "buffers": 16, "deadlock_freedom": "bubble"},
    "rules of Garnet": {"vcs": 4, "interface_order": "oldest", "arbitration": "round_robin", "matching": "single"},
    "adaptive": {"vcs": 4, "routing": "adaptive"},
    "deep": {"vcs": 2, "router_latency": 3, "credit_delay": 2},
    "booksim": {"preset": "booksim", "packet_bytes": 128},
    "speculative": {
        "preset": "booksim",
        "packet_bytes": 128,
        "speculative": True,
        "input_speedup": 2,
        "allocator": "separable_input_first",
    },
    "separate speculation": {"preset": "booksim", "packet_bytes": 128, "speculative": True, "speculative_allocator": "separate"},
}


def network(dimensions: Any, **options: Any) -> PacketNetwork:
    return PacketNetwork(PacketOptions(**options), Platform(tuple(dimensions)))


def deliver(made: PacketNetwork, messages: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Send messages (time, source, destination, bytes). Return when each arrives (picoseconds)."""
    for number, (time, source, destination, size) in sorted(enumerate(messages), key=lambda entry: entry[1][0]):
        made.inject(time, [Message(number, source, destination, size)])
    arrived: dict[int, int] = {}
    last = 0
    while (delivery := made.advance(None)) is not None:
        time, numbers = delivery
        assert time >= last
        assert not arrived.keys() & set(numbers)
        arrived |= dict.fromkeys(numbers, time)
        last = time
    return arrived


@st.composite
def loads(draw: st.DrawFn) -> tuple[str, str, list[tuple[int, int, int, int]]]:
    platform = draw(st.sampled_from(sorted(PLATFORMS)))
    npus = Platform(tuple(PLATFORMS[platform]())).npus
    message = st.tuples(
        st.integers(0, 200_000),
        st.integers(0, npus - 1),
        st.integers(1, npus - 1),
        st.one_of(st.integers(1, 20_000), st.integers(1, 2_000_000)),
    )
    messages = draw(st.lists(message, min_size=1, max_size=12))
    options = draw(st.sampled_from(sorted(set(OPTIONS) - ({"bubble"} if platform == "dragonfly" else set()))))
    return platform, options, [(t, s, (s + d) % npus, b) for t, s, d, b in messages]
