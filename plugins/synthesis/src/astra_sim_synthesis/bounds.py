"""Lower bounds of the time of a collective on a fabric: no schedule whose messages share links is faster.

Switches forward and neither copy nor add. Bounds for all-gather, reduce-scatter and all-reduce come from cuts (Zhao et al., ForestColl,
2024): the data that must cross a cut take as long as its links need. The worst cut is found by maximum flows, one to each rank, from a
source that gives each rank as much bandwidth as it has data; when a flow falls short, its minimum cut gives the next bound (Dinkelbach).
An all-reduce must also move each element out of all but one part of any partition, and back: 2 (k - 1) crossings for k parts.

An all-to-all moves a fixed amount between any two ranks: with any prices for links, the total cost of its cheapest routes is at most what
the links are worth in its time. The prices that give the best bound are those of its linear program on small fabrics, else found by
multiplicative weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np
from astra_sim.fabric import Fabric
from astra_sim.schedule import Collective
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, dijkstra, maximum_flow

from astra_sim_synthesis.edges import Floats, Ints

_UNITS = 1 << 20
"""Capacities are whole numbers for scipy: the largest sum of them is about this times the number of ranks, within 32 bits."""
_MOST_FLOWS = 1 << 14
"""Sources times links up to which the best prices of an all-to-all are found."""
_PRICE_ROUNDS = 24
_MOST_KINDS = 12
"""Of links, for whose prices alone the bound of an all-to-all is computed."""


@attrs.frozen
class Bound:
    """A lower bound of a time (ns), and its reason."""

    time_ns: float
    reason: str


def lower_bound(fabric: Fabric, ranks: int, collective: Collective, size: int) -> Bound:
    """The largest lower bound for a collective in which each of the first `ranks` NPUs holds `size` bytes at the start."""
    if ranks < 2:
        return Bound(0.0, "one rank")
    graph = _Graph(fabric, ranks)
    latency = Bound(graph.longest_latency_ns(), "latency between the two ranks that are farthest apart")
    if collective is Collective.ALL_TO_ALL:
        result = [_all_to_all(graph, size)]
    elif collective is Collective.ALL_GATHER:
        result = [_all_gather(graph, size)]
    elif collective is Collective.REDUCE_SCATTER:
        result = [_all_gather(graph.reversed(), size / ranks)]
    else:
        result = _all_reduce(graph, size)
    return max([*result, latency], key=lambda bound: bound.time_ns)


class _Graph:
    """Nodes and the bandwidths between them; parallel links are one."""

    def __init__(self, fabric: Fabric, ranks: int, backwards: bool = False) -> None:
        self.fabric, self.ranks, self._backwards = fabric, ranks, backwards
        ends = [(link.target, link.source) if backwards else (link.source, link.target) for link in fabric.links]
        self.rows, self.columns = (np.array(column, dtype=np.int64) for column in zip(*ends, strict=True))
        self.bandwidth: Floats = np.array([link.bandwidth for link in fabric.links])

    def reversed(self) -> _Graph:
        """The same with all links turned round."""
        return _Graph(self.fabric, self.ranks, not self._backwards)

    def capacity_out(self, inside: np.ndarray) -> float:
        """The bandwidth of the links that leave a set of nodes."""
        return float(self.bandwidth[inside[self.rows] & ~inside[self.columns]].sum())

    def longest_latency_ns(self) -> float:
        """The largest of the least latencies between two ranks."""
        fabric = self.fabric
        least: dict[tuple[int, int], float] = {}
        for link in fabric.links:
            switch = fabric.switch_latency_ns[link.source - fabric.npus] if fabric.is_switch(link.source) else 0.0
            # The interfaces at the ends count once for each dimension: half at each end that is an NPU.
            nic = link.nic_latency_ns * (2 - fabric.is_switch(link.source) - fabric.is_switch(link.target))
            ends = link.source, link.target
            least[ends] = min(least.get(ends, np.inf), link.latency_ns + switch + nic)
        rows, columns = zip(*least, strict=True)
        # dijkstra takes a stored 0 as an edge only if the matrix is sparse and explicit; a tiny weight keeps it there
        weights = [max(weight, 1e-9) for weight in least.values()]
        matrix = csr_matrix((weights, (rows, columns)), shape=(fabric.nodes, fabric.nodes))
        sources = range(self.ranks) if self.ranks <= 512 else range(0, self.ranks, self.ranks // 256)
        distances = dijkstra(matrix, indices=list(sources))[:, : self.ranks]
        return float(distances.max()) * (1 - 1e-9) - 1e-6

    def worst_cut(self) -> tuple[float, int, int]:
        """The most (ranks inside) / (bandwidth out) over sets of nodes that miss a rank; the ranks inside, and the rank it misses.

        Each rank sends all that it has to the same rank outside: an all-gather cannot be faster than that.
        """
        n, nodes = self.ranks, self.fabric.nodes
        best, inside_ranks, missed = 0.0, 0, 0
        for rank in range(n):
            inside = np.ones(nodes, dtype=bool)
            inside[rank] = False
            ratio = (n - 1) / self.capacity_out(inside)
            if ratio > best:
                best, inside_ranks, missed = ratio, n - 1, rank
        for rank in self._targets():
            while True:
                inside = self._cut_below(rank, 1 / best)
                count = int(inside[:n].sum())
                out = self.capacity_out(inside)
                if not count or out <= 0 or count / out <= best * (1 + 1e-9):
                    break
                best, inside_ranks, missed = count / out, count, rank
        return best, inside_ranks, missed

    def _targets(self) -> Iterable[int]:
        """The ranks to which flows are computed: all, or some of very many. Any cut gives a bound, so fewer give no wrong one."""
        return range(self.ranks) if self.ranks <= 256 else range(0, self.ranks, max(1, self.ranks // 64))

    def _cut_below(self, target: int, each: float) -> np.ndarray:
        """The nodes on the source's side of a minimum cut, if each rank gets `each` bytes/ns and all goes to one rank."""
        n, nodes = self.ranks, self.fabric.nodes
        unit = _UNITS / max(each, float(self.bandwidth.max()))
        capacity = np.ceil(self.bandwidth * unit).astype(np.int32)
        rows = np.concatenate([self.rows, np.full(n, nodes)])
        columns = np.concatenate([self.columns, np.arange(n)])
        supply = np.full(n, int(each * unit), dtype=np.int32)
        matrix = csr_matrix((np.concatenate([capacity, supply]), (rows, columns)), shape=(nodes + 1, nodes + 1), dtype=np.int32)
        matrix.sum_duplicates()
        flow = maximum_flow(matrix, nodes, target).flow
        left = (matrix - flow).tocsr()
        left.eliminate_zeros()
        reached = breadth_first_order(left, nodes, return_predecessors=False)
        inside = np.zeros(nodes + 1, dtype=bool)
        inside[reached] = True
        return inside[:nodes]


def _all_gather(graph: _Graph, each: float) -> Bound:
    """Each rank has `each` bytes, and all ranks need all of them."""
    ratio, inside, missed = graph.worst_cut()
    return Bound(ratio * each, f"cut: data of {inside} ranks on the way to rank {missed}")


def _all_reduce(graph: _Graph, size: float) -> list[Bound]:
    """Every rank needs the sum of all contributions."""
    n = graph.ranks
    bounds = []
    for view, verb in ((graph, "leave"), (graph.reversed(), "reach")):
        single = []
        for rank in range(n):
            inside = np.zeros(graph.fabric.nodes, dtype=bool)
            inside[rank] = True
            single.append(view.capacity_out(inside))
        slowest = int(np.argmin(single))
        bounds.append(Bound(size / single[slowest], f"cut: the whole buffer must {verb} rank {slowest}"))
        for parts in [np.arange(n), *_partitions(graph)]:
            count, total = int(parts.max()) + 1, 0.0
            for part in range(count) if count < n else ():
                out = view.capacity_out(_with_switches(graph, parts == part))
                total += out
                if count > 1:
                    members = int((parts == part).sum())
                    bounds.append(Bound(size / out, f"cut: the whole buffer must {verb} a part of {members} ranks"))
            total = sum(single) if count == n else total
            bounds.append(Bound(2 * (count - 1) * size / total, f"partition: {2 * (count - 1)} crossings between {count} parts"))
    return bounds


def _with_switches(graph: _Graph, members: np.ndarray) -> np.ndarray:
    """A set of ranks with the switches all of whose neighbours are inside, so that the cut is no larger than it must be."""
    inside = np.zeros(graph.fabric.nodes, dtype=bool)
    inside[: graph.ranks] = members
    while True:
        outside_neighbour = np.zeros(graph.fabric.nodes, dtype=bool)
        touches = np.zeros(graph.fabric.nodes, dtype=bool)
        np.logical_or.at(outside_neighbour, graph.rows, ~inside[graph.columns] & (graph.columns < graph.fabric.npus))
        np.logical_or.at(touches, graph.rows, inside[graph.columns])
        weight_in, weight_out = np.zeros(graph.fabric.nodes), np.zeros(graph.fabric.nodes)
        np.add.at(weight_in, graph.rows, graph.bandwidth * inside[graph.columns])
        np.add.at(weight_out, graph.rows, graph.bandwidth * ~inside[graph.columns])
        fresh = touches & ~inside & (weight_in > weight_out)
        fresh[: graph.fabric.npus] = False
        if not fresh.any():
            return inside
        inside |= fresh


def _partitions(graph: _Graph) -> Sequence[Ints]:
    """Partitions of the ranks that are likely to be tight: the parts that stay joined by the faster links, for each bandwidth of a link."""
    from scipy.sparse.csgraph import connected_components

    ints: list[Ints] = []
    seen = set()
    nodes = graph.fabric.nodes
    for limit in sorted(set(np.round(graph.bandwidth, 9)))[:8]:
        fast = graph.bandwidth > limit * (1 + 1e-9)
        matrix = csr_matrix((np.ones(int(fast.sum())), (graph.rows[fast], graph.columns[fast])), shape=(nodes, nodes))
        _, labels = connected_components(matrix, directed=False)
        _, parts = np.unique(labels[: graph.ranks], return_inverse=True)
        ints += [parts] if 1 < parts.max() + 1 < graph.ranks and parts.tobytes() not in seen else []
        seen.add(parts.tobytes())
    for dimension in {link.dimension for link in graph.fabric.links}:
        inner = np.array([link.dimension <= dimension for link in graph.fabric.links])
        matrix = csr_matrix((np.ones(int(inner.sum())), (graph.rows[inner], graph.columns[inner])), shape=(nodes, nodes))
        _, labels = connected_components(matrix, directed=False)
        _, parts = np.unique(labels[: graph.ranks], return_inverse=True)
        ints += [parts] if 1 < parts.max() + 1 < graph.ranks and parts.tobytes() not in seen else []
        seen.add(parts.tobytes())
    return ints


def _all_to_all(graph: _Graph, size: float) -> Bound:
    """Each rank has size / n bytes for each other one."""
    n, each = graph.ranks, size / graph.ranks
    single = min(graph.bandwidth[graph.rows == rank].sum() for rank in range(n))
    into = min(graph.bandwidth[graph.columns == rank].sum() for rank in range(n))
    best = Bound((n - 1) * each / float(min(single, into)), "links of the rank that has the least bandwidth")
    reason = "traffic: routes of all pairs, at the prices of links that are worst for them"
    for weights in itertools.chain(_prices_of_classes(graph), _prices_of_halves(graph), _best_prices(graph)):
        distance, _ = _cheapest_routes(graph, weights)
        bound = float(distance[:, :n].sum()) * each / float(weights @ graph.bandwidth)
        best = max(best, Bound(bound, reason), key=lambda bound: bound.time_ns)
    weights = 1 / graph.bandwidth
    for _ in range(_PRICE_ROUNDS if n <= 256 else 2):
        distance, before = _cheapest_routes(graph, weights)
        bound = float(distance[:, :n].sum()) * each / float(weights @ graph.bandwidth)
        best = max(best, Bound(bound, reason), key=lambda bound: bound.time_ns)
        load = _loads(graph, distance, before)
        relative = load / graph.bandwidth
        weights = weights * np.exp(0.5 * (relative / max(relative.max(), 1e-300)))
        weights /= weights.max()
    return best


def _prices_of_halves(graph: _Graph) -> Iterator[Floats]:
    """Prices of the links in the middle of each dimension that is a line of NPUs: what its halves exchange must cross them."""
    steps: dict[int, set[int]] = {}
    for link in graph.fabric.links:
        if max(link.source, link.target) < graph.ranks:
            steps.setdefault(link.dimension, set()).add(abs(link.source - link.target))
    neighbours = {(int(a), int(b)) for a, b in zip(graph.rows, graph.columns, strict=True)}
    for stride in {min(each) for each in steps.values()}:
        size = next(count for count in itertools.count(1) if ((count - 1) * stride, count * stride) not in neighbours)
        places = np.stack([graph.rows, graph.columns]) // stride % size
        middle = (places.max(axis=0) == size // 2) & (places.min(axis=0) == size // 2 - 1)
        middle &= abs(graph.columns - graph.rows) == stride
        if middle.any():
            yield np.where(middle, 1.0, 1e-9)


def _best_prices(graph: _Graph) -> Iterator[Floats]:
    """The prices of links that bound an all-to-all best, on small fabrics: the dual solution of its multi-commodity flow.

    The flow of each source over each link is a variable; t is the time by which no link carries more than its bandwidth allows.
    """
    n, links = graph.ranks, len(graph.rows)
    if n * links > _MOST_FLOWS:
        return
    nodes = graph.fabric.nodes
    flows = np.arange(n * links)
    source, link = flows // links, flows % links
    rows = np.concatenate([source * nodes + graph.columns[link], source * nodes + graph.rows[link]])
    signs = np.concatenate([np.ones(n * links), -np.ones(n * links)])
    balanced = np.array([node != rank for rank in range(n) for node in range(nodes)])
    arriving = csr_matrix((signs, (rows, np.concatenate([flows, flows]))), shape=(n * nodes, n * links + 1))[balanced]
    wanted = np.array([float(node < n) for _ in range(n) for node in range(nodes)])[balanced]
    width = graph.bandwidth / graph.bandwidth.max()
    carried = csr_matrix(
        (
            np.concatenate([np.ones(n * links), -width]),
            (np.concatenate([link, np.arange(links)]), np.append(flows, np.full(links, n * links))),
        ),
        shape=(links, n * links + 1),
    )
    cost = np.zeros(n * links + 1)
    cost[-1] = 1.0
    from scipy.optimize import linprog

    optimum = linprog(cost, A_ub=carried, b_ub=np.zeros(links), A_eq=arriving, b_eq=wanted, method="highs")
    if optimum.success:
        prices = np.maximum(-optimum.ineqlin.marginals, 0.0)
        yield prices + 1e-9 * prices.max()


def _prices_of_classes(graph: _Graph) -> Iterator[Floats]:
    """Prices of links of one kind alone: those of a dimension and bandwidth, between NPUs, between switches, or to or from switches.

    If a fabric looks the same from all NPUs, all links of a kind have one price, and often a single kind is what limits an exchange.
    """
    links = graph.fabric.links
    is_switch = graph.fabric.is_switch
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, link in enumerate(links):
        kinds.setdefault((link.dimension, link.bandwidth, is_switch(link.source), is_switch(link.target)), []).append(number)
    for numbers in list(kinds.values())[:_MOST_KINDS] if len(kinds) > 1 else ():
        weights = 1e-9 / graph.bandwidth
        weights[numbers] *= 1e9
        yield weights / weights.max()


def _cheapest_routes(graph: _Graph, weights: Floats) -> tuple[Floats, Ints]:
    """The costs of the cheapest routes from each rank to each node, and the nodes before their ends, `(ranks, nodes)` each."""
    order = np.lexsort((weights, graph.columns, graph.rows))
    first = np.ones(len(order), dtype=bool)
    rows, columns = graph.rows[order], graph.columns[order]
    first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    cheapest = order[first]  # of parallel links the cheapest
    nodes = graph.fabric.nodes
    matrix = csr_matrix((weights[cheapest], (graph.rows[cheapest], graph.columns[cheapest])), shape=(nodes, nodes))
    distance, before = dijkstra(matrix, indices=np.arange(graph.ranks), return_predecessors=True)
    return distance, before


def _loads(graph: _Graph, distance: Floats, before: np.ndarray) -> Floats:
    """The number of pairs that send over each link by cheapest routes; parallel links share them."""
    n, nodes = graph.ranks, graph.fabric.nodes
    joint = np.zeros((nodes, nodes)) if nodes <= 2048 else None
    counts: dict[tuple[int, int], float] = {}
    for source in range(n):
        passing = np.zeros(nodes)
        passing[:n] = 1.0
        passing[source] = 0.0
        for node in np.argsort(-np.where(np.isfinite(distance[source]), distance[source], -1)):
            parent = before[source, node]
            if parent >= 0 and passing[node]:
                passing[parent] += passing[node]
                if joint is not None:
                    joint[parent, node] += passing[node]
                else:
                    counts[parent, node] = counts.get((parent, node), 0.0) + passing[node]
    if joint is None:
        total = np.array([counts.get((a, b), 0.0) for a, b in zip(graph.rows, graph.columns, strict=True)])
    else:
        total = joint[graph.rows, graph.columns]
    together: dict[tuple[int, int], float] = {}
    for a, b, width in zip(graph.rows, graph.columns, graph.bandwidth, strict=True):
        together[a, b] = together.get((a, b), 0.0) + width
    share = np.array([together[a, b] for a, b in zip(graph.rows, graph.columns, strict=True)])
    result: Floats = total * graph.bandwidth / share
    return result
