"""Dragonfly+: groups of leaves and spines, the groups fully connected (Shpiner et al., HiPINEB 2017)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.fabric import Wire, both_ways
from astra_sim.fabric.graph import LARGEST_FABRIC
from astra_sim.platform import Dimension, Topology
from astra_sim.schedule import Peer

from astra_sim_platforms.topologies import LinkOptions


@attrs.frozen
class DragonflyPlusOptions(LinkOptions):
    """Options of a Dragonfly+: in a group each leaf has a link to each spine, and spines have links to other groups."""

    leaves: int = option(minimum=1, help="leaves of a group")
    spines: int | None = option(None, minimum=1, help="spines of a group; default: as many as leaves")
    npus: int = option(1, minimum=1, help="NPUs of a leaf")
    global_links: int = option(1, minimum=1, help="links of a spine to other groups")
    groups: int | None = option(None, minimum=1, help="groups; default: spines * global_links + 1, of which every two have one link")
    global_latency_factor: float = option(1.0, above=0, help="latency of links between groups, in latencies of a link")


@attrs.frozen
class DragonflyPlus(Topology):
    """A Dragonfly+ of `groups` groups. Every two groups are joined by the same number of links, which go round robin over the spines."""

    groups: int
    leaves: int
    spines: int
    npus: int
    global_links: int
    global_length: float
    name: str = attrs.field(default="dragonfly_plus", init=False)

    @property
    def size(self) -> int:
        """The NPUs."""
        return self.groups * self.leaves * self.npus

    @property
    def links_between(self) -> int:
        """The links between two groups."""
        return self.spines * self.global_links // max(1, self.groups - 1)

    def destination_order(self) -> Sequence[int]:
        """NPUs spread over paths of equal cost in their order, which is that of their switches."""
        return range(self.size)

    def hops(self, source: int, destination: int) -> int:
        """Two at a leaf, four within a group, five between groups."""
        a, b = source // self.npus, destination // self.npus
        return 2 if a == b else 4 if a // self.leaves == b // self.leaves else 5

    def is_symmetric(self, peer: Peer) -> bool:
        """Not known."""
        return False

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """One."""
        return 1

    def link_count(self) -> int:
        """The links, each way counted."""
        between = self.groups * (self.groups - 1) // 2 * self.links_between
        return 2 * (self.size + self.groups * self.leaves * self.spines + between)

    def wires(self) -> list[Wire]:
        """Links of NPUs, then of groups, then between them. Switches are the leaves of all groups, then the spines.

        Raises InputError if they are too many to list.
        """
        if self.link_count() > LARGEST_FABRIC:
            raise InputError(f"a {self.name} of {self.size} NPUs has {self.link_count()} links; expected at most {LARGEST_FABRIC}")
        return both_ways(self._pairs())

    def _pairs(self) -> Iterator[Wire]:
        """The links: NPUs to leaves, leaves to spines of their group, and spines of each two groups, used in rotation."""
        first_spine = self.size + self.groups * self.leaves
        for npu in range(self.size):
            yield Wire(npu, self.size + npu // self.npus)
        for group in range(self.groups):
            for leaf in range(self.leaves):
                for spine in range(self.spines):
                    yield Wire(self.size + group * self.leaves + leaf, first_spine + group * self.spines + spine)
        used = [0] * self.groups
        for _ in range(self.links_between):
            for first in range(self.groups):
                for second in range(first + 1, self.groups):
                    ends = [first_spine + group * self.spines + used[group] % self.spines for group in (first, second)]
                    used[first] += 1
                    used[second] += 1
                    yield Wire(ends[0], ends[1], length=self.global_length)


def dragonfly_plus(options: DragonflyPlusOptions) -> list[Dimension]:
    """A Dragonfly+. Raises InputError if its spines have too few links for its groups."""
    spines = options.leaves if options.spines is None else options.spines
    reached = spines * options.global_links + 1
    groups = reached if options.groups is None else options.groups
    if groups > reached:
        raise InputError(f"groups is {groups}; {spines} spines with {options.global_links} global links reach at most {reached} groups")
    result = DragonflyPlus(groups, options.leaves, spines, options.npus, options.global_links, options.global_latency_factor)
    return [options.dimension(result, result.size)]
