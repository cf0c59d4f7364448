"""Figures that a workload adds to a result, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from astra_sim.report.amounts import amount
from astra_sim.report.layout import Column, Table

if TYPE_CHECKING:
    from astra_sim.graph import Figure

_BAR = 30


def scalar_figures(shown: Mapping[str, Figure]) -> dict[str, Figure]:
    """The figures of a result that a table shows as one value each."""
    return {name: figure for name, figure in shown.items() if not isinstance(figure.value, Mapping)}


def figures_table(figures: Sequence[Figure], units: str | None = None) -> Table:
    """A line for each figure: its title, its value, and a remark. Times are in `units`."""
    rows = []
    for figure in figures:
        text, unit = amount(figure.value, figure.unit, units=units)
        rows.append([figure.label, text, f"{unit} {f'({figure.note})' if figure.note else ''}".strip()])
    return Table((Column("", "word"), Column(""), Column("", "text")), rows, headed=False, indent=1)


def parts_table(figure: Figure, mark: str, units: str | None = None) -> Table:
    """The parts of a whole, with their shares of it, and bars of a mark. Times are in `units`."""
    whole = sum(figure.value.values())
    like = whole / 100  # small parts are to be seen
    unit = amount(0, figure.unit, like, units)[1]
    rows = []
    for name, value in figure.value.items():
        share = value / whole if whole else 0.0
        rows.append([name, amount(value, figure.unit, like, units)[0], f"{100 * share:.1f}", mark * round(_BAR * share)])
    title = f"{figure.label} ({figure.note})" if figure.note else figure.label
    columns = Column("", "name"), Column(unit), Column("%"), Column("", "word", 1)
    return Table(columns, rows, title, indent=1)
