"""Looks at the dimensions of a platform: hops, symmetry, links."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

import attrs
from astra_sim.fabric import Wire
from astra_sim.fabric.graph import fabric_of, uniform_links_of, wires_of
from astra_sim.fabric.links import LARGEST_COST
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Peer

from astra_sim_devkit.testing.requirement import require

_MOST_RANKS = 128


def check_dimensions(dimensions: object) -> Sequence[Dimension]:
    """Raise AssertionError unless these are dimensions with sizes, bandwidths and latencies that can be. Returns them."""
    require(isinstance(dimensions, (list, tuple)) and dimensions, f"it made {dimensions!r}, which is not a list of dimensions")
    assert isinstance(dimensions, (list, tuple))
    for number, dimension in enumerate(dimensions):
        where = f"dimension {number}"
        require(isinstance(dimension, Dimension), f"{where} is {dimension!r}, which is not a Dimension")
        require(type(dimension.size) is int and dimension.size >= 1, f"{where}: its size is {dimension.size!r}; expected at least 1")
        possible = 0 < dimension.link_bandwidth < math.inf
        require(possible, f"{where}: its links have {dimension.link_bandwidth} bytes/ns; expected more than 0")
        for name in ("link_latency_ns", "nic_latency_ns", "router_latency_ns", "hbm_latency_ns"):
            latency = getattr(dimension, name)
            require(latency >= 0 and math.isfinite(latency), f"{where}: {name} is {latency}; expected at least 0")
        topology = dimension.topology
        for name, counts in (("links_per_message", topology.links_per_message), ("links_per_npu", topology.links_per_npu)):
            count = counts()
            right = isinstance(count, (int, float)) and (dimension.size > 1) <= count < math.inf
            require(right, f"{where}: {name} is {count!r}; expected at least 1")
    return dimensions


def check_made_alike(first: Sequence[Dimension], second: Sequence[Dimension]) -> None:
    """Raise AssertionError unless dimensions that were made of the same options are the same, in sizes, figures, hops and links."""
    require(len(first) == len(second), f"it made {len(first)} dimensions, and made anew {len(second)}")
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        for what in ("size", "links", "link_bandwidth", "link_latency_ns", "nic_latency_ns", "router_latency_ns"):
            values = getattr(one, what), getattr(other, what)
            require(values[0] == values[1], f"dimension {number}: {what} is {values[0]}, and made anew {values[1]}")
        for a, b in itertools.permutations(range(min(one.size, _MOST_RANKS)), 2):
            hops = one.topology.hops(a, b), other.topology.hops(a, b)
            require(hops[0] == hops[1], f"dimension {number}: hops({a}, {b}) is {hops[0]}, and made anew {hops[1]}")


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
    """Raise AssertionError if a peer declared symmetric is not as many hops away from everywhere."""
    n, topology = dimension.size, dimension.topology
    distances = [distance for distance in range(1 - n, n) if distance]
    masks = [mask for mask in range(1, 1 << (n - 1).bit_length()) if all(rank ^ mask < n for rank in range(n))]
    peers = [*(Peer("shift", distance) for distance in distances), *(Peer("xor", mask) for mask in masks)]
    for peer in peers[:: max(1, len(peers) * n // _MOST_RANKS**2)]:
        symmetric, again = topology.is_symmetric(peer), topology.is_symmetric(peer)
        require(type(symmetric) is bool, f"is_symmetric({peer}) is {symmetric!r}; expected True or False")
        require(symmetric == again, f"is_symmetric({peer}) is {symmetric}, and when asked again {again}")
        if not symmetric:
            continue
        first = topology.hops(0, peer.of(0, n))
        for rank in range(1, n):
            hops = topology.hops(rank, peer.of(rank, n))
            lie = f"{peer} is declared symmetric, but is {first} hops away from position 0 and {hops} from position {rank}"
            require(hops == first, lie)


def check_links(dimension: Dimension) -> None:
    """Raise AssertionError unless the links of a topology that lists them are valid, join all NPUs, and agree with its other attributes.

    These are its hops, the links of an NPU, and `uniform_links()`.
    """
    _check_uniform_links(dimension)
    topology, size = dimension.topology, dimension.size
    listing = {name: listed for name, listed in (("wires", topology.wires), ("links", topology.links)) if listed() is not None}
    for name, listed in listing.items():
        entries = list(listed() or ())
        for entry in entries:
            _check_entry(entry, name)
        require(entries == list(listed() or ()), f"{name}() lists other links when it is asked again")
    if not listing:
        return
    links = wires_of(dimension, f"a dimension of {size} NPUs")
    fabric = fabric_of(Platform((dimension,)))
    name, all_cost_one = next(iter(listing)), all(link.cost == 1 for link in links)
    if not all_cost_one:
        fabric = attrs.evolve(fabric, links=tuple(link._replace(cost=1) for link in fabric.links))
    ranks = range(min(size, _MOST_RANKS))
    near, far = ([fabric.distances(npu, through_npus) for npu in ranks] for through_npus in (True, False))
    for source, npu in itertools.permutations(ranks, 2):
        links_between, hops = near[npu][source], topology.hops(source, npu)
        require(links_between != UNREACHABLE, f"over its links NPU {source} does not reach NPU {npu}")
        right = hops in (links_between, far[npu][source]) if all_cost_one else hops >= links_between
        least = "" if all_cost_one else "at least "
        require(right, f"hops({source}, {npu}) is {hops}, and by its {name}() it is {least}{links_between} links")
    leaving: defaultdict[int, float] = defaultdict(float)
    for link in links:
        leaving[link.source] += link.bandwidth / dimension.link_bandwidth
    most = max((leaving[npu] for npu in range(size)), default=0.0)
    # Two NPUs in a ring are joined by one pair of links, and count those of both directions.
    says = f"links_per_npu() is {topology.links_per_npu()}, and by its {name}() no NPU has more than {most:g}"
    require(size == 1 or topology.links_per_npu() <= 2.01 * most, f"{says}; expected at most both directions of them")


def _check_entry(entry: object, name: str) -> None:
    """Raise AssertionError unless this is an entry of `wires()` or `links()`."""
    fields = "source, target[, width[, length[, cost[, order]]]]" if name == "wires" else "source, target, bytes/ns, ns[, loss[, cost]]"
    known = isinstance(entry, tuple) and (2 if name == "wires" else 4) <= len(entry) <= 6
    require(known, f"{name}() gives {entry!r}; expected {fields}")
    assert isinstance(entry, tuple)
    for end in entry[:2]:
        require(type(end) is int and end >= 0, f"{name}() gives {entry!r} with the end {end!r}; expected a number of at least 0")
    require(entry[0] != entry[1], f"{name}() gives {entry!r}, from a node to itself")
    for number in entry[2:]:
        right = isinstance(number, (int, float)) and math.isfinite(number)
        require(right, f"{name}() gives {entry!r} with {number!r}; expected finite numbers")
    width, length = (*entry, 1.0, 1.0)[2:4]
    units = ("times the width", "times the length") if name == "wires" else ("bytes/ns", "ns")
    right = width > 0 and length >= 0
    require(right, f"{name}() gives {entry!r}, {width} {units[0]} and {length} {units[1]}; expected more than 0, and at least 0")
    cost, *_ = (*entry[4 if name == "wires" else 5 :], 1)
    require(type(cost) is int and 1 <= cost <= LARGEST_COST, f"{name}() gives {entry!r} of cost {cost!r}; expected 1 to {LARGEST_COST}")


def _check_uniform_links(dimension: Dimension) -> None:
    uniform, wires = uniform_links_of(dimension), dimension.topology.wires()
    if uniform is None:
        return
    require(uniform.size == dimension.size, f"uniform_links() has {uniform.size} NPUs; expected {dimension.size}")
    require(wires is not None, "it has uniform_links() and no wires(); expected both")
    if uniform.link_count() <= _MOST_RANKS**2 and wires is not None:
        same = [Wire(*wire) for wire in wires] == uniform.wires()
        require(same, f"uniform_links() is {uniform!r}, and wires() lists other links; expected uniform_links().wires()")


def check_queue_directions(dimension: Dimension) -> None:
    """Raise AssertionError unless the queues of a topology that names their directions go one way round or the other."""
    directions = dimension.topology.queue_directions
    require(all(way in (1, -1) for way in directions), f"queue_directions is {directions!r}; expected +1 and -1")
