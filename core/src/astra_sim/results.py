"""Results that were written: `result.json`, or the folder that holds it, and the tables in it.

Example:

    >>> from astra_sim import simulate, write_reports
    >>> from astra_sim.results import read_results, tables_of
    >>> platform = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=25&link_latency_ns=500"
    >>> _ = write_reports(simulate(workload="plugin:collective?bytes=1MiB", platform=platform), "results", reports=())
    >>> path, runs = read_results("results")
    >>> sorted(tables_of(runs[0]))
    ['algorithms', 'audit', 'dimensions', 'layers', 'mismatches', 'phases', 'run']
    >>> tables_of(runs[0])["dimensions"][0]["topology"]
    'ring'
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from astra_sim.errors import InputError
from astra_sim.files import parse_json, read_text

__all__ = [
    "read_results",
    "tables_of",
]

RESULT_FILE = "result.json"

Rows = list[dict[str, Any]]


def is_result(path: str) -> bool:
    """Whether a path is that of a result by its form: a folder, or a file in JSON."""
    return path.endswith(".json") or os.path.isdir(path)


def read_results(path: str) -> tuple[str, list[dict[str, Any]]]:
    """The file of a result, and its runs: one, or those that were compared. Raises InputError if it is no result."""
    file = os.path.join(path, RESULT_FILE) if os.path.isdir(path) else path
    table = parse_json(read_text(file), file)
    runs = table if isinstance(table, list) else [table]
    if not runs or not all(isinstance(run, dict) and "run_name" in run and "finish_ns" in run for run in runs):
        raise InputError(f"{file}: this is no result of a run; expected {RESULT_FILE}, which --output writes, or its folder")
    from astra_sim._result_document import check_document

    for place, run in enumerate(runs):
        check_document(run, f"{file}: run {place + 1}" if isinstance(table, list) else file)
    return file, runs


_APART = ("experiment", "versions", "inputs", "invocation", "units", "every_npu_reason")
"""The provenance of a result: its inputs and how it was simulated, without figures."""


def tables_of(result: Mapping[str, Any]) -> dict[str, Rows]:
    """The figures of a result as in JSON, as rows of plain Python for each table.

    `run` is one row with all single figures. A list of tables is a table of its name; tables within a row become columns. Those of the
    network are called `network_...`, `phases` are those of the layers, `npus` the `npu_times`. Units are in the names of columns.
    """
    whole = _whole(result)
    tables: dict[str, Rows] = {"run": [flat_row(whole)]}
    for name, value in whole.items():
        if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
            tables[name] = [flat_row(each) for each in value]
    if "npu_times" in tables:
        tables["npus"] = tables.pop("npu_times")
    tables["layers"] = [{"layer": row.pop("name"), **row} for row in tables.get("layers", [])]
    tables["phases"] = [row for layer in result.get("layers", []) for row in _phases(layer)]
    tables["dimensions"] = [{"dimension": number, **row} for number, row in enumerate(tables.get("dimensions", []))]
    return tables


def run_row(result: Mapping[str, Any]) -> dict[str, Any]:
    """The single figures of a result as in JSON, or of a part of it: the row of the table `run`."""
    return flat_row(_whole(result))


def _whole(result: Mapping[str, Any]) -> dict[str, Any]:
    network = {f"network_{name}": value for name, value in result.get("network", {}).items()}
    return {name: value for name, value in result.items() if name not in (*_APART, "network")} | network


def flat_row(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A row: tables in it as columns with their names in front; lists are left out."""
    row: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            row |= flat_row(value, f"{prefix}{name}_")
        elif not isinstance(value, Sequence) or isinstance(value, str):
            row[f"{prefix}{name}"] = value
    return row


def _phases(layer: Mapping[str, Any]) -> Rows:
    queueing = layer["queueing_delay_ns"]
    return [
        {"layer": layer["name"], "phase": number, "queueing_delay_ns": queueing[number], "network_delay_ns": delay}
        for number, delay in enumerate(layer["network_delay_ns"], 1)
    ]
