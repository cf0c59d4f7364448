"""The text system file of ASTRA-sim 1.0: pairs of a name with a colon, and a value."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion, warn
from astra_sim.options import MAX_NUMBER

from astra_sim_systems.names import (
    ALGORITHM_KEYS,
    DIMENSION_ORDERS,
    OPTIMIZATIONS,
    POLICIES,
    QUEUE_ORDERS,
    algorithm,
    is_disturbed_by_boost,
)


def _whole(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", value):
        raise ValueError("expected a whole number of at least 0")
    return int(value)


def _number(value: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?", value):
        raise ValueError("expected a number of at least 0")
    if float(value) >= MAX_NUMBER:
        raise ValueError(f"expected a number below {MAX_NUMBER:g}")
    return float(value)


def _choice(known: dict[str, str]) -> Callable[[str], str]:
    def convert(value: str) -> str:
        if value not in known:
            raise ValueError(suggestion(value, known))
        return known[value]

    return convert


def _truncated(value: str) -> int:
    return int(_number(value))


def _single(value: str) -> float:
    """As a 32-bit floating-point number."""
    # ASTRA-sim 1.0 has G of LogGP in 32 bits, and L, o and g cut to whole numbers.
    rounded: float = struct.unpack("f", struct.pack("f", _number(value)))[0]
    return rounded


def _algorithms(value: str) -> list[str]:
    return [algorithm(part) for part in value.split("_")]


_GAP, _BOOST, _LOGS = "gap-denominator", "boost-mode", "seprate-log"
"""Keys that are no options of the system layer."""

_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "scheduling-policy": ("scheduling_policy", _choice(POLICIES)),
    "endpoint-delay": ("endpoint_delay_ns", _whole),
    "active-chunks-per-dimension": ("active_chunks_per_dimension", _whole),
    "preferred-dataset-splits": ("splits", _whole),
    **{key: (option, _algorithms) for key, option in ALGORITHM_KEYS.items()},
    "collective-optimization": ("collective_optimization", _choice(OPTIMIZATIONS)),
    "intra-dimension-scheduling": ("intra_dimension_scheduling", _choice(QUEUE_ORDERS)),
    "inter-dimension-scheduling": ("inter_dimension_scheduling", _choice(DIMENSION_ORDERS)),
    "gap-denominator": (_GAP, _whole),
    "boost-mode": (_BOOST, _whole),
    "model-shared-bus": ("shared_bus", lambda value: _whole(value) == 1),
    "L": ("bus_latency_ns", _truncated),
    "o": ("bus_overhead_ns", _truncated),
    "g": ("bus_gap_ns", _truncated),
    "G": ("bus_gap_per_byte_ns", _single),
    "local-reduction-delay": ("bus_reduction_delay", _whole),
    "seprate-log": (_LOGS, _whole),
}


def _warn_of_boost(table: dict[str, Any], path: str) -> None:
    """Boost mode simulates only the NPUs in rings with NPU 0. That gives the same answer (and is no faster than symmetry is here), except
    with a shared bus, trees, algorithms over the whole platform or Themis.
    """
    names = [name for key in ALGORITHM_KEYS.values() for name in table.get(key, ())]
    disturbed = [name for name in names if is_disturbed_by_boost(name)]
    disturbed += ["model-shared-bus"] if table.get("shared_bus") else []
    disturbed += ["Themis"] if table.get("inter_dimension_scheduling", "").startswith("offline_greedy") else []
    if disturbed:
        what = ", ".join(dict.fromkeys(disturbed))
        warn(f"{path}: {_BOOST} is 1: ASTRA-sim would leave out NPUs, which changes times there with {what}; here all count")


def recognises(text: str) -> bool:
    """Whether the first word is a name with a colon."""
    words = text.split(None, 1)
    return bool(words) and re.fullmatch(r"[A-Za-z][A-Za-z-]*:", words[0]) is not None


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `system`. Raises InputError with the line."""
    # Pairs of words, wherever lines end: ASTRA-sim 1.0 reads the file word by word.
    words = [(word, number) for number, line in enumerate(text.split("\n"), 1) for word in line.split()]
    table: dict[str, Any] = {"plugin": "astra1"}
    seen: dict[str, int] = {}
    for (name, line), value in zip(words[::2], [*words[1::2], None], strict=False):
        key = name.removesuffix(":")
        if key not in _KEYS or not name.endswith(":"):
            raise InputError(f"{path}:{line}: unknown name {name!r}; {suggestion(name, [f'{known}:' for known in _KEYS])}")
        if value is None or (value[0].removesuffix(":") in _KEYS and value[0].endswith(":")):
            raise InputError(f"{path}:{line}: {key} has no value")
        if key in seen:
            raise InputError(f"{path}:{line}: {key} is given again (first in line {seen[key]})")
        seen[key] = line
        option, convert = _KEYS[key]
        try:
            converted = convert(value[0])
        except ValueError as error:
            raise InputError(f"{path}:{value[1]}: {key} is {value[0]!r}; {error}") from None
        table[option] = converted
    if table.pop(_BOOST, 0) == 1:
        _warn_of_boost(table, path)
    if table.pop(_LOGS, 1) == 0:
        warn(f"{path}: {_LOGS} is 0: ASTRA-sim would write no EndToEnd.csv, detailed.csv and utilization; here --output writes them")
    gap = table.pop(_GAP, None)
    if gap is not None and table.get("inter_dimension_scheduling", "").startswith("offline_greedy"):
        table["inter_dimension_scheduling"] += f"?gap_denominator={gap}"
    return {"system": table}
