"""Shards of a sweep: each of several processes, perhaps on other machines, runs its share of the points; their journals are merged."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator

import attrs
from astra_sim import InputError

from astra_sim_sweep.points import shuffled

_SEED = b"shard"
_MOST = 100_000


@attrs.frozen
class Shard:
    """The share `number` (from 1 on) of `of` shares of all points.

    Points are dealt out after a shuffle, so that shares take about as long as each other, whatever the order of the axes.
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard of `i/n`. Raises InputError."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
        if match is None:
            raise InputError(f"--shard is {text!r}; expected i/n, such as 2/8")
        number, of = map(int, match.groups())
        if not 1 <= of <= _MOST or not 1 <= number <= of:
            raise InputError(f"--shard is {text!r}; expected i/n with i from 1 to n, and n at most {_MOST}")
        return cls(number, of)

    def has(self, point: int, points: int) -> bool:
        """Whether it has a point, by its number among `points`."""
        return shuffled(point, points, _SEED) % self.of == self.number - 1

    def numbers(self, points: int) -> Iterator[int]:
        """The numbers of its points, in order."""
        return (point for point in range(points) if self.has(point, points))

    def count(self, points: int) -> int:
        """The number of its points among `points`."""
        return max(0, (points - self.number) // self.of + 1)

    def path(self, table: str) -> str:
        """The table of the shard, if that of the whole sweep is `table`."""
        stem, ending = os.path.splitext(table)
        return f"{stem}.shard-{self.number}-of-{self.of}{ending}"


def shard_of_point(point: int, points: int, of: int) -> Shard:
    """The shard that has a point."""
    return Shard(shuffled(point, points, _SEED) % of + 1, of)


def shard_journals(table: str) -> dict[str, Shard]:
    """The journals of shards of a table, by path, in the order of their numbers."""
    stem = os.path.splitext(table)[0]
    pattern = re.compile(re.escape(os.path.basename(stem)) + r"\.shard-(\d+)-of-(\d+)\.journal\.sqlite")
    result = {}
    for path in glob.glob(f"{glob.escape(stem)}.shard-*.journal.sqlite"):
        match = pattern.fullmatch(os.path.basename(path))
        if match is not None:
            result[path] = Shard(*map(int, match.groups()))
    return dict(sorted(result.items(), key=lambda item: (item[1].of, item[1].number)))
