"""The time of a whole collective with NCCL: the least of its algorithms and protocols."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from astra_sim import InputError
from astra_sim.errors import warn
from astra_sim.platform import Dimension, GroupShape, Platform, device_family
from astra_sim.schedule import Collective

from astra_sim_network_analytical.nccl_devices import device_names
from astra_sim_network_analytical.nccl_fabrics import on_fabric
from astra_sim_network_analytical.nccl_parameters import (
    NcclFit,
    NcclParameters,
    NodeLinks,
    Protocol,
    messages_in_row,
    read_device,
    read_parameters,
    ring_share,
    steps,
)
from astra_sim_network_analytical.network import AnalyticalNetwork
from astra_sim_network_analytical.options import AnalyticalOptions

_PS_PER_US = 1e6
_MESSAGES_OF_LEVEL = 2
"""A level of a tree is passed up and down."""
_MESSAGES_OF_NVLS = 2
"""The bytes that ranks send to the switches and receive from them, for the sum and for the result."""
_LOOPS_OF_NVLS = 2
"""Loops of chunks that go by before the last of three stages of NVLS begins (NCCL, src/device/all_reduce.h)."""
_HEADS_OF_LEVEL = 8
"""Ranks of the nodes in which NCCL's latencies of a level hold."""
_OF_ONE_MESSAGE = ("ll", "ll128")
"""Protocols with flags in their data; the others send a message after them, too."""
_LARGEST_CHUNK = 128 * 1024
_SMALLER_CHUNKS = {False: ((64, 64 * 1024), (8, 32 * 1024), (2, 16 * 1024)), True: ((4, 64 * 1024), (1, 32 * 1024))}
"""NVLS in a node, and trees of it: loops over a collective below which its chunks have these bytes (NCCL, src/enqueue.cc)."""
_NODES_OF_SMALL_CHUNKS = 4
"""The number of nodes from which the chunks of a tree have 64 KiB at most (NCCL, src/transport/nvls.cc)."""


class NcclNetwork(AnalyticalNetwork):
    """Collectives as NCCL does them, messages by the delay formula.

    The innermost dimension is a node, in which the measured parameters of the device hold: in proportion to the bandwidth that the platform
    gives it, and with its latency in place of that of the node in which they were measured. The link bandwidths of the others are the share
    of an NPU in the NICs of its node.
    """

    price_remedy = "the times were measured on a faster machine: network.device or network.parameters of this platform is right"

    def __init__(self, options: AnalyticalOptions, platform: Platform) -> None:
        super().__init__(options, platform)
        parameters, self.device = _chosen(options, platform)
        nics = [dimension.link_bandwidth * dimension.topology.links_per_message() for dimension in platform.dimensions]
        latencies = [self._message_us(number) for number in range(len(platform.dimensions))]
        if options.fabric_latency is not None:
            parameters, outside_us = on_fabric(parameters, options.fabric_latency)
            latencies = [latencies[0], *[outside_us] * (len(latencies) - 1)]
        inner = platform.dimensions[0]
        links = None if inner.size == 1 else NodeLinks(gb_per_s=inner.link_bandwidth * _used_links(inner), latency_us=latencies[0])
        self._prices = NcclPrices(parameters, nics, options.nic_efficiency, options.channels, links, latencies)
        if parameters.node is None:
            self.measured_dimensions = frozenset((0,))
            if links is not None:
                warn(
                    f"{parameters.title}: the links of its measurement are unknown, so the platform's links of its"
                    f" innermost dimension have no effect in collectives; expected, for example, node = {{ gb_per_s = {links.gb_per_s:g} }}"
                )
        if not parameters.calibrated:
            warn(f"{parameters.title}: its collectives were not fitted to measurements on it")

    def _message_us(self, number: int) -> float:
        """The latency of a message to the next NPU of a dimension."""
        dimension = self.platform.dimensions[number]
        hops = dimension.hops(0, 1) if dimension.size > 1 else 0
        return self.delay_parts(number, hops, 0).latency_ps / _PS_PER_US

    def collective_ps(self, collective: Collective, size: int, shape: GroupShape) -> int | None:
        """The least time of its algorithms and protocols."""
        whole = size * shape.ranks if collective is Collective.ALL_GATHER else size
        return round(self._prices.us(collective, whole, shape) * _PS_PER_US)


def _used_links(dimension: Dimension) -> int:
    """Links of an NPU over which a collective sends at once, one way."""
    return max(dimension.topology.links_per_npu(), dimension.topology.links_per_message())


class NcclChoice(NamedTuple):
    """An algorithm with a protocol: NCCL's own estimate, by which it chooses, and the time (us)."""

    expected_us: float
    us: float

    @classmethod
    def of(cls, us: float) -> NcclChoice:
        """One whose time equals the estimate."""
        return cls(us, us)


class NcclPrices:
    """The time of collectives by parameters of a device. `nics` are the shares of an NPU in the NICs and links of each dimension (10^9
    bytes/s), of which that of the innermost is not used; `nic_efficiency` and the most `channels` replace those of the parameters. `links`
    are those of the node; without them it has those in which the parameters were measured. `latencies` are those of messages in each
    dimension (us); without them those hold for which the parameters have steps.

    Other links change the time of bytes in proportion, and each message that others wait for by the difference of the latencies.
    """

    def __init__(
        self,
        parameters: NcclParameters,
        nics: Sequence[float] = (),
        nic_efficiency: float | None = None,
        channels: int | None = None,
        links: NodeLinks | None = None,
        latencies: Sequence[float] = (),
    ) -> None:
        self._parameters = parameters
        self._nics = nics
        self._efficiency = nic_efficiency or parameters.between_nodes.nic_efficiency
        self._faster = _share_of_channels(channels, parameters)
        self._later_us = 0.0
        self._latencies = latencies
        if links is not None and parameters.node is not None:
            self._faster *= _ratio(links.gb_per_s, parameters.node.gb_per_s)
            self._later_us = _difference(links.latency_us, parameters.node.latency_us)

    def us(self, collective: Collective, size: float, shape: GroupShape) -> float:
        """Microseconds of a collective; `size` as in nccl-tests: of an all-gather the bytes of each rank at the end."""
        if shape.nodes == 1:
            return self._in_node(collective, size, shape.ranks)
        if collective is Collective.ALL_TO_ALL:
            return self._all_to_all(size, shape)
        return min(self._between_nodes(collective, size, shape)).us

    def _protocols(self, collective: Collective, ranks: int) -> dict[str, Protocol]:
        """The protocols of a number of ranks in a node: latencies of the nearest number that was fitted, changed by their steps.

        One rank by itself has no steps, no bus, and no switch that reduces. The rate between such a switch and a rank does not
        depend on their number, so the bus bandwidth of NVLS does.
        """
        fit = self._parameters.fit(collective, ranks)
        more = steps(collective, ranks) - steps(collective, fit.ranks)
        nvls = ring_share(collective, ranks) / ring_share(collective, fit.ranks)
        protocols = {}
        for name, protocol in fit.protocols().items():
            if ranks == 1 and name == "nvls":
                continue
            latency, step = self._on_links(collective, fit, name, protocol)
            rate = protocol.gb_per_s * self._faster * (nvls if name == "nvls" else 1)
            protocols[name] = Protocol(latency_us=max(0.0, latency + step * more), gb_per_s=rate, step_us=step)
        return protocols

    def _on_links(self, collective: Collective, fit: NcclFit, name: str, protocol: Protocol) -> tuple[float, float]:
        """The latency of a protocol on the ranks of a fit, and the time of a further step of the ring, with the links of the node (us)."""
        if not self._later_us:
            return protocol.latency_us, protocol.step_us
        step = protocol.step_us
        if name == "nvls":
            later = _MESSAGES_OF_NVLS * self._later_us
        elif collective is Collective.ALL_TO_ALL:
            later = self._later_us
        else:
            step = max(0.0, step + self._later_us)
            # A step takes no less than nothing, if its time is known.
            each = step - protocol.step_us if protocol.step_us else self._later_us
            later = messages_in_row(collective, fit.ranks) * each
        return max(0.0, protocol.latency_us + later), step

    def _in_node(self, collective: Collective, size: float, ranks: int) -> float:
        fit = self._parameters.fit(collective, ranks)
        if fit.bytes and fit.ranks == ranks and not fit.has_protocols:
            return max(0.0, fit.time_us(size / self._faster) + messages_in_row(collective, ranks) * self._later_us)
        volume = ring_share(collective, ranks) * size / 1e3
        protocols = self._protocols(collective, ranks)
        name = min(protocols, key=lambda name: protocols[name].latency_us + volume / protocols[name].gb_per_s)
        whole_us = volume / protocols[name].gb_per_s
        filling_us = _LOOPS_OF_NVLS * self._filling_us(size, ranks, fit.ranks, whole_us) if name == "nvls" else 0.0
        measured = fit.correction(size / self._faster) if fit.ranks == ranks else 1.0
        return (protocols[name].latency_us + whole_us + filling_us) * measured

    def _filling_us(self, size: float, heads: int, known: int, whole_us: float, nodes: int = 1) -> float:
        """The time of a loop of NVLS beyond that of nodes of `known` ranks, if all bytes take `whole_us`."""
        if heads <= known or not size:
            return 0.0
        return (self._loop_bytes(size, heads, nodes) - self._loop_bytes(size, known, nodes)) / size * whole_us

    def _loop_bytes(self, size: float, heads: int, nodes: int = 1) -> float:
        """The bytes of a loop of NVLS: a chunk for each channel and rank of a node (`heads`)."""
        chunk = _LARGEST_CHUNK if nodes < _NODES_OF_SMALL_CHUNKS else _LARGEST_CHUNK // 2
        chunks_ahead = self._parameters.nvls_channels * heads
        for loops, smaller in _SMALLER_CHUNKS[nodes > 1]:
            if size < loops * chunks_ahead * chunk and chunk > smaller:
                chunk = smaller
        return min(size, chunks_ahead * chunk)

    def _later_outside_us(self, shape: GroupShape) -> float:
        """By how much a message to another node takes longer than those for which the parameters have steps: in the slowest dimension
        that the group crosses.
        """
        dimensions_outside = zip(self._latencies[1:], shape.blocks[1:], shape.blocks[2:], strict=False)
        crossed = [latency for latency, inner, outer in dimensions_outside if inner > outer]
        return _difference(max(crossed), self._parameters.between_nodes.latency_us) if crossed else 0.0

    def _nic_share(self, shape: GroupShape) -> float:
        """The least share of an NPU in NICs and links that the group crosses, in 10^9 bytes/s."""
        crossed = [nic for nic, inner, outer in zip(self._nics[1:], shape.blocks[1:], shape.blocks[2:], strict=False) if inner > outer]
        return min(crossed) * self._efficiency

    def _between_nodes(self, collective: Collective, size: float, shape: GroupShape) -> Iterator[NcclChoice]:
        """A ring with each protocol, and of an all-reduce a tree.

        As many rings as ranks are in a node leave it, each by a NIC of its own.
        """
        result, members = self._parameters.between_nodes, shape.per_node
        between = steps(collective, shape.nodes)
        within = steps(collective, shape.ranks) - between
        inside = steps(collective, members)  # of which the latency in the node has these
        step_us = result.step_us if members > 1 else result.step_alone_us
        later_us = self._later_outside_us(shape)
        nics = self._nic_share(shape) * members
        volume = ring_share(collective, shape.ranks) * size / 1e3
        levels = math.ceil(math.log2(shape.nodes))
        # Of two nodes each sends its partial sum to the other; of more, most pass data on upwards and downwards.
        passes = 1 if shape.nodes == 2 else 2
        for name, protocol in self._protocols(collective, members).items():
            bandwidth = nics * result.share.of(name)
            if not bandwidth:
                continue
            messages_us = later_us * (1 if name in _OF_ONE_MESSAGE else 2)
            level_us = max(0.0, result.level_us.of(name) + _MESSAGES_OF_LEVEL * messages_us)
            if name == "nvls":
                in_node = ring_share(collective, members) * size / 1e3 / protocol.gb_per_s
                expected_us = protocol.latency_us + levels * level_us + max(in_node, passes * size / 1e3 / bandwidth)
                whole = max(in_node, passes * size / 1e3 / min(bandwidth, result.nvls_gb_per_s or bandwidth))
                known = self._parameters.fit(collective, members).ranks
                filling_us = _LOOPS_OF_NVLS * self._filling_us(size, members, known, whole, shape.nodes)
                filling_us += levels * self._filling_us(size, members, _HEADS_OF_LEVEL, whole, shape.nodes)
                # NCCL does not know what is measured of its trees, so it chooses without.
                yield NcclChoice(expected_us, protocol.latency_us + levels * level_us + whole + filling_us)
                continue
            base_us = max(0.0, protocol.latency_us - inside * protocol.step_us)
            outside_us = between * max(0.0, step_us.of(name) + messages_us)
            in_node = protocol.gb_per_s if members > 1 else math.inf
            within_us = within * max(protocol.step_us, result.post_us.of(name))
            yield NcclChoice.of(base_us + within_us + outside_us + volume / min(bandwidth, in_node))
            if collective is Collective.ALL_REDUCE:
                # A tree passes everything up and down in the node, too.
                rate = min(bandwidth / passes, in_node / 2) * result.tree_share if result.chain is None else bandwidth / passes
                expected_us = protocol.latency_us + levels * level_us + size / 1e3 / rate
                yield NcclChoice(expected_us, expected_us + (0.0 if result.chain is None else result.chain.filling_us(size, members)))

    def _all_to_all(self, size: float, shape: GroupShape) -> float:
        """Traffic within the node and to other nodes at the same time, each over its own links."""
        members = shape.per_node
        fastest = self._protocols(Collective.ALL_TO_ALL, members).values()
        others = (shape.ranks - members) / shape.ranks * size / 1e3 / self._nic_share(shape)
        within = (members - 1) / shape.ranks * size / 1e3
        between_nodes = self._parameters.between_nodes
        peers = (shape.ranks - members) * between_nodes.peer_us + max(0.0, between_nodes.step_us.ll + self._later_outside_us(shape))
        return peers + min(each.latency_us + max(others, within / each.gb_per_s) for each in fastest)


def _share_of_channels(most: int | None, parameters: NcclParameters) -> float:
    """The share of the channels that may be used. Raises InputError if it is not known how many there are."""
    if most is None:
        return 1.0
    if parameters.channels is None:
        raise InputError(f"channels is {most}, and {parameters.title} does not tell with how many it was measured")
    return min(1.0, most / parameters.channels)


_SAME = 1e-9
"""Relative difference below which two figures of links are one, computed in two ways."""


def _ratio(value: float, other: float) -> float:
    """A figure over another; exactly 1 if they are the same."""
    return 1.0 if math.isclose(value, other, rel_tol=_SAME) else value / other


def _difference(value: float, other: float) -> float:
    """A figure less another; exactly 0 if they are the same."""
    return 0.0 if math.isclose(value, other, rel_tol=_SAME) else value - other


def _chosen(options: AnalyticalOptions, platform: Platform) -> tuple[NcclParameters, str]:
    """The parameters that options name, or else the platform, and of which device they are ("": not known). Raises InputError."""
    if options.parameters is not None:
        if options.device is not None:
            raise InputError("device and parameters are given; expected one of the two")
        return read_parameters(options.parameters), ""
    if options.device is not None:
        return read_device(options.device), device_family(options.device)
    known = device_names()
    # Parts of one GPU that differ in memory, such as a100-40 and a100-80, communicate alike.
    named = (device_family(platform.device), *platform.name.lower().replace("_", " ").split())
    result = list(dict.fromkeys(device for device in named if device in known))
    if len(result) != 1:
        called = f"that of platform {platform.name!r} is not known" if platform.name or platform.device else "the platform names none"
        raise InputError(f"model=nccl needs a device, and {called}; expected device={'|'.join(known)} or parameters=FILE")
    return read_device(result[0]), result[0]
