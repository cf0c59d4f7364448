"""Simulated against measured: the same requests at the same moments, and errors by metric and by request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astra_sim import InputError
from astra_sim.files import parse_json, read_text

from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.metrics import summarize
from astra_sim_serving.result import ServingResult
from astra_sim_serving.serving import serve

METRICS = ("ttft_s", "tpot_s", "e2e_s")
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")


def compare(
    case: ServingExperiment,
    path: str,
    on_progress: Callable[[float, int], None] | None = None,
    timeline: Callable[[ServingInstance, float], None] | None = None,
) -> tuple[ServingResult, dict[str, Any]]:
    """Serve the requests of a file of measured ones (`serving.requests.run` names the run), and compare. Raises InputError."""
    case = case.with_values({"serving.requests.trace": path})
    measured = read_measured(path, case.table["serving"]["requests"].get("run"))
    result = serve(case, on_progress=on_progress, timeline=timeline)
    if len(measured) != len(result.sequences):
        measured = measured[: len(result.sequences)]
    return result, errors_of(result, measured)


def read_measured(path: str, run: str | None) -> list[dict[str, float]]:
    """The measured times of the requests of a run, in seconds: `ttft_s`, and `tpot_s` and `e2e_s` (or `value`) if there are some."""
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        document = parse_json(line, f"{path}, line {number}") if line.strip() else None
        if not isinstance(document, dict) or document.get("kind", "request") != "request" or (run and document.get("run") != run):
            continue
        row = {name: float(document[name]) for name in METRICS if isinstance(document.get(name), (int, float))}
        if "e2e_s" not in row and isinstance(document.get("value"), (int, float)):
            row["e2e_s"] = float(document["value"])
        if "ttft_s" not in row:
            raise InputError(f"{path}, line {number}: ttft_s is missing; expected measured requests")
        rows.append({**row, "arrival_s": float(document.get("queued_s") or document.get("arrival_s") or 0.0)})
    if not rows:
        raise InputError(f"{path}: it has no measured requests{'' if run is None else f' of the run {run!r}'}")
    return rows


def errors_of(result: ServingResult, measured: list[dict[str, float]]) -> dict[str, Any]:
    """Relative errors of statistics, of the makespan, and mean absolute ones by request."""
    simulated: list[dict[str, float]] = []
    for sequence in result.sequences:
        values = {"ttft_s": result.ttft(sequence), "tpot_s": result.tpot(sequence), "e2e_s": result.e2e(sequence)}
        simulated.append({name: value for name, value in values.items() if value is not None} if sequence.is_done else {})
    rows, per_request = [], {}
    for name in METRICS:
        pairs = [
            (ours_of[name], other[name]) for ours_of, other in zip(simulated, measured, strict=True) if name in ours_of and name in other
        ]
        if not pairs:
            continue
        ours, theirs = summarize(ours_of for ours_of, _ in pairs) or {}, summarize(other for _, other in pairs) or {}
        rows += [_row(name.removesuffix("_s"), statistic, theirs[statistic], ours[statistic]) for statistic in STATISTICS]
        per_request[name.removesuffix("_s")] = sum(abs(ours_of / other - 1) for ours_of, other in pairs if other) / len(pairs)
    if all("e2e_s" in row for row in measured):
        begin = measured[0]["arrival_s"]
        rows.append(_row("makespan", "", max(row["arrival_s"] + row["e2e_s"] for row in measured) - begin, result.makespan_s))
    return {"rows": rows, "per_request": per_request}


def _row(metric: str, statistic: str, measured: float, simulated: float) -> dict[str, Any]:
    error = simulated / measured - 1 if measured else 0.0
    return {"metric": metric, "statistic": statistic, "measured_s": measured, "simulated_s": simulated, "error": error}
