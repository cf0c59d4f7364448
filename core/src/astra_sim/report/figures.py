"""Figures that a workload adds to a result, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from astra_sim.errors import printable
from astra_sim.units import GIB, MIB

if TYPE_CHECKING:
    from rich.table import Table

    from astra_sim.graph import Figure

_BAR = 30
_SCALES: Mapping[str, Sequence[tuple[float, str]]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "bytes": ((GIB, "GiB"), (MIB, "MiB"), (1, "bytes")),
    "FLOP/s": ((1e18, "EFLOP/s"), (1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1.0, "FLOP/s")),
    "share": ((0.01, "%"),),
}
"""The units in which a figure may be shown, largest first."""


def amount(value: Any, unit: str, like: float | None = None) -> tuple[str, str]:
    """A value as text with the unit it is shown in; that which suits the value `like`, if it is given."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return printable(str(value)), unit
    scales = _SCALES.get(unit)
    if scales is None:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}", unit
    size = abs(value if like is None else like)
    factor, shown = next((scale for scale in scales if size >= scale[0]), scales[-1] if size else scales[0])
    decimals = 1 if unit in ("share", "FLOP/s") else 2 if unit == "bytes" else 3
    return f"{value / factor:,.{decimals}f}", shown


def scalar_figures(shown: Mapping[str, Figure]) -> dict[str, Figure]:
    """The figures of a result that a table shows as one value each."""
    return {name: figure for name, figure in shown.items() if not isinstance(figure.value, Mapping)}


def figures_table(figures: Sequence[Figure]) -> Table:
    """A line for each figure: what it is, how much, and what else is said of it."""
    from rich.table import Table

    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for figure in figures:
        text, unit = amount(figure.value, figure.unit)
        note = f"({figure.note})" if figure.note else ""
        table.add_row(figure.label, text, f"{unit} {note}".strip())
    return table


def parts_table(figure: Figure, mark: str) -> Table:
    """The parts of a whole, with their shares of it, and bars of a mark."""
    from rich.table import Table

    whole = sum(figure.value.values())
    like = whole / 100  # small parts are to be seen
    unit = amount(0, figure.unit, like)[1]
    table = Table(box=None)
    for name, justify in (("", "left"), (unit, "right"), ("%", "right"), ("", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name, value in figure.value.items():
        share = value / whole if whole else 0.0
        table.add_row(printable(name), amount(value, figure.unit, like)[0], f"{100 * share:.1f}", mark * round(_BAR * share))
    return table


def comparison_table(labels: Sequence[str], shown: Sequence[Mapping[str, Figure]]) -> Table | None:
    """A row for each run and a column for each figure that all of them have; None where there is none."""
    from rich.table import Table

    each = [scalar_figures(figures) for figures in shown]
    names = [name for name, figure in each[0].items() if all(name in figures for figures in each) and not isinstance(figure.value, str)]
    if not names:
        return None
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold")
    cells: list[list[str]] = []
    for name in names:
        own = [figures[name] for figures in each]
        like = max(abs(figure.value) for figure in own)
        unit = amount(0, own[0].unit, like)[1]
        table.add_column(own[0].label if not unit else f"{own[0].label}\n({unit})", justify="right")
        cells.append([amount(figure.value, figure.unit, like)[0] for figure in own])
    for label, *row in zip(labels, *cells, strict=True):
        table.add_row(printable(label), *row)
    return table
