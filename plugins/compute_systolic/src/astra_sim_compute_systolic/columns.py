"""Columns of tables of layers, found by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from astra_sim import InputError
from astra_sim.errors import suggestion

Columns = Mapping[str, int]
"""The place of each column, by the name that is used here."""


def columns_of(
    heading: Sequence[str], where: str, needed: Mapping[str, Sequence[str]], optional: Mapping[str, Sequence[str]] | None = None
) -> Columns:
    """The columns of a heading; `needed` and `optional` have their other names, and names with equal letters are one name.

    Raises InputError for a column that is unknown, missing or there twice, which a heading that is a layer has.
    """
    names = {**needed, **(optional or {})}
    name_of = {_plain(each): name for name, others in names.items() for each in (name, *others)}
    columns: dict[str, int] = {}
    for place, cell in enumerate(heading):
        if not cell:
            continue
        name = name_of.get(_plain(cell))
        if name is None:
            raise InputError(f"{where}: unknown column {cell!r:.80}; {suggestion(cell, names)}; expected a heading in the first line")
        if name in columns:
            raise InputError(f"{where}: the column {name} is given twice ({heading[columns[name]]!r:.80} and {cell!r:.80})")
        columns[name] = place
    for name in needed:
        if name not in columns:
            raise InputError(f"{where}: the column {name} is missing; expected a heading with {', '.join(needed)}")
    return columns


def is_known(heading: Sequence[str], names: Mapping[str, Sequence[str]]) -> bool:
    """Whether a heading has one of some columns."""
    known = {_plain(each) for name, others in names.items() for each in (name, *others)}
    return any(_plain(cell) in known for cell in heading)


def row_of(columns: Columns, cells: Sequence[str], where: str) -> dict[str, str]:
    """The cells of a row by column, "" if it ends before. Raises InputError if it has a cell under no heading."""
    places = set(columns.values())
    for place, cell in enumerate(cells):
        if cell and place not in places:
            raise InputError(f"{where}: cell {place + 1} is {cell!r:.80}, under no heading; expected a heading for each cell")
    return {name: cells[place] if place < len(cells) else "" for name, place in columns.items()}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
