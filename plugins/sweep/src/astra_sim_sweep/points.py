"""Points of a sweep: combinations of the values of its axes, by number, so that none is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.experiments import Grid
from astra_sim.options import option, structure

from astra_sim_sweep.axes import Axis

_ROUNDS = 4


@attrs.frozen
class SampleOptions:
    """The table `[sample]`: points that are drawn."""

    method: str = option(choices=("random", "latin_hypercube"), help="each point by itself, or each axis evenly in as many steps as points")
    points: int = option(minimum=1, maximum=1 << 40, help="how many points are drawn")
    seed: int = option(0, minimum=0, help="another seed gives other points; the same seed gives the same")
    axes: tuple[str, ...] | None = option(None, help="names of the axes that are drawn; none: all. The others are a grid")


@attrs.frozen
class AxisGroup:
    """Axes that go in step: one, and those that name it in `zip`."""

    axes: Sequence[Axis]

    @property
    def count(self) -> int:
        """The number of values."""
        span = self.axes[0].span
        return len(self.axes[0].values) if span is None else span.steps

    def choose(self, position: int) -> dict[str, Any]:
        """The position for each axis; of a span the number itself."""
        span = self.axes[0].span
        return {axis.name: position if span is None else span.step(position) for axis in self.axes}


@attrs.frozen
class Points:
    """The points by number.

    Every combination of `groups`: a grid, of which each point has all draws of those that are `drawn`. The last axis varies fastest.
    """

    groups: Sequence[AxisGroup]
    drawn: Sequence[AxisGroup]
    sample: SampleOptions | None
    grid: Grid = attrs.field(init=False)
    """The combinations of `groups`."""

    @grid.default
    def _grid(self) -> Grid:
        return Grid([group.count for group in self.groups])

    @property
    def count(self) -> int:
        """The number of points."""
        return self.grid.count * (1 if self.sample is None else self.sample.points)

    def choices(self, number: int) -> dict[str, Any]:
        """By the name of its axis the position of each value at a point; of a span the number itself."""
        chosen: dict[str, Any] = {}
        if self.sample is not None:
            number, draw = divmod(number, self.sample.points)
            for group in self.drawn:
                chosen |= self._draw(group, draw)
        for group, position in zip(self.groups, self.grid.positions(number), strict=True):
            chosen |= group.choose(position)
        return chosen

    def _draw(self, group: AxisGroup, draw: int) -> dict[str, Any]:
        """The values drawn for axes that go in step."""
        assert self.sample is not None
        first = group.axes[0]
        seed = f"{self.sample.seed} {first.name}".encode()
        share = _share(seed, draw)
        if self.sample.method == "latin_hypercube":
            share = (shuffled(draw, self.sample.points, seed) + share) / self.sample.points
        if first.span is not None:
            return {first.name: first.span.at(share)}
        position = min(int(share * group.count), group.count - 1)
        return {axis.name: position for axis in group.axes}


def _hash(seed: bytes, *numbers: int) -> int:
    """64 bits that follow from a seed and numbers, on every machine alike."""
    text = seed + b":" + ",".join(map(str, numbers)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def _share(seed: bytes, draw: int) -> float:
    return (_hash(seed, draw) >> 11) / (1 << 53)


def shuffled(number: int, count: int, seed: bytes) -> int:
    """The place of `number` of 0 ... count - 1 in a shuffle, without a list of all: a Feistel network (Luby and Rackoff 1988).

    Its domain is the next power of 4; a number that leaves the range goes on until it is back (Black and Rogaway 2002).
    """
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = number >> half, number & mask
        for step in range(_ROUNDS):
            left, right = right, left ^ (_hash(seed, step, right, half) & mask)
        number = left << half | right
        if number < count:
            return number


def make_points(axes: Sequence[Axis], sample: Mapping[str, Any] | None, where: str, spans: bool = False) -> Points:
    """The points of axes, some of which are drawn. `spans`: those are steps of a grid if they are not drawn. Raises InputError."""
    groups = _groups(axes, where)
    options: SampleOptions | None = None if sample is None else structure(SampleOptions, sample, f"{where}: sample")
    names = [axis.name for axis in axes]
    drawn = set() if options is None else set(names if options.axes is None else options.axes)
    for name in sorted(drawn - set(names)):
        raise InputError(f"{where}: sample: axes: there is no axis {name!r}; {suggestion(name, names)}")
    for axis in axes:
        if axis.span is not None and axis.name not in drawn and not spans:
            raise InputError(
                f"{where}: axes: {axis.key}: numbers of a span are drawn; expected a table [sample] with method and points for {axis.name}"
            )
        if axis.zip is not None and (axis.zip in drawn) != (axis.name in drawn):
            raise InputError(f"{where}: sample: axes has one of {axis.zip} and {axis.name}, which go in step; expected both or none")
    if options is not None and not drawn:
        raise InputError(f"{where}: sample: no axis is drawn; expected axes")
    chosen = [group for group in groups if group.axes[0].name in drawn]
    return Points([group for group in groups if group not in chosen], chosen, options)


def _groups(axes: Sequence[Axis], where: str) -> list[AxisGroup]:
    """The axes that go together: those that are zipped, and each other by itself. Raises InputError."""
    leaders = {axis.name: [axis] for axis in axes if axis.zip is None}
    for axis in axes:
        if axis.zip is None:
            continue
        at = f"{where}: axes: {axis.key}"
        if axis.zip == axis.name:
            raise InputError(f"{at}: zip is {axis.zip!r}, its own name; expected that of another axis")
        if axis.zip not in leaders:
            its = next((other.zip for other in axes if other.name == axis.zip), None)
            hint = f"that axis goes in step with {its!r}; expected {its!r}" if its else suggestion(axis.zip, leaders)
            raise InputError(f"{at}: zip is {axis.zip!r}; {hint}")
        leader = leaders[axis.zip][0]
        if leader.span is not None or len(axis.values) != len(leader.values):
            has = "no list of values" if leader.span is not None else f"{len(leader.values)}"
            raise InputError(f"{at} has {len(axis.values)} values, and {axis.zip}, with which it goes in step, {has}; expected as many")
        leaders[axis.zip].append(axis)
    return [AxisGroup(group) for group in leaders.values()]
