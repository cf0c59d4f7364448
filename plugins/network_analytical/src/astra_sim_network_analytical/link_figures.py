"""Figures of the links of a congestion-aware network in a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from astra_sim.network import LinkLoad, OwnerLoad
from astra_sim.units import PS_PER_NS

from astra_sim_network_analytical.link_map import LinkMap


class LinkFigures(NamedTuple):
    """The load of a link: messages, bytes, picoseconds in which it was busy, and the most messages that waited at a time."""

    number: int
    messages: int
    bytes: int
    busy_ps: int
    largest_queue: int


def loads(link_map: LinkMap, figures: Sequence[LinkFigures], until_ps: int) -> list[LinkLoad]:
    """The load of every link that carried something, up to a time."""
    link_loads = []
    for link in figures:
        dimension, group, number = link_map.place(link.number)
        links = link_map.dimensions[dimension]
        source, target = (link_map.node_name(dimension, group, node) for node in (links.source(number), links.target(number)))
        share = link.busy_ps / until_ps if until_ps else 0.0
        link_loads.append(LinkLoad(dimension, source, target, link.bytes, share, transfers=link.messages, most_waiting=link.largest_queue))
    return link_loads


def owner_loads(link_map: LinkMap, figures: Iterable[tuple[int, Sequence[int], Sequence[int], Sequence[Sequence[int]]]]) -> list[OwnerLoad]:
    """The loads of links by owner: of each its number, and bytes, busy time and waits of one owner for another (ps)."""
    result = []
    for link, sizes, busy_ps, wait_ps in figures:
        dimension, group, number = link_map.place(link)
        links = link_map.dimensions[dimension]
        source, target = (link_map.node_name(dimension, group, node) for node in (links.source(number), links.target(number)))
        waits = tuple(tuple(each / PS_PER_NS for each in row) for row in wait_ps)
        result.append(OwnerLoad(dimension, source, target, tuple(sizes), tuple(each / PS_PER_NS for each in busy_ps), waits))
    return result


class DimensionLinkFigures(NamedTuple):
    """The load of all links of a dimension: bytes, nanoseconds in which they were busy, and the most messages that waited at one."""

    bytes: int = 0
    busy_ns: float = 0.0
    largest_queue: int = 0


def totals(link_map: LinkMap, figures: Sequence[LinkFigures]) -> list[DimensionLinkFigures]:
    """The load of each dimension, from that of its links in the order of their numbers."""
    dimension_figures = [DimensionLinkFigures()] * len(link_map.dimensions)
    for link in figures:
        dimension = link_map.place(link.number)[0]
        total = dimension_figures[dimension]
        dimension_figures[dimension] = DimensionLinkFigures(
            total.bytes + link.bytes, total.busy_ns + link.busy_ps / PS_PER_NS, max(total.largest_queue, link.largest_queue)
        )
    return dimension_figures


def statistics(link_map: LinkMap, figures: Sequence[DimensionLinkFigures], until_ps: int) -> dict[str, object]:
    """The figures of the dimensions. `until_ps`: the time of the last event.

    Utilisation is the share of this time in which a link was busy, over all links of a dimension.
    """
    dimensions = []
    for links, total in zip(link_map.dimensions, figures, strict=True):
        count = links.real_links() * (link_map.platform.npus // links.size)
        time = count * until_ps / PS_PER_NS
        dimensions.append({"links": count, **total._asdict(), "utilisation": total.busy_ns / time if time else 0.0})
    return {"dimensions": dimensions}


def listed(link_map: LinkMap, figures: Sequence[LinkFigures]) -> list[dict[str, object]]:
    """The figures of every link that carried something, as the result has them."""
    rows: list[dict[str, object]] = []
    for link in figures:
        dimension, group, number = link_map.place(link.number)
        links = link_map.dimensions[dimension]
        rows.append(
            {
                "dimension": dimension,
                "from": link_map.node_name(dimension, group, links.source(number)),
                "to": link_map.node_name(dimension, group, links.target(number)),
                "messages": link.messages,
                "bytes": link.bytes,
                "busy_ns": link.busy_ps / PS_PER_NS,
                "largest_queue": link.largest_queue,
            }
        )
    return rows
