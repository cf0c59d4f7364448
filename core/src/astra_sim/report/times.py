"""Units in which times are shown."""

from __future__ import annotations

import attrs

UNITS = ("us", "ms", "s")
"""Units that a user may ask for."""
_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_MOST = 10_000
"""Numbers from here on are shown in a larger unit."""


@attrs.frozen
class TimeUnit:
    """A unit of time: its nanoseconds and its name."""

    ns: float
    name: str

    def number(self, ns: float) -> str:
        """A time in the unit, to its thousandth."""
        return f"{ns / self.ns:.3f}"

    def __call__(self, ns: float) -> str:
        """A time with its unit."""
        return f"{self.number(ns)} {self.name}"


def time_unit(largest_ns: float, units: str | None = None) -> TimeUnit:
    """The unit for times of which this is the largest: `units` (one of `UNITS`), else the smallest that needs four digits at most."""
    if units is not None:
        return TimeUnit(_NS[units], units)
    size = round(abs(largest_ns), 3)
    name = next((name for name, ns in _NS.items() if size < _MOST * ns), "s")
    return TimeUnit(_NS[name], name)
