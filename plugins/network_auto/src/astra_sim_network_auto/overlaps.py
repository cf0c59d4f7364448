"""How long parts of a run may wait for each other on links that they share, from when each is under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

Link = tuple[int, str, str]
"""A link: its dimension, and the names of its ends."""


class Passage(NamedTuple):
    """A piece of traffic under way: from when to when (picoseconds), and its kind by number."""

    begin_ps: int
    end_ps: int
    kind: int


class SharedLinks:
    """Which kinds of traffic can delay each other: those that share a link. A kind of which no link is known shares all.

    While several are under way on one link, each of them may stand still for as long as the others take: the messages of one wait for
    bursts of another, and a collective for its slowest message. `programs` are the numbers of those that have a kind.
    """

    def __init__(self, links: Sequence[Set[Link]], programs: Sequence[Set[int]]) -> None:
        self._links = links
        self._programs = programs
        self._most: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}

    def delay_ps(self, passages: Mapping[Passage, int], late_ps: int = 0) -> int:
        """The longest time by which waiting can put off the end of all passages: that of one's rivals while it is under way, added up.

        Passages of one program keep their distances; those of others may come up to `late_ps` later than they do here, and meet
        some that they do not meet now.
        """
        moments: list[tuple[int, int, int, int]] = []
        for passage, count in passages.items():
            moments += [(passage.begin_ps, 0, count, passage.kind), (passage.end_ps, 0, -count, passage.kind)]
            if late_ps:
                moments += [(passage.end_ps, 1, count, passage.kind), (passage.end_ps + late_ps, 1, -count, passage.kind)]
        moments.sort()
        under_way, late = both = Counter[int](), Counter[int]()
        before = total = 0
        for time, which, change, kind in moments:
            if time > before and under_way:
                total += (time - before) * self._rivals(under_way, late)
            before = time
            both[which][kind] += change
            if not both[which][kind]:
                del both[which][kind]
        return total

    def _rivals(self, under_way: Counter[int], late: Counter[int]) -> int:
        """How many others share links with one of those under way: the most."""
        key = tuple(sorted(under_way.elements())), tuple(sorted(late.elements()))
        if key not in self._most:
            self._most[key] = max(
                sum(self._share(one, other) for other in key[0])
                - 1
                + sum(self._share(one, other) for other in key[1] if self._programs[one].isdisjoint(self._programs[other]))
                for one in under_way
            )
        return self._most[key]

    def _share(self, one: int, other: int) -> bool:
        ours, theirs = self._links[one], self._links[other]
        return one == other or not ours or not theirs or not ours.isdisjoint(theirs)
