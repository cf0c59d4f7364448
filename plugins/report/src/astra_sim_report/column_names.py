"""The names of columns of results in figures: words with a unit, in place of names such as `iteration_s`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from astra_sim_report.figures import AxisUnit, unit_of

_WORDS = {
    "finish_ns": "time of the run",
    "earliest_finish_ns": "time of the first NPU",
    "compute_ns": "compute of NPU 0",
    "exposed_comm_ns": "exposed communication",
    "iteration_s": "time of an iteration",
    "tokens_per_s": "throughput",
    "tokens_per_s_per_gpu": "throughput per GPU",
    "mfu": "model FLOPs utilisation",
    "mfu_flops": "FLOPs that count",
    "npus": "NPUs",
    "simulated_npus": "simulated NPUs",
    "memory_bytes": "memory of a rank",
    "network_payload_bytes": "payload of NPU 0",
    "network_cost_usd": "cost of the network",
    "bubble_share": "pipeline bubble",
    "network_plugin": "network",
    "wall_s": "wall time",
}
_UNITS = {
    "tokens_per_s_per_gpu": "tokens/s",
    "tokens_per_s": "tokens/s",
    "flops_per_s_per_gpu": "FLOP/s",
    "flops_per_s": "FLOP/s",
    "gb_per_s": "GB/s",
    "gib_per_s": "GiB/s",
    "gbit_per_s": "Gbit/s",
    "bytes_per_ns": "GB/s",
    "percent": "%",
    "usd": "USD",
    "ms": "ms",
    "us": "us",
    "ns": "ns",
    "s": "s",
}
"""Units by the endings of names; the longest that fits counts."""
_BINARY = (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10))


class ColumnName(NamedTuple):
    """The name of a column, and the unit in which its numbers are shown (its name, and its size in the column's unit)."""

    words: str
    unit: AxisUnit

    @property
    def label(self) -> str:
        """The words with the unit."""
        return f"{self.words} ({self.unit.name})" if self.unit.name else self.words


def column_name(name: str, values: Iterable[object] = (), others: Sequence[str] = ()) -> ColumnName:
    """The name of a column whose cells are `values`; it must differ from `others`, the names of the table.

    A parameter such as `workload.global_batch` goes by its last part, unless another column does, too.
    """
    numbers = [abs(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    short = name.rpartition(".")[2]
    if "." in name and any(other != name and other.rpartition(".")[2] == short for other in others):
        short = name.replace(".", ": ")
    unit, base = AxisUnit("", 1.0), short
    if short.endswith("_bytes") or short == "bytes":
        unit, base = _bytes(max(numbers, default=0.0)), short.removesuffix("_bytes")
    elif short.endswith("_ns") and numbers:
        unit, base = unit_of(max(numbers)), short.removesuffix("_ns")
    else:
        for ending in sorted(_UNITS, key=lambda ending: -len(ending)):
            if short.endswith(f"_{ending}") or (short == ending and name in _WORDS):
                unit, base = AxisUnit(_UNITS[ending], 1.0), short.removesuffix(f"_{ending}")
                break
    return ColumnName(_WORDS.get(name) or base.replace("_", " "), unit)


def _bytes(largest: float) -> AxisUnit:
    return next((AxisUnit(name, size) for name, size in _BINARY if largest >= size), AxisUnit("B", 1.0))
