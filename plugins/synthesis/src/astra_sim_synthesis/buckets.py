"""Plans for tori of any size: rings in all dimensions and both directions at once.

The data of a rank are cut into parts. Each part goes around the rings of the dimensions one after another, in an order and a direction of
its own, and in each dimension a rank passes on all that it has gathered so far (the bucket algorithm; Barnett et al., 1994). The orders
and the data of each are chosen such that the links of all dimensions carry as much as each other: a linear program with one share for each
order, since dimensions may be of unlike size and bandwidth. If every link is busy all the time, the plan is at the lower bound.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

import attrs
import numpy as np
from astra_sim.platform import Platform
from astra_sim.schedule import Collective, Request
from scipy.optimize import linprog

from astra_sim_synthesis.edges import RankGraph
from astra_sim_synthesis.timing import Transfer, schedule_in_time
from astra_sim_synthesis.tree_plans import piece_bytes, reversed_in_time

MOST_PIECES = 6_200
"""Pieces of all ranks, which the proof follows one by one."""
_PARTS = (1, 2, 3, 4, 6, 8, 12)
"""Parts of a direction that are tried."""
_UNEVEN = 1.02
"""Of the load with any shares: parts are not cut finer if the busiest links carry no more."""


@attrs.frozen
class Torus:
    """The rings of a platform: the size, the stride and the bandwidth (bytes/ns) of each of its dimensions with more than one NPU."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    bandwidths: tuple[float, ...]

    def next(self, rank: int, dimension: int, direction: int) -> int:
        """The neighbour of a rank."""
        size, stride = self.sizes[dimension], self.strides[dimension]
        place = rank // stride % size
        return rank + ((place + direction) % size - place) * stride


def torus_of(platform: Platform) -> Torus | None:
    """The rings of a platform; None if a dimension is something else."""
    wired = platform.wired()
    rings = [(dimension, stride) for dimension, stride in zip(wired.dimensions, wired.strides, strict=True) if dimension.size > 1]
    for dimension, _ in rings:
        links = dimension.topology.uniform_links()
        if links is None or links.pattern != "ring":
            return None
    return Torus(
        tuple(dimension.size for dimension, _ in rings),
        tuple(stride for _, stride in rings),
        tuple(dimension.link_bandwidth for dimension, _ in rings),
    )


def orders_of_parts(torus: Torus, ranks: int) -> list[tuple[int, ...]] | None:
    """The order of dimensions of each part of a direction; None if there would be too many pieces."""
    orders = list(itertools.permutations(range(len(torus.sizes)))) if len(torus.sizes) <= 4 else [tuple(range(len(torus.sizes)))]
    loads = np.array([[_load(torus, order, dimension) for order in orders] for dimension in range(len(torus.sizes))])
    # The least t such that loads @ shares <= t, with shares that add up to 1.
    count = len(orders)
    upper = np.hstack([loads, -np.ones((len(loads), 1))])
    one = np.append(np.ones(count), 0.0).reshape(1, -1)
    solved = linprog(np.append(np.zeros(count), 1.0), A_ub=upper, b_ub=np.zeros(len(loads)), A_eq=one, b_eq=[1.0], method="highs")
    shares, least = solved.x[:count], solved.x[count]
    best, result = math.inf, None
    for parts in _PARTS:
        if 2 * parts * ranks > MOST_PIECES:
            break
        numbers = np.floor(shares * parts + 1e-9).astype(int)
        for place in np.argsort(numbers - shares * parts)[: parts - numbers.sum()]:
            numbers[place] += 1
        load = (loads @ (numbers / parts)).max()
        if load < best * (1 - 1e-9):
            best, result = load, [order for order, number in zip(orders, numbers, strict=True) for _ in range(number)]
        if load <= _UNEVEN * least:
            break
    return result


def _load(torus: Torus, order: Sequence[int], dimension: int) -> float:
    """What a link of a dimension carries of the data of one rank, over its bandwidth, if all ranks go by an order."""
    before = math.prod(torus.sizes[each] for each in order[: order.index(dimension)])
    return (torus.sizes[dimension] - 1) * before / torus.bandwidths[dimension]


def in_buckets(graph: RankGraph, torus: Torus, request: Request, step_ns: float) -> list[Transfer] | None:
    """The messages of an all-gather, a reduce-scatter, or of both one after the other, with their times.

    None if there are too many, or if a link is down.
    """
    orders = orders_of_parts(torus, graph.ranks)
    if orders is None or not _is_whole(graph, torus):
        return None
    bandwidth = graph.link_bandwidth.tolist()
    out = inwards = None
    if request.collective is not Collective.REDUCE_SCATTER:
        out = _gathered(graph, torus, request, orders)
    if request.collective is not Collective.ALL_GATHER:
        backwards = _gathered(graph.reversed(), torus, request, orders)
        schedule_in_time(backwards, bandwidth, step_ns)
        inwards = reversed_in_time(graph, backwards)
    if out is not None and inwards is not None:
        _join(inwards, out, 2 * len(orders))
    transfers = [*(inwards or ()), *(out or ())]
    schedule_in_time(transfers, bandwidth, step_ns)
    return transfers


def _is_whole(graph: RankGraph, torus: Torus) -> bool:
    """Whether all links between neighbours are up."""
    ends = itertools.product(range(graph.ranks), range(len(torus.sizes)), (1, -1))
    return all((rank, torus.next(rank, dimension, direction)) in graph.number_of for rank, dimension, direction in ends)


def _gathered(graph: RankGraph, torus: Torus, request: Request, orders: Sequence[Sequence[int]]) -> list[Transfer]:
    """The messages of an all-gather: in each dimension of a part's order a rank passes on what it has, and then what it receives."""
    n, pieces = graph.ranks, 2 * len(orders)
    size = piece_bytes(request, pieces)
    transfers: list[Transfer] = []
    parts = [(order, direction) for order in orders for direction in (1, -1)]
    for part, (order, direction) in enumerate(parts):
        held: list[list[tuple[int, ...]]] = [[(rank * pieces + part,)] for rank in range(n)]
        arrived: list[list[Transfer]] = [[] for _ in range(n)]
        left = sum(torus.sizes[dimension] - 1 for dimension in order)
        for dimension in order:
            blocks = [tuple(itertools.chain.from_iterable(each)) for each in held]
            needs = [list(each) for each in arrived]
            held = [[block] for block in blocks]
            for _ in range(torus.sizes[dimension] - 1):
                coming = []
                for rank, block in enumerate(blocks):
                    edge = graph.edge(rank, torus.next(rank, dimension, direction))
                    coming.append((block, Transfer(edge, block, sum(map(size, block)), needs[rank], priority=(-left, part))))
                for block, transfer in coming:
                    to = transfer.edge.target
                    needs[to], blocks[to] = [transfer], block
                    held[to].append(block)
                    arrived[to].append(transfer)
                    transfers.append(transfer)
                left -= 1
    return transfers


def _join(summed: Sequence[Transfer], spread: Sequence[Transfer], pieces: int) -> None:
    """Let an all-gather wait for a reduce-scatter: each rank for all sums of its own pieces."""
    into: dict[object, list[Transfer]] = defaultdict(list)
    for transfer in summed:
        for piece in transfer.pieces:
            if isinstance(piece, int) and piece // pieces == transfer.edge.target:
                into[piece].append(transfer)
    for transfer in spread:
        if not transfer.needs:
            transfer.needs = into[transfer.pieces[0]]
        transfer.priority = (1, *transfer.priority)
    for transfer in summed:
        transfer.priority = (0, *transfer.priority)
