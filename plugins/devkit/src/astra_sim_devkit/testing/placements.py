"""Asks placements for NPUs of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from astra_sim_devkit.testing.requirement import require

_FREE: Sequence[Sequence[int]] = (range(16), (1, 2, 3, 5, 8, 13), (0, 7), (4,))


def check_placement(make: Callable[..., Any]) -> None:
    """Raise AssertionError unless a placement chooses as many free NPUs as it is asked for, and the same ones again.

    It may find no place (ValueError), but for one NPU among all.
    """
    first, again = make(), make()
    require(callable(first), f"it made {first!r}; expected a function of the free NPUs and a number")
    for free in _FREE:
        for count in range(1, len(free) + 1):
            chosen = _chosen(first, free, count)
            require(chosen == _chosen(again, free, count), f"it chose others of {list(free)} when made anew; expected the same NPUs")
            if chosen is None:
                require(count > 1, f"it found no place for one NPU among {list(free)}; expected one of these")
                continue
            fits = len(chosen) == len(set(chosen)) == count and set(chosen) <= set(free)
            require(fits, f"it chose {chosen} of {list(free)}; expected {count} of these")


def _chosen(place: Callable[[Sequence[int], int], Sequence[int]], free: Sequence[int], count: int) -> list[int] | None:
    try:
        return list(place(list(free), count))
    except ValueError:
        return None
