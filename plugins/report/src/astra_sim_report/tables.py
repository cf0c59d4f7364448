"""Tables of results as sweeps, searches and comparisons leave them: CSV, Parquet or SQLite."""

from __future__ import annotations

import importlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim.errors import InputError, suggestion
from astra_sim.files import check_cells, check_once, csv_rows, note_input, read_text
from astra_sim.limits import MAX_CELLS, MAX_FILE_BYTES, MAX_ROWS

Cell = bool | int | float | str | None
"""The value of a cell; None: empty."""

TABLE = "results"
"""The table in a file of SQLite."""

_FIRST_FIGURE = "finish_ns"
_LAST = ("audit", "error", "wall_s")
_MOST_SECONDS = 60
"""Of the processor, for a table of SQLite, which may be a view that never ends."""
_WORDS: Mapping[str, Cell] = {"": None, "true": True, "false": False}


@attrs.frozen(eq=False)
class ResultTable:
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
        """A column. Raises InputError, naming the option that asks for it, if there is none of that name."""
        if name not in self.columns:
            raise InputError(f"{option} is {name!r}, which is no column of {self.name}; {suggestion(name, self.columns)}")
        return self.columns[name]

    def numbers(self, name: str, option: str) -> Sequence[float]:
        """A column of numbers. Raises InputError if a cell is none."""
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

    def select(self, places: Sequence[int]) -> ResultTable:
        """The table with the rows at some places."""
        return ResultTable(self.name, {name: [cells[place] for place in places] for name, cells in self.columns.items()})

    def without_errors(self) -> ResultTable:
        """The table with the rows that have no error."""
        errors = self.columns.get("error", [None] * len(self))
        return self.select([place for place, error in enumerate(errors) if error in (None, "")])

    def where(self, conditions: Sequence[str]) -> ResultTable:
        """The rows for which all of some conditions COLUMN=VALUE hold. Raises InputError if there is no such row."""
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


def read_table(path: str) -> ResultTable:
    """The table in a file. Raises InputError if there is none."""
    read = {".csv": _read_csv, ".parquet": _read_parquet, ".sqlite": _read_sqlite}[Path(path).suffix]
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    note_input(path)
    names, rows = read(path)
    if not rows:
        raise InputError(f"{path} has no rows; expected results of runs")
    return ResultTable(path, dict(zip(names, zip(*rows, strict=True), strict=True)))


def _read_csv(path: str) -> tuple[Sequence[str], Sequence[Sequence[Cell]]]:
    rows = csv_rows(read_text(path), path, plain=True)
    first, names = next(rows, (1, []))
    check_once(names, f"{path}:{first}")
    result = []
    for number, cells in rows:
        check_cells(cells, names, f"{path}:{number}")
        result.append([_cell(text) for text in cells])
    return names, result


def _cell(text: str) -> Cell:
    """The value of a text: none, a truth value, a number, or the text."""
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _read_sqlite(path: str) -> tuple[Sequence[str], Sequence[Sequence[Cell]]]:
    """The columns and rows of a database, which may be hostile: its time and size are limited. Raises InputError."""
    try:
        database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        try:
            database.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
            started = time.process_time()
            database.set_progress_handler(lambda: time.process_time() - started > _MOST_SECONDS, 1 << 20)
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_FILE_BYTES)
            cursor = database.execute(f"SELECT * FROM {TABLE}")
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchmany(min(MAX_ROWS, MAX_CELLS // len(names)) + 1)
        finally:
            database.close()
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise InputError(f"{path}: its table {TABLE!r} takes more than {_MOST_SECONDS} s to read; expected less") from None
        raise _no_table(path, error) from None
    except (sqlite3.Error, OverflowError) as error:
        raise _no_table(path, error) from None
    check_once(names, path)
    if len(rows) > min(MAX_ROWS, MAX_CELLS // len(names)):
        raise InputError(f"{path}: its table {TABLE!r} has more than {len(rows) - 1} rows; expected at most that")
    return names, [[_plain(cell) for cell in row] for row in rows]


def _no_table(path: str, error: Exception) -> InputError:
    return InputError(f"{path}: {error}; expected a file of SQLite with a table {TABLE!r}, as astra sweep writes it")


def _read_parquet(path: str) -> tuple[Sequence[str], Sequence[Sequence[Cell]]]:
    """The columns and rows of a file in Parquet. Raises InputError."""
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(f"{path}: tables in Parquet need pyarrow: pip install pyarrow") from None
    try:
        about = parquet.ParquetFile(path).metadata
        if about.num_rows > min(MAX_ROWS, MAX_CELLS // max(1, about.num_columns)):
            size = f"{about.num_rows} rows of {about.num_columns} columns"
            raise InputError(f"{path}: {size}; expected at most {MAX_ROWS} rows, {MAX_CELLS} cells")
        read = parquet.read_table(path)
        columns = [column.to_pylist() for column in read.columns]
    except (OSError, ValueError, OverflowError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}; expected a table in Parquet") from None
    check_once(read.column_names, path)
    return read.column_names, [[_plain(cell) for cell in row] for row in zip(*columns, strict=True)]


def _plain(cell: Any) -> Cell:
    """A cell of one of the types of tables; a value of another, as text."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    return cell if cell is None or isinstance(cell, (bool, int, float, str)) else str(cell)
