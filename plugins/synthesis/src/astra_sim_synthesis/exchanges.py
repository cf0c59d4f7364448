"""Plans of all-to-alls: each rank sends to each other one straight, in an order in which messages meet on few links."""

from __future__ import annotations

from astra_sim.schedule import Request

from astra_sim_synthesis.edges import RankGraph
from astra_sim_synthesis.timing import Transfer


def straight(graph: RankGraph, request: Request, pieces: int) -> list[Transfer]:
    """The messages over the edges of a graph that has one for each pair of ranks, the nearest partner in turn first."""
    n, size = graph.ranks, request.bytes
    transfers = []
    for edge in graph.edges:
        for k in range(pieces):
            place = edge.target * pieces + k
            count = size * (place + 1) // (n * pieces) - size * place // (n * pieces)
            turn = (edge.target - edge.source) % n
            transfers.append(Transfer(edge, ((edge.source, place),), count, [], priority=(turn, k)))
    return transfers
