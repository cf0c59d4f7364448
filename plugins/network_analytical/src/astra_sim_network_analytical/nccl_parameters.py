"""Parameters of NCCL on a device: those of each protocol for each collective, by the number of ranks in a node. Files of this package,
or of a user.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.errors import suggestion
from astra_sim.files import parse_toml, read_text
from astra_sim.options import structure
from astra_sim.schedule import Collective

from astra_sim_network_analytical.nccl_devices import device_file, device_of, device_tables

PROTOCOLS = ("ll", "ll128", "simple", "nvls")
BEYOND = "beyond"
"""The line that holds beyond the sizes that were measured. Between nodes it goes as Simple."""


@attrs.frozen
class Protocol:
    """A protocol for a collective on a number of ranks in a node: it takes `latency_us` and its bytes at the bus bandwidth `gb_per_s`."""

    latency_us: float = option(minimum=0, help="time of a collective of no bytes", unit="us")
    gb_per_s: float = option(above=0, help="bus bandwidth, as nccl-tests defines it", unit="10^9 bytes/s")
    step_us: float = option(0.0, minimum=0, help="latency that a further step of the ring adds", unit="us")


@attrs.frozen
class NcclFit:
    """The parameters of a collective on a number of ranks in a node: its protocols, or a measured table, or both.

    With both, the times of the table hold at its sizes, and between them the ratios to those of the protocols, which also hold beyond the
    table, for other numbers of ranks and between nodes.
    """

    operation: str = option(choices=[each.value for each in Collective], help="the collective")
    ranks: int = option(minimum=2, help="ranks in a node")
    ll: Protocol | None = option(None, help="protocol LL")
    ll128: Protocol | None = option(None, help="protocol LL128")
    simple: Protocol | None = option(None, help="protocol Simple")
    nvls: Protocol | None = option(None, help="reduction in the switches of a node (NVLS)")
    bytes: tuple[float, ...] = option((), above=0, help="sizes of a measured table, rising")
    microseconds: tuple[float, ...] = option((), above=0, help="times of that table, not falling", unit="us")
    beyond: Protocol | None = option(None, help="protocol beyond the measured sizes, if that is faster")

    def protocols(self) -> dict[str, Protocol]:
        """The protocols by name, and `beyond`. Those of a table: its least time, and the bandwidth of its last row."""
        result = {name: protocol for name in (*PROTOCOLS, BEYOND) if (protocol := getattr(self, name)) is not None}
        if not self.bytes or self.has_protocols:
            return result
        latency = self.microseconds[0]
        rate = self._volume(self.bytes[-1]) / max(self.microseconds[-1] - latency, 1e-3)
        return {"simple": Protocol(latency_us=latency, gb_per_s=rate), **result}

    def time_us(self, size: float) -> float:
        """Microseconds on its own number of ranks: the least of its protocols, and by its table."""
        if self.bytes and not self.has_protocols:
            return self._table_us(size)
        return self._least_us(size) * self.correction(size)

    @property
    def has_protocols(self) -> bool:
        """Whether it has protocols, with a table or without."""
        return any(getattr(self, name) is not None for name in PROTOCOLS)

    def correction(self, size: float) -> float:
        """The time by the table over that of the protocols: a straight line between logarithms, constant beyond the table."""
        if not (self.bytes and self.has_protocols):
            return 1.0
        sizes = self.bytes
        after = bisect.bisect_right(sizes, size)
        nearest = {max(0, after - 1), min(after, len(sizes) - 1)}
        ratios = [math.log(self.microseconds[place] / self._least_us(sizes[place])) for place in sorted(nearest)]
        if len(ratios) == 1:
            return math.exp(ratios[0])
        part = math.log(size / sizes[after - 1]) / math.log(sizes[after] / sizes[after - 1])
        return math.exp(ratios[0] + part * (ratios[1] - ratios[0]))

    def _least_us(self, size: float) -> float:
        """Microseconds by the fastest of its protocols."""
        volume = self._volume(size)
        return min(each.latency_us + volume / each.gb_per_s for each in self.protocols().values())

    def _volume(self, size: float) -> float:
        """The bytes that a rank of a ring sends, in 10^3 bytes."""
        return ring_share(Collective(self.operation), self.ranks) * size / 1e3

    def _table_us(self, size: float) -> float:
        """Straight lines between logarithms. Beyond the last row its rate, or the line given for it."""
        sizes, times = self.bytes, self.microseconds
        if size <= sizes[0]:
            return times[0]
        if size >= sizes[-1]:
            if self.beyond is not None:
                return self.beyond.latency_us + self._volume(size) / self.beyond.gb_per_s
            return times[-1] * size / sizes[-1]
        place = bisect.bisect_right(sizes, size)
        part = math.log(size / sizes[place - 1]) / math.log(sizes[place] / sizes[place - 1])
        return times[place - 1] * math.exp(part * math.log(times[place] / times[place - 1]))


@attrs.frozen
class ByProtocol:
    """A number for each protocol."""

    ll: float = option(minimum=0, help="LL")
    ll128: float = option(minimum=0, help="LL128")
    simple: float = option(minimum=0, help="Simple")
    nvls: float = option(minimum=0, help="NVLS")

    def of(self, name: str) -> float:
        """That of a protocol."""
        value: float = getattr(self, "simple" if name == BEYOND else name)
        return value


@attrs.frozen
class NodeLinks:
    """The links of the node on which collectives were measured."""

    gb_per_s: float = option(above=0, help="NVLink bandwidth of a GPU in one direction", unit="10^9 bytes/s")
    latency_us: float = option(0.6, minimum=0, help="latency of a message, as NCCL counts it for a step of protocol LL", unit="us")


@attrs.frozen
class Chain:
    """The path of trees without NVLS in a node: along its ranks and back, chunk by chunk. The last result waits for all of these hops."""

    channels: int = option(minimum=1, help="channels, each of which has a chunk on its way")
    chunk_bytes: int = option(minimum=1, help="the largest chunk", unit="bytes")
    gb_per_s: float = option(above=0, help="at which a rank passes a chunk of a channel on", unit="10^9 bytes/s")

    def filling_us(self, size: float, members: int) -> float:
        """Microseconds until a chunk of each channel has gone along the ranks of a node and back."""
        return 2 * members * min(size / self.channels, self.chunk_bytes) / self.gb_per_s / 1e3


@attrs.frozen
class BetweenNodes:
    """The parameters that differ if a group is in several nodes."""

    nic_efficiency: float = option(0.95, above=0, maximum=1, help="share of the NICs' bandwidth that collectives reach")
    share: ByProtocol = option(
        factory=lambda: ByProtocol(ll=0.25, ll128=0.92, simple=1.0, nvls=1.0), help="share of that which a protocol reaches"
    )
    tree_share: float = option(0.9, above=0, maximum=1, help="share of a ring's bandwidth that a tree reaches")
    step_us: ByProtocol = option(
        factory=lambda: ByProtocol(ll=2.7, ll128=4.0, simple=14.0, nvls=14.0), help="a step of a ring to another node", unit="us"
    )
    step_alone_us: ByProtocol = option(
        factory=lambda: ByProtocol(ll=5.0, ll128=8.5, simple=14.0, nvls=14.0), help="that of a group with one rank in each node", unit="us"
    )
    post_us: ByProtocol = option(
        factory=lambda: ByProtocol(ll=1.0, ll128=1.0, simple=3.0, nvls=0.0),
        help="least time of a step within a node, if the ring leaves the node",
        unit="us",
    )
    level_us: ByProtocol = option(
        factory=lambda: ByProtocol(ll=10.0, ll128=17.0, simple=28.0, nvls=41.8), help="a level of a tree, up and down", unit="us"
    )
    latency_us: float = option(2.7, minimum=0, help="latency of a message to another node for which the steps and levels hold", unit="us")
    peer_us: float = option(0.5, minimum=0, help="all-to-all: time that each rank of another node adds", unit="us")
    nvls_gb_per_s: float | None = option(
        None, above=0, help="greatest bandwidth of trees of NVLS out of a node; none: as much as its NICs", unit="10^9 bytes/s"
    )
    chain: Chain | None = option(None, help="how trees without NVLS fill; none: it takes no time, and all pass the node as a ring does")


@attrs.frozen
class NcclParameters:
    """NCCL on a device, from its file."""

    title: str = option(help="device and version of NCCL")
    calibrated: bool = option(help="whether its numbers were fitted to collectives measured on it")
    channels: int | None = option(None, minimum=1, help="channels with which its bandwidths were measured")
    nvls_channels: int = option(16, minimum=1, help="channels of NVLS, each of which has a chunk of each rank of a node on its way")
    node: NodeLinks | None = option(None, help="links of the node in which they were measured; none: the platform's, whatever they are")
    fits: tuple[NcclFit, ...] = option(help="fits by collective and ranks in a node")
    between_nodes: BetweenNodes = option(factory=BetweenNodes, help="differences between nodes")
    sources: dict[str, Any] = option(factory=dict, help="where the numbers come from, by key")

    def fit(self, operation: Collective, ranks: int) -> NcclFit:
        """That of the nearest number of ranks by its logarithm; the larger of two. Raises InputError if there is none at all."""
        fits = [fit for fit in self.fits if fit.operation == operation]
        if not fits:
            raise InputError(f"{self.title}: it has no fit of {operation}")
        return min(fits, key=lambda fit: (abs(math.log(fit.ranks / max(1, ranks))), -fit.ranks))


def ring_share(operation: Collective, ranks: int) -> float:
    """The bytes that a rank of a ring sends, over the bytes of the collective."""
    return (2 if operation is Collective.ALL_REDUCE else 1) * (ranks - 1) / ranks


def steps(operation: Collective, ranks: int) -> int:
    """Steps of a ring of `ranks` ranks; messages to others of an all-to-all."""
    return (2 if operation is Collective.ALL_REDUCE else 1) * (ranks - 1)


def messages_in_row(operation: Collective, ranks: int) -> int:
    """Messages that go one after another in a node: a step each of a ring; those of an all-to-all are under way together."""
    return min(1, ranks - 1) if operation is Collective.ALL_TO_ALL else steps(operation, ranks)


def read_device(name: str) -> NcclParameters:
    """The parameters of a device of this package: DEVICE-VERSION, or DEVICE for the newest version of NCCL. Raises InputError."""
    tables = device_tables()
    newest = {device_of(table): table for table in tables}
    if name not in newest and name not in tables:
        raise InputError(f"device is {name!r}; {suggestion(name.lower(), [*newest, *tables])}")
    return parameters_of(parse_toml(read_text(device_file(newest.get(name, name))), f"device {name}"), f"device {name}")


def read_parameters(path: str) -> NcclParameters:
    """The parameters in a file. Raises InputError."""
    return parameters_of(parse_toml(read_text(path), path), path)


def parameters_of(table: dict[str, Any], where: str) -> NcclParameters:
    """The parameters of a table. Raises InputError."""
    parameters: NcclParameters = structure(NcclParameters, table, where)
    seen = set()
    for number, fit in enumerate(parameters.fits):
        what = f"{where}: fits.{number} ({fit.operation}, {fit.ranks} ranks)"
        if (fit.operation, fit.ranks) in seen:
            raise InputError(f"{what}: it occurs twice")
        seen.add((fit.operation, fit.ranks))
        _check(fit, what)
    return parameters


def with_fits_of(device: NcclParameters, table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a file with the fits of a device for the collectives that it has none of, and the device's other parameters."""
    base = attrs.asdict(device, filter=lambda field, value: value is not None and value != ())
    fitted = {row["operation"] for row in table["fits"]}
    others = [row for row in base["fits"] if row["operation"] not in fitted]
    sources = {row["operation"]: f"those of {device.title}" for row in others} | dict(table["sources"])
    return {**base, **table, "sources": sources, "fits": [*table["fits"], *others]}


def table_of(
    title: str,
    fits: Sequence[NcclFit],
    sources: Mapping[str, str],
    channels: int | None,
    between_nodes: Mapping[str, Any] | None = None,
    nvlink_gb_per_s: float | None = None,
    nvls_channels: int | None = None,
) -> dict[str, Any]:
    """The table of a file with these fits, with the bandwidth of NVLink at the measurement, and differences between nodes, and in channels
    of NVLS, from the values for others.
    """
    rows = [attrs.asdict(fit, filter=lambda field, value: value not in (None, (), 0.0)) for fit in fits]
    options: dict[str, Any] = {} if channels is None else {"channels": channels}
    if nvls_channels is not None:
        options["nvls_channels"] = nvls_channels
    if nvlink_gb_per_s is not None:
        options["node"] = attrs.asdict(NodeLinks(gb_per_s=float(nvlink_gb_per_s)))
    if between_nodes:
        options["between_nodes"] = dict(between_nodes)
    return {"title": title, "calibrated": True, **options, "sources": dict(sources), "fits": rows}


def _check(fit: NcclFit, what: str) -> None:
    if not fit.has_protocols and not fit.bytes:
        raise InputError(f"{what}: expected a protocol ({', '.join(PROTOCOLS)}) or bytes and microseconds of a measured table")
    rises = all(earlier < later for earlier, later in pairwise(fit.bytes))
    if len(fit.bytes) != len(fit.microseconds) or not rises or any(later < earlier for earlier, later in pairwise(fit.microseconds)):
        raise InputError(f"{what}: expected as many microseconds as bytes, bytes rising and microseconds not falling")
