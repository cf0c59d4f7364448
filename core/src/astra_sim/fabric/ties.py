"""Rules that break ties: which of several links of equal cost a message takes at a node. See `Routes.path`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from astra_sim.fabric.destination_order import DestinationOrder

if TYPE_CHECKING:
    from astra_sim.fabric.graph import DimensionGraph
    from astra_sim.fabric.routes import TieRule

_MASK = (1 << 64) - 1


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


def tie_by_hash(source: int, destination: int, seed: int = 0) -> TieRule:
    """A link by a hash of the ends of the whole message (NPUs of the platform) and the node, as equal-cost multi-path routing (ECMP) does.

    SplitMix64 (Steele, Lea, Flood 2014) mixes the bits.
    """
    pair = _mixed(_mixed(seed ^ source) ^ destination)

    def hashed(node: int, destination: int, links: Sequence[int]) -> int:
        # The node counts: otherwise all messages on a switch's first link would take the first link of the next one, too.
        return _mixed(pair ^ (node << 32)) % len(links)

    return hashed


def _mixed(number: int) -> int:
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & _MASK
    return number ^ (number >> 31)
