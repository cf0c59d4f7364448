"""What links carry while trees or paths are packed, and the prices of edges that follow from it."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from astra_sim_synthesis.edges import Floats, Ints, RankGraph

_STEEPNESS = 12.0


class LinkLoads:
    """The load of each link of a graph, in pieces of one size.

    The price of a link rises exponentially with its present load (Garg and Koenemann, 2007). `sources` and `targets` are the ranks of
    each edge, `(edges,)`.
    """

    def __init__(self, graph: RankGraph) -> None:
        self.sources: Ints = np.array([edge.source for edge in graph.edges])
        self.targets: Ints = np.array([edge.target for edge in graph.edges])
        self._bandwidth = graph.link_bandwidth
        pairs = [(number, link) for number, edge in enumerate(graph.edges) for link in edge.links]
        rows, columns = (np.array(column) for column in zip(*pairs, strict=True))
        links = len(graph.link_bandwidth)
        self._on_links = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(graph.edges), links))
        self._of_links = self._on_links.T.tocsr()
        self._load: Floats = np.zeros(links)

    def add(self, counts: Floats) -> None:
        """Add the pieces on each edge, `counts` `(edges,)`, to the load of its links; negative counts take pieces away."""
        self._load += self._of_links @ counts

    def congestion(self) -> float:
        """The most that a link carries over its bandwidth."""
        return float((self._load / self._bandwidth).max())

    def prices(self, progress: float) -> Floats:
        """The price of each edge, `(edges,)`; `progress` is the share of all trees or paths that exist once the next is added."""
        busy = self._load / self._bandwidth
        highest = float(busy.max())
        relative = busy * (progress / highest) if highest > 0 else busy
        prices: Floats = self._on_links @ (np.exp(_STEEPNESS * relative) / self._bandwidth)
        return prices
