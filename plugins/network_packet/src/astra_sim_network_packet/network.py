"""The packet network as a backend: builds the core's network for a platform, and passes messages to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.errors import AstraError, DeadlockError
from astra_sim.fabric import RouteRules
from astra_sim.function_table import CompiledNetwork
from astra_sim.network import LinkLoad
from astra_sim.platform import Platform

from astra_sim_network_packet import _core, fabric, garnet_topologies, heat_map
from astra_sim_network_packet.options import PacketOptions, Settings

GARNET_START_PS = 13_000
"""Garnet's workload starts in cycle 13."""

Core = _core.Network | _core.QuotientNetwork

_MAX_DOMAINS = 64
_UNIT = "of the time"


class PacketNetwork(CompiledNetwork[Core]):
    """Messages as packets of flits through routers with virtual channels and credits.

    It can also be used without a kernel: `inject` and `advance` without `begin`.
    """

    accounting_dimension = "lowest"

    def __init__(self, options: PacketOptions, platform: Platform) -> None:
        super().__init__(platform)
        self.settings = options.settings()
        self.held_bytes = self.settings.packet_bytes if options.flow_control == "cut_through" else self.settings.flit_bytes
        is_fixed = options.routing == "dimension_order" and self.settings.allocation == "combined"
        self.route_rules = RouteRules("always", "destination" if is_fixed else "all")
        self._start_ps = GARNET_START_PS if options.preset == "garnet" else 0
        self._builder = _builder(self.settings, platform.wired())
        self.core  # noqa: B018 - a platform that cannot be is an error now

    def make_core(self) -> Core:
        """The network of a run, in which every router is simulated if symmetry is not wanted."""
        return self._builder.network() if self.symmetry else self._builder.whole()

    def begin(self) -> int:
        """Begin a run of the kernel. Returns the time at which its workload starts (picoseconds)."""
        if not self.symmetry:
            self.discard_core()
        super().begin()
        self.core.wake_senders()
        return self._start_ps

    def failure(self, why: str) -> AstraError:
        """The error that the core reports: a deadlock, with a line for every channel that waits, or a message without a route."""
        first, *waiting = why.split("\n")
        return DeadlockError(why, [line.strip() for line in waiting]) if "deadlocked" in first else InputError(why)

    def check(self) -> None:
        """Raise AssertionError if flits or credits have been lost, or buffers hold more than they can."""
        problem = self.core.check()
        if problem:
            raise AssertionError(problem)

    def dependencies(self) -> list[tuple[VcRange, VcRange]]:
        """The virtual channels that packets may hold, and those on the next link that they may request meanwhile.

        If they form no circle, the network cannot deadlock (Dally and Seitz 1987). With `deadlock_freedom = bubble` they do on rings.
        """
        whole = self._builder.whole()
        return [
            (VcRange(domain, *held), VcRange(domain, *wanted))
            for domain in range(whole.domains)
            for held, wanted in whole.dependencies(domain)
        ]

    def statistics(self) -> dict[str, object]:
        """Figures of the run so far.

        Latencies of packets from their generation: queueing until the head leaves the interface, network until the tail arrives.
        Bucket b of a histogram counts packets of 2^(b-1) to 2^b - 1 cycles, bucket 0 those of 0 cycles.
        """
        figures = self.core.statistics()
        packets = max(1, figures["packets"])
        cycle_ns = self.core.clock_ps / 1000
        shares = self._shares(figures)
        return {
            "cycle_ns": cycle_ns,
            "packets": figures["packets"],
            "flits": figures["flits"],
            "flit_hops": figures["flit_hops"],
            "average_hops": figures["hops"] / packets,
            "average_queueing_ns": figures["queueing_cycles"] / packets * cycle_ns,
            "average_network_ns": figures["network_cycles"] / packets * cycle_ns,
            "queueing_histogram": _trimmed(figures["queueing_histogram"]),
            "network_histogram": _trimmed(figures["network_histogram"]),
            "links": len(shares),
            "average_link_utilisation": sum(shares) / len(shares) if shares else 0.0,
            "highest_link_utilisation": max(shares, default=0.0),
            "simulated_npus": self.platform.npus // figures["copies"],
        }

    def _link_rows(self, figures: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """The core's figures of every link between routers; of a quotient network, with the link that represents it."""
        channels = figures["channels"]
        collapsed = self._collapsed()
        if collapsed is None:
            yield from (row for row in channels if row[2] >= 0)
        else:
            builder, *how = collapsed
            for (dimension, name, source, sink), channel in zip(builder.links(), builder.channels(*how), strict=True):
                yield 0, name, dimension, source, sink, *channels[channel][5:]

    def _shares(self, figures: Mapping[str, Any]) -> list[float]:
        """The utilisation of every link between routers, as in `link_loads`."""
        cycles = max(1, figures["cycles"])
        shares = [flits * flit_cycles / cycles for *_, flits, _, _, flit_cycles in figures["channels"]]
        collapsed = self._collapsed()
        if collapsed is None:
            return [share for share, row in zip(shares, figures["channels"], strict=True) if row[2] >= 0]
        builder, *how = collapsed
        return [shares[channel] for channel in builder.channels(*how)]

    def _collapsed(self) -> tuple[fabric.Builder, list[bool], list[bool]] | None:
        """The factory of the core's network, whether it is collapsed, and in which dimensions, and by exclusive or."""
        builder, core = self._builder, self.core
        if not isinstance(builder, fabric.Builder) or not isinstance(core, _core.QuotientNetwork):
            return None
        collapsed, exclusive_or = core.collapsed, core.exclusive_or
        return None if collapsed is None or exclusive_or is None else (builder, collapsed, exclusive_or)

    def links(self) -> list[LinkLoad]:
        """The links between routers that have carried something. Queues are the flits in the buffers behind a link."""
        size = self.settings.flit_bytes
        return [
            LinkLoad(
                link.dimension,
                self._name(link.domain, link.source),
                self._name(link.domain, link.sink),
                link.flits * size,
                min(1.0, link.load),
                transfers=link.packets,
                mean_queue_bytes=link.waiting * size,
            )
            for link in self._used_links()
            if link.flits
        ]

    def reports(self) -> dict[str, str]:
        """The heat map `links.txt`."""
        return {"links.txt": _heat_map(list(self._used_links()))}

    def _used_links(self) -> Iterator[LinkUse]:
        """The load of every link between routers so far."""
        figures = self.core.statistics()
        cycles = max(1, figures["cycles"])
        for domain, _, dimension, source, sink, flits, packets, waiting, flit_cycles in self._link_rows(figures):
            yield LinkUse(domain, dimension, source, sink, flits, packets, flits * flit_cycles / cycles, waiting / cycles)

    def _name(self, domain: int, router: int) -> str:
        """The name of a router in the fabric of the platform: routers of NPUs are the NPUs."""
        node = self._builder.node(domain, router)
        npus = self.platform.npus
        return f"switch {node - npus}" if node >= npus else f"NPU {node}"


class VcRange(NamedTuple):
    """Virtual channels `first` to `end` - 1 of a link, by its number in a domain."""

    domain: int
    link: int
    first: int
    end: int


class LinkUse(NamedTuple):
    """A link between routers: its domain, the routers at its ends, and its traffic.

    `load` is the share of time in which its wires were busy, `waiting` the mean number of flits in the buffers behind it.
    """

    domain: int
    dimension: int
    source: int
    sink: int
    flits: int
    packets: int
    load: float
    waiting: float


def _heat_map(links: Sequence[LinkUse]) -> str:
    """The heat map of each domain's links; domains beyond the 64th are left out."""
    domains: dict[int, list[LinkUse]] = {}
    for link in links:
        domains.setdefault(link.domain, []).append(link)
    maps = [f"domain {domain}: {heat_map.text(mine, _UNIT)}" for domain, mine in domains.items()] if len(domains) > 1 else []
    more = [f"and {len(maps) - _MAX_DOMAINS} more domains"] if len(maps) > _MAX_DOMAINS else []
    return "\n\n".join([*maps[:_MAX_DOMAINS], *more] or [heat_map.text(links, _UNIT)]) + "\n"


def _trimmed(histogram: Sequence[int]) -> list[int]:
    """The histogram without empty buckets at the end."""
    last = max((bucket for bucket, count in enumerate(histogram) if count), default=-1)
    return list(histogram[: last + 1])


class _GarnetBuilder:
    """Makes networks of Garnet's topologies."""

    def __init__(self, garnet: garnet_topologies.PacketGarnetNetwork, settings: Settings, clock_ps: int) -> None:
        self._arguments = garnet, settings, clock_ps
        self._members = [members for *_, members in garnet_topologies.rings(garnet)]

    def network(self) -> _core.Network:
        """An idle network."""
        return garnet_topologies.build(*self._arguments)

    def whole(self) -> _core.Network:
        """An idle network in which every ring is simulated."""
        garnet, settings, clock_ps = self._arguments
        return garnet_topologies.build(garnet, attrs.evolve(settings, options=settings.options.with_every_npu()), clock_ps)

    def node(self, domain: int, router: int) -> int:
        """The node that a router of a domain is: of rings, and of the switches after them."""
        return self._members[domain][router] if domain < len(self._members) else router


def _builder(settings: Settings, platform: Platform) -> fabric.Builder | _GarnetBuilder:
    """The factory of the core's networks for a platform. Raises InputError."""
    garnet = garnet_topologies.garnet_network(platform.dimensions[0].topology)
    if garnet is not None:
        if settings.options.router_clock_ps:
            raise InputError(
                f"router_clock_ps is given for {garnet.topology} of Garnet, whose routers share one clock; expected no such option"
            )
        clock_ps = settings.clock_ps or 1000
        longest = max(garnet.local_link_latency, garnet.package_link_latency)
        settings = settings.sized(2000 * longest / clock_ps)
        return _GarnetBuilder(garnet, settings, clock_ps)
    return fabric.Builder(platform, settings)
