"""A node as NCCL describes it: GPUs, NVLink and NVSwitch, PCIe, CPUs and NICs; several such nodes meet at a switch for each NIC.

A file of several hosts, which NCCL writes if NVLink joins them (MNNVL), is one node: names of its parts begin with the host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.files import read_text
from astra_sim.platform import Dimension

from astra_sim_platforms.graph import GraphFile, GraphLink
from astra_sim_platforms.nccl_xml import Element, read_system
from astra_sim_platforms.pcie import lane_bytes_per_ns
from astra_sim_platforms.shortest_paths import shortest_paths

_NVSWITCH, _CPU, _GPU = "0x068000", "0x068001", "0x03"
_UNKNOWN_LANES = ("", "0", "255")
_USUAL_TRANSFERS, _USUAL_LANES, _USUAL_NIC = 8.0, 16, 10_000
"""The values that NCCL assumes if a virtual machine or a driver does not report them: GT/s and lanes of PCIe, Mbit/s of a NIC."""
_NVLINK_GB_PER_S = ((100, 50.0), (90, 25.0), (86, 14.0625), (70, 25.0), (60, 20.0))
"""10^9 bytes/s of an NVLink in one direction, from a compute capability (times ten) on: docs/platforms.md has the sources."""


@attrs.frozen
class NcclTopologyOptions:
    """Options of NCCL's description of a node. It has bandwidths but no latencies: those are assumptions."""

    file: str = option(help="topology XML of NCCL (NCCL_TOPO_DUMP_FILE); the path is relative to the working directory", path="path")
    nodes: int = option(1, minimum=1, maximum=4096, help="nodes like that of the file; NICs of one number meet at a switch")
    nvlink_gb_per_s: float | None = option(
        None, above=0, help="bandwidth of an NVLink and direction; default: by the compute capability of its GPU", unit="10^9 bytes/s"
    )
    nvlink_latency_ns: float = option(300.0, minimum=0, help="assumed latency of an NVLink, to a GPU or an NVSwitch", unit="ns")
    pcie_gb_per_s: float | None = option(
        None,
        above=0,
        help="bandwidth of PCIe where the file has no speed or width, as in virtual machines; default: 8 GT/s, 16 lanes, as NCCL takes",
        unit="10^9 bytes/s",
    )
    pcie_latency_ns: float = option(150.0, minimum=0, help="assumed latency of a PCIe link", unit="ns")
    cpu_gb_per_s: float = option(20.8, above=0, help="assumed bandwidth between two CPUs and direction: a UPI link", unit="10^9 bytes/s")
    cpu_latency_ns: float = option(150.0, minimum=0, help="assumed latency between two CPUs", unit="ns")
    net_latency_ns: float = option(1000.0, minimum=0, help="assumed latency from a NIC to the switch of its number", unit="ns")


def nccl_topology(options: NcclTopologyOptions) -> list[Dimension]:
    """The GPUs of all nodes as one dimension. Raises InputError naming file, line, element and value."""
    root = read_system(read_text(options.file), options.file)
    node = _Node(options)
    node.add(root)
    topology = _graph(node, options)
    slowest, longest = min(link.bandwidth for link in topology.edges), max(link.latency_ns for link in topology.edges)
    return [Dimension(topology, topology.size, topology.links_per_npu(), slowest, longest)]


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `platform` of a file. Raises InputError if the file is wrong."""
    read_system(text, path)
    return {"platform": {"plugin": "nccl_topology", "file": path}}


class _Node:
    """The parts of a node by name, and the wires between them: ends, bytes/ns and ns, both ways. GPUs are named by their bus ids."""

    def __init__(self, options: NcclTopologyOptions) -> None:
        self._options = options
        self.gpus: dict[str, Element] = {}
        self.nets: dict[tuple[str, int], tuple[str, Element]] = {}
        self.hosts: list[str] = []
        self.wires: list[tuple[str, str, float, float]] = []
        self._nvlinks: dict[tuple[str, str], float] = {}
        self._cpus: dict[str, str] = {}  # of a GPU

    def add(self, root: Element) -> None:
        """Take in a file."""
        names: dict[str, list[str]] = {}
        for place, cpu in enumerate(root.of("cpu")):
            host, name = cpu.attributes.get("host_hash", ""), f"cpu {place}"
            names.setdefault(host, []).append(name)
            for part in cpu.of("pci"):
                self._pci(part, name, name, host)
            for nic in cpu.of("nic"):
                self._nic(nic, name, host)
        self.hosts = list(names)
        if len(self.gpus) * self._options.nodes < 2:
            raise InputError(
                f"{root.where}: {len(self.gpus)} <gpu> in {self._options.nodes} node; expected two GPUs at least, as in NCCL's own files"
                " (NCCL_TOPO_DUMP_FILE)"
            )
        if self._options.nodes > 1 and not self.nets:
            raise InputError(
                f"{root.where}: nodes is {self._options.nodes}, and no <nic> has a <net> with dev; expected a NIC to join them"
            )
        for bus, gpu in self.gpus.items():
            for link in gpu.of("nvlink"):
                self._nvlink(link, gpu, bus)
        switched = self._options.nodes == 1 and all((bus, "nvswitch") in self._nvlinks for bus in self.gpus)
        if switched:  # all ways are over NVSwitch: as a graph of like links, a delay formula takes it, too
            self.wires, self.nets = [], {}
        else:
            self._join_cpus(names)
        self.wires += [(*ends, bandwidth, self._options.nvlink_latency_ns) for ends, bandwidth in self._nvlinks.items()]

    def _join_cpus(self, names: Mapping[str, Sequence[str]]) -> None:
        """The links between CPUs of a host, and from GPUs to them over NVLink-C2C."""
        for cpus in names.values():
            pairs = [(one, other) for place, one in enumerate(cpus) for other in cpus[place + 1 :]]
            self.wires += [(*pair, self._options.cpu_gb_per_s, self._options.cpu_latency_ns) for pair in pairs]
        for bus, gpu in self.gpus.items():
            for link in gpu.of("c2c"):
                bandwidth = link.whole("bw", least=1) * link.whole("count", least=1) / 1000  # bw is in 10^6 bytes/s
                self._nvlinks[bus, self._cpus[bus]] = self._nvlinks.get((bus, self._cpus[bus]), 0.0) + bandwidth

    def _pci(self, part: Element, parent: str, cpu: str, host: str) -> None:
        """A bridge, or the port of a GPU or NIC. A GPU is behind a port, so that a way over NVLink is shorter than one over PCIe."""
        bus = _named(host, part.text("busid"))
        bandwidth = self._pcie_bandwidth(part)
        port = f"pci {bus}"
        self.wires.append((parent, port, bandwidth, self._options.pcie_latency_ns))
        for gpu in part.of("gpu"):
            if bus in self.gpus:
                raise InputError(f"{gpu.where}: a second <gpu> at busid {part.text('busid')}; expected one for each <pci>")
            self.gpus[bus] = gpu
            self._cpus[bus] = cpu
            self.wires.append((port, bus, bandwidth, 0.0))
        for nic in part.of("nic"):
            self._nic(nic, port, host)
        for below in part.of("pci"):
            self._pci(below, port, cpu, host)

    def _nic(self, nic: Element, port: str, host: str) -> None:
        for net in nic.of("net"):
            if "dev" not in net.attributes:
                continue
            number = net.whole("dev")
            if (host, number) in self.nets:
                first = self.nets[host, number][1].where
                raise InputError(f"{net.where}: dev of <net> is {number} again (first {first}); expected another number")
            nic_bandwidth(net)
            self.nets[host, number] = port, net

    def _nvlink(self, link: Element, gpu: Element, bus: str) -> None:
        """Count the NVLinks of a GPU to NVSwitch, to another GPU or to its CPU. A pair of GPUs that both name their links has them once."""
        count, kind, target = link.whole("count", least=1), link.text("tclass"), link.text("target")
        bandwidth = count * self._nvlink_bandwidth(gpu)
        if kind == _NVSWITCH:
            self._nvlinks[bus, "nvswitch"] = self._nvlinks.get((bus, "nvswitch"), 0.0) + bandwidth
        elif kind.startswith(_GPU):
            other = _named(bus.rpartition(" ")[0], target)
            if other not in self.gpus or other == bus:
                raise InputError(f"{link.where}: target of <nvlink> is {target!r:.80}; expected the busid of another <pci> with a <gpu>")
            if (other, bus) not in self._nvlinks:
                self._nvlinks[bus, other] = self._nvlinks.get((bus, other), 0.0) + bandwidth
        elif kind == _CPU:
            self._nvlinks[bus, self._cpus[bus]] = bandwidth
        else:
            raise InputError(
                f"{link.where}: tclass of <nvlink> is {kind!r:.80}; expected {_NVSWITCH} (NVSwitch), {_GPU}... (a GPU) or {_CPU} (a CPU)"
            )

    def _nvlink_bandwidth(self, gpu: Element) -> float:
        if self._options.nvlink_gb_per_s is not None:
            return float(self._options.nvlink_gb_per_s)
        capability = gpu.whole("sm")
        for least, bandwidth in _NVLINK_GB_PER_S:
            if capability >= least:
                return bandwidth
        raise InputError(f"{gpu.where}: sm of <gpu> is {capability}, which has no NVLink; expected at least 60, or nvlink_gb_per_s")

    def _pcie_bandwidth(self, part: Element) -> float:
        """Bytes/ns of the link above a <pci>: lanes times transfers of a bit, less the encoding's overhead (PCI Express)."""
        speed, width = part.attributes.get("link_speed", ""), part.attributes.get("link_width", "")
        match = re.match(r"(\d{1,3}(?:\.\d+)?) ?GT/s", speed)
        is_known = speed != "" and not speed.startswith("Unknown"), width not in _UNKNOWN_LANES
        if (is_known[0] and (match is None or not float(match[1]))) or (is_known[1] and not re.fullmatch(r"[1-9]\d?", width)):
            raise InputError(
                f"{part.where}: link_speed of <pci> is {speed!r:.80} and link_width {width!r:.80}; expected such as '16 GT/s' and '16'"
            )
        if not all(is_known) and self._options.pcie_gb_per_s is not None:
            return float(self._options.pcie_gb_per_s)
        lanes = int(width) if is_known[1] else _USUAL_LANES
        return lanes * lane_bytes_per_ns(float(match[1]) if match is not None else _USUAL_TRANSFERS)


def _named(host: str, bus: str) -> str:
    return f"{host} {bus.lower()}" if host else bus.lower()


def nic_bandwidth(net: Element) -> float:
    """Bytes/ns of a NIC. Raises InputError."""
    speed = net.attributes.get("speed", "0")
    if not re.fullmatch(r"-?\d{1,9}", speed):
        raise InputError(f"{net.where}: speed of <net> is {speed!r:.80}; expected a whole number of Mbit/s")
    return (int(speed) if int(speed) > 0 else _USUAL_NIC) / 8000  # some drivers report -1


def _graph(node: _Node, options: NcclTopologyOptions) -> GraphFile:
    """The GPUs of all nodes, ordered by rank or else by number, then all other parts."""
    buses = _ordered(node)
    numbers = {(copy, bus): copy * len(buses) + place for copy in range(options.nodes) for place, bus in enumerate(buses)}
    edges: list[GraphLink] = []

    def wire(one: tuple[int, str], other: tuple[int, str], bandwidth: float, latency: float) -> None:
        a, b = (numbers.setdefault(end, len(numbers)) for end in (one, other))
        edges.extend((GraphLink(a, b, bandwidth, latency), GraphLink(b, a, bandwidth, latency)))

    for copy in range(options.nodes):
        for one, other, bandwidth, latency in node.wires:
            wire((copy, one), (copy, other), bandwidth, latency)
        for (_, dev), (port, net) in sorted(node.nets.items()) if options.nodes * len(node.hosts) > 1 else ():
            wire((copy, port), (-1, f"rail {dev}"), nic_bandwidth(net), options.net_latency_ns)
    size = options.nodes * len(buses)
    _, distances = shortest_paths(len(numbers), size, [(link.source, link.target) for link in edges], options.file)
    return GraphFile(size, tuple(edges), tuple(distances[: size * size]), name="nccl_topology")


def _ordered(node: _Node) -> list[str]:
    """Bus ids by rank if all GPUs have one, else host by host by dev. Raises InputError if two are alike."""
    key = "rank" if all("rank" in gpu.attributes for gpu in node.gpus.values()) else "dev"
    places: dict[tuple[int, int], str] = {}
    for bus, gpu in node.gpus.items():
        host = 0 if key == "rank" else node.hosts.index(bus.rpartition(" ")[0])
        place = host, gpu.whole(key)
        if place in places:
            first = node.gpus[places[place]].where
            raise InputError(f"{gpu.where}: {key} of <gpu> is {place[1]} again (first {first}); expected another number")
        places[place] = bus
    return [places[place] for place in sorted(places)]
