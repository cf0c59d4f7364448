"""Measured kernels: tables of times by shape, interpolated linearly.

Rows are lines of JSON with `run`, `table` and `columns` (a list of values for each): `dense` (layer, tokens), `per_sequence` (layer,
sequences), `attention` (prefill_chunk, kv_prefill, n_decode, kv_decode) and `moe` (tokens, activated_experts), each with `time_us` of one
kernel. Tables of attention may be a union of several grids, so they are interpolated level by level: between two chunks, for each between
two contexts of it, and so on.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import parse_json, read_text

COLUMNS = {
    "dense": ("layer", "tokens"),
    "per_sequence": ("layer", "sequences"),
    "attention": ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode"),
    "moe": ("tokens", "activated_experts"),
}
"""The columns of each table, from the outermost level on."""


@attrs.define
class KernelGrid:
    """A level of coordinates in ascending order, each with the level below or the time."""

    keys: list[float]
    values: list[Any]

    def at(self, point: Sequence[float]) -> tuple[float, bool]:
        """The time at a point, and whether it is outside: then the time of the nearest level continues as its last two levels do."""
        return _at(self, point, 0)


def _at(level: Any, point: Sequence[float], depth: int) -> tuple[float, bool]:
    """The time at a point from a level on, and whether it is outside of the grid."""
    if depth == len(point):
        return level, False
    keys, x = level.keys, point[depth]
    upper = bisect.bisect_left(keys, x)
    if upper < len(keys) and keys[upper] == x:
        return _at(level.values[upper], point, depth + 1)
    outside = upper in (0, len(keys))
    if outside and len(keys) == 1:
        time, _ = _at(level.values[0], point, depth + 1)
        return time, True
    upper = min(max(upper, 1), len(keys) - 1)
    low, low_outside = _at(level.values[upper - 1], point, depth + 1)
    high, high_outside = _at(level.values[upper], point, depth + 1)
    share = (x - keys[upper - 1]) / (keys[upper] - keys[upper - 1])
    return max(0.0, low + share * (high - low)), outside or low_outside or high_outside


def grid_of(rows: Sequence[tuple[Sequence[float], float]], depth: int = 0) -> Any:
    """The grid of points and their times; of several times of one point the last."""
    if depth == len(rows[0][0]):
        return rows[-1][1]
    groups: dict[float, list[tuple[Sequence[float], float]]] = {}
    for row in rows:
        groups.setdefault(row[0][depth], []).append(row)
    keys = sorted(groups)
    return KernelGrid(keys, [grid_of(groups[key], depth + 1) for key in keys])


@attrs.define(eq=False)
class KernelTables:
    """The tables of one run: times in microseconds."""

    run: str
    dense: Mapping[str, KernelGrid]
    per_sequence: Mapping[str, KernelGrid]
    attention: KernelGrid
    moe: KernelGrid | None


def read_tables(path: str, run: str | None) -> KernelTables:
    """The tables of a run in a file; None: of the only one. Raises InputError."""
    documents: dict[str, dict[str, Mapping[str, Any]]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            where = f"{path}, line {number}"
            document = parse_json(line, where)
            if not isinstance(document, dict) or document.get("table") not in COLUMNS or not isinstance(document.get("columns"), dict):
                raise InputError(f"{where}: expected an object with run, columns, and a table of {', '.join(COLUMNS)}")
            documents.setdefault(str(document.get("run", "")), {})[document["table"]] = document["columns"]
    if run is None and len(documents) == 1:
        run = next(iter(documents))
    if run is None:
        raise InputError(f"{path} has tables of {len(documents)} runs; expected run = one of {', '.join(sorted(documents))}")
    if run not in documents:
        raise InputError(f"{path} has no tables of the run {run!r}; {suggestion(run, documents)}")
    tables = documents[run]
    for name in ("dense", "per_sequence", "attention"):
        if name not in tables:
            raise InputError(f"{path}: the run {run!r} has no table {name!r}")
    per_sequence = _by_layer(tables["per_sequence"], "per_sequence", path)
    for layer in ("lm_head", "sampler"):
        if layer not in per_sequence:
            raise InputError(f"{path}: the table per_sequence of the run {run!r} has {', '.join(per_sequence)}; expected {layer}, too")
    return KernelTables(
        run,
        _by_layer(tables["dense"], "dense", path),
        per_sequence,
        grid_of(_rows(tables["attention"], COLUMNS["attention"], path)),
        grid_of(_rows(tables["moe"], COLUMNS["moe"], path)) if "moe" in tables else None,
    )


def _by_layer(columns: Mapping[str, Any], table: str, path: str) -> dict[str, KernelGrid]:
    layer, axis = COLUMNS[table]
    rows: dict[str, list[tuple[Sequence[float], float]]] = {}
    names = columns.get(layer)
    points = _rows(columns, (axis,), path)
    if not isinstance(names, list) or len(names) != len(points):
        raise InputError(f"{path}: table {table} has no column {layer} of {len(points)} names")
    for name, row in zip(names, points, strict=True):
        rows.setdefault(str(name), []).append(row)
    return {name: grid_of(own) for name, own in rows.items()}


def _rows(columns: Mapping[str, Any], axes: Sequence[str], path: str) -> list[tuple[Sequence[float], float]]:
    """The rows of columns in lists: the values of axes, and the time. Raises InputError."""
    lists = [columns.get(name) for name in (*axes, "time_us")]
    if not all(isinstance(column, list) and column for column in lists) or len({len(column) for column in lists if column}) != 1:
        lengths = ", ".join(
            f"{name} {'is missing' if column is None else f'has {len(column)} values' if isinstance(column, list) else 'is no list'}"
            for name, column in zip((*axes, "time_us"), lists, strict=True)
        )
        raise InputError(f"{path}: {lengths}; expected lists of one length, of at least one value")
    for name, column in zip((*axes, "time_us"), lists, strict=True):
        for value in column or ():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
                raise InputError(f"{path}: {name} is {value!r}; expected a number of at least 0")
    *points, times = lists
    return list(zip(zip(*points, strict=True), times, strict=True))  # type: ignore[arg-type]
