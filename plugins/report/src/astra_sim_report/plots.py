"""Figures of runs for papers, drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from astra_sim.errors import InputError
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import StrMethodFormatter

from astra_sim_report.colours import Colours, series
from astra_sim_report.figures import COMPUTE, EXPOSED, LAYER_PARTS, breakdown, layer_rows, parts_of, power_of, unit_of
from astra_sim_report.kinds import MOST_PANELS
from astra_sim_report.runs import ReportRun

_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "astra",  # the same figure gives the same file
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
_MOST_LABELS = 60
_MOST_CELLS = 1000


def draw(kind: str | None, runs: Sequence[ReportRun], form: str, title: str | None = None, labels: Sequence[str] = ()) -> bytes:
    """A figure of runs, as a file. `kind` is one of `kinds.KINDS`; None: layers of one run that has some, else the breakdown.

    Raises InputError if the runs lack the drawn data, or `labels` are not as many as runs.
    """
    if labels and len(labels) != len(runs):
        raise InputError(f"--label is given {len(labels)} times; expected {len(runs)}, once for each run")
    if kind is None:
        kind = "layers" if len(runs) == 1 and runs[0].result["layers"] else "breakdown"
    names = [name.replace("\\n", "\n") for name in labels] or [run.name for run in runs]
    return picture(lambda: _DRAWN[kind](runs, names), form, title)


def picture(make: Callable[[], Any], form: str, title: str | None = None) -> bytes:
    """The figure that `make` draws, as a file of one of `kinds.FORMATS`. The same figure gives the same bytes."""
    with mpl.rc_context(_STYLE):
        figure = make()
        if title is not None:
            figure.suptitle(title, x=0.01, ha="left")
        for text in figure.findobj(Text):  # those of ticks on logarithmic axes, which are formulas, come later
            text.set_parse_math("$" not in text.get_text())
        out = io.BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        figure.savefig(out, format=form, dpi=200, metadata=metadata, bbox_inches="tight")
    return out.getvalue()


def _panels(
    runs: Sequence[ReportRun], names: Sequence[str], width: float, height: float, has: Callable[[ReportRun], bool], what: str
) -> Any:
    """A figure with a panel for each run, one below the other."""
    if len(runs) > MOST_PANELS:
        raise InputError(f"{len(runs)} runs would be as many panels; expected at most {MOST_PANELS}")
    for run in runs:
        if not has(run):
            raise InputError(f"{run.name} {what}")
    figure = Figure(figsize=(width, height * len(runs)), layout="constrained")
    axes = figure.subplots(len(runs), squeeze=False)[:, 0]
    if len(runs) > 1:
        for each, name in zip(axes, names, strict=True):
            each.set_title(name, loc="left", fontsize=9)
    return figure, axes


def legend(figure: Any) -> None:
    """A legend of the panels of a figure, with each entry once, outside of them."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        entries |= {name: handle for handle, name in zip(*axes.get_legend_handles_labels(), strict=True) if name not in entries}
    if entries:
        figure.legend(entries.values(), entries.keys(), loc="outside right upper", fontsize=8)


def _head_room(axes: Any, tops: Sequence[float]) -> None:
    """Let bars end below the top."""
    axes.set_ylim(0, 1.05 * max(tops) or 1)


def _layers(runs: Sequence[ReportRun], names: Sequence[str]) -> Any:
    """Draw the compute and exposed time of each layer, a panel for each run."""
    has = "has no layers, as runs of traces and of collectives; expected a run of a layered workload"
    widest = max(len(run.result["layers"]) for run in runs)
    figure, panels = _panels(
        runs=runs, names=names, width=min(14, max(6, 3 + 0.28 * widest)), height=3.2, has=lambda run: bool(run.result["layers"]), what=has
    )
    colours = Colours()
    for run, axes in zip(runs, panels, strict=True):
        rows = layer_rows(run)
        unit = unit_of(max(sum(row[key] for key in (*COMPUTE, *EXPOSED)) for row in rows))
        bottom = [0.0] * len(rows)
        for key, name in LAYER_PARTS.items():
            heights = [row[key] / unit.ns for row in rows]
            if any(heights):
                axes.bar(range(len(rows)), heights, bottom=bottom, color=colours.of(name), label=name, width=0.8)
                bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        if len(rows) <= _MOST_LABELS:
            axes.set_xticks(range(len(rows)), [row["layer"] for row in rows], rotation=60, ha="right", rotation_mode="anchor", fontsize=7)
        else:
            axes.set_xlabel("layer")
        axes.set_xlim(-0.6, len(rows) - 0.4)
        axes.set_ylabel(f"time ({unit.name})")
        _head_room(axes, bottom)
    legend(figure)
    return figure


def _bars(runs: Sequence[ReportRun], names: Sequence[str]) -> Any:
    """Draw the time of each run by use, a bar for each."""
    figure = Figure(figsize=(max(4.6, 2.8 + 0.75 * len(runs)), 3.2), layout="constrained")
    axes = figure.subplots()
    each = [breakdown(run) for run in runs]
    unit = unit_of(max(sum(own.values()) for own in each))
    bottom = [0.0] * len(runs)
    colours = Colours()
    for part in parts_of(runs):
        heights = [own.get(part, 0.0) / unit.ns for own in each]
        axes.bar(range(len(runs)), heights, bottom=bottom, color=colours.of(part), label=part, width=0.7)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    crowded = sum(max(map(len, name.split("\n"))) for name in names) > 12 * len(names)
    turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    axes.set_xticks(range(len(runs)), names, **turned)
    axes.set_ylabel(f"time ({unit.name})")
    _head_room(axes, bottom)
    legend(figure)
    return figure


def _labelled(names: Sequence[str], runs: Sequence[ReportRun], texts: Sequence[str]) -> list[str]:
    """The names of runs on an axis: the names that were given, or else the texts."""
    return [text if name == run.name else name for name, run, text in zip(names, runs, texts, strict=True)]


def _by_npus(runs: Sequence[ReportRun], names: Sequence[str]) -> Any:
    order = sorted(range(len(runs)), key=lambda place: runs[place].result["npus"])
    chosen = [runs[place] for place in order]
    figure = _bars(chosen, _labelled([names[place] for place in order], chosen, [f"{run.result['npus']:,}" for run in chosen]))
    figure.axes[0].set_xlabel("NPUs")
    return figure


def _by_compute_power(runs: Sequence[ReportRun], names: Sequence[str]) -> Any:
    if not all(run.result["compute_ns"] for run in runs):
        raise InputError("a run computes nothing; expected runs that differ in how fast they compute")
    slowest = max(run.result["compute_ns"] for run in runs)
    order = sorted(range(len(runs)), key=lambda place: -runs[place].result["compute_ns"])
    chosen = [runs[place] for place in order]
    speeds = [f"{slowest / run.result['compute_ns']:.3g}x" for run in chosen]
    figure = _bars(chosen, _labelled([names[place] for place in order], chosen, speeds))
    figure.axes[0].set_xlabel("speed of computing, against the slowest")
    return figure


def _utilisation(runs: Sequence[ReportRun], names: Sequence[str]) -> Any:
    """Draw the utilisation of each dimension in time, a panel for each run."""
    has = (
        "has no utilisation in time beside its result.json; expected a folder with the report timeline, or with astra1, which has it for "
        "runs of 10 us or longer"
    )
    figure, panels = _panels(runs=runs, names=names, width=6.5, height=2.4, has=lambda run: bool(run.utilisation), what=has)
    colours = Colours()
    for run, axes in zip(runs, panels, strict=True):
        unit = unit_of(run.result["finish_ns"])
        for each in run.utilisation[:MOST_PANELS]:
            times = [time / unit.ns for time in each.times_ns]
            axes.step(times, each.percent, where="post", label=each.name, color=colours.of(each.name), linewidth=1)
        axes.set_ylim(0, 105)
        axes.set_xlim(0, run.result["finish_ns"] / unit.ns or 1)
        axes.set_xlabel(f"time ({unit.name})")
        axes.set_ylabel("busy (%)")
    legend(figure)
    return figure


def _power(runs: Sequence[ReportRun], names: Sequence[str]) -> Any:
    """Draw the mean power in time, a panel for each run."""
    has = "has no power in time; expected a run of an experiment with a section energy"
    figure, panels = _panels(runs=runs, names=names, width=6.5, height=2.4, has=lambda run: power_of(run) is not None, what=has)
    for run, axes in zip(runs, panels, strict=True):
        edges, watts = power_of(run) or ([0.0], [])
        unit = unit_of(edges[-1])
        axes.stairs([each / 1000 for each in watts], [edge / unit.ns for edge in edges], fill=True, color=series(1)[0])
        axes.set_xlim(0, edges[-1] / unit.ns or 1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"time ({unit.name})")
        axes.set_ylabel("power (kW)")
    return figure


def _links(runs: Sequence[ReportRun], names: Sequence[str]) -> Any:
    """Draw how busy links are, from router to router; a cell shows the busiest of several if there are many."""
    has = "has no loads of links beside its result.json; expected a folder of a run on a network that knows its links"
    figure, panels = _panels(runs=runs, names=names, width=5.0, height=4.2, has=lambda run: bool(run.links), what=has)
    for run, axes in zip(runs, panels, strict=True):
        routers = 1 + max(max(link.source, link.target) for link in run.links)
        width = -(-routers // _MOST_CELLS)  # routers of a cell, which shows the busiest of their links
        percent = np.zeros((-(-routers // width),) * 2)
        places = np.array([(link.source // width, link.target // width) for link in run.links]).T
        np.maximum.at(percent, tuple(places), [100 * link.utilisation for link in run.links])
        end = width * len(percent) - 0.5
        image = axes.imshow(percent, interpolation="nearest", vmin=0, extent=(-0.5, end, end, -0.5))
        figure.colorbar(image, ax=axes, label="busy (%)")
        axes.set_xlabel("to node")
        axes.set_ylabel("from node")
    return figure


def _scaling(runs: Sequence[ReportRun], names: Sequence[str]) -> Any:
    """Draw how runs scale with NPUs, beside the proportion. Raises InputError if all have as many."""
    if len({run.result["npus"] for run in runs}) < 2:
        raise InputError(f"all runs have {runs[0].result['npus']} NPUs; expected runs on different numbers of them")
    chosen = sorted(runs, key=lambda run: run.result["npus"])
    npus = [run.result["npus"] for run in chosen]
    figure = Figure(figsize=(4.5, 3.2), layout="constrained")
    axes = figure.subplots()
    colours = Colours()
    tokens: list[Any] = [run.result.get("tokens_per_s") for run in chosen]
    if all(isinstance(each, (int, float)) for each in tokens):
        axes.plot(npus, tokens, marker="o", color=series(1)[0], label="tokens a second")
        ideal = [tokens[0] * count / npus[0] for count in npus]
        axes.plot(npus, ideal, linestyle="--", color="#999999", label="in proportion to NPUs")
        axes.set_ylabel("tokens a second")
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set_ylim(min(*tokens, *ideal) / 1.4, max(*tokens, *ideal) * 1.4)
    else:
        unit = unit_of(max(run.result["finish_ns"] for run in chosen))
        for key, name in (("finish_ns", "total"), ("compute_ns", "compute"), ("exposed_comm_ns", "exposed communication")):
            times = [run.result[key] / unit.ns for run in chosen]
            axes.plot(npus, times, marker="o", color=colours.of(name), label=name)
        axes.set_ylabel(f"time ({unit.name})")
        axes.set_ylim(bottom=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(npus, [f"{count:,}" for count in npus])
    axes.minorticks_off()
    axes.set_xlabel("NPUs")
    axes.legend()
    return figure


_DRAWN: dict[str, Callable[[Sequence[ReportRun], Sequence[str]], Any]] = {
    "layers": _layers,
    "breakdown": _bars,
    "npus": _by_npus,
    "compute-power": _by_compute_power,
    "utilisation": _utilisation,
    "links": _links,
    "power": _power,
    "scaling": _scaling,
}
