"""Looks at the dimensions of a platform: hops, symmetry, links."""

from __future__ import annotations

import math
from collections.abc import Sequence

from astra_sim.fabric import Wire, uniform_links_of
from astra_sim.platform import Dimension, Topology
from astra_sim.schedule import Peer
from astra_sim.testing.requirement import require

_MOST_RANKS = 128


def check_dimensions(dimensions: object) -> Sequence[Dimension]:
    """Raise AssertionError unless these are dimensions with sizes, bandwidths and latencies that can be. Returns them."""
    require(isinstance(dimensions, (list, tuple)) and dimensions, f"it made {dimensions!r}, which is not a list of dimensions")
    assert isinstance(dimensions, (list, tuple))
    for number, dimension in enumerate(dimensions):
        where = f"dimension {number}"
        require(isinstance(dimension, Dimension), f"{where} is {dimension!r}, which is not a Dimension")
        require(
            isinstance(dimension.topology, Topology), f"{where}: {dimension.topology!r} is not a topology: see astra_sim.platform.Topology"
        )
        require(isinstance(dimension.topology.name, str), f"{where}: its name is {dimension.topology.name!r}; expected text")
        require(type(dimension.size) is int and dimension.size >= 1, f"{where}: its size is {dimension.size!r}; expected at least 1")
        require(dimension.link_bandwidth > 0, f"{where}: its links have {dimension.link_bandwidth} bytes/ns; expected more than 0")
        for name in ("link_latency_ns", "nic_latency_ns", "router_latency_ns", "hbm_latency_ns"):
            latency = getattr(dimension, name)
            require(latency >= 0 and math.isfinite(latency), f"{where}: {name} is {latency}; expected at least 0")
        for name in ("links_per_message", "links_per_npu"):
            count = getattr(dimension.topology, name)()
            require(count >= (dimension.size > 1), f"{where}: {name} is {count!r}; expected at least 1")
    return dimensions


def check_hops(dimension: Dimension) -> None:
    """Raise AssertionError unless hops count from 1, alike whenever asked. The first 128 positions are looked at."""
    topology, ranks = dimension.topology, range(min(dimension.size, _MOST_RANKS))
    for a in ranks:
        for b in ranks:
            if a != b:
                hops, again = topology.hops(a, b), topology.hops(a, b)
                require(type(hops) is int and hops >= 1, f"hops({a}, {b}) is {hops!r}; expected a whole number of at least 1")
                require(hops == again, f"hops({a}, {b}) is {hops}, and when asked again {again}")


def check_symmetry(dimension: Dimension) -> None:
    """Raise AssertionError where a peer that is said to be symmetric is not as many hops away from everywhere."""
    n, topology = dimension.size, dimension.topology
    distances = [distance for distance in range(1 - n, n) if distance]
    masks = [mask for mask in range(1, 1 << (n - 1).bit_length()) if all(rank ^ mask < n for rank in range(n))]
    peers = [*(Peer("shift", distance) for distance in distances), *(Peer("xor", mask) for mask in masks)]
    for peer in peers[:: max(1, len(peers) * n // _MOST_RANKS**2)]:
        if not topology.is_symmetric(peer):
            continue
        first = topology.hops(0, peer.of(0, n))
        for rank in range(1, n):
            hops = topology.hops(rank, peer.of(rank, n))
            lie = f"{peer} is said to be symmetric, but is {first} hops away from position 0 and {hops} from position {rank}"
            require(hops == first, lie)


def check_links(dimension: Dimension) -> None:
    """Raise AssertionError unless the links of a topology that lists them can be, and join all NPUs.

    What it says of links that look the same from all NPUs must be what it lists.
    """
    _check_uniform_links(dimension)
    listed = getattr(dimension.topology, "links", None)
    if not callable(listed):
        return
    leaves: dict[int, set[int]] = {}
    for link in listed():
        known = isinstance(link, tuple) and len(link) in (4, 5, 6)
        require(known, f"links() gives {link!r}; expected source, target, bytes/ns, ns[, loss[, cost]]")
        source, target, bandwidth, latency, *_ = link
        for end in (source, target):
            require(type(end) is int and end >= 0, f"link {link!r} has the end {end!r}; expected a number of at least 0")
        require(bandwidth > 0 and latency >= 0, f"link {link!r} has {bandwidth} bytes/ns and a latency of {latency} ns")
        leaves.setdefault(source, set()).add(target)
    for source in range(min(dimension.size, _MOST_RANKS)):
        reached = _reached(leaves, source)
        for npu in range(dimension.size):
            require(npu in reached, f"over its links NPU {source} does not reach NPU {npu}")


def _check_uniform_links(dimension: Dimension) -> None:
    uniform, wires = uniform_links_of(dimension), getattr(dimension.topology, "wires", None)
    if uniform is None:
        return
    require(uniform.size == dimension.size, f"uniform_links() has {uniform.size} NPUs; expected {dimension.size}")
    require(callable(wires), "it has uniform_links() and no wires(); expected both")
    if uniform.link_count() <= _MOST_RANKS**2 and callable(wires):
        same = [Wire(*wire) for wire in wires()] == uniform.wires()
        require(same, f"uniform_links() is {uniform!r}, and wires() lists other links; expected uniform_links().wires()")


def _reached(leaves: dict[int, set[int]], source: int) -> set[int]:
    reached, rest = {source}, [source]
    while rest:
        for node in leaves.get(rest.pop(), set()) - reached:
            reached.add(node)
            rest.append(node)
    return reached


def check_queue_directions(dimension: Dimension) -> None:
    """Raise AssertionError unless the queues of a topology that names their directions go one way round or the other."""
    directions = getattr(dimension.topology, "queue_directions", ())
    require(all(way in (1, -1) for way in directions), f"queue_directions is {directions!r}; expected +1 and -1")
