"""The jobs that wait in a queue of rules, in its order.

They are a balanced tree (a treap), read from left to right. Every node sums up the part of the order below it, a span for each rule, so
that the first job that a new one goes before is found on the way down.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from astra_sim.engine.orders import MAX_KEY

Entry = TypeVar("Entry")

_NO_KEY = -MAX_KEY - 1


class _Span(NamedTuple):
    """Neighbours as a rule sees them: the key of the first, the highest of the others before which a job may go, and the sides at the ends.

    Whether a job may go before the first depends on the jobs in front of the span.
    """

    first: int
    others: int
    first_side: int
    last_side: int


def _take_turns(one: int, other: int) -> bool:
    """Whether neighbours of these sides are of the two kinds that take turns."""
    return one + other == 3 and one != 0 != other


def _join(left: _Span, right: _Span) -> _Span:
    others = max(left.others, right.others)
    # Only now is it known who is in front of the first job of the right span, and so whether one may go between them.
    if not _take_turns(left.last_side, right.first_side):
        others = max(others, right.first)
    return _Span(left.first, others, left.first_side, right.last_side)


class WaitingNode(Generic[Entry]):
    """A node of the tree: a waiting job, how the rules see it, its subtrees and its parent. `weight` is at most the parent's."""

    __slots__ = ("above", "entry", "left", "marks", "right", "size", "spans", "weight")

    def __init__(self, entry: Entry, marks: list[tuple[int, int]], weight: int) -> None:
        self.entry = entry
        self.marks = marks
        self.weight = weight
        self.above: WaitingNode[Entry] | None = None
        self.left: WaitingNode[Entry] | None = None
        self.right: WaitingNode[Entry] | None = None
        self.update()

    def update(self) -> None:
        """Sum up the subtree."""
        left, right = self.left, self.right
        self.size = 1 + _size(left) + _size(right)
        self.spans = [_Span(key, _NO_KEY, side, side) for key, side in self.marks]
        if left is not None:
            self.spans = list(map(_join, left.spans, self.spans))
            left.above = self
        if right is not None:
            self.spans = list(map(_join, self.spans, right.spans))
            right.above = self


def _size(node: WaitingNode[Entry] | None) -> int:
    return 0 if node is None else node.size


class Waiting(Generic[Entry]):
    """The waiting jobs, in order."""

    def __init__(self) -> None:
        self._root: WaitingNode[Entry] | None = None
        self._random = 1

    def __len__(self) -> int:
        return _size(self._root)

    def place(self, rule: int, limit: int, first_stays: bool) -> int:
        """The place of the first job whose key by a rule is above `limit` and before which one may go; else the number of jobs."""
        node, place, before, closed = self._root, 0, 0, first_stays
        # The sums of the root tell that a job goes behind all others, without a way down.
        if node is None or not _is_in(node.spans[rule], limit, before, closed):
            return len(self)
        while node is not None:
            key, side = node.marks[rule]
            left = node.left
            if left is not None:
                if _is_in(left.spans[rule], limit, before, closed):
                    node = left
                    continue
                place += left.size
                # The first of all jobs was on the left, so what is next has another in front of it, and need not stay first.
                before, closed = left.spans[rule].last_side, False
            if key > limit and not closed and not _take_turns(before, side):
                return place
            place += 1
            node, before, closed = node.right, side, False
        return place

    def insert(self, place: int, entry: Entry, marks: list[tuple[int, int]]) -> WaitingNode[Entry]:
        """Put something at a place; `marks` are its key and side by each rule. Returns its node."""
        # A linear congruential generator (Knuth's MMIX), whose high bits are the random ones. Weights balance the tree (Seidel and Aragon,
        # Randomized Search Trees, 1996) and decide nothing else; these are the same in every run, and in the compiled engine.
        self._random = (self._random * 6364136223846793005 + 1442695040888963407) % 2**64
        node = WaitingNode(entry, marks, self._random >> 32)
        self._set_root(_insert(self._root, place, node))
        return node

    def pop(self) -> Entry:
        """Take out the first."""
        assert self._root is not None
        first, root = _pop(self._root)
        self._set_root(root)
        return first

    def take(self, node: WaitingNode[Entry]) -> Entry:
        """Take out a node."""
        assert self._root is not None
        self._set_root(_erase(self._root, _place_of(node)))
        return node.entry

    def _set_root(self, root: WaitingNode[Entry] | None) -> None:
        self._root = root
        if root is not None:
            root.above = None


def _is_in(span: _Span, limit: int, before: int, closed: bool) -> bool:
    """Whether a span behind a job of side `before` has a job that is looked for; not the first, if that is `closed`."""
    return span.others > limit or (span.first > limit and not closed and not _take_turns(before, span.first_side))


def _insert(node: WaitingNode[Entry] | None, place: int, inserted: WaitingNode[Entry]) -> WaitingNode[Entry]:
    """Insert a node at a place of the treap and return the new root; weights keep the tree balanced on average."""
    if node is None:
        return inserted
    if inserted.weight > node.weight:
        inserted.left, inserted.right = _split(node, place)
        inserted.update()
        return inserted
    before = _size(node.left)
    if place <= before:
        node.left = _insert(node.left, place, inserted)
    else:
        node.right = _insert(node.right, place - before - 1, inserted)
    node.update()
    return node


def _split(node: WaitingNode[Entry] | None, place: int) -> tuple[WaitingNode[Entry] | None, WaitingNode[Entry] | None]:
    """The jobs before a place, and the others."""
    if node is None:
        return None, None
    before = _size(node.left)
    if place <= before:
        left, node.left = _split(node.left, place)
        node.update()
        return left, node
    node.right, right = _split(node.right, place - before - 1)
    node.update()
    return node, right


def _pop(node: WaitingNode[Entry]) -> tuple[Entry, WaitingNode[Entry] | None]:
    if node.left is None:
        return node.entry, node.right
    first, node.left = _pop(node.left)
    node.update()
    return first, node


def _place_of(node: WaitingNode[Entry]) -> int:
    """The number of jobs before a node."""
    # Upwards: who takes out a job that NPUs agreed on knows its node, and nothing about its place in the order.
    place = _size(node.left)
    while node.above is not None:
        if node.above.right is node:
            place += _size(node.above.left) + 1
        node = node.above
    return place


def _erase(node: WaitingNode[Entry], place: int) -> WaitingNode[Entry] | None:
    """The tree without the job at a place."""
    before = _size(node.left)
    if place == before:
        return _merge(node.left, node.right)
    if place < before:
        assert node.left is not None
        node.left = _erase(node.left, place)
    else:
        assert node.right is not None
        node.right = _erase(node.right, place - before - 1)
    node.update()
    return node


def _merge(left: WaitingNode[Entry] | None, right: WaitingNode[Entry] | None) -> WaitingNode[Entry] | None:
    """Jobs, and others behind them."""
    if left is None or right is None:
        return left or right
    if left.weight > right.weight:
        left.right = _merge(left.right, right)
        left.update()
        return left
    right.left = _merge(left, right.left)
    right.update()
    return right
