"""Clos fabrics: leaf and spine switches, or three levels, with oversubscription, rails and planes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.fabric import Wire, both_ways
from astra_sim.fabric.graph import LARGEST_FABRIC
from astra_sim.limits import MAX_PORTS
from astra_sim.platform import Dimension, Topology
from astra_sim.schedule import Peer

from astra_sim_platforms.topologies import LinkOptions


@attrs.frozen(slots=False)  # so that it can be a base beside another
class ClosSwitchOptions:
    """Options of the switches of a Clos fabric, and of the links between them."""

    planes: int = option(1, minimum=1, maximum=64, help="fabrics side by side; an NPU has a NIC in each")
    levels: int = option(2, minimum=2, maximum=3, help="levels of switches: 2 (leaf, spine) or 3 (leaf, aggregation, core)")
    ports: int = option(
        64, minimum=2, maximum=MAX_PORTS, help="ports of a switch; 64 of 400 Gb/s has NVIDIA QM9700 (itctshop.com/infiniband-switch-guide)"
    )
    oversubscription: float = option(1.0, above=0, help="bandwidth of a leaf to its NPUs, in bandwidths of it to the spines")
    leaf_npus: int | None = option(None, minimum=1, maximum=MAX_PORTS, help="NPUs of a leaf; default: as many as its ports allow")
    spines: int | None = option(
        None, minimum=1, maximum=MAX_PORTS, help="spines of a plane, or cores of one group of them; default: as few as possible"
    )
    pod_leaves: int | None = option(
        None, minimum=1, help="levels=3: leaves that the same aggregation switches join; default: as many as their ports allow"
    )
    switch_latency_ns: float = option(
        0.0, minimum=0, help="latency of a switch with congestion=aware; packet has its own, and a formula none", unit="ns"
    )


@attrs.frozen
class ClosOptions(LinkOptions, ClosSwitchOptions):
    """Options of a Clos fabric."""

    npus: int = option(minimum=1, help="NPUs")
    rails: int = option(1, minimum=1, help="rails: NPU i hangs on the leaves of rail i modulo rails, and rails meet at the spines")
    uplink_bandwidth_gb_per_s: float | None = option(
        None, above=0, help="bandwidth of a link between switches; default: of a link", unit="10^9 bytes/s"
    )
    uplink_latency_ns: float | None = option(None, minimum=0, help="latency of links between switches; default: of a link", unit="ns")


@attrs.frozen
class Clos(Topology):
    """A Clos fabric. Of everything without `planes` in its name there is as much in each plane.

    NPUs come in servers of `server`, and of these `shared` in a row hang on one rail, the next ones on the next. A leaf has `leaf_npus`
    NPUs, the last of a rail perhaps fewer, and `uplinks` links up; leaf b * `rails` + r is the b-th of rail r. With two levels
    `uplinks` / `spines` links join a leaf and a spine. With three each of the `uplinks` aggregation switches of a pod has a link to each of
    its `pod_leaves` leaves, and `pod_leaves` / `spines` links to each of the `spines` cores of its group: there is a group for each
    aggregation switch of a pod. Without uplinks a single leaf joins all NPUs.
    """

    size: int
    rails: int
    planes: int
    levels: int
    server: int
    shared: int
    leaf_npus: int
    uplinks: int
    spines: int
    pod_leaves: int
    uplink_width: float = 1.0
    uplink_length: float = 1.0
    name: str = "clos"
    _leaf_of: dict[int, int] = attrs.field(factory=dict, init=False, repr=False, eq=False)

    @property
    def leaves(self) -> int:
        """The leaves of a plane."""
        return -(-self.size // self.rails // self.leaf_npus) * self.rails

    @property
    def switches_of_plane(self) -> int:
        """The switches of a plane."""
        if not self.uplinks:
            return self.leaves
        if self.levels == 2:
            return self.leaves + self.spines
        return self.leaves + self.leaves // self.pod_leaves * self.uplinks + self.uplinks * self.spines

    def leaf(self, npu: int) -> int:
        """The leaf of an NPU, in each plane."""
        server, place = divmod(npu, self.server)
        turn, within = divmod(place, self.shared * self.rails)
        rail, within = divmod(within, self.shared)
        on_rail = server * (self.server // self.rails) + turn * self.shared + within
        return on_rail // self.leaf_npus * self.rails + rail

    def destination_order(self) -> Sequence[int]:
        """NPUs spread over paths of equal cost leaf by leaf, on whatever rails they are.

        Every leaf begins with the first link up. So if links up are fewer than NPUs, those that share one are the same towards all
        leaves, and do not meet others that are a step ahead.
        """
        uplinks = max(1, self.uplinks)
        of_leaf = -(-self.leaf_npus // uplinks) * uplinks
        following = [leaf * of_leaf for leaf in range(self.leaves)]
        destination_order = []
        for npu in range(self.size):
            leaf = self.leaf(npu)
            destination_order.append(following[leaf])
            following[leaf] += 1
        return destination_order

    def hops(self, source: int, destination: int) -> int:
        """Two at a leaf, four over a spine or within a pod, six over a core."""
        known = self._leaf_of
        for npu in (source, destination):
            if npu not in known:
                known[npu] = self.leaf(npu)
        a, b = known[source], known[destination]
        if a == b:
            return 2
        return 4 if self.levels == 2 or a // self.pod_leaves == b // self.pod_leaves else 6

    def is_symmetric(self, peer: Peer) -> bool:
        """True if there is a single leaf; else not known."""
        return not self.uplinks and peer.operator != "rank"

    def links_per_message(self) -> int:
        """One: a message takes one plane."""
        return 1

    def links_per_npu(self) -> int:
        """One in each plane."""
        return self.planes

    def link_count(self) -> int:
        """The links, each way counted."""
        up = self.leaves * self.uplinks
        return 2 * self.planes * (self.size + up * (self.levels - 1))

    def wires(self) -> list[Wire]:
        """Plane by plane the links of NPUs, of leaves and of aggregation switches. Raises InputError if they are too many to list."""
        return both_ways(self.pairs())

    def pairs(self) -> Iterator[Wire]:
        """The same, one of each two ways."""
        if self.link_count() > LARGEST_FABRIC:
            raise InputError(f"a {self.name} of {self.size} NPUs has {self.link_count()} links; expected at most {LARGEST_FABRIC}")
        for plane in range(self.planes):
            first = self.size + plane * self.switches_of_plane
            for npu in range(self.size):
                yield Wire(npu, first + self.leaf(npu))
            yield from self._uplinks(first)

    def _uplinks(self, first: int) -> Iterator[Wire]:
        """The links between the switches of a plane, whose first leaf is node `first`."""
        above = first + self.leaves
        if self.levels == 2:
            for leaf in range(self.leaves):
                for link in range(self.uplinks):
                    yield self._uplink(first + leaf, above + link % self.spines)
            return
        pods = self.leaves // self.pod_leaves
        cores = above + pods * self.uplinks
        for leaf in range(self.leaves):
            for place in range(self.uplinks):
                yield self._uplink(first + leaf, above + leaf // self.pod_leaves * self.uplinks + place)
        for pod in range(pods):
            for place in range(self.uplinks):
                for link in range(self.pod_leaves):
                    yield self._uplink(above + pod * self.uplinks + place, cores + place * self.spines + link % self.spines)

    def _uplink(self, lower: int, upper: int) -> Wire:
        return Wire(lower, upper, self.uplink_width, self.uplink_length)


def clos(options: ClosOptions) -> list[Dimension]:
    """A Clos fabric as one dimension. Raises InputError naming the option that does not fit."""
    bandwidth = options.bandwidth()
    uplink = bandwidth if options.uplink_bandwidth_gb_per_s is None else float(options.uplink_bandwidth_gb_per_s)
    topology = sized(options, options.npus, options.rails, uplink / bandwidth, _length(options))
    for name in ("uplink_bandwidth_gb_per_s", "uplink_latency_ns"):
        _check_unused(topology, name, getattr(options, name))
    return [attrs.evolve(options.dimension(topology, options.npus), router_latency_ns=options.switch_latency_ns)]


def _length(options: ClosOptions) -> float:
    """The latency of links between switches, in latencies of a link. Raises InputError if that is nothing and the other is not."""
    latency_ns, uplink = options.link_latency_ns, options.uplink_latency_ns
    if uplink is None or uplink == latency_ns:
        return 1.0
    if latency_ns == 0:
        raise InputError(f"uplink_latency_ns is {uplink:g} and link_latency_ns is 0; expected link_latency_ns above 0")
    return uplink / latency_ns


def sized(
    options: ClosSwitchOptions, npus: int, rails: int, width: float = 1.0, length: float = 1.0, server: int | None = None, shared: int = 1
) -> Clos:
    """The fabric that the options describe, for `npus` NPUs; links between switches are `width` links wide and `length` as long.

    `server` and `shared` are those of `Clos`. Raises InputError naming the option that does not fit.
    """
    if npus % rails:
        raise InputError(f"npus is {npus} and rails is {rails}; expected a multiple of rails for npus")
    on_rail = npus // rails
    fixed: dict[str, Any] = {"size": npus, "rails": rails, "planes": options.planes, "server": server or rails * shared, "shared": shared}
    fixed |= {"uplink_width": width, "uplink_length": length}
    if rails == 1 and options.leaf_npus in (None, npus) and npus <= options.ports:
        single = Clos(levels=2, leaf_npus=npus, uplinks=0, spines=0, pod_leaves=1, **fixed)
        for name in ("spines", "pod_leaves", "oversubscription", "levels"):
            value = getattr(options, name)
            _check_unused(single, name, None if value == getattr(attrs.fields(ClosSwitchOptions), name).default else value)
        return single
    leaf_npus, uplinks = _leaf(options, on_rail, width, shared)
    leaves = -(-on_rail // leaf_npus) * rails
    if options.levels == 2:
        if options.pod_leaves is not None:
            raise InputError(f"pod_leaves is {options.pod_leaves}, and levels is 2; expected levels=3, or no pod_leaves")
        spines = _spines(options, uplinks, leaves, f"the {leaves} leaves need as many of a spine", "levels=3, more ports or fewer npus")
        return Clos(levels=2, leaf_npus=leaf_npus, uplinks=uplinks, spines=spines, pod_leaves=1, **fixed)
    pod_leaves = _pod_leaves(options, leaves)
    pods = leaves // pod_leaves
    spines = _spines(options, pod_leaves, pods, f"the {pods} pods need as many of a core", "more ports or fewer npus")
    return Clos(levels=3, leaf_npus=leaf_npus, uplinks=uplinks, spines=spines, pod_leaves=pod_leaves, **fixed)


def _check_unused(topology: Clos, name: str, value: float | None) -> None:
    """Raise InputError for an option of absent levels if a single leaf joins all NPUs."""
    if not topology.uplinks and value is not None:
        size = topology.size
        raise InputError(f"{name} is {value:g}, and a single leaf joins all {size} NPUs; expected leaf_npus below {size}, or no {name}")


def _leaf(options: ClosSwitchOptions, on_rail: int, width: float, shared: int) -> tuple[int, int]:
    """The NPUs of a leaf, `shared` at a port, and its links up: as few leaves as possible, all alike if the numbers divide."""
    ports, over = options.ports, options.oversubscription
    whole = [npus for npus in range(shared, ports * shared, shared) if _whole(npus / over / width)]
    if options.leaf_npus is not None:
        if options.leaf_npus not in whole and options.leaf_npus < ports * shared:
            up = options.leaf_npus / over / width
            raise InputError(
                f"oversubscription is {over:g}, and a leaf of {options.leaf_npus} NPUs has {up:g} links up for it; expected a whole number"
            )
        whole = [options.leaf_npus]
    possible = [npus for npus in whole if npus // shared + round(npus / over / width) <= ports]
    if not possible:
        npus = min(whole, default=shared)
        up = npus / over / width
        raise InputError(
            f"ports is {ports}, and a leaf has {npus // shared} links down and {up:g} up, or multiples, for oversubscription {over:g};"
            " expected more ports"
        )
    leaves = -(-on_rail // possible[-1])
    leaf_npus = next(npus for npus in possible if npus * leaves >= on_rail)
    return leaf_npus, round(leaf_npus / over / width)


def _whole(number: float) -> bool:
    """Whether this is 1, 2, 3, ..., but for rounding."""
    return number > 0.5 and abs(number - round(number)) < 1e-9 * number


def _spines(options: ClosSwitchOptions, links: int, below: int, what: str, remedy: str) -> int:
    """The number of switches of the highest level that the `links` up of each of the `below` switches lead to."""
    ports = options.ports
    if options.spines is None:
        fitting = [spines for spines in _divisors(links, links) if below * (links // spines) <= ports]
        if not fitting:
            raise InputError(f"ports is {ports}, and {what}; expected {remedy}")
        return min(fitting)
    if links % options.spines:
        raise InputError(f"spines is {options.spines}, and {links} links lead up to them; expected a divisor of {links}")
    needed = below * (links // options.spines)
    if needed > ports:
        raise InputError(f"spines is {options.spines}, and each needs {needed} ports; expected more spines, or more ports")
    return options.spines


def _pod_leaves(options: ClosSwitchOptions, leaves: int) -> int:
    """The leaves of a pod, so that there are several pods."""
    most = options.ports // 2
    if options.pod_leaves is None:
        fitting = [count for count in _divisors(leaves, most) if count < leaves]
        if not fitting:
            raise InputError(f"levels is 3, and there are {leaves} leaves, too few for pods; expected levels=2")
        return max(fitting)
    if leaves % options.pod_leaves or options.pod_leaves == leaves:
        raise InputError(f"pod_leaves is {options.pod_leaves}, and there are {leaves} leaves; expected a divisor of {leaves} below it")
    if options.pod_leaves > most:
        raise InputError(
            f"pod_leaves is {options.pod_leaves}, and an aggregation switch needs twice as many ports;"
            f" expected at most {most}, half of ports"
        )
    return options.pod_leaves


def _divisors(number: int, most: int) -> list[int]:
    """The divisors of a number that are at most so large."""
    return [candidate for candidate in range(1, min(number, most) + 1) if number % candidate == 0]
