"""Roofline (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.compute import Compute, MissingWork, Work
from astra_sim.shapes import ELEMENT_BYTES

from astra_sim_compute_roofline.efficiency import EfficiencyPoint, efficiency_of_size


@attrs.frozen
class RooflineOptions:
    """Options of the roofline model. Exactly one of the two options for the peak rate must be set."""

    peak_tera_ops_per_s: float | None = option(
        None, above=0, help="peak rate of arithmetic operations; none: see peak_by_type", unit="10^12 operations/s"
    )
    peak_by_type: dict[str, Any] = option(factory=dict, help="peak rates by element type, such as {fp16 = 312, fp32 = 19.5}")
    element_type: str = option("fp16", choices=tuple(ELEMENT_BYTES), help="type of the elements of a layer's shape")
    memory_bandwidth_gb_per_s: float | None = option(None, above=0, help="memory bandwidth; none: it is no bottleneck", unit="10^9 bytes/s")
    efficiency: float = option(1.0, above=0, maximum=1, help="share of the peak rate that is reached")
    efficiency_table: tuple[EfficiencyPoint, ...] = option((), help="share of the peak by operations, a factor on efficiency")
    efficiency_function: str = option("", help="registered function from operations to that share")
    rule: str = option(
        "roofline",
        choices=("roofline", "astra2"),
        help="astra2: round down to whole ns, in the arithmetic of ASTRA-sim 2.x; roofline: round to whole ns",
    )


class Roofline(Compute):
    """Work takes the longer of operations / (peak * efficiency) and bytes / bandwidth, in whole nanoseconds."""

    def __init__(self, options: RooflineOptions, efficiency: Callable[[float], float] | None = None) -> None:
        """`efficiency` is a function from operations to the share of the peak rate; None: the one of the options."""
        self._options = options
        # As in ASTRA-sim 2.x, rates may be missing as long as nothing computes.
        self._missing = _missing_rate(options) if options.rule == "astra2" else ""
        self._tera_ops_per_s = math.inf if self._missing else _peak(options, options.element_type)
        self._gb_per_s = options.memory_bandwidth_gb_per_s
        self._efficiency = efficiency or efficiency_of_size(options.efficiency_table, options.efficiency_function)

    def peak_ops_per_s(self, element_type: str) -> float:
        """The peak rate for an element type. Raises InputError if none is given."""
        return _peak(self._options, element_type) * 1e12

    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes.

        Raises MissingWork if it lacks operations, or bytes if they matter, or if the rule astra2 lacks a rate.
        """
        if self._missing:
            raise MissingWork(self._missing)
        operations = work.count_operations()
        if operations is None:
            raise MissingWork("it has no operations and no shape, one of which the roofline model needs")
        share = self._options.efficiency * self._efficiency(operations)
        tera_ops_per_s = self._peak_of(work)
        computing = operations / (tera_ops_per_s * 1e3 * share)
        if self._gb_per_s is None:
            return round(computing)
        size = work.count_bytes(ELEMENT_BYTES[self._options.element_type])
        if size is None:
            raise MissingWork("it has no bytes and no shape, one of which the roofline model needs to apply a memory bandwidth")
        if self._options.rule == "roofline":
            return round(max(computing, size / self._gb_per_s))
        return self._astra2(work, operations, size, tera_ops_per_s * share * 1e12, self._gb_per_s * 1e9)

    def _peak_of(self, work: Work) -> float:
        """The peak rate for the element type of the work's shape, in 10^12 operations/s."""
        element_type = None if work.shape is None else work.shape.element_type
        return self._tera_ops_per_s if element_type is None else _peak(self._options, element_type)

    def _astra2(self, work: Work, operations: float, size: float, ops_per_s: float, bytes_per_s: float) -> int:
        """The time by the operational intensity, as ASTRA-sim 2.x calculates it."""
        if not operations and work.shape is not None and work.operations is None:
            raise MissingWork(f"its shape, {work.shape.kind}, is counted in bytes alone, for which the rule astra2 gives no time")
        if not operations:
            return 0
        if not size:
            raise MissingWork("it has operations on 0 bytes, for which the rule astra2 gives no time")
        return int(operations / min(bytes_per_s * (operations / size), ops_per_s) * 1e9)


def _missing_rate(options: RooflineOptions) -> str:
    """Which rate the rule astra2 needs and does not have; "" if none is missing. Raises InputError for a wrong rate."""
    if options.memory_bandwidth_gb_per_s is None:
        return "memory_bandwidth_gb_per_s (local-mem-bw) is missing; the rule astra2 needs it"
    if options.peak_tera_ops_per_s is None and options.element_type not in options.peak_by_type:
        return "peak_tera_ops_per_s (peak-perf) is missing; the rule astra2 needs it"
    _peak(options, options.element_type)
    return ""


def _peak(options: RooflineOptions, element_type: str) -> float:
    """The peak rate for an element type, in 10^12 operations/s."""
    for name, rate in options.peak_by_type.items():
        if name not in ELEMENT_BYTES:
            raise InputError(f"peak_by_type has {name!r}; known: {', '.join(ELEMENT_BYTES)}")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < 1e12:
            raise InputError(f"peak_by_type: {name} is {rate!r}; expected a number above 0")
    rate = options.peak_by_type.get(element_type, options.peak_tera_ops_per_s)
    if rate is None:
        raise InputError(f"peak_tera_ops_per_s is missing, and peak_by_type has no {element_type}")
    return float(rate)
