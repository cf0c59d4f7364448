"""Figures of months of training: progress over days, and the shares of the time; drawn by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from astra_sim.errors import InputError
from astra_sim.files import csv_table, read_text
from matplotlib.figure import Figure

from astra_sim_report.colours import Colours, series
from astra_sim_report.outcomes import read_outcome
from astra_sim_report.plots import legend, picture
from astra_sim_report.runs import finite

PROGRESS = ("seed", "days", "work_days")
_MOST_SEEDS = 100


def draw_goodput(kind: str, paths: Sequence[str], form: str, title: str | None = None, labels: Sequence[str] = ()) -> bytes:
    """A figure of files that `astra goodput` has written. `kind` is one of `kinds.GOODPUT_KINDS`.

    Raises InputError if a file is another, or `labels` are not as many as files.
    """
    if labels and len(labels) != len(paths):
        raise InputError(f"--label is given {len(labels)} times; expected {len(paths)}, once for each file")
    if kind == "progress":
        names = list(labels) or [os.path.splitext(os.path.basename(path))[0] for path in paths]
        return picture(lambda: _progress(paths, names), form, title)
    return picture(lambda: _shares(paths, labels), form, title)


def _progress(paths: Sequence[str], names: Sequence[str]) -> Any:
    """Work that counts over days, a line for each seed, and the time without any loss."""
    figure = Figure(figsize=(5.4, 3.6), layout="constrained")
    axes = figure.subplots()
    longest = 0.0
    for path, name, shade in zip(paths, names, series(len(paths)), strict=True):
        lines = _lines(path)
        for number, (days, work) in enumerate(lines[:_MOST_SEEDS]):
            axes.plot(days, work, color=shade, linewidth=0.8, alpha=max(0.15, 1 / len(lines)), label=name if not number else None)
            longest = max(longest, days[-1])
    axes.plot([0, longest], [0, longest], linestyle="--", color="#999999", linewidth=1, label="without any loss")
    axes.set_xlim(0, longest or 1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("days")
    axes.set_ylabel("days of work that count")
    axes.legend(loc="upper left", frameon=False)
    return figure


def _lines(path: str) -> list[tuple[list[float], list[float]]]:
    """The days and the work of each seed."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    try:
        for _, row in csv_table(read_text(path), path, PROGRESS):
            days, work = lines.setdefault(row["seed"], ([], []))
            days.append(finite(row["days"]))
            work.append(finite(row["work_days"]))
    except (InputError, ValueError) as error:
        raise InputError(
            f"{path}: {str(error).removeprefix(f'{path}: ')}; expected a table that astra goodput --progress has written"
        ) from None
    if not lines:
        raise InputError(f"{path}: it has no rows")
    return list(lines.values())


def _shares(paths: Sequence[str], names: Sequence[str]) -> Any:
    """The time by use, a bar for each file."""
    outcomes = [read_outcome(path) for path in paths]
    for path, outcome in zip(paths, outcomes, strict=True):
        if outcome.kind != "goodput":
            raise InputError(f"{path}: a result of astra {outcome.kind}; expected one of astra goodput")
    names = names or [outcome.name for outcome in outcomes]
    figure = Figure(figsize=(6.4, 1.4 + 0.5 * len(paths)), layout="constrained")
    axes, colours = figure.subplots(), Colours()
    left = [0.0] * len(paths)
    lost = [part for part in outcomes[0].shares if any(outcome.shares[part] for outcome in outcomes)][1:]
    for part in lost:
        widths = [100 * outcome.shares[part] for outcome in outcomes]
        axes.barh(range(len(paths)), widths, left=left, color=colours.of(part), label=part, height=0.6)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    useful = [100 * each.shares["useful work"] for each in outcomes]
    axes.set_yticks(range(len(paths)), [f"{name}\n{share:.2f} % useful" for name, share in zip(names, useful, strict=True)])
    axes.invert_yaxis()
    axes.set_xlabel("lost time (%)")
    legend(figure)
    return figure
