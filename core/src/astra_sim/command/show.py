"""`astra show`: the tables of a result that was written."""

from __future__ import annotations

import sys
from typing import Any

from astra_sim.command.options import say_json
from astra_sim.command.progress import Progress
from astra_sim.errors import InputError
from astra_sim.report.frames import check_ending, choose, columns_of, write_csv, write_rows
from astra_sim.report.layout import Column, Kind, Table
from astra_sim.report.screen import Screen
from astra_sim.results import read_results, tables_of

Rows = list[dict[str, Any]]


def show_table(run: str, table: str | None, as_json: bool, as_csv: bool, output: str | None) -> None:
    """Print a table of a result, or write it into a file; without `table`, list the tables.

    `run` is a folder of results or a `result.json`, `output` a file whose ending gives the format. Raises InputError.
    """
    if as_json and as_csv:
        raise InputError("--json and --csv are given; expected one of the two")
    if table is None and (as_csv or output is not None):
        raise InputError(f"{'--csv' if as_csv else f'--output {output}'} needs TABLE; `astra show {run}` lists the tables")
    if output is not None:
        check_ending(output)
    with Progress() as progress:
        progress.stage("reading", simulates=False)
        tables = _tables(run)
    if table is None:
        _list(tables, as_json)
        return
    rows = choose(tables, table)
    if output is not None:
        write_rows(rows, output)
    if as_json:
        say_json(rows)
    elif as_csv:
        write_csv(rows, sys.stdout)
    elif output is None:
        _print(rows)


def _tables(path: str) -> dict[str, Rows]:
    """The tables of all runs of a result."""
    _, runs = read_results(path)
    if len(runs) == 1:
        return tables_of(runs[0])
    tables: dict[str, Rows] = {}
    for run in runs:
        for name, rows in tables_of(run).items():
            tables.setdefault(name, []).extend({"run_name": run["run_name"], **row} for row in rows)
    return tables


def _list(tables: dict[str, Rows], as_json: bool) -> None:
    if as_json:
        say_json(tables)
    else:
        _print([{"table": name, "rows": len(rows), "columns": ", ".join(columns_of(rows))} for name, rows in tables.items()], "columns")


def _print(rows: Rows, text: str = "") -> None:
    """Print rows below their headings, all columns; that called `text` may take several lines."""
    names = columns_of(rows)
    columns = [Column(name, "text" if name == text else _kind([row.get(name) for row in rows])) for name in names]
    Screen(every=True).table(Table(columns, [["-" if row.get(name) in (None, "") else str(row[name]) for name in names] for row in rows]))


def _kind(values: list[Any]) -> Kind:
    return "number" if any(isinstance(value, (int, float)) for value in values) else "word"
