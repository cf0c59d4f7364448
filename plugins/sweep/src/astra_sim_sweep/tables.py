"""Tables of results: CSV, Parquet or SQLite, written row by row."""

from __future__ import annotations

import importlib
import itertools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from astra_sim import InputError, RunError
from astra_sim.experiments import row_of
from astra_sim.files import FileSet, csv_lines

ENDINGS = (".parquet", ".csv", ".sqlite")
LAST = ("audit", "error", "wall_s")
"""Columns at the end of every table."""

TABLE = "results"
"""The table in a file of SQLite."""

_ROWS_AT_A_TIME = 2000
_MOST = 1 << 63

Row = Mapping[str, Any]


class Columns:
    """The columns of a table whose rows come in any order, and the types of their values.

    Parameters come first, then figures by the first row that has them, then `others`, then LAST. A figure with the name of a parameter is
    `result_NAME`.
    """

    def __init__(self, parameters: Sequence[str], others: Sequence[str] = ()) -> None:
        self._parameters = list(parameters)
        self._last = (*others, *LAST)
        self._first: dict[str, tuple[int, int]] = {}
        self._types: dict[str, set[type]] = {name: set() for name in (*parameters, *self._last)}

    def row(self, parameters: Row, figures: Row | None, error: str | None, wall_s: float) -> dict[str, Any]:
        """The row of a point."""
        row = row_of(parameters, figures or {})
        audit = row.pop("audit", None)
        return row | {"audit": audit or None, "error": error, "wall_s": wall_s}

    def add(self, number: int, row: Row) -> None:
        """Take note of a row by its place in the table."""
        for position, (name, value) in enumerate(row.items()):
            if name not in self._types or (name in self._first and number < self._first[name][0]):
                self._first[name] = number, position
            types = self._types.setdefault(name, set())
            if value is not None:
                types.add(type(value))

    @property
    def names(self) -> list[str]:
        """All columns in order."""
        return [*self._parameters, *sorted(self._first, key=self._first.__getitem__), *self._last]

    def type_of(self, name: str) -> type:
        """The type of a column: bool, int, float or, if they meet others, str. One without values holds text."""
        types = self._types[name]
        if types in ({bool}, {int}):
            return next(iter(types))
        return float if types and types <= {int, float} else str


def check_table(path: str) -> None:
    """Raise InputError if a path has an unknown ending, or a package it needs is not installed."""
    ending = os.path.splitext(path)[1]
    if ending not in ENDINGS:
        raise InputError(f"--output is {path!r}; expected a name that ends in {', '.join(ENDINGS)}")
    if ending == ".parquet":
        _pyarrow("pyarrow")


def write_table(path: str, columns: Columns, rows: Iterable[Row]) -> None:
    """Write a table in the format of its path's ending. Raises RunError if it cannot be written."""
    write = {".csv": _write_csv, ".parquet": _write_parquet, ".sqlite": _write_sqlite}[os.path.splitext(path)[1]]
    with FileSet() as files, files.temporary(path) as temporary:
        write(temporary, columns, rows, path)


def _write_csv(temporary: str, columns: Columns, rows: Iterable[Row], _: str) -> None:
    with open(temporary, "w", encoding="utf-8", newline="") as file:
        names = columns.names
        file.writelines(csv_lines([names]))
        file.writelines(csv_lines([cell_text(row.get(name)) for name in names] for row in rows))


def cell_text(value: Any) -> Any:
    """A value as text has it: true and false as TOML writes them."""
    return ("false", "true")[value] if isinstance(value, bool) else value


def _write_sqlite(temporary: str, columns: Columns, rows: Iterable[Row], path: str) -> None:
    """Write a table as a database of SQLite, without a journal: it takes its name when it is whole."""
    kinds = {bool: "BOOLEAN", int: "INTEGER", float: "REAL", str: "TEXT"}
    names = columns.names
    try:
        database = sqlite3.connect(temporary, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("BEGIN")
            described = [f"{_quoted(called)} {kinds[columns.type_of(name)]}" for called, name in zip(_apart(names), names, strict=True)]
            database.execute(f"CREATE TABLE {TABLE} ({', '.join(described)})")
            marks = ", ".join("?" * len(names))
            database.executemany(f"INSERT INTO {TABLE} VALUES ({marks})", (_cells(row, columns, names) for row in rows))
            database.execute("COMMIT")
        finally:
            database.close()
    except sqlite3.Error as error:
        raise RunError(f"cannot write {path}: {error}") from None


def _apart(names: Sequence[str]) -> list[str]:
    """Names that SQLite tells apart, which it does not by capital letters: the second of two such gets `_2`."""
    seen: set[str] = set()
    result = []
    for name in names:
        called, number = name, 2
        while called.lower() in seen:
            called, number = f"{name}_{number}", number + 1
        seen.add(called.lower())
        result.append(called)
    return result


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _cells(row: Row, columns: Columns, names: Sequence[str]) -> list[Any]:
    """The values of a row in the types of their columns."""
    return [None if row.get(name) is None else _cast(columns.type_of(name))(row[name]) for name in names]


def _cast(kind: type) -> Callable[[Any], Any]:
    return _whole if kind is int else kind if kind is not str else lambda value: str(cell_text(value))


def _whole(value: int) -> int | float:
    """An integer if 64 bits hold it."""
    return value if -_MOST <= value < _MOST else float(value)


def _write_parquet(temporary: str, columns: Columns, rows: Iterable[Row], path: str) -> None:
    """Write a table in Parquet, a group of rows at a time."""
    pyarrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    kinds = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    names = columns.names
    schema = pyarrow.schema([(name, kinds[columns.type_of(name)]) for name in names])
    try:
        with parquet.ParquetWriter(temporary, schema) as writer:
            for some in _batches(rows):
                cells = zip(*(_cells(row, columns, names) for row in some), strict=True)
                writer.write_table(
                    pyarrow.table([pyarrow.array(column, field.type) for column, field in zip(cells, schema, strict=True)], schema)
                )
    except (OSError, pyarrow.ArrowException) as error:
        raise RunError(f"cannot write {path}: {error}") from None


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while some := list(itertools.islice(iterator, _ROWS_AT_A_TIME)):
        yield some


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError("tables in Parquet need pyarrow: pip install pyarrow") from None
