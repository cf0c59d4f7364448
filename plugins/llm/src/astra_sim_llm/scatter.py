"""The slowest of several nodes: one takes a little longer for its passes than another, and a reduction of gradients waits for the last.

The time of all passes of an iteration scatters from node to node about its mean (measured: 0.6 %, `validation/STRAGGLERS.md`). So the
slowest of n nodes is late by the standard deviation times the expected maximum of n standard normal numbers.
"""

from __future__ import annotations

from statistics import NormalDist

_BLOM = 0.375


def expected_maximum(number: int) -> float:
    """The expected maximum of independent standard normal numbers; 0 of one. Within 2 % from 4 on, 5 % of 2 (Blom, 1958)."""
    return NormalDist().inv_cdf((number - _BLOM) / (number + 1 - 2 * _BLOM))


def lateness_ps(scatter: float, nodes: int, passes_ps: int) -> int:
    """By how much the slowest of some nodes is expected to end passes of this time later than the mean (picoseconds).

    `scatter` is the coefficient of variation of the time between nodes.
    """
    return round(scatter * expected_maximum(nodes) * passes_ps)
