"""Collapsed dimensions: one position represents all, since automorphisms along the dimension take the network to itself.

Rings, fully connected dimensions and switches look the same from all of their NPUs. Of links that automorphisms map to one another a
quotient network has one, which leads from a router back to itself. `QuotientNetwork` of the core has the details.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from astra_sim.fabric import Wire
from astra_sim.fabric.graph import names_routes, uniform_links_of
from astra_sim.fabric.links import UniformLinks
from astra_sim.platform import Dimension, Platform, is_power_of_two

from astra_sim_network_packet.links import is_ring, width_factor
from astra_sim_network_packet.options import Settings


class QuotientLink(NamedTuple):
    """A link that represents its translates: from a place of the dimension (its size: the switch) to one.

    `offset_map` maps the offset of a packet's destination (`OffsetMap` of the core), `offsets` are those for which it is the next link.
    The numbers of the port at its source or sink may vary among the translates.
    """

    wire: Wire
    offset_map: str
    offsets: Sequence[int]
    source_port_varies: bool = False
    sink_port_varies: bool = False


def quotient_links(dimension: Dimension) -> list[QuotientLink]:
    """The links of a collapsed dimension: one for all translates.

    On a ring of an even number of NPUs both ways to the opposite NPU are shortest; which one a packet takes depends on its destination.
    """
    uniform, size = _uniform_links(dimension), dimension.size
    width = uniform.width * width_factor(dimension)
    if size == 1:
        return []
    if uniform.pattern == "switch":
        offsets = range(1, size)
        return [
            QuotientLink(Wire(0, size, width), "none", offsets, sink_port_varies=True),
            QuotientLink(Wire(size, 0, width), "straight", offsets, source_port_varies=True),
        ]
    if size == 2:
        return [QuotientLink(Wire(0, 0, width), "straight", (1,))]
    if uniform.pattern == "fully_connected":
        return [QuotientLink(Wire(0, 0, width), "straight", (offset,), True, True) for offset in range(1, size)]
    # Inputs of the two routers beside the dateline are numbered the other way round.
    wire = Wire(0, 0, width, order=0)
    return [
        QuotientLink(wire, "right", range(1, (size + 1) // 2), sink_port_varies=True),
        QuotientLink(wire, "left", range(size // 2 + 1, size), sink_port_varies=True),
    ]


def quotient_graph(dimension: Dimension) -> tuple[int, Sequence[Wire], bool]:
    """The result of `graph_of` for the links of a collapsed dimension."""
    uniform = _uniform_links(dimension)
    switches = int(uniform.pattern == "switch" and dimension.size > 1)
    return switches, [link.wire for link in quotient_links(dimension)], is_ring(uniform)


def stands_for(dimension: Dimension, wires: Sequence[Wire], exclusive_or: bool) -> list[int]:
    """For each of the links that `graph_of` lists, the number of the quotient that represents it."""
    uniform, size = _uniform_links(dimension), dimension.size
    if uniform.pattern == "switch" or is_ring(uniform):
        return [number % 2 for number in range(len(wires))]
    if exclusive_or:
        return [(wire.source ^ wire.target) - 1 for wire in wires]
    return [(wire.target - wire.source) % size - 1 for wire in wires]


def collapsible(platform: Platform, settings: Settings) -> tuple[bool, ...]:
    """The dimensions of a platform that can be collapsed with these settings."""
    if not settings.options.representatives or settings.options.router_clock_ps:
        return (False,) * len(platform.dimensions)
    by_dimension = settings.allocation == "combined"
    inputs = [_inputs(dimension) for dimension in platform.dimensions]
    # A staged router has pointers over its outputs for every input, and one output would represent those at all distances.
    inputs = [
        0 if _pattern(d) == "switch" and d.size > 2 and not by_dimension else own
        for d, own in zip(platform.dimensions, inputs, strict=True)
    ]
    # If fewer injection ports than inputs share them out by number, numbers that vary would share them out otherwise.
    injection_ports = settings.injection_ports
    enough = [injection_ports in {0, 1} or (by_dimension and injection_ports >= own) for own in inputs]
    return tuple(
        dimension.size > 1 and own > 0 and (own == 1 or fits)
        for dimension, own, fits in zip(platform.dimensions, inputs, enough, strict=True)
    )


def _inputs(dimension: Dimension) -> int:
    """Links of a dimension that lead to an NPU; 0 if it does not look the same from all NPUs."""
    uniform, others = uniform_links_of(dimension), dimension.size - 1
    if uniform is None or names_routes(dimension):
        return 0
    return {"ring": min(2, others), "fully_connected": others, "switch": 1}[uniform.pattern]


def _pattern(dimension: Dimension) -> str | None:
    uniform = uniform_links_of(dimension)
    return uniform.pattern if uniform is not None else None


def _uniform_links(dimension: Dimension) -> UniformLinks:
    """The links of a dimension that can be collapsed."""
    uniform = uniform_links_of(dimension)
    assert uniform is not None
    return uniform


def by_exclusive_or(platform: Platform) -> list[bool]:
    """The dimensions in which NPUs at one exclusive or of their places are translates, too."""
    return [_pattern(dimension) in {"fully_connected", "switch"} and is_power_of_two(dimension.size) for dimension in platform.dimensions]


def nodes_of(platform: Platform, collapsed: Iterable[bool]) -> list[int]:
    """The NPUs without coordinates in collapsed dimensions, in order."""
    result = [0]
    for dimension, stride, is_collapsed in zip(platform.dimensions, platform.strides, collapsed, strict=True):
        if not is_collapsed:
            result = [place * stride + npu for place in range(dimension.size) for npu in result]
    return result


def copies(platform: Platform, collapsed: Iterable[bool]) -> int:
    """The number of NPUs that a node of a quotient network represents."""
    return math.prod(dimension.size for dimension, is_collapsed in zip(platform.dimensions, collapsed, strict=True) if is_collapsed)
