"""Presets: from the data of a machine and the options to dimensions."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.platform import Dimension, Preset

from astra_sim_platforms.clos import ClosSwitchOptions, sized
from astra_sim_platforms.servers import Links, Servers, physical

CUBE = 4
"""Optical switches join cubes of 4 x 4 x 4 chips to tori; within a cube there are no links around."""


@attrs.frozen
class NodeOptions:
    """Options of a machine of nodes. Defaults are those of the machine in docs/platforms.md."""

    nodes: int = option(1, minimum=1, help="nodes, or racks, joined by a switch")
    gpus: int | None = option(None, minimum=1, help="GPUs of a node that take part; default: all")
    nvlink_gb_s: float | None = option(
        None, above=0, help="NVLink bandwidth of a GPU and direction; default: of the machine", unit="10^9 bytes/s"
    )
    nvlink_latency_ns: float | None = option(
        None, minimum=0, help="latency of a message between two GPUs of a node; default: of the machine", unit="ns"
    )
    nvlink_efficiency: float = option(1.0, above=0, maximum=1, help="share of the NVLink bandwidth that messages reach")
    nic_gb_s: float | None = option(
        None, above=0, help="bandwidth between nodes of a GPU and direction; default: of the machine", unit="10^9 bytes/s"
    )
    nic_latency_ns: float | None = option(
        None, minimum=0, help="latency of a message between two nodes; default: of the machine", unit="ns"
    )
    between_nodes: str | None = option(
        None,
        choices=("rails", "switches"),
        help="network between nodes if links are simulated: rails (leaf and spine switches), or switches, one for each place in a node; "
        "default: rails, where NVSwitch joins the GPUs of a node and three levels of switches are enough",
    )
    nic_efficiency: float = option(1.0, above=0, maximum=1, help="share of the bandwidth between nodes that messages reach")


@attrs.frozen
class PodOptions:
    """Options of a slice of a pod of TPUs. Defaults are those of the pod in docs/platforms.md."""

    shape: str | None = option(None, help="chips along the three dimensions, such as 4x4x8; default: 4x4x4, or by chips")
    chips: int | None = option(None, minimum=CUBE**3, help="number of chips, in the shape that is nearest to a cube")
    link_gb_s: float | None = option(None, above=0, help="bandwidth of a link and direction; default: of the machine", unit="10^9 bytes/s")
    link_latency_ns: float | None = option(None, minimum=0, help="latency of a link; default: of the machine", unit="ns")
    efficiency: float = option(1.0, above=0, maximum=1, help="share of the bandwidth that messages reach")


@functools.cache
def machines() -> Mapping[str, Mapping[str, Any]]:
    """The data of all machines by name: numbers, and for each its source in the table `sources`."""
    return tomllib.loads((resources.files(__package__) / "machines.toml").read_text(encoding="utf-8"))


def __getattr__(name: str) -> functools.partial[Preset]:
    """The factory of each machine under its name, so that `machines:dgx_h100` names one."""
    if name not in machines():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(pod if "pod_chips" in machines()[name] else node_machine, name)


def node_machine(name: str, options: NodeOptions) -> Preset:
    """Nodes, and if there are several the switch between them. Raises InputError if a node has not as many GPUs."""
    machine = machines()[name]
    gpus = machine["gpus"] if options.gpus is None else options.gpus
    on_rings = machine["topology"] == "ring"
    if gpus > machine["gpus"] or (on_rings and gpus != machine["gpus"]):
        expected = f"{machine['gpus']}, for its rings go over all GPUs of a node" if on_rings else f"at most {machine['gpus']}"
        raise InputError(f"gpus is {gpus}; expected {expected}")
    links = machine["nvlinks"]
    nvlink = _or(options.nvlink_gb_s, links * machine["nvlink_link_gb_s"]) * options.nvlink_efficiency
    latency = _or(options.nvlink_latency_ns, machine["nvlink_latency_ns"])
    node: dict[str, Any] = {"topology": machine["topology"], "size": gpus, "links": links, "link_bandwidth_gb_per_s": nvlink / links}
    if on_rings:
        node["link_latency_ns"] = latency
    else:
        node |= {"link_latency_ns": latency / 2, "in_network_reduction": machine["in_network_reduction"]}
    dimensions = [node]
    network = {
        "topology": "switch",
        "size": options.nodes,
        "link_bandwidth_gb_per_s": _or(options.nic_gb_s, machine["nic_gb_s"]) * options.nic_efficiency,
        "link_latency_ns": _or(options.nic_latency_ns, machine["nic_latency_ns"]) / 2,
        "packaging": "pod",
    }
    if options.nodes > 1:
        dimensions.append(network)
    fabric = _rails(machine, node, network, options.between_nodes == "rails") if options.between_nodes != "switches" else None
    return Preset(tuple(dimensions), machine["title"], machine["device"], fabric)


def _rails(machine: Mapping[str, Any], node: Mapping[str, Any], network: Mapping[str, Any], wanted: bool) -> Dimension | None:
    """Nodes on rails of leaf and spine switches without oversubscription; None if a machine has none, or three levels are too few.

    GPUs that share a NIC have its bandwidth together. If only some of the GPUs of a node take part there may be fewer rails. Raises
    InputError in place of None if they are `wanted`.
    """
    gpus, nodes = node["size"], network["size"]
    if nodes == 1 or "rails" not in machine:
        if wanted:
            why = "there is one node" if nodes == 1 else "the GPUs of a node are on rings"
            raise InputError(f"between_nodes is 'rails', and {why}; expected no between_nodes, or 'switches'")
        return None
    shared = machine["gpus"] // machine["nics"]
    shared = shared if gpus % shared == 0 else 1
    rails = max(rails for rails in range(1, machine["rails"] + 1) if gpus // shared % rails == 0)
    nic = Links(network["link_bandwidth_gb_per_s"] * shared, network["link_latency_ns"])
    nvlink = Links(node["link_bandwidth_gb_per_s"] * node["links"], node["link_latency_ns"])
    for levels in (2, 3):
        options = ClosSwitchOptions(levels=levels, ports=machine["ports"])
        try:
            scale_out = sized(options, nodes * gpus, rails, shared, server=gpus, shared=shared)
        except InputError:
            if levels == 3 and wanted:
                raise
        else:
            return physical(Servers(scale_out, nvlink, nic, Links(nic.bandwidth, 0.0)))
    return None


def pod(name: str, options: PodOptions) -> Preset:
    """A 3-D torus of chips. Raises InputError for a shape that a pod has not."""
    machine = machines()[name]
    sizes = shape_of(options, machine["pod_chips"])
    links = {
        "topology": "ring",
        "links": 2,
        "link_bandwidth_gb_per_s": _or(options.link_gb_s, machine["link_gb_s"]) * options.efficiency,
        "link_latency_ns": _or(options.link_latency_ns, machine["link_latency_ns"]),
    }
    return Preset(tuple({**links, "size": size} for size in sizes), machine["title"], machine["device"])


def shape_of(options: PodOptions, pod_chips: int) -> list[int]:
    """Chips along the three dimensions. Raises InputError unless they make up a torus of cubes no larger than the pod."""
    if options.shape is not None and options.chips is not None:
        raise InputError(f"shape is {options.shape!r} and chips is {options.chips}; expected one of the two")
    if options.shape is not None:
        if not re.fullmatch(r"\d{1,5}x\d{1,5}x\d{1,5}", options.shape, re.ASCII):
            raise InputError(f"shape is {options.shape!r}; expected three numbers, such as 4x4x8")
        sizes = [int(size) for size in options.shape.split("x")]
        if any(size == 0 or size % CUBE for size in sizes):
            raise InputError(f"shape is {options.shape!r}; expected multiples of {CUBE}, for a torus is made of cubes of 4x4x4 chips")
        if sizes[0] * sizes[1] * sizes[2] > pod_chips:
            raise InputError(f"shape is {options.shape!r}; expected at most the {pod_chips} chips of a pod")
        return sizes
    chips = CUBE**3 if options.chips is None else options.chips
    if chips > pod_chips:
        raise InputError(f"chips is {chips}; expected at most the {pod_chips} of a pod")
    shapes = list(_shapes(chips))
    if not shapes:
        raise InputError(f"chips is {chips}; expected cubes of 4x4x4 chips that make up a torus, such as 64, 128, 256 or 512")
    return min(shapes, key=lambda sizes: (sum(sizes), sizes[-1]))


def _shapes(chips: int) -> Iterator[list[int]]:
    """All shapes of a number of chips made of cubes, their sizes in ascending order."""
    for a in range(CUBE, chips + 1, CUBE):
        if a**3 > chips:
            return
        for b in range(a, chips // a + 1, CUBE):
            if a * b * b > chips:
                break
            if chips % (a * b * CUBE) == 0:
                yield [a, b, chips // (a * b)]


def _or(value: float | None, of_machine: float) -> float:
    return of_machine if value is None else value
