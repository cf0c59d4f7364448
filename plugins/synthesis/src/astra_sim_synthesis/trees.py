"""Spanning trees along which pieces are broadcast or summed, packed so that no link has much more to carry than others.

Each rank is the root of some trees, and each tree carries one piece of its data. Trees grow one after another as Prim's do, along the edges
that are cheapest at the present loads of links. Then each tree is taken out and grown again, at the prices of all others. Among edges of
one price the one nearer to the root wins, so trees stay flat.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from astra_sim_synthesis.edges import Floats, Ints, RankGraph
from astra_sim_synthesis.link_loads import LinkLoads

_PASSES = 3
USUAL_DEPTH, FLAT = 0.2, 2.0
"""The price of a step away from the root, in prices of a usual edge: if links matter, and if latency does."""


@attrs.frozen(eq=False)
class PackedTree:
    """A spanning tree. `parent[rank]` is the next rank towards the root (the root's own is -1), `order` ranks with parents first.

    Data go from the root to the leaves, or, if `inwards`, from the leaves to the root. `piece` is the piece of the root's.
    """

    root: int
    piece: int
    inwards: bool
    parent: Ints
    order: Ints


def pack_trees(graph: RankGraph, pieces: int, directions: Sequence[bool], depth_price: float = USUAL_DEPTH) -> list[PackedTree]:
    """Trees of `pieces` pieces for each rank, for each of the `directions` (True: inwards), with little congestion."""
    packing = _Packing(graph, depth_price)
    n = graph.ranks
    jobs = [(root, piece, inwards) for piece in range(pieces) for root in range(n) for inwards in directions]
    trees: list[PackedTree] = []
    for number, (root, piece, inwards) in enumerate(jobs):
        trees.append(packing.grow(root, piece, inwards, (number + 1) / len(jobs)))
        packing.add(trees[-1], 1.0)
    best, result = packing.congestion(), list(trees)
    for _ in range(_PASSES):
        for number, tree in enumerate(trees):
            packing.add(tree, -1.0)
            trees[number] = packing.grow(tree.root, tree.piece, tree.inwards, 1.0)
            packing.add(trees[number], 1.0)
        congestion = packing.congestion()
        if congestion < best * (1 - 1e-9):
            best, result = congestion, list(trees)
    return result


def congestion_of(graph: RankGraph, trees: Sequence[PackedTree]) -> float:
    """The most bytes over bandwidth of a link if each tree carries a byte (ns)."""
    packing = _Packing(graph)
    for tree in trees:
        packing.add(tree, 1.0)
    return packing.congestion()


class _Packing:
    """The trees so far, as loads of links."""

    def __init__(self, graph: RankGraph, depth_price: float = USUAL_DEPTH) -> None:
        self._graph, n = graph, graph.ranks
        self._depth_price = depth_price
        self._loads = LinkLoads(graph)
        self._number = np.full((n, n), -1)
        self._number[self._loads.sources, self._loads.targets] = np.arange(len(graph.edges))

    def congestion(self) -> float:
        """The most that a link carries over its bandwidth."""
        return self._loads.congestion()

    def add(self, tree: PackedTree, weight: float) -> None:
        """Add the traffic of a tree to the load of links."""
        child = tree.order[1:]
        above = tree.parent[child]
        edges = self._number[child, above] if tree.inwards else self._number[above, child]
        counts: Floats = np.bincount(edges, minlength=len(self._graph.edges)).astype(np.float64)
        self._loads.add(weight * counts)

    def grow(self, root: int, piece: int, inwards: bool, progress: float) -> PackedTree:
        """A tree along the edges that are cheapest now; `progress` is the share of the trees that are there with it."""
        n = self._graph.ranks
        prices = self._loads.prices(progress)
        sources, targets = self._loads.sources, self._loads.targets
        cost = np.full((n, n), np.inf)
        cost[(targets, sources) if inwards else (sources, targets)] = prices
        turn = (np.arange(n) + root) % n  # ties go round, from the root on
        cost = cost[np.ix_(turn, turn)]
        ordered = np.sort(prices)
        usual = float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2  # the median, whose own function is slow
        step = self._depth_price * usual
        key, above, depth = cost[0].copy(), np.zeros(n, dtype=np.int64), np.zeros(n)
        outside = np.ones(n, dtype=bool)
        outside[0] = False
        key[0] = np.inf
        parent, order = np.full(n, -1), [0]
        for _ in range(n - 1):
            fresh = int(np.argmin(key))
            parent[fresh] = above[fresh]
            order.append(fresh)
            depth[fresh] = depth[above[fresh]] + 1
            outside[fresh] = False
            key[fresh] = np.inf
            through = cost[fresh] + step * depth[fresh]
            better = (through < key) & outside
            key[better] = through[better]
            above[better] = fresh
        result = np.full(n, -1)
        inner = np.array(order[1:], dtype=np.int64)
        result[turn[inner]] = turn[parent[inner]]
        return PackedTree(root, piece, inwards, result, turn[np.array(order)])
