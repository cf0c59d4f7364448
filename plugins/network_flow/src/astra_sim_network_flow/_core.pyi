"""The compiled core. Times in picoseconds, bandwidths in bytes per nanosecond, latencies in nanoseconds."""

from collections.abc import Callable, Sequence
from typing import Any

class Network:
    """The flows of a run."""

    def __init__(
        self,
        groups: Sequence[
            tuple[int, int, float, Sequence[float], Sequence[tuple[int, int, float, float, int]], Sequence[int], Sequence[Sequence[int]]]
        ],
        options: object,
    ) -> None: ...
    def function_table(self) -> object: ...
    def watch(self, tell: Callable[[int], None] | None) -> None: ...
    def figures(self) -> dict[str, Any]: ...

class Sharing:
    """Max-min fair shares. Capacities, bounds and rates are whole numbers."""

    def remove(self, flow: int, /) -> None: ...
    def settle(self) -> list[int]: ...
    def rate(self, flow: int, /) -> int: ...

class WeightedSharing(Sharing):
    """Shares of flows with weights and bounds."""

    def __init__(self, capacity: Sequence[int]) -> None: ...
    def add(self, weight: int, bound: int | None, links: Sequence[tuple[int, int]]) -> int: ...

class EvenSharing(Sharing):
    """Shares of flows of equal weights, without bounds."""

    def __init__(self, capacity: Sequence[int]) -> None: ...
    def add(self, links: Sequence[int]) -> int: ...
