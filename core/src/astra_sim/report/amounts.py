"""Amounts as people read them, in units that follow from their magnitude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from astra_sim.errors import printable
from astra_sim.units import GIB, MIB, PS_PER_NS
from astra_sim.value_objects import ValueObject

TIME_UNITS = ("us", "ms", "s")
"""Units of time that a user may ask for."""
NO_BREAK = "\N{NO-BREAK SPACE}"
"""A space at which no line ends, between a number and its unit; screens show it as one."""
_NS_PER_S = 1e9
_MOST = 10_000
"""Times and bytes from here on are shown in a larger unit: so they have four digits before the point, and small ones beside them some."""


@attrs.frozen(eq=False, repr=False)
class DisplayUnit(ValueObject):
    """A unit: how much it is of the smallest one, its name, and the decimals that amounts have in it."""

    size: float
    name: str
    decimals: int = 3

    def number(self, amount: float) -> str:
        """An amount of the smallest unit as a number of this one."""
        return f"{amount / self.size:.{self.decimals}f}"

    def __call__(self, amount: float) -> str:
        """An amount of the smallest unit as a number of this one, and its name in the same line."""
        return f"{self.number(amount)}{NO_BREAK}{self.name}"


_TIMES = (DisplayUnit(1.0, "ns"), DisplayUnit(1e3, "us"), DisplayUnit(1e6, "ms"), DisplayUnit(1e9, "s"))
_BYTES = (DisplayUnit(1, "bytes", 0), DisplayUnit(MIB, "MiB", 6), DisplayUnit(GIB, "GiB", 6))
_SCALES: Mapping[str, Sequence[DisplayUnit]] = {
    "bytes": (DisplayUnit(1, "bytes", 2), DisplayUnit(MIB, "MiB", 2), DisplayUnit(GIB, "GiB", 2)),
    "FLOP/s": tuple(
        DisplayUnit(10.0**power, f"{prefix}FLOP/s", 1) for power, prefix in ((0, ""), (9, "G"), (12, "T"), (15, "P"), (18, "E"))
    ),
    "share": (DisplayUnit(0.01, "%", 1),),
}
"""The units in which a figure may be shown, smallest first; the largest that it has one of is."""


def time_unit(largest_ns: float, units: str | None = None) -> DisplayUnit:
    """The unit for times of which this is the largest (ns): `units`, one of `TIME_UNITS`, else by magnitude."""
    if units is not None:
        return next(unit for unit in _TIMES if unit.name == units)
    return _by_magnitude(largest_ns, _TIMES)


def byte_unit(largest: float) -> DisplayUnit:
    """The unit for numbers of bytes of which this is the largest, by magnitude; one byte can be seen in the smaller ones."""
    return _by_magnitude(largest or MIB, _BYTES)


def _by_magnitude(largest: float, units: Sequence[DisplayUnit]) -> DisplayUnit:
    return next((unit for unit in units if round(abs(largest) / unit.size, unit.decimals) < _MOST), units[-1])


def amount(value: Any, unit: str, like: float | None = None, units: str | None = None) -> tuple[str, str]:
    """A value as text with the unit it is shown in; that which suits the value `like`, if it is given. Times are shown in `units`."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return printable(str(value)), unit
    size = abs(value if like is None else like)
    if unit == "s":
        shown = time_unit(size * _NS_PER_S, units) if size or units else _TIMES[-1]
        return shown.number(value * _NS_PER_S), shown.name
    scale = _SCALES.get(unit)
    if scale is None:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}", unit
    shown = next((each for each in reversed(scale) if size >= each.size), scale[0] if size else scale[-1])
    return f"{value / shown.size:,.{shown.decimals}f}", shown.name


def to_ns(picoseconds: int) -> int | float:
    """Picoseconds as nanoseconds; whole if they are whole."""
    whole, rest = divmod(picoseconds, PS_PER_NS)
    return picoseconds / PS_PER_NS if rest else whole
