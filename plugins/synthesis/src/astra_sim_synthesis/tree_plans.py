"""Plans of messages along packed trees: all-gathers outwards, reduce-scatters inwards, all-reduces first the one and then the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from astra_sim.schedule import Collective, Request

from astra_sim_synthesis.edges import RankGraph
from astra_sim_synthesis.timing import Transfer
from astra_sim_synthesis.trees import PackedTree

DIRECTIONS = {
    Collective.ALL_GATHER: (False,),
    Collective.REDUCE_SCATTER: (True,),
    Collective.ALL_REDUCE: (True, False),
}


def piece_bytes(request: Request, pieces: int) -> Callable[[int], int]:
    """The bytes of each of `pieces` pieces of every rank, by number: cut so that all together are the whole buffer."""
    total = pieces if request.collective is Collective.ALL_GATHER else pieces * request.ranks

    def size(number: int) -> int:
        place = number % total
        return request.bytes * (place + 1) // total - request.bytes * place // total

    return size


def along_trees(graph: RankGraph, request: Request, trees: Sequence[PackedTree], pieces: int, by_piece: bool) -> list[Transfer]:
    """The messages that carry one piece along each tree.

    Of messages that wait for a port, the one with the longest path ahead goes first; with `by_piece` those of earlier pieces do,
    so that sums of one piece go inwards while another goes outwards.
    """
    size = piece_bytes(request, pieces)
    n = graph.ranks
    transfers: list[Transfer] = []
    inwards: dict[tuple[int, int], list[Transfer]] = {}
    outer_height = max((_heights(tree)[tree.root] for tree in trees if not tree.inwards), default=0)
    for tree in sorted(trees, key=lambda tree: not tree.inwards):
        name = tree.root * pieces + tree.piece
        heights = _heights(tree)
        into: dict[int, list[Transfer]] = {}
        ahead = outer_height if tree.inwards else 0
        depth = {tree.root: 0}
        for child in map(int, tree.order[1:]):
            depth[child] = depth[int(tree.parent[child])] + 1
        # outwards a rank needs the data from above, inwards those from all below
        for child in map(int, tree.order[:0:-1] if tree.inwards else tree.order[1:]):
            above = int(tree.parent[child])
            source, target = (child, above) if tree.inwards else (above, child)
            rest = ahead + depth[child] if tree.inwards else heights[child]
            turn = (target - source) % n
            priority = (tree.piece, -rest, turn) if by_piece else (-rest, turn, tree.piece)
            if tree.inwards:
                needs = into.get(child, [])
            elif above == tree.root:
                needs = inwards.get((tree.root, tree.piece), [])
            else:
                needs = into[above]
            transfer = Transfer(graph.edge(source, target), (name,), size(name), needs, tree.inwards, priority)
            into.setdefault(target, []).append(transfer)
            transfers.append(transfer)
        if tree.inwards:
            inwards[tree.root, tree.piece] = into.get(tree.root, [])
    return transfers


def reversed_in_time(graph: RankGraph, transfers: Sequence[Transfer]) -> list[Transfer]:
    """A broadcast on the reversed edges of a graph, backwards: a rank receives from its former targets, and adds.

    The broadcast takes as long as it did, and needs turn round: a sum waits for all that were made of it.
    """
    end = max(transfer.arrival for transfer in transfers)
    turned = {
        id(transfer): attrs.evolve(
            transfer,
            edge=graph.edge(transfer.edge.target, transfer.edge.source),
            needs=[],
            reduce=True,
            start=end - transfer.arrival,
            arrival=end - transfer.start,
        )
        for transfer in transfers
    }
    for transfer in transfers:
        for needed in transfer.needs:
            turned[id(needed)].needs.append(turned[id(transfer)])
    return [turned[id(transfer)] for transfer in reversed(transfers)]


def one_after_the_other(summed: Sequence[Transfer], spread: Sequence[Transfer]) -> list[Transfer]:
    """A reduce-scatter and then an all-gather of the same pieces: the second begins when the first has ended."""
    end = max(transfer.arrival for transfer in summed)
    into: dict[object, list[Transfer]] = {}
    out = {id(needed) for transfer in summed for needed in transfer.needs}
    for transfer in summed:
        if id(transfer) not in out:  # only the root needs it
            into.setdefault(transfer.pieces[0], []).append(transfer)
    moved: dict[int, Transfer] = {}
    for transfer in spread:
        needs = [moved[id(needed)] for needed in transfer.needs] or into.get(transfer.pieces[0], [])
        moved[id(transfer)] = attrs.evolve(transfer, needs=needs, start=transfer.start + end, arrival=transfer.arrival + end)
    return [*summed, *moved.values()]


def _heights(tree: PackedTree) -> dict[int, int]:
    """For each rank how many steps are between it and the farthest leaf below."""
    height = dict.fromkeys(map(int, tree.order), 0)
    for child in map(int, tree.order[:0:-1]):
        above = int(tree.parent[child])
        height[above] = max(height[above], height[child] + 1)
    return height
