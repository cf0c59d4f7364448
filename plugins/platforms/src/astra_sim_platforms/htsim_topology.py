"""Topology files of HTSim: fat trees of two or three tiers of switches, with their speeds, latencies and bundles of links."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import attrs
from astra_sim import InputError, option
from astra_sim.errors import suggestion, warn
from astra_sim.fabric.graph import LARGEST_FABRIC
from astra_sim.files import read_text
from astra_sim.platform import Dimension

from astra_sim_platforms.graph import GraphFile, GraphLink

_HEADER = ("nodes", "tiers", "podsize")
_TIER = {
    "downlink_speed_gbps": 0,
    "downlink_latency_ns": 0,
    "radix_down": 0,
    "radix_up": 0,
    "bundle": 1,
    "oversubscribed": 1,
    "switch_latency_ns": 0,
}
"""Keys of a tier, with their defaults; 0 if it must have one, but for the last."""
_QUEUES = ("queue_down", "queue_up")
_BYTES_PER_NS_OF_GBPS = 1 / 8


@attrs.frozen
class HtsimTopologyOptions:
    """Options of a topology file of HTSim."""

    file: str = option(help="topology file of HTSim (-topo); the path is relative to the working directory", path="path")


class TreeTier(NamedTuple):
    """A tier of switches: links down to each part below, their Gbit/s and latency, ports down and up, the switch's own latency."""

    gbps: int
    latency_ns: int
    down: int
    up: int
    bundle: int
    oversubscribed: int
    switch_latency_ns: int


@attrs.frozen
class FatTree(GraphFile):
    """NPUs, then the switches of the lowest tier, of the next, and of the highest. `leaf` is how many NPUs a switch has, `pod` a pod."""

    leaf: int = 1
    pod: int = 1

    def destination_order(self) -> Sequence[int]:
        """NPUs spread over paths of equal cost in their order, which goes switch by switch."""
        return range(self.size)

    def hops(self, source: int, destination: int) -> int:
        """Two at a switch, four within a pod, six beyond."""
        if source // self.leaf == destination // self.leaf:
            return 2
        return 4 if source // self.pod == destination // self.pod else 6


def htsim_topology(options: HtsimTopologyOptions) -> list[Dimension]:
    """The fat tree in a file as one dimension. Raises InputError naming file, line or key, and value."""
    topology = parse(read_text(options.file), options.file)
    slowest, longest = min(link.bandwidth for link in topology.edges), max(link.latency_ns for link in topology.edges)
    return [Dimension(topology, topology.size, topology.links_per_npu(), slowest, longest)]


def recognises(text: str) -> bool:
    """Whether a text names nodes, tiers and the size of a pod, as HTSim reads them."""
    keys = itertools.takewhile(lambda key: key in _HEADER, (words[0].lower() for _, words in _lines(text)))
    return set(keys) == set(_HEADER)


def read(text: str, path: str) -> dict[str, dict[str, object]]:
    """The section `platform`. Raises InputError if the file is wrong."""
    parse(text, path)
    return {"platform": {"plugin": "htsim_topology", "file": path}}


def parse(text: str, path: str) -> FatTree:
    """The fat tree in a text. Raises InputError naming file, line or key, and value."""
    header, tables = _tables(text, path)
    for key in _HEADER:
        if key not in header:
            raise InputError(f"{path}: {key} is missing; expected it above the tiers")
    nodes, count, pod = (header[key] for key in _HEADER)
    if count not in (2, 3):
        raise InputError(f"{path}: tiers is {count}; expected 2 or 3")
    for number in tables:
        if number >= count:
            raise InputError(f"{path}: tier {number}, and tiers is {count}; expected tiers 0 to {count - 1}")
    tiers = [_tier(tables, number, count, path) for number in range(count)]
    _check(nodes, pod, tiers, path)
    edges = tuple(_links(nodes, pod, tiers, path))
    return FatTree(nodes, edges, (), name="htsim_topology", leaf=tiers[0].down, pod=pod)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(io.StringIO(text), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


def _tables(text: str, path: str) -> tuple[dict[str, int], dict[int, dict[str, int]]]:
    """The keys above the tiers, and in each of them."""
    header: dict[str, int] = {}
    tables: dict[int, dict[str, int]] = {}
    table, known = header, [*_HEADER, "tier"]
    for number, (key, *values) in _lines(text):
        where, key = f"{path}:{number}", key.lower()
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}; {suggestion(key, known)}")
        if len(values) != 1 or not values[0].isdecimal():
            raise InputError(f"{where}: {key} is {' '.join(values)!r:.80}; expected a whole number")
        value = int(values[0])
        if key == "tier":
            if value in tables:
                raise InputError(f"{where}: tier {value} again; expected each tier once")
            table = tables[value] = {}
            known = [*_TIER, *_QUEUES, "tier"]
            continue
        if key in table:
            raise InputError(f"{where}: {key} again; expected it once")
        if key in _QUEUES:
            warn(f"{where}: {key} has no effect: queues are those of the network")
        table[key] = value
    return header, tables


def _tier(tables: dict[int, dict[str, int]], number: int, count: int, path: str) -> TreeTier:
    if number not in tables:
        raise InputError(f"{path}: tier {number} is missing; expected tiers 0 to {count - 1}")
    table, highest = tables[number], number == count - 1
    for key, default in _TIER.items():
        may_be_zero = key == "switch_latency_ns" or (key == "radix_up" and highest)
        if not (table.get(key, default) or may_be_zero):
            raise InputError(f"{path}: tier {number}: {key} is {table.get(key, 'missing')}; expected a whole number above 0")
    if highest and "radix_up" in table:
        raise InputError(f"{path}: tier {number}: radix_up is {table['radix_up']}; expected none in the highest tier")
    return TreeTier(*(table.get(key, default) for key, default in _TIER.items()))


def _check(nodes: int, pod: int, tiers: list[TreeTier], path: str) -> None:
    """Raises InputError if parts of the tree do not fit together."""

    def expect(tier: int, key: str, value: int, expected: int, why: str) -> None:
        if value != expected:
            raise InputError(f"{path}: tier {tier}: {key} is {value}; expected {expected}, {why}")

    if not nodes or not pod or nodes % pod:
        raise InputError(f"{path}: nodes is {nodes} and podsize is {pod}; expected nodes to be a multiple of podsize, both above 0")
    if pod % tiers[0].down:
        raise InputError(f"{path}: podsize is {pod} and radix_down of tier 0 is {tiers[0].down}; expected podsize to be a multiple of it")
    expect(0, "bundle", tiers[0].bundle, 1, "as an NPU has one link")
    ports = nodes
    for lower, upper in enumerate(tiers[1:]):
        if tiers[lower].up % upper.bundle:
            raise InputError(
                f"{path}: tier {lower}: radix_up is {tiers[lower].up} and bundle of tier {lower + 1} is {upper.bundle}; "
                "expected radix_up to be a multiple of it"
            )
        below, ports = ports * tiers[lower].gbps, ports // tiers[lower].down * tiers[lower].up
        if below != ports * upper.gbps * tiers[lower].oversubscribed:
            raise InputError(
                f"{path}: tier {lower}: oversubscribed is {tiers[lower].oversubscribed}, and its switches have "
                f"{below // nodes} Gbit/s down and {ports * upper.gbps / nodes:g} up for each NPU; expected the quotient of the two"
            )
    if len(tiers) == 2 and pod != nodes:
        raise InputError(f"{path}: podsize is {pod}; expected {nodes}, all nodes, with two tiers")
    leaves = pod // tiers[0].down
    expect(1, "radix_down", tiers[1].down, leaves * tiers[1].bundle, f"a bundle to each of {leaves} switches of tier 0 in a pod")
    if len(tiers) == 3:
        expect(2, "radix_down", tiers[2].down, nodes // pod * tiers[2].bundle, f"a bundle to each of {nodes // pod} pods")


def _links(nodes: int, pod: int, tiers: list[TreeTier], path: str) -> Iterator[GraphLink]:
    """The links, each way by itself; a switch's own latency counts on links that enter it."""
    pods, leaves, middle = nodes // pod, nodes // tiers[0].down, tiers[0].up // tiers[1].bundle
    aggregations = pods * middle if len(tiers) == 3 else middle
    count = 2 * (nodes + leaves * tiers[0].up + (aggregations * tiers[1].up if len(tiers) == 3 else 0))
    if count > LARGEST_FABRIC:
        raise InputError(f"{path}: nodes is {nodes}: a tree of {count} links; expected at most {LARGEST_FABRIC}")

    def join(lower: int, upper: int, tier: int) -> Iterator[GraphLink]:
        above, below = tiers[tier], tiers[tier - 1].switch_latency_ns if tier else 0
        for _ in range(above.bundle):
            bandwidth = above.gbps * _BYTES_PER_NS_OF_GBPS
            yield GraphLink(lower, upper, bandwidth, above.latency_ns + above.switch_latency_ns)
            yield GraphLink(upper, lower, bandwidth, above.latency_ns + below)

    for npu in range(nodes):
        yield from join(npu, nodes + npu // tiers[0].down, 0)
    second = nodes + leaves
    for leaf in range(leaves):
        first = leaf // (pod // tiers[0].down) * middle
        for place in range(middle):
            yield from join(nodes + leaf, second + first + place, 1)
    if len(tiers) == 3:
        third = second + aggregations
        for aggregation in range(aggregations):
            for turn in range(tiers[1].up // tiers[2].bundle):
                yield from join(second + aggregation, third + aggregation % middle + middle * turn, 2)
