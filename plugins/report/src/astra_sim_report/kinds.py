"""The figures that `astra plot` draws, by name."""

from __future__ import annotations

import os
from collections.abc import Sequence

from astra_sim.errors import InputError, suggestion

KINDS = {
    "layers": "computing and exposed communication of each layer, a panel for each run",
    "breakdown": "where the time goes, a bar for each run",
    "npus": "the same, with runs in order of their NPUs",
    "compute-power": "the same, with runs in order of how fast they compute",
    "utilisation": "how busy dimensions are in time, a panel for each run",
    "links": "how busy links are, from node to node, a panel for each run",
    "power": "mean power in time, a panel for each run (section energy of the experiment)",
    "scaling": "time against NPUs; tokens a second if the workload reports them",
}
"""The content of each figure."""

TABLE_KINDS = {
    "line": "the column --y against --x, a line for each value of --hue",
    "heat": "the column --hue, as colour, over --x and --y",
    "pareto": "--y against --x, and the rows that no other is better than in both",
}
"""The content of each figure of a table of results."""

FLOW_KINDS = {
    "fct": "the share of flows that have arrived after a time, a line for each folder of `astra flows`",
    "slowdown": "the same, with times in those that flows take alone",
    "queues": "bytes that wait at ports of switches in time (option qlen_interval_us of roce), a panel for each folder",
}
"""The content of each figure of flows."""

SERVING_KINDS = {
    "ttft": "the share of requests whose first token has come after a time, a line for each table of `astra serve --per-request`",
    "tpot": "the same of the time for each further token",
    "e2e": "the same of the time to the last token",
    "batch": "requests that run and wait in time, a panel for each table of `astra serve --timeline`",
}
"""The content of each figure of served requests."""

GOODPUT_KINDS = {
    "progress": "work that counts over days, a line for each seed of a table of `astra goodput --progress`",
    "shares": "lost time by cause, a bar for each file of `astra goodput --output`",
}
"""The content of each figure of months of training."""

_SOURCES = (
    (KINDS, "a run: a folder that astra --output has written, or its result.json"),
    (TABLE_KINDS, "a table of results"),
    (FLOW_KINDS, "a folder that astra flows --output has written"),
    (SERVING_KINDS, "a table that astra serve has written"),
    (GOODPUT_KINDS, "a file that astra goodput has written"),
)
"""The files that the kinds of figures are drawn from."""

ENDINGS = (".parquet", ".csv", ".sqlite")
"""Endings of the names of tables."""

FORMATS = ("svg", "pdf", "png")
"""Formats of pictures, by the ending of their names."""

MOST_PANELS = 12


def is_table(path: str) -> bool:
    """Whether a path is that of a table of results, by its ending."""
    return os.path.splitext(path)[1] in ENDINGS


def has_flows(path: str) -> bool:
    """Whether a path is a folder that `astra flows` has written."""
    return os.path.isfile(os.path.join(path, "flows.csv"))


def kind_of(arguments: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Split the arguments RUN... [KIND] of `astra plot` into the kind of figure and the runs.

    The kind is None if the last argument is a file or folder. Raises InputError for an unknown kind, and for a kind without runs.
    """
    *runs, last = arguments
    if os.path.exists(last):
        return None, arguments
    known = {kind: source for kinds, source in _SOURCES for kind in kinds}
    if last not in known:
        raise InputError(
            f"{last!r} is neither a run (a folder or a result.json), nor a table of results, nor a figure; {suggestion(last, known)}"
        )
    if not runs:
        raise InputError(f"figure {last!r} needs {known[last]}")
    return last, runs
