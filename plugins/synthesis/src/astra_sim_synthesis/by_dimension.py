"""All-to-alls dimension by dimension, for any number of ranks: the data for all ranks in one direction travel together.

In each dimension of an order, a rank sends to each coordinate the data for all ranks with that coordinate, of all ranks that agree with it
in the dimensions left: straight where no NPU is between two ranks (NVLink, rails), otherwise from neighbour to neighbour, the shorter way
round. The data of each pair are cut into parts whose orders begin with different dimensions, so that all dimensions are busy at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence

import attrs
from astra_sim.platform import Platform
from astra_sim.schedule import Request
from astra_sim.schedule_bytes import Pairs

from astra_sim_synthesis.edges import RankGraph
from astra_sim_synthesis.timing import Transfer


@attrs.frozen
class _ExchangeAxis:
    """The size and stride of a dimension, and how data get to another coordinate: straight, around a ring, or along a line."""

    size: int
    stride: int
    kind: str

    def coordinate(self, rank: int) -> int:
        return rank // self.stride % self.size

    def at(self, rank: int, coordinate: int) -> int:
        """The rank that differs from one in this coordinate alone."""
        return rank + (coordinate - self.coordinate(rank)) * self.stride

    def ahead(self, coordinate: int, direction: int) -> list[tuple[int, bool]]:
        """The coordinates to which data go in a direction, the next one first, and whether half of it does: that of the opposite rank."""
        if self.kind == "line":
            return [(each, False) for each in range(coordinate + direction, self.size if direction > 0 else -1, direction)]
        steps = range(1, self.size // 2 + 1)
        return [((coordinate + step * direction) % self.size, 2 * step == self.size) for step in steps]

    @property
    def steps(self) -> int:
        """Messages one after another in a direction."""
        return 1 if self.kind == "straight" else self.size // 2


def by_dimension(graph: RankGraph, platform: Platform, request: Request) -> list[Transfer] | None:
    """The messages of an all-to-all. None if there are fewer than two dimensions, or neighbours that are not joined.

    All data take one order if there are too few bytes to cut them.
    """
    dimensions = []
    for dimension, stride in zip(platform.dimensions, platform.strides, strict=True):
        if dimension.size > 1:
            kind = _kind(graph, dimension.size, stride)
            if kind is None:
                return None
            dimensions.append(_ExchangeAxis(dimension.size, stride, kind))
    if len(dimensions) < 2:
        return None
    halves = 2 if any(dimension.kind == "ring" and dimension.size % 2 == 0 for dimension in dimensions) else 1
    orders = [[*dimensions[first:], *dimensions[:first]] for first in range(len(dimensions))]
    if request.bytes < graph.ranks * len(orders) * halves:
        orders, halves = orders[:1], 1
    cut = len(orders) * halves
    parts = (_ExchangePart(graph, request, order, range(first * halves, (first + 1) * halves), cut) for first, order in enumerate(orders))
    return list(itertools.chain.from_iterable(part.transfers() for part in parts))


def _kind(graph: RankGraph, size: int, stride: int) -> str | None:
    """How data get along a dimension; None if some links that this needs are missing."""
    groups = [rank for rank in range(graph.ranks) if rank // stride % size == 0]

    def are_joined(pairs: Sequence[tuple[int, int]]) -> bool:
        return all((base + a * stride, base + b * stride) in graph.number_of for base in groups for a, b in pairs)

    steps = [(a, a + 1) for a in range(size - 1)]
    both = [*steps, *((b, a) for a, b in steps)]
    if are_joined([(a, b) for a in range(size) for b in range(size) if a != b]):
        return "straight"
    if are_joined([*both, (size - 1, 0), (0, size - 1)]):
        return "ring"
    return "line" if are_joined(both) else None


class _ExchangePart:
    """One or two of the `cut` pieces of each pair, which travel through the dimensions in one order."""

    def __init__(self, graph: RankGraph, request: Request, order: Sequence[_ExchangeAxis], pieces: range, cut: int) -> None:
        self._graph, self._order, self._pieces, self._cut = graph, order, pieces, cut
        total = graph.ranks * cut
        self._sizes = [request.bytes * (place + 1) // total - request.bytes * place // total for place in range(total)]
        self._left = sum(dimension.steps for dimension in order)
        self._arrived: list[list[Transfer]] = []
        self._blocks: dict[tuple[Hashable, ...], tuple[list[int], int]] = {}

    def transfers(self) -> Iterator[Transfer]:
        """The messages, dimension by dimension."""
        ranks = range(self._graph.ranks)
        needs: list[list[Transfer]] = [[] for _ in ranks]
        for place, dimension in enumerate(self._order):
            # The ranks whose data a rank has agree with it in the dimensions left, those for which they are in the dimensions before.
            owners = self._groups(self._order[place:])
            self._targets, self._done = self._groups(self._order[: place + 1]), self._order[:place]
            self._blocks = {}
            self._arrived = [[] for _ in ranks]
            for rank in ranks:
                agreeing = owners[_key(rank, self._order[place:])]
                if dimension.kind == "straight":
                    yield from self._straight(dimension, rank, agreeing, needs[rank])
                else:
                    yield from self._onwards(dimension, rank, agreeing, needs[rank], 1)
                    yield from self._onwards(dimension, rank, agreeing, needs[rank], -1)
            needs = self._arrived
            self._left -= dimension.steps

    def _groups(self, agreed: Sequence[_ExchangeAxis]) -> dict[tuple[int, ...], list[int]]:
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self._graph.ranks):
            groups.setdefault(_key(rank, agreed), []).append(rank)
        return groups

    def _straight(self, dimension: _ExchangeAxis, rank: int, owners: list[int], needs: list[Transfer]) -> Iterator[Transfer]:
        """Send a block to each coordinate, the next one first."""
        for turn in range(1, dimension.size):
            coordinate = (dimension.coordinate(rank) + turn) % dimension.size
            block = self._block(rank, ((coordinate, False),), 1)
            yield self._message(rank, dimension.at(rank, coordinate), owners, block, needs, (-self._left, turn))

    def _onwards(self, dimension: _ExchangeAxis, rank: int, owners: list[int], needs: list[Transfer], direction: int) -> Iterator[Transfer]:
        """Send the blocks of a direction from neighbour to neighbour; each keeps its owners and passes the others on."""
        at = rank
        ahead = tuple(dimension.ahead(dimension.coordinate(rank), direction))
        for step, (coordinate, _) in enumerate(ahead):
            block = self._block(rank, ahead[step:], direction)
            if not block[0]:
                return
            to = dimension.at(rank, coordinate)
            message = self._message(at, to, owners, block, needs, (step - self._left, step))
            yield message
            needs, at = [message], to

    def _block(self, rank: int, ahead: tuple[tuple[int, bool], ...], direction: int) -> tuple[list[int], int]:
        """The pieces for the ranks with some coordinates, and their bytes. Messages with the same pieces share the list."""
        done = _key(rank, self._done)
        key = done, ahead, direction
        if key not in self._blocks:
            pieces = []
            for coordinate, is_half in ahead:
                taken = self._pieces[::2] if is_half and direction > 0 else self._pieces[1::2] if is_half else self._pieces
                pieces += [target * self._cut + piece for target in self._targets[*done, coordinate] for piece in taken]
            self._blocks[key] = pieces, sum(self._sizes[piece] for piece in pieces)
        return self._blocks[key]

    def _message(
        self, at: int, to: int, owners: list[int], block: tuple[list[int], int], needs: list[Transfer], priority: tuple[int, ...]
    ) -> Transfer:
        pieces, size = block
        transfer = Transfer(
            self._graph.edge(at, to), Pairs(owners, pieces), len(owners) * size, needs, priority=(*priority, self._pieces[0])
        )
        self._arrived[to].append(transfer)
        return transfer


def _key(rank: int, agreed: Sequence[_ExchangeAxis]) -> tuple[int, ...]:
    return tuple(dimension.coordinate(rank) for dimension in agreed)
