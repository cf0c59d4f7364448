"""Asks variations for the times of some operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astra_sim.compute import Started, Variation

from astra_sim_devkit.testing.bench import PLATFORM
from astra_sim_devkit.testing.requirement import require

_STARTS = [
    Started(npu, number, iteration, 1_000_000 * number + 17 * npu, 250_000)
    for npu in range(PLATFORM.npus)
    for number in range(4)
    for iteration in range(2)
]


def check_variation(make: Callable[..., Any]) -> None:
    """Raise AssertionError unless a variation gives times (picoseconds), and the same ones in another order and made anew."""
    first, again = _npu_ps(make(PLATFORM)), _npu_ps(make(PLATFORM))
    if first is None or again is None:
        return
    require(callable(first), f"it made {first!r}; expected a Variation, or a function of an operation that starts")
    times = [first(each) for each in _STARTS]
    for each, time in zip(_STARTS, times, strict=True):
        require(type(time) is int and time >= 0, f"{each} takes {time!r}; expected a whole number of picoseconds, 0 or more")
    reverse = [again(each) for each in reversed(_STARTS)][::-1]
    require(times == reverse, "operations take another time when others were asked for before; expected that each has its own")


def _npu_ps(variation: Any) -> Any:
    """The function of a variation; None if only links differ."""
    return variation.npu_ps if isinstance(variation, Variation) else variation
