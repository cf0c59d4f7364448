"""Lines of shares: how many of all values are at most as large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from astra_sim_report.colours import series
from astra_sim_report.plots import legend

_LOGARITHMIC_FROM = 20.0
"""From which ratio of the largest to the smallest value an axis is logarithmic."""


def draw_shares(names: Sequence[str], values: Sequence[Sequence[float]], label: str, noun: str) -> Any:
    """The share of things up to each value, a line for each name; `label` is that of the values."""
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    axes = figure.subplots()
    for shade, name, own in zip(series(len(names)), names, values, strict=True):
        ordered = sorted(own)
        shares = [100 * (number + 1) / len(ordered) for number in range(len(ordered))]
        axes.step([ordered[0], *ordered], [0.0, *shares], where="post", color=shade, label=name, linewidth=1.4)
    smallest, largest = (pick(pick(own) for own in values) for pick in (min, max))
    if smallest > 0 and largest / smallest > _LOGARITHMIC_FROM:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel(label)
    axes.set_ylabel(f"{noun} (%)")
    axes.set_ylim(0, 101)
    if len(names) > 1:
        legend(figure)
    return figure
