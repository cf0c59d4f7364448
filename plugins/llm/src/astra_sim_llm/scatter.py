"""The slowest of several nodes: passes take a little longer on one than on another, and a reduction of gradients waits for the last.

The time of a pass scatters about its mean, on each node independently of the others and of other passes (measured: 2.5 % of the mean,
`validation/STRAGGLERS.md`). So the time of all passes of a node is nearly normal, its variance the sum of those of the passes, and the
slowest of n nodes is late by the standard deviation times the expected maximum of n standard normal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

_BLOM = 0.375


def expected_maximum(number: int) -> float:
    """The expected maximum of independent standard normal numbers; 0 of one. Within 2 % from 4 on, 5 % of 2 (Blom, 1958)."""
    return NormalDist().inv_cdf((number - _BLOM) / (number + 1 - 2 * _BLOM))


def lateness_ps(scatter: float, nodes: int, passes_ps: Iterable[int]) -> int:
    """By how much the slowest of some nodes is expected to end passes of these times later than the mean (picoseconds).

    `scatter` is the coefficient of variation of the time of a pass.
    """
    return round(scatter * expected_maximum(nodes) * math.sqrt(sum(time * time for time in passes_ps)))
