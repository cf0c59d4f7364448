"""A platform as InfraGraph describes it: devices of components, instances of devices, and edges between them.

Its names are those of the graph of the package: `host.3.nic.0` is the first NIC of instance 3 of `host`, and parts of a device in a device
have the names of both.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.errors import suggestion
from astra_sim.files import read_text
from astra_sim.platform import Dimension

from astra_sim_platforms.graph import GraphFile, GraphLink
from astra_sim_platforms.infragraph_file import InfraDevice, InfraEdge, InfraInstance, InfraLink, Infrastructure, read_infrastructure
from astra_sim_platforms.pcie import lane_bytes_per_ns
from astra_sim_platforms.shortest_paths import shortest_paths

_NPU_TYPES = ("xpu", "gpu", "npu", "tpu", "accelerator")
_MOST_NODES, _MOST_EDGES, _MOST_DEPTH = 1 << 16, 1 << 18, 16
_MOST_STEPS = 1 << 21
"""Instances, components and pairs of ends, also those that make no node and no edge."""


@attrs.frozen
class InfraGraphOptions:
    """Options of a file of InfraGraph. Values that it leaves open are assumptions."""

    file: str = option(help="infrastructure in InfraGraph, JSON or YAML; the path is relative to the working directory", path="path")
    bandwidth_gb_per_s: float | None = option(
        None, above=0, help="bandwidth and direction of links without one in the file", unit="10^9 bytes/s"
    )
    link_bandwidths: tuple[str, ...] = option((), help="the same for links of one name, each NAME:BANDWIDTH", unit="10^9 bytes/s")
    latency_ns: float = option(0.0, minimum=0, help="latency of links without one in the file", unit="ns")
    lanes: int = option(16, minimum=1, maximum=64, help="lanes of links whose bandwidth is in transfers per second (PCIe)")


def infragraph(options: InfraGraphOptions) -> list[Dimension]:
    """The NPUs of a file as one dimension. Raises InputError naming file, element and value."""
    topology = _graph(_Expansion(read_infrastructure(read_text(options.file), options.file)), options)
    slowest, longest = min(link.bandwidth for link in topology.edges), max(link.latency_ns for link in topology.edges)
    return [Dimension(topology, topology.size, topology.links_per_npu(), slowest, longest)]


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `platform` of a file. Raises InputError if the file is wrong."""
    read_infrastructure(text, path)
    return {"platform": {"plugin": "infragraph", "file": path}}


class _Expansion:
    """All nodes by name with their types, in the order of the file, and the link of every two that an edge joins."""

    def __init__(self, whole: Infrastructure) -> None:
        self._whole = whole
        self.where = whole.where
        self.types: dict[str, str] = {}
        self.edges: dict[tuple[str, str], InfraLink] = {}
        self._steps = 0
        for name, instance in whole.instances.items():
            device = _one_of(whole.devices, instance.device, f"{instance.where}: device", "a device")
            for number in range(instance.count):
                self._step()
                self._add(f"{name}.{number}", device, 0)
        for edge in whole.edges:
            self._join(edge, whole.links, [self._ends_of_instance(edge, place) for place in (0, 1)], "")

    def _add(self, prefix: str, device: InfraDevice, depth: int) -> None:
        """The nodes and edges of a device, and of the devices in it."""
        if depth > _MOST_DEPTH:
            raise InputError(f"{device.where}: devices are in devices more than {_MOST_DEPTH} deep; expected that none holds itself")
        for name, component in device.components.items():
            for number in range(component.count):
                self._step()
                part = f"{prefix}.{name}.{number}"
                if component.type == "device":
                    self._add(part, _one_of(self._whole.devices, name, f"{component.where}: name", "a device"), depth + 1)
                else:
                    self.types[part] = component.type
                if len(self.types) > _MOST_NODES:
                    raise InputError(f"{self.where}: more than {_MOST_NODES} components, the most that are taken in")
        for edge in device.edges:
            self._join(edge, device.links, [self._ends_in_device(edge, device, place) for place in (0, 1)], prefix + ".")

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise InputError(f"{self.where}: more than {_MOST_STEPS} instances, components and pairs of ends, the most that are taken in")

    def _join(self, edge: InfraEdge, links: dict[str, InfraLink], ends: Sequence[Sequence[str]], prefix: str) -> None:
        """Join the ends of an edge: each with each (`many2many`), or one by one. Raises InputError."""
        link = _one_of(links, edge.link, f"{edge.where}: link", "a link")
        pairs = itertools.product(*ends) if edge.scheme == "many2many" else zip(*ends, strict=False)
        for one, other in pairs:
            self._step()
            if one == other:
                continue
            a, b = prefix + one, prefix + other
            for name in (a, b):
                if name not in self.types:
                    raise InputError(f"{edge.where}: {name} is a device; expected a component of it")
            if len(self.edges) >= _MOST_EDGES:
                raise InputError(f"{self.where}: more than {_MOST_EDGES} edges, the most that are taken in")
            self.edges[(a, b) if (b, a) not in self.edges else (b, a)] = link

    def _ends_of_instance(self, edge: InfraEdge, place: int) -> list[str]:
        """The nodes that an end of an edge between instances names."""
        held, component = edge.ends[place]
        where = f"{edge.where}: ep{place + 1}"
        name, chosen = _split(held, f"{where}: instance")
        instance: InfraInstance = _one_of(self._whole.instances, name, f"{where}: instance", "an instance")
        inside = self._parts(self._whole.devices[instance.device], component.split("."), where)
        return [f"{name}.{number}.{part}" for number in _indices(chosen, instance.count, f"{where}: instance {held!r}") for part in inside]

    def _ends_in_device(self, edge: InfraEdge, device: InfraDevice, place: int) -> list[str]:
        held, component = edge.ends[place]
        return self._parts(device, [*(held.split(".") if held else ()), *component.split(".")], f"{edge.where}: ep{place + 1}")

    def _parts(self, device: InfraDevice, path: Sequence[str], where: str) -> list[str]:
        """The names in a device that a path such as `cx5[0:2]`, `port[0]` represents."""
        name, chosen = _split(path[0], f"{where}: component")
        component = _one_of(device.components, name, f"{where}: component", "a component of the device")
        instances = [f"{name}.{number}" for number in _indices(chosen, component.count, f"{where}: component {path[0]!r}")]
        if len(path) == 1:
            return instances
        if component.type != "device":
            raise InputError(f"{where}: component {'.'.join(path)!r:.80} looks into {name}, a {component.type}; expected a device")
        inside = self._parts(_one_of(self._whole.devices, name, f"{where}: component", "a device"), path[1:], where)
        return [f"{each}.{part}" for each in instances for part in inside]


def _one_of(known: dict[str, Any], name: str, where: str, what: str) -> Any:
    if name not in known:
        raise InputError(f"{where} is {name!r:.80}; expected {what} of the file, {suggestion(name, known)}")
    return known[name]


def _split(text: str, where: str) -> tuple[str, str]:
    """A name and the range in brackets behind it; all (":") without them."""
    match = re.fullmatch(r"([^\[\]]+)(?:\[([^\[\]]*)\])?", text)
    if match is None:
        raise InputError(f"{where} is {text!r:.80}; expected a name, with a slice such as [0:4]")
    return match[1], match[2] or ":"


def _indices(chosen: str, count: int, where: str) -> Sequence[int]:
    """The numbers of a slice as Python has it, or one number. Raises InputError if there are none."""
    parts = chosen.split(":")
    if len(parts) > 3 or not all(re.fullmatch(r"\s*(-?\d{1,9})?\s*", part) for part in parts):
        raise InputError(f"{where} has the slice [{chosen:.80}]; expected such as [0:4], [::2] or [3]")
    numbers = [int(part) if part.strip() else None for part in parts]
    if len(numbers) == 1:
        number = numbers[0] or 0
        if not -count <= number < count:
            raise InputError(f"{where} has the number {number}; there are {count}")
        return [number % count]
    bounds = [each for each in numbers[:2] if each is not None]
    if any(not -count <= each <= count for each in bounds) or (len(numbers) == 3 and numbers[2] == 0):
        raise InputError(f"{where} has the slice [{chosen:.80}]; expected numbers up to {count}, the number of all, and a step")
    result = range(*slice(*numbers).indices(count))
    if not result:
        raise InputError(f"{where} has the slice [{chosen:.80}], in which there is none of {count}; expected one at least")
    return result


def _graph(expanded: _Expansion, options: InfraGraphOptions) -> GraphFile:
    """The NPUs in the order of the file, and then all other nodes that an edge joins."""
    npus = [name for name, type_ in expanded.types.items() if type_.lower() in _NPU_TYPES]
    if len(npus) < 2:
        text = ", ".join(sorted(set(expanded.types.values()))) or "none"
        raise InputError(f"{expanded.where}: {len(npus)} components of type xpu (types: {text}); expected at least 2, which are the NPUs")
    numbers = {name: number for number, name in enumerate(npus)}
    edges: list[GraphLink] = []

    def join(one: str, other: str, bandwidth: float, latency: float) -> None:
        a, b = (numbers.setdefault(name, len(numbers)) for name in (one, other))
        edges.extend((GraphLink(a, b, bandwidth, latency), GraphLink(b, a, bandwidth, latency)))

    bandwidths = _Bandwidths(expanded, options)
    widest = bandwidths.widest()
    for (one, other), link in expanded.edges.items():
        bandwidth = bandwidths.of(link)
        latency = options.latency_ns if link.latency_ns is None else link.latency_ns
        # An NPU is behind a port of its slower links, so that the path of equal cost over its fastest is shorter: NVLink, and not PCIe.
        ends = [f"{name} port of {far}" if bandwidth < widest.get(name, 0.0) else name for name, far in ((one, other), (other, one))]
        for name, end in zip((one, other), ends, strict=True):
            if end != name:
                join(name, end, bandwidth, 0.0)
        join(ends[0], ends[1], bandwidth, latency)
    alone = next((name for name in npus if all(numbers[name] != edge.source for edge in edges)), None) if len(npus) < 4096 else None
    if alone is not None:
        raise InputError(f"{expanded.where}: no edge joins {alone} to anything; expected a way between all NPUs")
    _, distances = shortest_paths(len(numbers), len(npus), [(edge.source, edge.target) for edge in edges], expanded.where)
    return GraphFile(len(npus), tuple(edges), tuple(distances[: len(npus) ** 2]), name="infragraph")


class _Bandwidths:
    """Bytes/ns of links in one direction. Raises InputError if options name none that needs it."""

    def __init__(self, expanded: _Expansion, options: InfraGraphOptions) -> None:
        self._expanded = expanded
        self._options = options
        used = expanded.edges.values()
        self._open = sorted({link.name for link in used if link.bandwidth is None and link.transfers is None})
        self._named = dict(self._entry(entry) for entry in options.link_bandwidths)

    def of(self, link: InfraLink) -> float:
        """That of the file, or of the options."""
        if link.bandwidth is not None:
            return link.bandwidth
        if link.transfers is not None:
            return self._options.lanes * lane_bytes_per_ns(link.transfers)
        bandwidth = self._named.get(link.name, self._options.bandwidth_gb_per_s)
        if bandwidth is None:
            raise InputError(
                f"{link.where}: it has no physical bandwidth; expected one, or bandwidth_gb_per_s for links without one, or "
                f"link_bandwidths such as {','.join(f'{name}:50' for name in self._open)}"
            )
        return bandwidth

    def widest(self) -> dict[str, float]:
        """Of each NPU, the bandwidth of its fastest link."""
        result: dict[str, float] = {}
        for ends, link in self._expanded.edges.items():
            for name in ends:
                if self._expanded.types[name].lower() in _NPU_TYPES:
                    result[name] = max(result.get(name, 0.0), self.of(link))
        return result

    def _entry(self, entry: str) -> tuple[str, float]:
        """A link's name and bandwidth from `NAME:BANDWIDTH`. Raises InputError."""
        name, _, figure = entry.rpartition(":")
        try:
            bandwidth = float(figure)
        except ValueError:
            bandwidth = 0.0
        if not name or not 0 < bandwidth < 1e12:
            raise InputError(f"link_bandwidths has {entry!r:.80}; expected NAME:BANDWIDTH, a link and 10^9 bytes/s above 0")
        if name not in self._open:
            raise InputError(
                f"link_bandwidths has {name!r:.80}; expected links of which {self._expanded.where} has no bandwidth: "
                f"{', '.join(self._open) or 'it has that of all'}"
            )
        return name, bandwidth
