"""The programs of ranks that were not recorded: the same as a recorded one, in their own groups."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import attrs
from astra_sim import InputError
from astra_sim.platform import LogicalDimension, Platform

from astra_sim_torch.capture_file import RankCapture


@attrs.frozen
class Members:
    """The scope of a collective: dimensions of the graph, or the NPUs of one group; neither if the group is one rank."""

    dimensions: tuple[int, ...] = ()
    group: tuple[int, ...] | None = None


@attrs.frozen
class Regular:
    """Groups of `size` ranks that are `stride` apart, side by side over the world."""

    size: int
    stride: int

    def index(self, rank: int) -> int:
        """The place of a rank in its group."""
        return rank // self.stride % self.size


def regular(ranks: Sequence[int], world: int) -> Regular | None:
    """The regular groups of which some ranks are one; None if they are none."""
    if len(ranks) == 1:
        return Regular(1, 1)
    stride = ranks[1] - ranks[0]
    if stride < 1 or any(b - a != stride for a, b in itertools.pairwise(ranks)) or world % (stride * len(ranks)):
        return None
    result = Regular(len(ranks), stride)
    return result if result.index(ranks[0]) == 0 else None


class TorchRanks:
    """The groups of a capture on a platform, and which recorded rank represents which."""

    def __init__(self, captures: Sequence[RankCapture], platform: Platform) -> None:
        self._captures, self._platform = captures, platform
        self.world = captures[0].world
        self.dimensions: list[LogicalDimension] = []
        self.is_whole = len(captures) == self.world

    def classes(self) -> list[tuple[RankCapture, list[int]]]:
        """Each capture with the ranks that it represents: those with its place in all groups in which messages are sent.

        Raises InputError if a place has no capture.
        """
        if self.is_whole:
            return [(each, [each.rank]) for each in self._captures]
        of_messages = {each for capture in self._captures for each in self._groups_of_messages(capture)}
        result: dict[tuple[int, ...], tuple[RankCapture, list[int]]] = {}
        for capture in self._captures:
            result.setdefault(tuple(each.index(capture.rank) for each in of_messages), (capture, []))
        for rank in range(self.world):
            place = tuple(each.index(rank) for each in of_messages)
            if place not in result:
                raise InputError(f"no capture represents rank {rank}: it sends messages from another place; capture --ranks all")
            result[place][1].append(rank)
        return list(result.values())

    def _groups_of_messages(self, capture: RankCapture) -> set[Regular]:
        regulars = set()
        for name in {event["group"] for event in capture.events if event["kind"] in ("send", "receive")}:
            groups = regular(capture.groups[name], self.world)
            if groups is None:
                raise InputError(f"{capture.path}: messages in group {name} of ranks {_shown(capture.groups[name])}; capture --ranks all")
            regulars.add(groups)
        return regulars

    def members(self, capture: RankCapture, name: str, stands_for: Sequence[int]) -> Members:
        """The scope of a collective in a group of a capture. Raises InputError if it is not known for the ranks that it represents."""
        ranks = capture.groups[name]
        groups = regular(ranks, self.world)
        if groups is not None and groups.size == 1:
            return Members()
        if groups is not None and self._were_made(capture, groups):
            return Members(tuple(self._number(each) for each in self._platform.parts_of_group(groups.size, groups.stride)))
        if set(stands_for) <= set(ranks):
            return Members(group=ranks)
        raise InputError(
            f"{capture.path}: group {name} has ranks {_shown(ranks)}, and the capture represents ranks outside of it, whose groups are not "
            "known; capture --ranks all"
        )

    def _were_made(self, capture: RankCapture, groups: Regular) -> bool:
        """Whether the script made all of these groups, or the one that there is."""
        if groups.size == self.world:
            return True
        result = set(capture.created_groups)
        return all(tuple(each) in result for each in LogicalDimension(groups.size, groups.stride, None).groups(self.world))

    def _number(self, dimension: LogicalDimension) -> int:
        if dimension not in self.dimensions:
            self.dimensions.append(dimension)
        return self.dimensions.index(dimension)


def _shown(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")


def targets(capture: RankCapture, name: str, peer: int) -> int:
    """The rank of the world that a peer in a group is. Raises InputError if there is none."""
    ranks = capture.groups[name]
    if peer >= len(ranks):
        raise InputError(f"{capture.path}: peer {peer} of group {name}, which has {len(ranks)} ranks")
    return ranks[peer]
