"""Double binary tree (Sanders, Speck, Traff): all-reduce up and down a binary tree; two trees take turns."""

from __future__ import annotations

from astra_sim.platform import is_power_of_two
from astra_sim.schedule import Collective, RankProgram, Request, Schedule, Step, receive, send, shift

MAX_RANKS = 1 << 20


def double_binary_tree(request: Request) -> Schedule:
    """Reduce to the root and broadcast back, always the whole buffer. Even phases use the tree whose root is the last rank.

    Whatever the collective is, it does a full all-reduce (as ASTRA-sim 1.0 does). Ranks of one level that are on the same side of their
    parents have one program. Raises ScheduleError unless the number of ranks is a power of two, and on more than MAX_RANKS.
    """
    n = request.ranks
    if not is_power_of_two(n):
        raise request.unsupported("double_binary_tree", "it needs a power of two")
    if n > MAX_RANKS:
        raise request.unsupported("double_binary_tree", f"each of its ranks is simulated; expected at most {MAX_RANKS} ranks")
    root_is_last = request.instance % 2 == 0
    to_root = 1 if root_is_last else -1
    by_position: dict[int, RankProgram] = {}
    programs = []
    for place in range(1, n):
        to_parent = _to_parent(place)
        program = by_position.get(to_parent)
        if program is None:
            level = abs(to_parent)
            children = (-(level // 2), level // 2) if level > 1 else ()
            above = to_root * level if 2 * level == n else to_parent
            program = by_position[to_parent] = _program(above, children, request.bytes, range(n))
        programs.append(program)
    # The root is beside the tree, whose top is in the middle of the other ranks.
    root = _program(None, (-to_root * (n // 2),), request.bytes, range(n))
    programs = [*programs, root] if root_is_last else [root, *programs]
    return Schedule.per_rank(request, programs, output_bytes=request.bytes, collective=Collective.ALL_REDUCE)


def _to_parent(place: int) -> int:
    """The distance from a place to that of its parent, in the perfect binary tree whose in-order walk is 1, 2, 3, ...

    Its size is that of the level: the lowest bit that is set.
    """
    level = place & -place
    return -level if place & 2 * level else level


def _program(parent: int | None, children: tuple[int, ...], size: int, pieces: range) -> RankProgram:
    """Reduce the children's data, send it to the parent, and pass its answer to the children. Receptions cost memory except at a leaf.

    Parent and children are distances.
    """
    last = len(children) - 1
    steps: list[Step] = [
        receive(shift(child), size, after=0, reduce=True, returned=number == last) for number, child in enumerate(children)
    ]
    tokens = len(children) or 1
    if parent is not None:
        steps.append(send(shift(parent), size, after=tokens, pieces=pieces))
        inner = bool(children)
        steps.append(receive(shift(parent), size, after=tokens, memory_bytes=size if inner else 0, returned=inner))
        tokens += 1
    steps += [send(shift(child), size, after=tokens, pieces=pieces) for child in children]
    return RankProgram(tuple(steps), starts=0 if children else 1)
