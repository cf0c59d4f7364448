"""The memory of a run whose workload knows it: at its peak by kind, who holds it, and whether the device has as much.

A workload gives it as two tables among its figures. `memory_peak`: rows of `npu`, `kind`, `bytes`, the `module` and `line` that hold most
of the kind, their `module_bytes`, and `device_bytes` if the device is known; `memory_holders`: `npu`, `kind`, `module`, `line`, `bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from astra_sim import Result
from astra_sim.commands import Column, Screen, Table
from astra_sim.errors import printable
from astra_sim.units import GIB

PEAK, HOLDERS = MEMORY_TABLES = "memory_peak", "memory_holders"
_SHOWN = 10


def print_memory(screen: Screen, result: Result) -> None:
    """Print the memory of the NPU that needs most, by kind, and with `--all` of all NPUs that are known, and by holder."""
    rows = result.figures.get(PEAK, ())
    totals: dict[int, int] = {}
    for row in rows:
        totals[row["npu"]] = totals.get(row["npu"], 0) + row["bytes"]
    fullest = sorted(totals, key=lambda npu: (-totals[npu], npu))
    for npu in fullest if screen.every else fullest[:1]:
        kinds = [row for row in rows if row["npu"] == npu]
        screen.text("")
        screen.table(_by_kind(npu, kinds))
        if kinds[0].get("device_bytes"):
            screen.text(_verdict(totals[npu], kinds[0]["device_bytes"]), "  ", prose=True)
        screen.text("")
        screen.table(_by_holder([row for row in result.figures.get(HOLDERS, ()) if row["npu"] == npu], screen))


def _by_kind(npu: int, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Describe the bytes of each kind, and who holds most of them."""
    total = sum(row["bytes"] for row in rows)
    unit = Screen.byte_unit(total)
    cells = [[row["kind"], unit.number(row["bytes"]), f"{100 * row['bytes'] / total:.1f}", _holder(row)] for row in rows]
    cells.append(["total", unit.number(total), "100.0", ""])
    columns = [Column("kind", "word"), Column(f"bytes ({unit.name})"), Column("share (%)"), Column("most for", "text")]
    return Table(columns, cells, f"Memory of NPU {npu} at its peak", indent=2)


def _by_holder(rows: Sequence[Mapping[str, Any]], screen: Screen) -> Table:
    """Describe the largest holders of all kinds."""
    unit = Screen.byte_unit(max((row["bytes"] for row in rows), default=0))
    shown = rows if screen.every else rows[:_SHOWN]
    cells = [[_holder(row), row["kind"], unit.number(row["bytes"])] for row in shown]
    columns = [Column("module, line", "text"), Column("kind", "word"), Column(f"bytes ({unit.name})")]
    note = f"... and {len(rows) - len(shown)} more (--all)" if len(shown) < len(rows) else ""
    return Table(columns, cells, "By module", note, indent=2)


def _holder(row: Mapping[str, Any]) -> str:
    return printable(", ".join(filter(None, (row["module"], row["line"]))))


def _verdict(size: int, usable: int) -> str:
    """Describe whether tensors fit into the memory that the device has for them, and by how much not."""
    of_device = f"in {usable / GIB:.2f} GiB of the device ({100 * size / usable:.0f} %)"
    return f"It fits {of_device}." if size <= usable else f"It does not fit {of_device} by {(size - usable) / GIB:.2f} GiB."
