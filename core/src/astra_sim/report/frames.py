"""Rows of a table as a data frame of pandas or polars, and as a file: CSV, JSON or Parquet."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from astra_sim.errors import InputError, suggestion
from astra_sim.files import FilePath, FileSet, csv_lines

LIBRARIES = ("pandas", "polars")
FILE_ENDINGS = (".csv", ".json", ".parquet")

Rows = Sequence[Mapping[str, Any]]


def choose(tables: Mapping[str, Any], table: str) -> Any:
    """One of some tables. Raises InputError if there is none of that name."""
    if table not in tables:
        raise InputError(f"there is no table {table!r}; {suggestion(table, tables)}")
    return tables[table]


def frame_of(rows: Rows, library: str = "pandas") -> Any:
    """A data frame of a library. Raises InputError if it is neither pandas nor polars, or is not installed."""
    if library not in LIBRARIES:
        raise InputError(f"library is {library!r}; expected {' or '.join(LIBRARIES)}")
    module = _installed(library, "data frames")
    # Polars infers types from the first rows by default, and a column may begin with whole numbers.
    return module.DataFrame(list(rows)) if library == "pandas" else module.DataFrame(list(rows), infer_schema_length=None)


def check_ending(path: FilePath) -> str:
    """The ending of a table's file. Raises InputError if it is unknown, or a library it needs is not installed."""
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in FILE_ENDINGS:
        raise InputError(f"{os.fspath(path)}: expected a name that ends in {', '.join(FILE_ENDINGS)}")
    if ending == ".parquet":
        _installed("pyarrow", "Parquet files")
    return str(ending)


def write_rows(rows: Rows, path: FilePath) -> None:
    """Write a table in the format of its name's ending: *.csv, *.json or *.parquet, which needs pyarrow.

    Raises InputError for another ending, or without pyarrow, and RunError if the file cannot be written.
    """
    ending = check_ending(path)
    with FileSet() as files, files.open(path, "wb" if ending == ".parquet" else "w") as file:
        if ending == ".parquet":
            _installed("pyarrow.parquet", "Parquet files").write_table(_arrow(rows), file)
        elif ending == ".csv":
            write_csv(rows, file)
        else:
            import json

            json.dump(list(rows), file, allow_nan=False)


def write_csv(rows: Rows, file: Any) -> None:
    """Write a table with a line of headings; a cell without a value is empty."""
    names = columns_of(rows)
    file.writelines(csv_lines([names, *([row.get(name) for name in names] for row in rows)]))


def columns_of(rows: Rows) -> list[str]:
    """The columns of a table, those of the first row first."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _arrow(rows: Rows) -> Any:
    """The table of pyarrow. Columns in which whole numbers and others meet hold floating-point numbers."""
    pyarrow = _installed("pyarrow", "Parquet files")
    columns = {}
    for name in columns_of(rows):
        values = [row.get(name) for row in rows]
        mixed = any(isinstance(value, float) for value in values)
        columns[name] = [float(value) if mixed and isinstance(value, int) else value for value in values]
    return pyarrow.table(columns)


def _installed(module: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise InputError(f"{what} need {package}: pip install {package}") from None
