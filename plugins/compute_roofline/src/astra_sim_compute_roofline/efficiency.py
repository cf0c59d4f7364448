"""The share of the peak rate that is reached, by the size of the work."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

import attrs
from astra_sim import InputError, PluginError, option
from astra_sim.providers import call, named_function


@attrs.frozen
class EfficiencyPoint:
    """A measured share of the peak rate."""

    operations: float = option(above=0, help="size of the work")
    efficiency: float = option(above=0, maximum=1, help="share of the peak rate that is reached there")


def efficiency_of_size(table: Sequence[EfficiencyPoint], function: str) -> Callable[[float], float]:
    """A function from the number of operations to the share: by a table, by a registered function, or always 1. Raises InputError."""
    if table and function:
        raise InputError("efficiency_table and efficiency_function are given; expected one of the two")
    if function:
        return _checked(named_function(function, "efficiency_function"), function)
    return _interpolated(table) if table else lambda operations: 1.0


def _checked(function: Callable[[float], float], name: str) -> Callable[[float], float]:
    def efficiency(operations: float) -> float:
        share = call(f"efficiency_function {name!r}", function, operations)
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise PluginError(f"efficiency_function {name!r} gives {share!r} for {operations:g} operations; expected above 0 and at most 1")
        return float(share)

    return efficiency


def _interpolated(table: Sequence[EfficiencyPoint]) -> Callable[[float], float]:
    """Straight lines over the logarithm of the operations. Beyond the first and the last point the share stays as it is there."""
    sizes = [point.operations for point in table]
    if any(left >= right for left, right in pairwise(sizes)):
        raise InputError(
            f"efficiency_table has operations {', '.join(f'{size:g}' for size in sizes)}; expected each more than the one before"
        )

    def efficiency(operations: float) -> float:
        right = bisect_right(sizes, operations)
        if right in (0, len(sizes)):
            return table[0 if right == 0 else -1].efficiency
        below, above = table[right - 1], table[right]
        share = math.log(operations / below.operations) / math.log(above.operations / below.operations)
        return below.efficiency + share * (above.efficiency - below.efficiency)

    return efficiency
