"""Figures of the tables that `astra serve` writes (`--per-request`, `--timeline`), drawn by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from astra_sim.errors import InputError
from astra_sim.files import csv_table, finite_number, read_text
from matplotlib.figure import Figure

from astra_sim_report.colours import series
from astra_sim_report.kinds import MOST_PANELS
from astra_sim_report.plots import legend, picture
from astra_sim_report.shares import draw_shares

_LATENCIES = {"ttft": "time to the first token", "tpot": "time for each further token", "e2e": "time to the last token"}


def draw_serving(kind: str, paths: Sequence[str], form: str, title: str | None = None, labels: Sequence[str] = ()) -> bytes:
    """A figure of tables of `astra serve`, as a file. `kind` is one of `kinds.SERVING_KINDS`.

    Raises InputError if a table lacks the drawn data, or `labels` are not as many as tables.
    """
    if labels and len(labels) != len(paths):
        raise InputError(f"--label is given {len(labels)} times; expected {len(paths)}, once for each table")
    names = list(labels) or [os.path.splitext(os.path.basename(path))[0] for path in paths]
    drawn = _requests_over_time if kind == "batch" else lambda paths, names: _latency(kind, paths, names)
    return picture(lambda: drawn(paths, names), form, title)


def _latency(kind: str, paths: Sequence[str], names: Sequence[str]) -> Any:
    """The share of requests that have a latency of at most each value, a line for each table."""
    values = []
    for path in paths:
        own = [
            finite_number(row[f"{kind}_s"], f"{where}: {kind}_s")
            for where, row in _rows(path, (f"{kind}_s",), "--per-request")
            if row[f"{kind}_s"]
        ]
        if not own:
            raise InputError(f"{path}: no request has {kind}_s")
        values.append(own)
    unit, scale = ("s", 1.0) if max(map(max, values)) >= 1 else ("ms", 1e3)
    scaled = [[scale * value for value in own] for own in values]
    return draw_shares(names, scaled, f"{_LATENCIES[kind]} ({unit})", "requests")


def _requests_over_time(paths: Sequence[str], names: Sequence[str]) -> Any:
    """Requests that run and wait in all instances over time, a panel for each table."""
    if len(paths) > MOST_PANELS:
        raise InputError(f"{len(paths)} tables would be as many panels; expected at most {MOST_PANELS}")
    figure = Figure(figsize=(6.5, 2.2 * len(paths)), layout="constrained")
    panels = figure.subplots(len(paths), squeeze=False, sharex=True)[:, 0]
    for path, name, axes in zip(paths, names, panels, strict=True):
        times, totals = _totals(path)
        for shade, column in zip(series(2), ("running", "waiting"), strict=True):
            axes.step(times, totals[column], where="post", color=shade, label=column, linewidth=1)
        axes.set_ylabel("requests")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, times[-1] or 1)
        if len(paths) > 1:
            axes.set_title(name, loc="left", fontsize=9)
    panels[-1].set_xlabel("time (s)")
    legend(figure)
    return figure


def _totals(path: str) -> tuple[list[float], dict[str, list[float]]]:
    """The times of a table, and the sums over instances from each of them on."""
    columns = ("running", "waiting")
    now: dict[str, dict[str, float]] = {column: {} for column in columns}
    times: list[float] = []
    totals: dict[str, list[float]] = {column: [] for column in columns}
    for where, row in _rows(path, ("time_s", "instance", *columns), "--timeline"):
        times.append(finite_number(row["time_s"], f"{where}: time_s"))
        for column in columns:
            now[column][row["instance"]] = finite_number(row[column], f"{where}: {column}")
            totals[column].append(sum(now[column].values()))
    if not times:
        raise InputError(f"{path}: it has no rows")
    return times, totals


def _rows(path: str, columns: Sequence[str], option: str) -> Any:
    """The rows of a table. Raises InputError if it has not these columns."""
    try:
        yield from csv_table(read_text(path), path, columns, None)
    except InputError as error:
        raise InputError(f"{error}; expected a table that astra serve {option} has written") from None
