"""The figures of runs as rows of plain numbers, for pages and plots alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from astra_sim_report.runs import ReportRun

PASSES = ("forward", "input_gradient", "weight_gradient")
COMPUTE = tuple(f"{name}_compute_ns" for name in PASSES)
EXPOSED = tuple(f"{name}_exposed_comm_ns" for name in PASSES)

LAYER_PARTS = {
    "forward_compute_ns": "compute, forward",
    "input_gradient_compute_ns": "compute, input gradient",
    "weight_gradient_compute_ns": "compute, weight gradient",
    "forward_exposed_comm_ns": "exposed, forward",
    "input_gradient_exposed_comm_ns": "exposed, input gradient",
    "weight_gradient_exposed_comm_ns": "exposed, weight gradient",
}
"""The names of the parts of a layer's time."""


class AxisUnit(NamedTuple):
    """A unit of time: its name and how many ns it has."""

    name: str
    ns: float


def unit_of(longest_ns: float) -> AxisUnit:
    """The unit that suits times up to one."""
    for unit in (AxisUnit("s", 1e9), AxisUnit("ms", 1e6), AxisUnit("us", 1e3)):
        if longest_ns >= unit.ns:
            return unit
    return AxisUnit("ns", 1.0)


def in_unit(ns: float) -> str:
    """A time as text, in the unit that suits it, which of 999.9999 ns is us: what is shown is rounded."""
    unit = unit_of(float(f"{ns:.6g}"))
    return f"{ns / unit.ns:,.3f} {unit.name}" if ns else f"0 {unit.name}"


def in_bytes(size: float) -> str:
    """A number of bytes as text, in the unit that suits it."""
    factor, unit = next(((factor, unit) for factor, unit in ((2**40, "TiB"), (2**30, "GiB")) if size >= factor), (2**20, "MiB"))
    return f"{size / factor:,.3f} {unit}"


def layer_rows(run: ReportRun) -> list[dict[str, Any]]:
    """A row for each layer: its name, and for each pass computing and exposed communication (ns)."""
    rows = []
    for layer in run.result["layers"]:
        row: dict[str, Any] = {"layer": layer["name"]}
        for name in PASSES:
            row[f"{name}_compute_ns"] = layer[name]["compute_ns"]
            row[f"{name}_exposed_comm_ns"] = layer[name]["exposed_comm_ns"]
        rows.append(row)
    return rows


def breakdown(run: ReportRun) -> dict[str, float]:
    """The time by use (ns): of an iteration if the workload reports it; else of the run, compute against the rest."""
    breakdown = run.result.get("breakdown")
    if isinstance(breakdown, dict) and breakdown:
        return {name: 1e9 * seconds for name, seconds in breakdown.items()}
    exposed = run.result["exposed_comm_ns"]
    return {"compute": run.result["finish_ns"] - exposed, "exposed communication": exposed}


def parts_of(runs: Iterable[ReportRun]) -> list[str]:
    """The parts that the breakdowns of some runs have, each once, without those that take no time anywhere."""
    parts: dict[str, float] = {}
    for run in runs:
        for name, ns in breakdown(run).items():
            parts[name] = parts.get(name, 0.0) + ns
    return [name for name, ns in parts.items() if ns]


def power_of(run: ReportRun) -> tuple[list[float], list[float]] | None:
    """The windows of a run's power: where each begins, and the end (ns), and its mean power (W); None if it has none."""
    energy = run.result.get("energy")
    windows = energy.get("power") if isinstance(energy, Mapping) else None
    if not isinstance(windows, Mapping) or not windows.get("mean_w"):
        return None
    watts = [float(each) for each in windows["mean_w"]]
    return [number * float(windows["window_ns"]) for number in range(len(watts) + 1)], watts


def waterfall(run: ReportRun, by: str = "kind") -> list[tuple[str, float]]:
    """The critical path of an explained run: the parts of its makespan (ns), the largest first. Empty if it was not explained."""
    explanation = run.result.get("explanation")
    path = explanation.get("path") if isinstance(explanation, Mapping) else None
    sums: dict[str, float] = {}
    for part in path or ():
        name = f"no {by}" if part.get(by) in (None, "") else str(part[by])
        sums[name] = sums.get(name, 0) + part["ns"]
    return sorted(sums.items(), key=lambda each: -each[1])


def changes(a: ReportRun, b: ReportRun, by: str) -> list[tuple[str, float, float]]:
    """The differences between the critical paths of two runs: a part, and its time in each (ns), the largest change first."""
    before, after = dict(waterfall(a, by)), dict(waterfall(b, by))
    rows = [(part, before.get(part, 0.0), after.get(part, 0.0)) for part in dict.fromkeys([*before, *after])]
    return sorted((row for row in rows if row[1] != row[2]), key=lambda row: -abs(row[2] - row[1]))


def summary_rows(runs: Sequence[ReportRun]) -> list[tuple[str, list[str]]]:
    """A row for each figure that one of some runs has, with a text for each run."""
    rows: list[tuple[str, list[str]]] = [
        ("total", [in_unit(run.result["finish_ns"]) for run in runs]),
        ("compute", [in_unit(run.result["compute_ns"]) for run in runs]),
        ("exposed communication", [in_unit(run.result["exposed_comm_ns"]) for run in runs]),
        ("payload of NPU 0", [in_bytes(run.result["network"].get("payload_bytes", 0)) for run in runs]),
        ("NPUs", [f"{run.result['npus']:,} ({run.result.get('simulated_npus', '-')} simulated)" for run in runs]),
        ("network", [str(run.result["network"].get("plugin", "-")) for run in runs]),
        ("messages", [f"{run.result.get('messages', 0):,}" for run in runs]),
    ]
    if any(run.result["network"].get("cost_usd") is not None for run in runs):
        costs = [run.result["network"].get("cost_usd") for run in runs]
        rows.append(("network cost", ["-" if cost is None else f"{cost:,.0f} USD" for cost in costs]))
    for key, (label, factor, form) in _FIGURES.items():
        values = [_value(run.result, key) for run in runs]
        if any(isinstance(value, (int, float)) for value in values):
            rows.append((label, [form.format(value * factor) if isinstance(value, (int, float)) else "-" for value in values]))
    return rows


_FIGURES = {
    "iteration_s": ("iteration", 1.0, "{:,.6f} s"),
    "tokens_per_s": ("tokens", 1.0, "{:,.0f} /s"),
    "tokens_per_s_per_gpu": ("tokens of a GPU", 1.0, "{:,.1f} /s"),
    "model_flops_per_s": ("model FLOP/s", 1e-15, "{:,.3f} PFLOP/s"),
    "mfu": ("model FLOPs utilisation", 100.0, "{:.2f} %"),
    "bubble_share": ("pipeline bubble", 100.0, "{:.2f} %"),
    "memory_bytes": ("memory of a rank", 2.0**-30, "{:,.3f} GiB"),
    "energy.kwh": ("energy", 1.0, "{:,.6g} kWh"),
    "energy.mean_w": ("mean power", 1e-3, "{:,.3f} kW"),
    "energy.tokens_per_joule": ("tokens of a joule", 1.0, "{:,.4g}"),
    "cost.usd": ("cost", 1.0, "{:,.6g} USD"),
}
"""Figures that workloads and accounts add, by key, or by table and key: the name of each, a factor, and its format."""


def _value(result: Any, key: str) -> Any:
    """A figure of a result; None if it has none."""
    for part in key.split("."):
        result = result.get(part) if isinstance(result, Mapping) else None
    return result
