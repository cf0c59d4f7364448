"""The CSV files of ASTRA-sim 1.0 that several runs share: each run is a process of its own, and fills its rows.

A file has a place for every run from the beginning: row `r` of `R` runs is line `r` of each layer, of `R` lines. Runs may end in any order
and at the same time: who adds rows holds a lock on the folder.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import astra_sim
from astra_sim import InputError
from astra_sim.files import FileSet, csv_rows, read_text

_LINES_BELOW = 19
"""Empty lines below the layers of all runs."""
_DIMENSION_LINES = 10
"""Lines of each run in backend_dim_info.csv."""
_UTILISATION = "_dimension_utilization.csv"

Lines = list[str]
_Place = Callable[[int, int, int], Iterator[int]]
"""The numbers of the lines into which the lines of a run go: of all lines, its row, and the number of runs."""


def _layers(lines: int, row: int, total: int) -> Iterator[int]:
    return (1 + layer * total + row for layer in range(lines - _LINES_BELOW))


def _single(lines: int, row: int, total: int) -> Iterator[int]:
    return (1 + row + line for line in range(lines))


def _dimensions(lines: int, row: int, total: int) -> Iterator[int]:
    return (1 + row * _DIMENSION_LINES + line for line in range(lines))


_PLACES: dict[str, tuple[_Place, int, int]] = {
    "EndToEnd.csv": (_layers, 0, _LINES_BELOW),
    "detailed.csv": (_layers, 0, _LINES_BELOW),
    "tutorial_result.csv": (_single, 1, 0),
    "backend_end_to_end.csv": (_single, 1, 0),
    "backend_dim_info.csv": (_dimensions, _DIMENSION_LINES, 0),
}
"""Of each file with lines of runs, the least number of lines per run (0: as many as the run has), and the number that follow all runs."""


class SharedTables:
    """The result files whose names begin with `path`."""

    NAMES: ClassVar[Sequence[str]] = tuple(_PLACES)

    def __init__(self, path: str, names: Sequence[str]) -> None:
        """Of the files `names` are wanted. Raises InputError if the folder does not exist."""
        self._path, self._names = path, names
        self._folder = os.path.dirname(path) or "."
        if not os.path.isdir(self._folder):
            raise InputError(f"--path {path}: there is no folder {self._folder}; ASTRA-sim makes none either")

    def clear(self) -> None:
        """Remove the files of earlier runs."""
        with self._locked():
            for name in self._names:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self._path + name)

    def add(self, result: astra_sim.Result, row: int, total: int) -> None:
        """Fill the rows of a run, the `row`-th of `total`, and write the file of its utilisation."""
        with tempfile.TemporaryDirectory() as folder, self._locked(), FileSet() as files:
            astra_sim.write_reports(result, folder, reports=("astra1",), series="all")
            for name in self._names:
                part = (Path(folder) / name).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
                target = self._path + name
                before = read_text(target, is_input=False).splitlines() if os.path.exists(target) else []
                lines = filled(name, before, part, row, total)
                files.write(target, (f"{line}\n" for line in lines), errors="surrogateescape")
            (used,) = Path(folder).glob(f"*{_UTILISATION}")
            files.write(self._path + result.run_name.replace("/", "_") + _UTILISATION, [used.read_text(encoding="utf-8")])

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder, if the system can lock one."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def filled(name: str, before: Lines, part: Lines, row: int, total: int) -> Lines:
    """The lines of a file with those of a run in their place: of `total` runs the `row`-th, whose own file has the lines `own`."""
    place, least, below = _PLACES[name]
    heading, *rows = part
    each = least or len(rows) - below
    empty = "," * (len(next(csv_rows(heading, name))[1]) - 1)
    lines = before + [empty] * (1 + each * total + below - len(before))
    if row == 0 or not lines[0].strip(","):
        lines[0] = heading
    for number, line in zip(place(len(rows), row, total), rows, strict=False):
        if number == len(lines):
            lines.append(empty)
        lines[number] = line
    return lines
