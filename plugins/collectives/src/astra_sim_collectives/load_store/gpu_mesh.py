"""The platform `gpu_mesh`: GPUs whose compute units, memory channels and I/O ports are joined by a mesh of routers.

After the reference GPU of ASTRA-sim 3.0 (arXiv 2606.10440): 8 x 4 routers with 4 compute units each, 16 memory channels at the top and 16
at the bottom row (4 TiB/s), and 4 I/O ports on each router of the left and right column (1 TiB/s, 1 us). Its code is not public; the
widths of links inside the GPU, the routes, and how ports join GPUs are choices of ours, and options.

Every compute unit and every memory channel is an NPU of the platform: GPU after GPU, compute units before channels.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs
from astra_sim import InputError, option
from astra_sim.fabric.graph import LARGEST_FABRIC
from astra_sim.platform import Dimension, Topology, bytes_per_ns
from astra_sim.schedule import Peer


@attrs.frozen
class GpuMeshOptions:
    """Options of GPUs with a mesh of routers inside."""

    gpus: int = option(8, minimum=1, maximum=1024, help="GPUs")
    columns: int = option(8, minimum=1, maximum=64, help="columns of routers in a GPU")
    rows: int = option(4, minimum=1, maximum=64, help="rows of routers in a GPU")
    router_compute_units: int = option(4, minimum=1, maximum=64, help="compute units at each router")
    channels: int = option(32, minimum=1, maximum=1024, help="memory channels of a GPU: half at the top row, half at the bottom row")
    ports: int = option(32, minimum=1, maximum=1024, help="I/O ports of a GPU, dealt out to the routers of its left and right column")
    mesh_gib_per_s: float = option(256.0, above=0, help="bandwidth of a link between routers, each direction", unit="2^30 bytes/s")
    unit_gib_per_s: float = option(128.0, above=0, help="bandwidth between a compute unit and its router", unit="2^30 bytes/s")
    channel_gib_per_s: float = option(128.0, above=0, help="bandwidth of a memory channel", unit="2^30 bytes/s")
    port_gib_per_s: float = option(32.0, above=0, help="bandwidth of an I/O port", unit="2^30 bytes/s")
    hop_latency_ns: float = option(1.0, minimum=0, help="latency of a link inside a GPU", unit="ns")
    memory_latency_ns: float = option(100.0, minimum=0, help="latency between a memory channel and its router", unit="ns")
    port_latency_ns: float = option(1000.0, minimum=0, help="latency from port to port of two GPUs", unit="ns")


class GpuLink(NamedTuple):
    """A link, one way. Bandwidth in bytes/ns, latency in ns."""

    source: int
    target: int
    bandwidth: float
    latency_ns: float


@attrs.frozen
class GpuMesh(Topology):
    """GPUs with a mesh of routers inside. Port p of every GPU is at switch p, which joins them.

    Nodes: compute units and channels of each GPU (the NPUs), then the routers of each GPU row by row, then the switches. A message goes
    along its row, then along its column. Between GPUs it takes the port whose number is that of its destination modulo the ports, so
    neighbouring channels take different ports.
    """

    options: GpuMeshOptions
    name: str = "gpu_mesh"

    # -- Nodes ---------------------------------------------------------------------------------------------------------

    @property
    def units(self) -> int:
        """Compute units of a GPU."""
        return self.options.columns * self.options.rows * self.options.router_compute_units

    @property
    def endpoints(self) -> int:
        """Compute units and channels of a GPU."""
        return self.units + self.options.channels

    @property
    def size(self) -> int:
        """NPUs: endpoints of all GPUs."""
        return self.options.gpus * self.endpoints

    @property
    def device_parts(self) -> Mapping[str, int]:
        """The NPUs of a GPU."""
        return {"compute_units": self.units, "memory_channels": self.options.channels}

    def _router(self, gpu: int, column: int, row: int) -> int:
        return self.size + (gpu * self.options.rows + row) * self.options.columns + column

    def router_of(self, npu: int) -> int:
        """The router of a compute unit or channel."""
        gpu, endpoint = divmod(npu, self.endpoints)
        columns = self.options.columns
        if endpoint < self.units:  # neighbours in number are at different routers, so that a few of them use the mesh evenly
            row, column = divmod(endpoint % (columns * self.options.rows), columns)
            return self._router(gpu, column, row)
        number, top = endpoint - self.units, -(-self.options.channels // 2)
        at_top = number < top
        count, place = (top, number) if at_top else (self.options.channels - top, number - top)
        return self._router(gpu, place * columns // count, 0 if at_top else self.options.rows - 1)

    def port_router(self, gpu: int, port: int) -> int:
        """The router of a port: ports alternate between the left and the right column, and continue with the next row."""
        return self._router(gpu, port % 2 * (self.options.columns - 1), port // 2 % self.options.rows)

    # -- Links ---------------------------------------------------------------------------------------------------------

    def links(self) -> tuple[GpuLink, ...]:
        """The links: those of NPUs, those between routers, those of ports."""
        return self._links

    @functools.cached_property
    def _links(self) -> tuple[GpuLink, ...]:
        return tuple(each for link in self._one_way() for each in (link, link._replace(source=link.target, target=link.source)))

    def _one_way(self) -> Iterator[GpuLink]:
        """Each link in one of its directions: those of NPUs, between routers, of ports."""
        options = self.options
        mesh, port = bytes_per_ns(options.mesh_gib_per_s), bytes_per_ns(options.port_gib_per_s)
        unit, channel = bytes_per_ns(options.unit_gib_per_s), bytes_per_ns(options.channel_gib_per_s)
        for npu in range(self.size):
            is_unit = npu % self.endpoints < self.units
            bandwidth, latency = (unit, options.hop_latency_ns) if is_unit else (channel, options.memory_latency_ns)
            yield GpuLink(npu, self.router_of(npu), bandwidth, latency)
        for gpu in range(options.gpus):
            for row in range(options.rows):
                for column in range(options.columns):
                    here = self._router(gpu, column, row)
                    if column + 1 < options.columns:
                        yield GpuLink(here, here + 1, mesh, options.hop_latency_ns)
                    if row + 1 < options.rows:
                        yield GpuLink(here, here + options.columns, mesh, options.hop_latency_ns)
        for gpu in range(options.gpus if options.gpus > 1 else 0):
            for number in range(options.ports):
                switch = self._router(options.gpus, 0, 0) + number
                yield GpuLink(self.port_router(gpu, number), switch, port, options.port_latency_ns / 2)

    # -- Routes --------------------------------------------------------------------------------------------------------

    def next_links(self, node: int, destination: int) -> Sequence[int] | None:
        """The link on which a message to an NPU leaves a node; empty at the switch of another port."""
        return self._routes.next_links(node, destination)

    @functools.cached_property
    def _routes(self) -> _Routes:
        return _Routes(self)

    def hops(self, source: int, destination: int) -> int:
        """Links of the route between two NPUs."""
        count, node = 0, source
        while node != destination:
            node, count = self._links[self._routes.next_links(node, destination)[0]].target, count + 1
        return count

    def is_symmetric(self, peer: Peer) -> bool:
        """False: compute units and channels differ."""
        return False

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """One: to its router."""
        return 1

    def is_uniform(self) -> bool:
        """False, but for one bandwidth and latency everywhere."""
        return len({(link.bandwidth, link.latency_ns) for link in self._links}) == 1

    def scaled(self, bandwidth: float, latency: float) -> GpuMesh:
        """GPUs whose links have `bandwidth` and `latency` times their own."""
        options = self.options
        bandwidths = ("mesh_gib_per_s", "unit_gib_per_s", "channel_gib_per_s", "port_gib_per_s")
        latencies = ("hop_latency_ns", "memory_latency_ns", "port_latency_ns")
        factors = dict.fromkeys(bandwidths, bandwidth) | dict.fromkeys(latencies, latency)
        changed = {name: getattr(options, name) * factor for name, factor in factors.items()}
        return attrs.evolve(self, options=attrs.evolve(options, **changed))


class _Routes:
    """The routes of a GpuMesh in tables: networks ask for those of all pairs of a node and an NPU, which are millions."""

    def __init__(self, mesh: GpuMesh) -> None:
        options = mesh.options
        self._size, self._routers = mesh.size, options.columns * options.rows
        self._first_switch = mesh.size + options.gpus * self._routers
        numbers = {(link.source, link.target): (number,) for number, link in enumerate(mesh.links())}
        places = [divmod(router, options.columns) for router in range(self._routers)]
        port_router = [mesh.port_router(0, port) - mesh.size for port in range(options.ports)]
        router_of = [mesh.router_of(npu) for npu in range(mesh.size)]
        self._gpu_of = [npu // mesh.endpoints for npu in range(mesh.size)]
        self._router_of = [(router - mesh.size) % self._routers for router in router_of]
        self._port_of = [npu % options.ports for npu in range(mesh.size)]
        self._first = [numbers[npu, router] for npu, router in enumerate(router_of)]
        self._last = [numbers[router, npu] for npu, router in enumerate(router_of)]
        gpus, ports = range(options.gpus if options.gpus > 1 else 0), range(options.ports)  # a single GPU uses no port
        switches = [self._first_switch + port for port in ports]
        self._up = [[numbers[mesh.port_router(gpu, port), switches[port]] for port in ports] for gpu in gpus]
        self._down = [[numbers[switches[port], mesh.port_router(gpu, port)] for gpu in gpus] for port in ports]
        self._port_router = port_router
        # Along the row first, then along the column: such routes cannot wait for each other in a circle (Dally and Seitz, 1987).
        within = range(self._routers)
        first_routers = [mesh.size + gpu * self._routers for gpu in range(options.gpus)]
        self._within = [
            [numbers.get((first + here, first + _towards(here, there, options.columns, places))) for there in within]
            for first in first_routers
            for here in within
        ]

    def next_links(self, node: int, destination: int) -> tuple[int, ...]:
        """See `GpuMesh.next_links`."""
        if node < self._size:
            return self._first[node]
        gpu, port = self._gpu_of[destination], self._port_of[destination]
        if node >= self._first_switch:
            return self._down[port][gpu] if node == self._first_switch + port else ()
        number = node - self._size
        here, place = divmod(number, self._routers)
        target = self._router_of[destination] if here == gpu else self._port_router[port]
        if place != target:
            following = self._within[number][target]
            assert following is not None
            return following
        return self._last[destination] if here == gpu else self._up[here][port]


def _towards(here: int, there: int, columns: int, places: Sequence[tuple[int, int]]) -> int:
    """The next router from one to another of a GPU."""
    (row, column), (to_row, to_column) = places[here], places[there]
    if column != to_column:
        return here + (1 if column < to_column else -1)
    return here if row == to_row else here + (columns if row < to_row else -columns)


def gpu_mesh(options: GpuMeshOptions) -> list[Dimension]:
    """The dimension of all endpoints. Raises InputError if there are too many."""
    topology = GpuMesh(options)
    if topology.size > LARGEST_FABRIC:
        raise InputError(
            f"{options.gpus} GPUs have {topology.size} compute units and memory channels, which are NPUs; expected at most {LARGEST_FABRIC}"
        )
    if topology.size < 2:
        raise InputError("one compute unit or channel has no network; expected more")
    longest = max(link.latency_ns for link in topology.links())
    return [Dimension(topology, topology.size, 1, min(link.bandwidth for link in topology.links()), longest)]
