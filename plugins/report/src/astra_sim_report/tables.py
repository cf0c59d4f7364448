"""Tables of results as sweeps, searches and comparisons leave them: CSV, Parquet or SQLite."""

from __future__ import annotations

import csv
import importlib
import io
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim.errors import InputError, suggestion
from astra_sim.files import note_input, read_text

Cell = bool | int | float | str | None
"""What a cell holds; None: nothing."""

TABLE = "results"
"""The table in a file of SQLite."""

_FIRST_FIGURE = "finish_ns"
_LAST = ("audit", "error", "wall_s")
_WORDS: Mapping[str, Cell] = {"": None, "true": True, "false": False}


@attrs.frozen(eq=False)
class Table:
    """Rows of results: the name of the table, and its columns by name, a cell for each row."""

    name: str
    columns: Mapping[str, Sequence[Cell]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> Iterator[dict[str, Cell]]:
        """The rows in order, by names of columns."""
        for cells in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, cells, strict=True))

    def column(self, name: str, option: str) -> Sequence[Cell]:
        """A column. Raises InputError, naming the option that asks for it, where there is none of that name."""
        if name not in self.columns:
            raise InputError(f"{option} is {name!r}, which is no column of {self.name}; {suggestion(name, self.columns)}")
        return self.columns[name]

    def numbers(self, name: str, option: str) -> Sequence[float]:
        """A column of numbers. Raises InputError where a cell is none."""
        for cell in self.column(name, option):
            if isinstance(cell, bool) or not isinstance(cell, (int, float)):
                raise InputError(f"{option} is {name!r}, a column of {self.name} with {_quoted(cell)}; expected a column of numbers")
        return self.columns[name]  # type: ignore[return-value]

    @property
    def parameters(self) -> list[str]:
        """The columns before the figures."""
        names = [name for name in self.columns if name not in _LAST]
        return names[: names.index(_FIRST_FIGURE)] if _FIRST_FIGURE in names else names

    def varying(self) -> list[str]:
        """The parameters that do not have one value in all rows."""
        return [name for name in self.parameters if len(set(self.columns[name])) > 1]

    def select(self, places: Sequence[int]) -> Table:
        """The table with the rows at some places."""
        return Table(self.name, {name: [cells[place] for place in places] for name, cells in self.columns.items()})

    def without_errors(self) -> Table:
        """The table with the rows that have no error."""
        errors = self.columns.get("error", [None] * len(self))
        return self.select([place for place, error in enumerate(errors) if error in (None, "")])

    def where(self, conditions: Sequence[str]) -> Table:
        """The rows for which all of some conditions COLUMN=VALUE hold. Raises InputError where there is no such row."""
        table = self
        for condition in conditions:
            name, sign, text = condition.partition("=")
            if not sign:
                raise InputError(f"--where is {condition!r}; expected COLUMN=VALUE")
            cells, wanted = table.column(name, "--where"), _cell(text)
            places = [place for place, cell in enumerate(cells) if cell == wanted and isinstance(cell, bool) == isinstance(wanted, bool)]
            if not places:
                known = ", ".join(sorted({_quoted(cell) for cell in cells})[:10])
                raise InputError(f"--where {condition}: no row of {self.name} has it; {name} is {known or 'in no row'}")
            table = table.select(places)
        return table


def _quoted(cell: Cell) -> str:
    return "an empty cell" if cell is None else repr(cell)


def read_table(path: str) -> Table:
    """The table in a file. Raises InputError where there is none."""
    read = {".csv": _read_csv, ".parquet": _read_parquet, ".sqlite": _read_sqlite}[Path(path).suffix]
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    note_input(path)
    names, rows = read(path)
    if not rows:
        raise InputError(f"{path} has no rows; expected results of runs")
    return Table(path, dict(zip(names, zip(*rows, strict=True), strict=True)))


def _read_csv(path: str) -> tuple[Sequence[str], Sequence[Sequence[Cell]]]:
    lines = list(csv.reader(io.StringIO(read_text(path))))
    names = lines[0] if lines else []
    if len(set(names)) < len(names):
        raise InputError(f"{path}: two columns are called {next(name for name in names if names.count(name) > 1)!r}")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(names):
            raise InputError(f"{path}: row {number} has {len(line)} cells; expected {len(names)}, one for each column of the first row")
    return names, [[_cell(text) for text in line] for line in lines[1:]]


def _cell(text: str) -> Cell:
    """What a text stands for: nothing, a truth value, a number, or itself."""
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _read_sqlite(path: str) -> tuple[Sequence[str], Sequence[Sequence[Cell]]]:
    try:
        database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        try:
            found = database.execute(f"SELECT * FROM {TABLE}")
            return [column[0] for column in found.description], found.fetchall()
        finally:
            database.close()
    except sqlite3.Error as error:
        raise InputError(f"{path}: {error}; expected a file of SQLite with a table {TABLE!r}, as astra sweep writes it") from None


def _read_parquet(path: str) -> tuple[Sequence[str], Sequence[Sequence[Cell]]]:
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(f"{path}: tables in Parquet need pyarrow: pip install pyarrow") from None
    try:
        read = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: {error}; expected a table in Parquet") from None
    return read.column_names, list(zip(*(column.to_pylist() for column in read.columns), strict=True))
