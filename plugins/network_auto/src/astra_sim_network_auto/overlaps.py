"""How long parts of a run may wait for each other on links that they share, from when each is under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from astra_sim_network_auto.traffic import TrafficKind

Link = tuple[int, str, str]
"""A link: its dimension, and the names of its ends."""


class Passage(NamedTuple):
    """A piece of traffic under way: from when to when (picoseconds), and its kind by number."""

    begin_ps: int
    end_ps: int
    kind: int


class SharedLinks:
    """The rates at which kinds of traffic may delay each other, from their share of the time of each link while they are alone.

    While several are under way, a link has as much more to carry than one of them as the shares of the others add up to: if it serves
    someone whenever anyone waits, they end at most so much later.
    """

    def __init__(self, kinds: Sequence[TrafficKind], loads: Sequence[Mapping[Link, float]]) -> None:
        self._kinds = kinds
        self._loads = loads
        self._pairs: dict[tuple[int, int], float] = {}
        self._rates: dict[tuple[int, ...], float] = {}

    def delay_ps(self, passages: Iterable[Passage]) -> int:
        """The longest time by which waiting can put off the end of all passages."""
        moments: list[tuple[int, int, int]] = []
        for passage in set(passages):
            moments += [(passage.begin_ps, 1, passage.kind), (passage.end_ps, -1, passage.kind)]
        moments.sort()
        under_way: Counter[int] = Counter()
        before, total = 0, 0.0
        for time, change, kind in moments:
            if time > before and len(under_way):
                total += (time - before) * self._rate(under_way)
            before = time
            under_way[kind] += change
            if not under_way[kind]:
                del under_way[kind]
        return round(total)

    def _rate(self, under_way: Counter[int]) -> float:
        key = tuple(sorted(under_way.elements()))
        if key not in self._rates:
            self._rates[key] = max(
                sum(self._pair(key[place], other) for number, other in enumerate(key) if number != place) for place in range(len(key))
            )
        return self._rates[key]

    def _pair(self, one: int, other: int) -> float:
        """The share of its time for which a kind may hold up another one: on the link where that is most."""
        key = min(one, other), max(one, other)
        if key not in self._pairs:
            self._pairs[key] = self._shared(*key)
        return self._pairs[key]

    def _shared(self, one: int, other: int) -> float:
        ours, theirs = self._loads[one], self._loads[other]
        if not ours or not theirs:  # the network knows no links
            return 1.0
        shared = [min(share, theirs[link]) for link, share in ours.items() if link in theirs]
        if not shared:
            return 0.0
        # Collectives of one NPU may go one after the other, chunk by chunk, even if they leave links idle.
        return 1.0 if self._kinds[one].programs & self._kinds[other].programs else max(shared)
