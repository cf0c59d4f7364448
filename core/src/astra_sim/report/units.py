"""The units of figures, from their names."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

_ENDINGS = (
    ("_bytes_per_ns", "bytes/ns"),
    ("_per_s", "1/s"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_s", "s"),
    ("_usd", "USD"),
    ("bytes_per_dimension", "bytes"),
    ("bytes", "bytes"),
    ("utilisation", "share of time"),
    ("ratio", "1"),
)
"""Units by how the name of a figure ends, the first that fits."""

_COUNTS = ("npus", "simulated_npus", "messages", "events")


def units_of(table: Mapping[str, Any]) -> dict[str, str]:
    """The unit of each number in a result, by its name. Those whose name has none are left out."""
    units: dict[str, str] = {}
    _collect(table, units)
    return dict(sorted(units.items()))


def _collect(table: Mapping[str, Any], units: dict[str, str]) -> None:
    for name, value in table.items():
        each = (value[0] if value else None) if type(value) is list else value
        kind = type(each)
        if kind in _NUMBERS:
            if name not in units and (unit := _unit(name)) is not None:
                units[name] = unit
        elif kind is dict:
            _collect(cast("Mapping[str, Any]", each), units)


_NUMBERS = frozenset((int, float, bool))


@functools.cache
def _unit(name: str) -> str | None:
    """The unit in a name."""
    return "1" if name in _COUNTS else next((unit for ending, unit in _ENDINGS if name.endswith(ending)), None)
