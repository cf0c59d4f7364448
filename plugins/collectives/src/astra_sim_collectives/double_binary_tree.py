"""Double binary tree (Sanders, Speck, Traff): all-reduce up and down a binary tree; two trees take turns."""

from __future__ import annotations

import attrs
from astra_sim.platform import is_power_of_two
from astra_sim.schedule import Collective, RankProgram, Request, Schedule, Step, rank, receive, send

MAX_RANKS = 1 << 17


@attrs.frozen
class _Node:
    parent: int | None
    children: tuple[int, ...]


def double_binary_tree(request: Request) -> Schedule:
    """Reduce to the root and broadcast back, always the whole buffer. Even phases use the tree whose root is the last rank.

    Whatever the collective is, it does a full all-reduce (as ASTRA-sim 1.0 does). Raises ScheduleError unless the number of ranks is a
    power of two, and on more than MAX_RANKS.
    """
    n = request.ranks
    if not is_power_of_two(n):
        raise request.unsupported("double_binary_tree", "it needs a power of two")
    if n > MAX_RANKS:
        raise request.unsupported("double_binary_tree", f"every rank has a program of its own; expected at most {MAX_RANKS} ranks")
    root_is_last = request.instance % 2 == 0
    inner = _in_order_tree(n - 1)
    first = 0 if root_is_last else 1
    root = n - 1 if root_is_last else 0
    nodes = {
        number + first: _Node(root if node.parent is None else node.parent + first, tuple(c + first for c in node.children))
        for number, node in inner.items()
    }
    top = next(number for number, node in inner.items() if node.parent is None) + first
    nodes[root] = _Node(None, (top,))
    programs = [_program(nodes[index], request.bytes, range(n)) for index in range(n)]
    return Schedule.per_rank(request, programs, output_bytes=request.bytes, collective=Collective.ALL_REDUCE)


def _in_order_tree(size: int) -> dict[int, _Node]:
    """The perfect binary tree over 0 .. size-1 whose in-order walk is 0, 1, 2, ...; size is 2^k - 1."""
    nodes: dict[int, _Node] = {}

    def grow(low: int, high: int, parent: int | None) -> None:
        middle = (low + high) // 2
        children = () if low == high else ((low + middle - 1) // 2, (middle + 1 + high) // 2)
        nodes[middle] = _Node(parent, children)
        if children:
            grow(low, middle - 1, middle)
            grow(middle + 1, high, middle)

    grow(0, size - 1, None)
    return nodes


def _program(node: _Node, size: int, pieces: range) -> RankProgram:
    """Reduce the children's data, send it to the parent, and pass its answer to the children. Receptions cost memory except at a leaf."""
    last = len(node.children) - 1
    steps: list[Step] = [
        receive(rank(child), size, after=0, reduce=True, returned=number == last) for number, child in enumerate(node.children)
    ]
    tokens = len(node.children) or 1
    if node.parent is not None:
        steps.append(send(rank(node.parent), size, after=tokens, pieces=pieces))
        inner = bool(node.children)
        steps.append(receive(rank(node.parent), size, after=tokens, memory_bytes=size if inner else 0, returned=inner))
        tokens += 1
    steps += [send(rank(child), size, after=tokens, pieces=pieces) for child in node.children]
    return RankProgram(tuple(steps), starts=0 if node.children else 1)
