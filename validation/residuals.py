"""The file of residuals that the compute model `gpu` derives expected errors from, and how well these hold."""

from __future__ import annotations

import csv
import functools
import io
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from astra_sim.options import structure
from astra_sim_compute_gpu import expected_error as model
from astra_sim_compute_gpu.expected_error import Residual, expected_error
from astra_sim_compute_gpu.stack import KERNELS, names, newest_stack
from astra_sim_llm import counts
from astra_sim_llm.models import Model

from validation.iterations import CORE8, FIT, Experiment, Line, experiment, lines
from validation.profiles import FOLDER
from validation.results import Results, point_name
from validation.runs import Runs, numbers
from validation.stack_fits import points

FILE = FOLDER.parent / model.FILE
OTHER = "other"
_DIGITS = 5
_OF_ONES = {"megatron-2022": (CORE8, "megatron-2021", "mt-nlg")}
"""Stacks without a fitted profile, and the lines of which software they are for."""
_WORKLOAD = (
    "sequence", "global_batch", "micro_batch", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "precision"
)  # fmt: skip
COLUMNS = ("stack", "half", "software", "line", "name", "device", "npus", "parameters", "experts", *_WORKLOAD, "zero", "recompute", "error")


def rows(runs: Runs, results: Results) -> Iterator[dict[str, Any]]:
    """A row for each line with its own stack, with the newest stack of its device, and with kernels alone."""
    listed = lines()
    for name in (*results["stacks"], *_OF_ONES, KERNELS):
        profile = numbers(results["stacks"][name]["profile"]) if name in results["stacks"] else ()
        takes = {name, *_OF_ONES.get(name, ())}
        own = [line for line in listed if name == KERNELS or line["stack"] in takes or _newest(line) == name]
        for point in points(runs, own, profile):
            yield _row(name, point.line, experiment(point.line), point.error)


def _newest(line: Line) -> str | None:
    """The stack of a line for users who name none."""
    simulated = experiment(line)
    traits = frozenset({str(simulated.workload["precision"]), *(["experts"] if "experts" in line["model"] else [])})
    return _newest_stack(simulated.device, traits)


@functools.cache
def _newest_stack(device: str, traits: frozenset[str]) -> str | None:
    return newest_stack(device, "llm", traits)


def _row(stack: str, line: Line, simulated: Experiment, error: float) -> dict[str, Any]:
    workload = simulated.workload
    dimensions: Model = structure(Model, workload["model"], "model")
    return {
        "stack": stack,
        "half": line["half"] if line["stack"] in (stack, *_OF_ONES.get(stack, ())[:1]) else OTHER,
        "software": line["stack"],
        "line": line["id"],
        "name": f"{line['stack']}: {point_name(line)}",
        "device": simulated.device,
        "npus": line["gpus"],
        "parameters": counts.parameters(dimensions).total,
        "experts": dimensions.experts or 0,
        **{name: workload[name] for name in _WORKLOAD},
        "zero": workload.get("zero", 0),
        "recompute": workload.get("recompute", "none"),
        "error": f"{error:.{_DIGITS}f}",
    }


def text(found: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return out.getvalue()


def write(runs: Runs, results: Results) -> None:
    """Write the file."""
    FILE.write_text(text(list(rows(runs, results))), encoding="utf-8")
    model.residuals.cache_clear()


def coverage() -> list[Results]:
    """How many runs lie within their expected error, and its median, where all rows of a run's configuration or software are left out."""
    judged = [row for stack in names() for row in model.residuals(stack) if stack != KERNELS and row.half != FIT]
    others = [row for row in judged if row.half == OTHER]
    new = [row for row in others if row.software in ("nemo-25.02", "xla")]
    return [
        _coverage("own stack, held-out runs", "configuration", [row for row in judged if row.half != OTHER], _configuration),
        _coverage("newest stack of the device, runs of other software", "configuration", others, _configuration),
        _coverage("newest stack of the device, runs of other software", "software", others, lambda row: row.software),
        _coverage("of these, runs of software of 2025 (NeMo 25.02, MaxText, Pax)", "software", new, lambda row: row.software),
    ]


def _configuration(row: Residual) -> object:
    return row.software, row.configuration.numbers[:3], row.configuration.properties


def _coverage(what: str, without: str, judged: Sequence[Residual], key: Callable[[Residual], object]) -> Results:
    bounds, hits = [], 0
    for row in judged:
        rest = [each for each in model.residuals(row.stack) if key(each) != key(row)]
        known = expected_error(row.stack, row.configuration, rest)
        if known is not None:
            bounds.append(known.within)
            hits += abs(row.error) <= known.within
    errors = [abs(row.error) for row in judged]
    return {
        "runs_of": what,
        "left_out": without,
        "runs": len(bounds),
        "error": round(statistics.median(errors), 4),
        "expected_error": round(statistics.median(bounds), 4),
        "covered": round(hits / len(bounds), 4),
    }
