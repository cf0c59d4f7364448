"""Tables of figures that benchmarks measure: printed, and written into pages of the documentation.

A benchmark lists its tables in `TABLES`. On a page, each is between two marks, with the machine and the date under it:

    <!-- figures: BENCHMARK/TABLE -->
    ...
    <!-- end of figures -->

Pages keep their prose: it says what is measured, and holds no number that a run measures.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devtools.environment import Environment
from devtools.workspace import ROOT, Failure

BENCHMARKS = ROOT / "benchmarks"
PAGES = (ROOT / "docs" / "performance.md", ROOT / "benchmarks" / "RESULTS.md", ROOT / "plugins" / "synthesis" / "METHOD.md")
"""Pages with tables that benchmarks measure."""
PLACE = re.compile(r"<!-- figures: ([\w-]+)/([\w-]+) -->\n(.*?)<!-- end of figures -->\n", re.DOTALL)

Cells = Sequence[str]
"""The cells of a row."""

MeasuredRow = tuple[list[str], list[str] | None]
"""What a row is about, and its figures."""


@dataclass(frozen=True)
class Row:
    """A row: what it is about, and what measures the cells after that; it returns None where a program is not there to be measured."""

    labels: Cells
    measure: Callable[[], Cells | None]


@dataclass(frozen=True)
class FigureTable:
    """A table of figures: its name in marks, the headings of all columns, and its rows, which are measured in order."""

    name: str
    headings: Cells
    rows: Sequence[Row]

    @property
    def labels(self) -> int:
        """How many columns say what a row is about."""
        return len(self.rows[0].labels)

    def measured(self) -> list[MeasuredRow]:
        """What each row is about, and its figures, None where a program is not there."""
        measured_rows = []
        for row in self.rows:
            figures = row.measure()
            measured_rows.append((list(row.labels), None if figures is None else list(figures)))
        return measured_rows


def main(tables: Sequence[FigureTable]) -> int:
    """What a benchmark does when it is run: measure its tables, or those that are named, and print them; with --json as lines of JSON.

    Returns the exit status.
    """
    arguments = sys.argv[1:]
    as_json = "--json" in arguments
    names = [argument for argument in arguments if argument != "--json"]
    known = [table.name for table in tables]
    for name in names:
        if name not in known:
            print(f"there is no table {name!r}; the names are {', '.join(known)}", file=sys.stderr)
            return 2
    for table in tables:
        if not names or table.name in names:
            rows = table.measured()
            if as_json:
                print(json.dumps([table.name, list(table.headings), rows]), flush=True)
            else:
                _print(table, rows)
    return 0


def _print(table: FigureTable, rows: Iterable[MeasuredRow]) -> None:
    from rich.console import Console
    from rich.table import Table

    drawn = Table(title=table.name, title_justify="left")
    for place, heading in enumerate(table.headings):
        drawn.add_column(heading, justify="left" if place < table.labels else "right")
    for labels, figures in rows:
        drawn.add_row(*labels, *(["not measured"] if figures is None else figures))
    Console(width=160).print(drawn)


def machine() -> str:
    """The date and the machine of a measurement, and how many processes it had to run (the load of the last minute), for people."""
    processors = os.cpu_count() or 1
    python = f"Python {platform.python_version()}"
    busy = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {processors} processor{'s' * (processors > 1)}, {python}{busy}."


def places(pages: Sequence[Path]) -> dict[tuple[str, str], Path]:
    """The page of each table, by benchmark and name."""
    return {(benchmark, table): page for page in pages for benchmark, table, _ in PLACE.findall(page.read_text(encoding="utf-8"))}


def write(pages: Sequence[Path], environment: Environment, names: Sequence[str]) -> None:
    """Measure the tables of pages, or those of some benchmarks, and write them there.

    Raises Failure if a benchmark fails, or has no such table.
    """
    page_of = places(pages)
    unknown = sorted(set(names) - {benchmark for benchmark, _ in page_of})
    if unknown:
        raise Failure(f"dev.py: {', '.join(page.name for page in pages)}: no tables of {', '.join(unknown)}", 2)
    for benchmark in dict.fromkeys(benchmark for benchmark, _ in page_of if not names or benchmark in names):
        for line in _lines(benchmark, [table for each, table in page_of if each == benchmark], environment):
            table, headings, rows = json.loads(line)
            page = page_of[benchmark, table]
            text = page.read_text(encoding="utf-8")  # as it may have changed meanwhile
            page.write_text(with_table(text, f"{benchmark}/{table}", headings, rows, machine()), encoding="utf-8")


def _lines(benchmark: str, tables: Sequence[str], environment: Environment) -> Iterable[str]:
    """What a benchmark prints, a line for each table, as soon as it is there."""
    print(f"dev.py: measuring {benchmark} ({', '.join(tables)})", file=sys.stderr, flush=True)
    command: list[str | Path] = [environment.python, BENCHMARKS / f"{benchmark}.py", "--json", *tables]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables(environment)) as process:
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        raise Failure(f"dev.py: the benchmark {benchmark} failed (status {process.returncode})")


def variables(environment: Environment) -> dict[str, str]:
    """The environment variables of a benchmark, which imports this module."""
    return {**environment.variables(), "PYTHONPATH": str(ROOT)}


def with_table(text: str, place: str, headings: Cells, rows: Sequence[MeasuredRow], stamp: str) -> str:
    """A page with a table in its place, `BENCHMARK/TABLE`. Raises Failure.

    Rows that were not measured are left out, so that all figures are of the date under the table; if none was, the table stays as it is.
    """
    match = next((each for each in PLACE.finditer(text) if "/".join(each.group(1, 2)) == place), None)
    if match is None:
        raise Failure(f"dev.py: the page has no place for {place}")
    cells = [[*labels, *figures] for labels, figures in rows if figures is not None]
    if not cells:
        return text
    columns = len(rows[0][0])
    lines = [f"| {' | '.join(each)} |" for each in (headings, *cells)]
    lines.insert(1, f"|{'|'.join('---' if column < columns else '---:' for column in range(len(headings)))}|")
    missing = len(rows) - len(cells)
    note = f" Not measured, so not here: {missing} of {len(rows)} rows." if missing else ""
    return text[: match.start(3)] + "\n".join(lines) + f"\n\nMeasured {stamp}{note}\n" + text[match.end(3) :]


def cells_of(table: str) -> list[list[str]]:
    """The cells of a Markdown table, its headings first."""
    lines = [line.strip() for line in table.splitlines() if line.strip().startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells for cells in rows if not all(set(cell) <= {"-", ":"} for cell in cells)]
