"""Orders of queues, by rules and by a function, and an order of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from astra_sim import option
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.schedule import Collective
from astra_sim.system import DimensionOrder, Job, Rule, RuleOrder


@attrs.frozen
class OrderOptions:
    """Options of the order."""

    by: str = option("bytes", choices=("bytes", "remaining"), help="bytes: largest phase first; remaining: most phases to come first")


def order(options: OrderOptions) -> RuleOrder:
    """The order. A chunk goes before the first one whose key is higher; keys are whole numbers."""
    if options.by == "bytes":
        return RuleOrder(otherwise=Rule(key=lambda kind, size, remaining: -size))
    return RuleOrder(otherwise=Rule(key=lambda kind, size, remaining: -remaining))


def newest_first(jobs: Sequence[Job], started: int, job: Job) -> int:
    """An order as a function: before all that wait."""
    return started


class LastFirst(DimensionOrder):
    """The last dimension first, in equal chunks."""

    has_memory = False

    def __init__(self, platform: Platform) -> None:
        self._dimensions = len(platform.dimensions)

    def chunk(
        self, collective: Collective, rest: int, size: int, dimensions: Sequence[LogicalDimension], usable: Sequence[bool]
    ) -> tuple[int, Sequence[int]]:
        """The bytes of the next chunk, and the order of all dimensions."""
        return min(rest, size), list(reversed(range(self._dimensions)))
