"""What a whole collective takes with NCCL: the least of its algorithms and protocols."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from astra_sim import InputError
from astra_sim.errors import warn
from astra_sim.platform import GroupShape, Platform
from astra_sim.schedule import Collective

from astra_sim_network_analytical.nccl_devices import device_names
from astra_sim_network_analytical.nccl_parameters import (
    Parameters,
    Protocol,
    read_device,
    read_parameters,
    ring_share,
    steps,
)
from astra_sim_network_analytical.network import AnalyticalNetwork
from astra_sim_network_analytical.options import AnalyticalOptions

_PS_PER_US = 1e6


class NcclNetwork(AnalyticalNetwork):
    """Collectives as NCCL does them, messages by the delay formula.

    The innermost dimension is a node, in which the measured parameters of the device hold; the link bandwidths of the others are the
    share of an NPU in the NICs of its node.
    """

    price_remedy = "the times were measured on a faster machine: network.device or network.parameters of this platform is right"

    def __init__(self, options: AnalyticalOptions, platform: Platform) -> None:
        super().__init__(options, platform)
        parameters = _chosen(options, platform)
        nics = [dimension.link_bandwidth * dimension.topology.links_per_message() for dimension in platform.dimensions]
        self._prices = Prices(parameters, nics, options.nic_efficiency, options.channels)
        if not parameters.calibrated:
            warn(f"{parameters.title}: its collectives were not fitted to measurements on it")

    def collective_ps(self, collective: Collective, size: int, shape: GroupShape) -> int | None:
        """The least of what its algorithms and protocols take."""
        whole = size * shape.ranks if collective is Collective.ALL_GATHER else size
        return round(self._prices.us(collective, whole, shape) * _PS_PER_US)


class Prices:
    """What collectives take by parameters of a device. `nics` are the shares of an NPU in the NICs and links of each dimension (10^9
    bytes/s), of which that of the innermost is not used; `nic_efficiency` and the most `channels` replace what the parameters say.
    """

    def __init__(
        self, parameters: Parameters, nics: Sequence[float] = (), nic_efficiency: float | None = None, channels: int | None = None
    ) -> None:
        self._parameters = parameters
        self._nics = nics
        self._efficiency = nic_efficiency or parameters.between_nodes.nic_efficiency
        self._channels = _share_of_channels(channels, parameters)

    def us(self, collective: Collective, size: float, shape: GroupShape) -> float:
        """Microseconds of a collective; `size` as nccl-tests has it: of an all-gather what each rank holds at the end."""
        if shape.nodes == 1:
            return self._in_node(collective, size, shape.ranks)
        if collective is Collective.ALL_TO_ALL:
            return self._all_to_all(size, shape)
        return min(self._between_nodes(collective, size, shape))

    def _protocols(self, collective: Collective, ranks: int) -> dict[str, Protocol]:
        """The protocols of so many ranks in a node: latencies of the nearest number that was fitted, changed by their steps.

        One rank by itself has no steps, no bus, and no switch that reduces. What such a switch takes from and gives to a rank does not
        depend on their number, so the bus bandwidth of NVLS does.
        """
        fit = self._parameters.fit(collective, ranks)
        more = steps(collective, ranks) - steps(collective, fit.ranks)
        nvls = ring_share(collective, ranks) / ring_share(collective, fit.ranks)
        return {
            name: Protocol(
                latency_us=max(0.0, protocol.latency_us + protocol.step_us * more),
                gb_per_s=protocol.gb_per_s * self._channels * (nvls if name == "nvls" else 1),
                step_us=protocol.step_us,
            )
            for name, protocol in fit.protocols().items()
            if ranks > 1 or name != "nvls"
        }

    def _in_node(self, collective: Collective, size: float, ranks: int) -> float:
        fit = self._parameters.fit(collective, ranks)
        if fit.bytes and fit.ranks == ranks:
            return fit.time_us(size)
        volume = ring_share(collective, ranks) * size / 1e3
        return min(each.latency_us + volume / each.gb_per_s for each in self._protocols(collective, ranks).values())

    def _nic_share(self, shape: GroupShape) -> float:
        """The least share of an NPU in NICs and links that the group crosses, in 10^9 bytes/s."""
        crossed = [nic for nic, inner, outer in zip(self._nics[1:], shape.blocks[1:], shape.blocks[2:], strict=False) if inner > outer]
        return min(crossed) * self._efficiency

    def _between_nodes(self, collective: Collective, size: float, shape: GroupShape) -> Iterator[float]:
        """A ring with each protocol, and of an all-reduce a tree.

        As many rings as ranks lie in a node leave it, each by a NIC of its own.
        """
        given, members = self._parameters.between_nodes, shape.per_node
        between = steps(collective, shape.nodes)
        within = steps(collective, shape.ranks) - between
        inside = steps(collective, members)  # of which the latency in the node has these
        step_us = given.step_us if members > 1 else given.step_alone_us
        nics = self._nic_share(shape) * members
        volume = ring_share(collective, shape.ranks) * size / 1e3
        levels = math.ceil(math.log2(shape.nodes))
        for name, protocol in self._protocols(collective, members).items():
            bandwidth = nics * given.share.of(name)
            levels_us = protocol.latency_us + levels * given.level_us.of(name)
            if name == "nvls":
                in_node = ring_share(collective, members) * size / 1e3 / protocol.gb_per_s
                outside = ring_share(collective, shape.nodes) * size / 1e3 / bandwidth
                yield levels_us + max(in_node, outside) / given.tree_share
                continue
            if members > 1:
                bandwidth = min(bandwidth, protocol.gb_per_s)
            base_us = max(0.0, protocol.latency_us - inside * protocol.step_us)
            yield base_us + within * max(protocol.step_us, given.post_us.of(name)) + between * step_us.of(name) + volume / bandwidth
            if collective is Collective.ALL_REDUCE:
                yield levels_us + 2 * size / 1e3 / (bandwidth * given.tree_share)

    def _all_to_all(self, size: float, shape: GroupShape) -> float:
        """What goes to ranks of the own node and what goes to others at the same time, each by its own way."""
        members = shape.per_node
        fastest = self._protocols(Collective.ALL_TO_ALL, members).values()
        others = (shape.ranks - members) / shape.ranks * size / 1e3 / self._nic_share(shape)
        within = (members - 1) / shape.ranks * size / 1e3
        peers = (shape.ranks - members) * self._parameters.between_nodes.peer_us + self._parameters.between_nodes.step_us.ll
        return peers + min(each.latency_us + max(others, within / each.gb_per_s) for each in fastest)


def _share_of_channels(most: int | None, parameters: Parameters) -> float:
    """The share of the channels that may be used. Raises InputError where it is not known how many there are."""
    if most is None:
        return 1.0
    if parameters.channels is None:
        raise InputError(f"channels is {most}, and {parameters.title} does not say with how many it was measured")
    return min(1.0, most / parameters.channels)


def _chosen(options: AnalyticalOptions, platform: Platform) -> Parameters:
    """The parameters that options name, or else the platform. Raises InputError."""
    if options.parameters is not None:
        if options.device is not None:
            raise InputError("device and parameters are given; expected one of the two")
        return read_parameters(options.parameters)
    if options.device is not None:
        return read_device(options.device)
    known = device_names()
    # Parts of one GPU that differ in memory, such as a100-40 and a100-80, communicate alike.
    named = (platform.device.split("-")[0], *platform.name.lower().replace("_", " ").split())
    found = list(dict.fromkeys(device for device in named if device in known))
    if len(found) != 1:
        called = f"that of platform {platform.name!r} is not known" if platform.name or platform.device else "the platform names none"
        raise InputError(f"model=nccl needs a device, and {called}; expected device={'|'.join(known)} or parameters=FILE")
    return read_device(found[0])
