"""Tables of the time of all NPUs: operations, NPUs, groups and links. `breakdown` makes their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from astra_sim.report.amounts import DisplayUnit, byte_unit
from astra_sim.report.attribution import MOST_OPERATIONS
from astra_sim.report.layout import Column, Table
from astra_sim.report.screen import Screen

SHOWN = 10
"""Rows of a table, unless all are wanted."""

Rows = Sequence[Mapping[str, Any]]


def print_npu_tables(tables: Mapping[str, Rows], screen: Screen) -> None:
    """Print tables of the time of all NPUs. Links come if all tables are wanted, and so do tables that take long to make."""
    if "npu_times" not in tables:
        screen.text(f"More than {MOST_OPERATIONS:,} operations: --all makes tables of them, of NPUs and of groups.")
    for name, make in _TABLES.items():
        rows = tables.get(name, [])
        if rows and (screen.every or name != "links"):
            screen.table(make(rows if screen.every else rows[:SHOWN], len(rows), screen))


def _operations(rows: Rows, count: int, screen: Screen) -> Table:
    """The mean time of operations over the NPUs that do them."""
    unit = screen.time_unit(max(row["total_ns"] / row["npus"] for row in rows))
    columns = [Column("operation", "name"), Column("kind", "word", 1), Column("group", "name", 2), *_columns_of_each(unit)]
    cells = [[row["operation"], row["kind"], row["group"], *_of_each(row, unit)] for row in rows]
    return Table(columns, cells, "Operations that expose most", _note("sums on each NPU that does them", len(rows), count))


def _groups(rows: Rows, count: int, screen: Screen) -> Table:
    """The same of groups, with bytes."""
    unit = screen.time_unit(max(row["total_ns"] / row["npus"] for row in rows))
    sent = byte_unit(max(row["bytes"] / row["npus"] for row in rows))
    columns = [Column("group", "name"), Column("groups", rank=2), *_columns_of_each(unit), Column(f"bytes ({sent.name})", rank=1)]
    cells = [[row["group"], str(row["alike"]), *_of_each(row, unit), sent.number(row["bytes"] / row["npus"])] for row in rows]
    return Table(columns, cells, "Groups", _note("sums on each NPU that communicates in them", len(rows), count))


def _columns_of_each(unit: DisplayUnit) -> list[Column]:
    return [Column("NPUs", rank=3), Column("times", rank=4), Column(f"time ({unit.name})"), Column(f"exposed ({unit.name})")]


def _of_each(row: Mapping[str, Any], unit: DisplayUnit) -> list[str]:
    """The number of NPUs with an operation, its number of executions on each, and its time in all and exposed."""
    times = (row["total_ns"] / row["npus"], row["exposed_ns"] / row["npus"])
    return [str(row["npus"]), f"{row['count'] / row['npus']:.4g}", *map(unit.number, times)]


def _npus(rows: Rows, count: int, screen: Screen) -> Table:
    """The time of NPUs by use."""
    unit = screen.time_unit(max(row["finish_ns"] for row in rows))
    names = {"finish": 0, "compute": 1, "communication": 3, "exposed": 1, "memory": 4, "idle": 2}
    columns = [
        Column("NPUs", "name"),
        Column("count", rank=2),
        *(Column(f"{name} ({unit.name})", rank=rank) for name, rank in names.items()),
    ]
    cells = [[row["npus"], str(row["count"]), *(unit.number(row[f"{name}_ns"]) for name in names)] for row in rows]
    return Table(columns, cells, "NPUs", _note("compute + exposed + memory + idle = finish", len(rows), count))


def _links(rows: Rows, count: int, screen: Screen) -> Table:
    """The loads of links."""
    sent = byte_unit(max(row["bytes"] for row in rows))
    columns = [Column("dimension", "word", 1), Column("from", "name"), Column("to", "name")]
    columns += [Column(f"sent ({sent.name})", rank=2), Column("utilisation (%)")]
    cells = [
        [str(row["dimension"]), row["source"], row["target"], sent.number(row["bytes"]), f"{100 * row['utilisation']:.1f}"] for row in rows
    ]
    return Table(columns, cells, "Links, the busiest first", _note("", len(rows), count))


def _note(meaning: str, shown: int, count: int) -> str:
    """The caption of a table, and the number of rows that it leaves out."""
    more = f"{count - shown} more: --all" if shown < count else ""
    return "; ".join(part for part in (meaning, more) if part)


_TABLES: Mapping[str, Callable[[Rows, int, Screen], Table]] = {
    "operations": _operations,
    "npu_times": _npus,
    "groups": _groups,
    "links": _links,
}
