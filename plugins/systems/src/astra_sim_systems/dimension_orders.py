"""Orders of dimensions: in which sequence a chunk of a collective passes through them."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim.platform import LogicalDimension, Platform
from astra_sim.schedule import Collective
from astra_sim.system import DimensionOrder


class Ascending(DimensionOrder):
    """First dimension first; an all-gather starts with the last."""

    has_memory = False

    def __init__(self, platform: Platform) -> None:
        pass

    def chunk(
        self, collective: Collective, rest: int, size: int, dimensions: Sequence[LogicalDimension], usable: Sequence[bool]
    ) -> tuple[int, Sequence[int]]:
        """The bytes of the next chunk, and its order of dimensions."""
        order = range(len(dimensions))
        return min(rest, size), order[::-1] if collective is Collective.ALL_GATHER else order


class RoundRobin(Ascending):
    """As ascending, but every chunk of whatever collective starts one place further on."""

    has_memory = True

    def __init__(self, platform: Platform) -> None:
        self._turn = 0

    def chunk(
        self, collective: Collective, rest: int, size: int, dimensions: Sequence[LogicalDimension], usable: Sequence[bool]
    ) -> tuple[int, Sequence[int]]:
        """The bytes of the next chunk, and its order of dimensions."""
        taken, order = super().chunk(collective, rest, size, dimensions, usable)
        # Collectives may have different numbers of dimensions; ASTRA-sim 1.0 keeps the larger turn and corrupts memory.
        turn = self._turn % len(order)
        self._turn = (self._turn + 1) % len(order)
        return taken, [*order[turn:], *order[:turn]]
