"""Links of a run by the numbers of their ends."""

from __future__ import annotations

from astra_sim.fabric.graph import node_number
from astra_sim.network import LinkLoad
from astra_sim.platform import Platform


def numbered(link: LinkLoad, platform: Platform) -> tuple[int, int]:
    """The numbers of the ends of a link in the fabric of a platform."""
    return node_number(link.source, platform.npus), node_number(link.target, platform.npus)
