"""Runs a reference case of ASTRA-sim 1.0 and compares every figure."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import astra_sim
from astra_sim_reports_astra1 import tables as csv_tables

from support import ROOT

_ARGUMENTS = {
    "num-passes": ("passes", int),
    "num-queues-per-dim": ("queues_per_dim", int),
    "compute-scale": ("compute_scale", float),
    "comm-scale": ("comm_scale", float),
    "injection-scale": ("injection_scale", float),
    "rendezvous-protocol": ("rendezvous", bool),
}


def simulate(case: dict[str, Any], folder: Path, **more: Any) -> astra_sim.Result:
    """Run a case from files, as a user would."""
    files: dict[str, Any] = {"workload": case["workload"], "system": case["system"], "network": json.dumps(case["network"])}
    for name, text in files.items():
        (folder / name).write_text(text)
    arguments: dict[str, Any] = {name: str(folder / name) for name in files}
    for key, value in case["args"].items():
        name, kind = _ARGUMENTS[key]
        arguments[name] = kind(value)
    return astra_sim.simulate(run_name="x", **arguments, **more)


def differences(case: dict[str, Any], result: astra_sim.Result) -> list[str]:
    """Every figure in which a result differs from what ASTRA-sim printed."""
    expected = case["expected"]
    results = []
    if result.finish_ns != expected["finish_ns"]:
        results.append(f"finish_ns {result.finish_ns} instead of {expected['finish_ns']}")
    results += _compare("backend_end_to_end", _rows("".join(csv_tables.backend_end_to_end([result])))[0], expected["end_to_end"])
    tables = (
        ("EndToEnd", "".join(csv_tables.end_to_end([result])), "layers"),
        ("detailed", "".join(csv_tables.detailed([result])), "detailed"),
    )
    for name, text, key in tables:
        rows = _rows(text, label="layer")
        results += [f"{name} has {len(rows)} rows"] if len(rows) < len(expected[key]) else []
        for row, wanted in zip(rows, expected[key], strict=False):
            results += _compare(f"{name} {wanted['layer']}", row, wanted)
    return results


def _rows(text: str, label: str | None = None) -> list[dict[str, str]]:
    header, *lines = [line.split(",") for line in text.splitlines()]
    rows = []
    for cells in lines:
        row = {name: cell for name, cell in zip(header, cells, strict=False) if name and cell}
        if label is not None:
            row[label] = cells[0]
        if cells[0]:
            rows.append(row)
    return rows


def _compare(where: str, row: dict[str, str], wanted: dict[str, str]) -> list[str]:
    return [f"{where}: {k} {row.get(k)} instead of {wanted.get(k)}" for k in {**row, **wanted} if row.get(k) != wanted.get(k)]


def explained() -> set[str]:
    """Ids of cases that differ for a reason that docs/differences.md gives."""
    text = (ROOT / "docs" / "differences.md").read_text()
    return set(re.findall(r"^\| `([a-z]+-[\w-]+)` \|", text, re.MULTILINE))
