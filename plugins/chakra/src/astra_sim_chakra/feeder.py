"""Feeds the nodes of a trace in an order that keeps their dependencies, as a simulator asks for them."""

from __future__ import annotations

from bisect import bisect_left, insort

from astra_sim_chakra.trace import Node, Trace


class Feeder:
    """Nodes become ready when all that they depend on are done.

    feeder = Feeder(trace)
    while not feeder.finished:
        id = feeder.take()          # the ready node of the lowest id
        ... feeder.node(id) ...
        feeder.done(id)
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._waits = [len(trace.dependencies(row)) for row in range(len(trace))]
        self._children: list[list[int]] = [[] for _ in self._waits]
        for row in range(len(trace)):
            for other in trace.dependencies(row):
                self._children[other].append(row)
        self._ready = sorted(trace.id[row] for row, count in enumerate(self._waits) if not count)
        self._taken: set[int] = set()
        self._left = len(trace)

    @property
    def finished(self) -> bool:
        """Whether all nodes are done."""
        return not self._left

    def ready(self) -> list[int]:
        """The ids of nodes that can be taken, ascending."""
        return list(self._ready)

    def node(self, id: int) -> Node:
        """The node of an id. Raises KeyError if no node has it."""
        return self.trace.node(self.trace.row(id))

    def take(self, id: int | None = None) -> int:
        """Take a ready node, by default that of the lowest id, and return its id. Raises ValueError if it is not ready."""
        if not self._ready:
            raise ValueError(f"no node is ready; {len(self._taken)} are taken and not done, {self._left} are not done")
        place = 0 if id is None else bisect_left(self._ready, id)
        if id is not None and (place == len(self._ready) or self._ready[place] != id):
            raise ValueError(f"node {id} is not ready")
        taken = self._ready.pop(place)
        self._taken.add(taken)
        return taken

    def done(self, id: int) -> list[int]:
        """End a node that was taken. Returns the ids that became ready, ascending. Raises ValueError if the node was not taken."""
        if id not in self._taken:
            raise ValueError(f"node {id} is not taken, or is done already")
        self._taken.remove(id)
        self._left -= 1
        released = []
        for child in self._children[self.trace.row(id)]:
            self._waits[child] -= 1
            if not self._waits[child]:
                released.append(self.trace.id[child])
        for child in released:
            insort(self._ready, child)
        return sorted(released)

    def waiting_for(self, id: int) -> list[int]:
        """The ids that a node still waits for, ascending. Raises KeyError if no node has this id."""
        row = self.trace.row(id)
        return sorted(self.trace.id[other] for other in self.trace.dependencies(row) if not self._is_done(other))

    def _is_done(self, row: int) -> bool:
        id = self.trace.id[row]
        place = bisect_left(self._ready, id)
        ready = place < len(self._ready) and self._ready[place] == id
        return not self._waits[row] and not ready and id not in self._taken
