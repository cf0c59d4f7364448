"""Figures of folders that `astra flows --output` has written, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim.errors import InputError
from astra_sim.files import csv_table, read_text
from matplotlib.figure import Figure

from astra_sim_report.colours import series
from astra_sim_report.figures import unit_of
from astra_sim_report.kinds import MOST_PANELS
from astra_sim_report.plots import legend, picture
from astra_sim_report.shares import draw_shares

_MOST_QUEUES = 6
_BYTES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9))
_LONGEST = 1e300


@attrs.frozen(eq=False)
class FlowRun:
    """A folder: its flows in the order of flows.csv, and the queues of qlen.csv, by port as times (ns) and bytes; empty without one."""

    name: str
    folder: str
    taken_ns: Sequence[float]
    slowdown: Sequence[float]
    finish_ns: float
    queues: dict[str, tuple[list[float], list[float]]]


def load_flow_runs(paths: Sequence[str]) -> list[FlowRun]:
    """The flows of folders. Raises InputError if a folder has no flows.csv, or one that is not of `astra flows`."""
    return [_load(path) for path in paths]


def draw_flows(kind: str, runs: Sequence[FlowRun], form: str, title: str | None = None, labels: Sequence[str] = ()) -> bytes:
    """A figure of folders of flows, as a file. `kind` is one of `kinds.FLOW_KINDS`.

    Raises InputError if folders lack the drawn data, or `labels` are not as many as folders.
    """
    if labels and len(labels) != len(runs):
        raise InputError(f"--label is given {len(labels)} times; expected {len(runs)}, once for each folder")
    names = list(labels) or [run.name for run in runs]
    return picture(lambda: _DRAWN[kind](runs, names), form, title)


def _load(path: str) -> FlowRun:
    """The flows of a folder, with the depth of queues if it was written. Raises InputError."""
    folder = Path(path)
    file = folder / "flows.csv"
    if not file.is_file():
        raise InputError(f"{path} has no flows.csv; expected a folder that astra flows --output has written")
    taken, slowdown, finish = [], [], 0.0
    for where, row in csv_table(read_text(str(file)), str(file), ("start_ns", "received_ns", "end_ns", "slowdown"), None):
        try:
            taken.append(_time(row["received_ns"]) - _time(row["start_ns"]))
            finish = max(finish, _time(row["end_ns"]))
            if row["slowdown"]:
                slowdown.append(_time(row["slowdown"]))
        except ValueError:
            raise InputError(f"{where}: {row!r:.100}; expected a flow, as astra flows --output writes it") from None
    if not taken:
        raise InputError(f"{file}: there is no flow")
    return FlowRun(
        name=folder.name or str(folder.resolve().name),
        folder=path,
        taken_ns=taken,
        slowdown=slowdown,
        finish_ns=finish,
        queues=_queues(folder / "qlen.csv"),
    )


def _time(text: str) -> float:
    number = float(text)
    if not 0 <= number < _LONGEST:
        raise ValueError
    return number


def _queues(file: Path) -> dict[str, tuple[list[float], list[float]]]:
    """The depth of each queue in time, from its file."""
    if not file.is_file():
        return {}
    queues: dict[str, tuple[list[float], list[float]]] = {}
    for where, row in csv_table(read_text(str(file)), str(file), ("time_ns", "link", "bytes"), None):
        try:
            time, waiting = _time(row["time_ns"]), _time(row["bytes"])
            times, sizes = queues.setdefault(row["link"], ([], []))
        except ValueError:
            raise InputError(f"{where}: {row!r:.100}; expected time_ns, link and bytes") from None
        times.append(time)
        sizes.append(waiting)
    return queues


def _fct(runs: Sequence[FlowRun], names: Sequence[str]) -> Any:
    unit = unit_of(max(max(run.taken_ns) for run in runs))
    return draw_shares(names, [[time / unit.ns for time in run.taken_ns] for run in runs], f"time to arrival ({unit.name})", "flows")


def _slowdown(runs: Sequence[FlowRun], names: Sequence[str]) -> Any:
    for run in runs:
        if not run.slowdown:
            raise InputError(f"{run.folder} has no slowdowns, because its platform does not list its links; expected fct")
    return draw_shares(names, [run.slowdown for run in runs], "time to arrival, in that of the flow alone", "flows")


def _queue_lines(runs: Sequence[FlowRun], names: Sequence[str]) -> Any:
    """Draw the depth of queues in time, a panel for each run."""
    if len(runs) > MOST_PANELS:
        raise InputError(f"{len(runs)} folders would be as many panels; expected at most {MOST_PANELS}")
    for run in runs:
        if not run.queues:
            raise InputError(f"{run.folder} has no queues; expected a run of roce with qlen_interval_us, which writes qlen.csv")
    figure = Figure(figsize=(6.5, 2.4 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), squeeze=False, sharex=True, sharey=True)[:, 0]
    unit = unit_of(max(run.finish_ns for run in runs))
    highest = max(max(sizes) for run in runs for _, sizes in run.queues.values())
    size_name, size = next((each for each in reversed(_BYTES) if highest >= each[1]), _BYTES[0])
    shades = dict(zip(_longest(runs), series(_MOST_QUEUES), strict=False))
    end = max(run.finish_ns for run in runs)
    for run, name, axes in zip(runs, names, panels, strict=True):
        for link, shade in shades.items():
            times, sizes = run.queues.get(link, ([], []))
            at = [time / unit.ns for time in (0.0, *times, run.finish_ns)]
            axes.step(at, [each / size for each in (0.0, *sizes, 0.0)], where="post", color=shade, label=link, linewidth=1)
        axes.set_ylabel(f"queue ({size_name})")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, end / unit.ns or 1)
        if len(runs) > 1:
            axes.set_title(name, loc="left", fontsize=9)
    panels[-1].set_xlabel(f"time ({unit.name})")
    legend(figure)
    return figure


def _longest(runs: Sequence[FlowRun]) -> list[str]:
    """The ports that have had the longest queues in any of the runs."""
    most: dict[str, float] = {}
    for run in runs:
        for link, (_, sizes) in run.queues.items():
            most[link] = max(most.get(link, 0.0), *sizes)
    return sorted(most, key=lambda link: (-most[link], link))[:_MOST_QUEUES]


_DRAWN: dict[str, Callable[[Sequence[FlowRun], Sequence[str]], Any]] = {"fct": _fct, "slowdown": _slowdown, "queues": _queue_lines}
