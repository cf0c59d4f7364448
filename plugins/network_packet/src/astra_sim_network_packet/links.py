"""The links of a dimension, as the packet network takes them."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim import InputError
from astra_sim.fabric import Wire
from astra_sim.fabric.graph import stripes_over_directions, uniform_links_of, wires_of
from astra_sim.fabric.links import UniformLinks
from astra_sim.platform import Dimension


def link_count(dimension: Dimension) -> int:
    """The number of links that `graph_of` lists for a dimension of a known shape; 0 if only the list itself can tell."""
    uniform = uniform_links_of(dimension)
    if uniform is not None:
        return uniform.link_count() if dimension.size > 1 else 0
    return dimension.topology.link_count() or 0


def width_factor(dimension: Dimension) -> int:
    """The width of links as a multiple of the topology's: 2 if a message has the bandwidth of both directions (`both_ways`)."""
    return 2 if stripes_over_directions(dimension) else 1


def is_ring(uniform: UniformLinks) -> bool:
    """Whether links form a ring. Two NPUs are only a pair."""
    return uniform.pattern == "ring" and uniform.size > 2


def graph_of(dimension: Dimension) -> tuple[int, Sequence[Wire], bool]:
    """Switches and links of a dimension, and whether the links form a ring. Widths are in units of `link_bandwidth`.

    Raises InputError if the topology does not list its links.
    """
    topology = dimension.topology
    size = dimension.size
    if topology.queue_directions:
        raise InputError(f"the {topology.name} of a Garnet network has routes by queue only; expected a torus, mesh or switch for traffic")
    uniform, factor = uniform_links_of(dimension), width_factor(dimension)
    if uniform is not None:
        if size == 1:
            return 0, [], False
        links = uniform._replace(width=uniform.width * factor).wires()
        return int(uniform.pattern == "switch"), links, is_ring(uniform)
    own, wide, long = topology.wires(), dimension.link_bandwidth, dimension.link_latency_ns
    if own is not None:
        links = [Wire(*wire) for wire in own]
    else:
        listed = wires_of(dimension, f"dimension of {size} NPUs")
        links = [
            Wire(link.source, link.target, link.bandwidth / wide, link.latency_ns / long if long else 1.0, link.cost) for link in listed
        ]
    if factor != 1:
        links = [link._replace(width=link.width * factor) for link in links]
    nodes = max((max(link.source, link.target) + 1 for link in links), default=0)
    return max(0, nodes - size), links, False
