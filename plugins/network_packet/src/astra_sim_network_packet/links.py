"""The links of a dimension, as the packet network takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_sim import InputError
from astra_sim.fabric import Wire, both_ways, wires_of
from astra_sim.platform import Dimension


def link_count(dimension: Dimension) -> int:
    """The number of links that `graph_of` lists for a dimension of a known shape; 0 if only the list itself can tell."""
    size, listed = dimension.size, getattr(dimension.topology, "links", None)
    if isinstance(listed, tuple):
        return len(listed)
    count = getattr(dimension.topology, "link_count", None)
    if count is not None:
        return int(count())
    per_position = {"ring": min(2, size - 1), "fully_connected": size - 1, "switch": 2 * min(1, size - 1)}
    return per_position.get(dimension.topology.name, 0) * size


def graph_of(dimension: Dimension) -> tuple[int, Sequence[Wire], bool]:
    """Switches and links of a dimension, and whether the links form a ring. Widths are in units of the links that one message uses.

    Raises InputError where the topology does not say its links.
    """
    topology: Any = dimension.topology
    size = dimension.size
    if hasattr(topology, "queue_directions"):
        raise InputError(f"the {topology.name} of a Garnet network has routes by queue only; expected a torus, mesh or switch for traffic")
    width = float(topology.links_per_message())
    if topology.name == "ring":
        if size == 2:
            return 0, both_ways([Wire(0, 1, width)]), False
        # In either direction the order begins at the link between the first and the last position, the dateline.
        right = [Wire(place, (place + 1) % size, width, order=(place + 1) % size) for place in range(size)]
        left = [Wire(place, (place - 1) % size, width, order=(size - place) % size) for place in range(size)]
        return 0, [link for pair in zip(right, left, strict=True) for link in pair] if size > 1 else [], size > 1
    if topology.name == "fully_connected":
        return 0, [Wire(a, b, width) for a in range(size) for b in range(size) if a != b], False
    if topology.name == "switch":
        return (1, both_ways(Wire(place, size, width) for place in range(size)), False) if size > 1 else (0, [], False)
    own, wide, long = getattr(topology, "wires", None), dimension.link_bandwidth, dimension.link_latency_ns
    if callable(own):
        links = [Wire(*wire) for wire in own()]
    else:
        listed = wires_of(dimension, f"dimension of {size} NPUs")
        links = [
            Wire(link.source, link.target, link.bandwidth / wide, link.latency_ns / long if long else 1.0, link.cost) for link in listed
        ]
    nodes = max((max(link.source, link.target) + 1 for link in links), default=0)
    return max(0, nodes - size), links, False
