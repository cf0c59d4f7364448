"""Rules that break ties: which of several links of equal cost a message takes at a node. See `Routes.path`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from astra_sim.fabric.destination_order import DestinationOrder

if TYPE_CHECKING:
    from astra_sim.fabric.graph import DimensionGraph
    from astra_sim.fabric.routes import TieRule


def tie_first(node: int, destination: int, links: Sequence[int]) -> int:
    """The first link of the set."""
    return 0


def tie_by_destination(graph: DimensionGraph, upwards: bool = False) -> TieRule:
    """The link of the destination's turn (d-mod-k), if the topology numbers destinations; of named routes the first.

    If it does not, the first by target; `upwards`: the link to the next node upwards, for on a ring both directions may be as short.
    The set is in the order of targets.
    """
    if graph.named is not None:
        return tie_first
    if graph.destination_order is None:
        return _upwards(graph) if upwards else tie_first
    destination_order = DestinationOrder(graph.nodes, graph.ends, graph.destination_order)

    def turn(node: int, destination: int, links: Sequence[int]) -> int:
        ends = graph.links[links[0]].target, graph.links[links[-1]].target
        return destination_order.choose(node, destination, *ends, len(links))

    return turn


def _upwards(graph: DimensionGraph) -> TieRule:
    def next_upwards(node: int, destination: int, links: Sequence[int]) -> int:
        return next((place for place, number in enumerate(links) if graph.links[number].target > node), 0)

    return next_upwards
