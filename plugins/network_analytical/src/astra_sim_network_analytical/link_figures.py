"""Figures of the links of a congestion-aware network in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from astra_sim.network import LinkLoad
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
    made = []
    for link in figures:
        dimension, group, number = link_map.place(link.number)
        links = link_map.dimensions[dimension]
        source, target = (link_map.node_name(dimension, group, node) for node in (links.source(number), links.target(number)))
        made.append(LinkLoad(dimension, source, target, link.bytes, link.busy_ps / until_ps if until_ps else 0.0))
    return made


def statistics(link_map: LinkMap, figures: Sequence[LinkFigures], until_ps: int, every_link: bool) -> dict[str, object]:
    """The figures of the dimensions, and with `every_link` of every link that carried something. `until_ps`: the time of the last event.

    Utilisation is the share of this time in which a link was busy, over all links of a dimension.
    """
    totals: list[dict[str, float]] = [
        {"links": links.real_links() * (link_map.platform.npus // links.size), "bytes": 0, "busy_ns": 0.0, "largest_queue": 0}
        for links in link_map.dimensions
    ]
    listed = []
    for link in figures:
        dimension, group, number = link_map.place(link.number)
        total = totals[dimension]
        total["bytes"] += link.bytes
        total["busy_ns"] += link.busy_ps / PS_PER_NS
        total["largest_queue"] = max(total["largest_queue"], link.largest_queue)
        if every_link:
            links = link_map.dimensions[dimension]
            listed.append(
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
    for total in totals:
        time = total["links"] * until_ps / PS_PER_NS
        total["utilisation"] = total["busy_ns"] / time if time else 0.0
    return {"dimensions": totals, **({"links": listed} if every_link else {})}
