"""All tables of one result agree: what takes the time, what is exposed, and which bytes go over which dimension.

Random experiments (collectives, layers, traces) and random plans of the workload `llm`, also with collectives that are priced as a whole.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
from astra_sim.display import print_result
from astra_sim.report.screen import Screen
from support.llm_experiments import experiment
from support.random_experiments import OnAnyNetwork

IN_TESTS = 12
IN_NIGHTLY = 600

_RELATIVE, _ABSOLUTE = 1e-9, 1e-3
_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def check(seed: int, folder: Path) -> list[str]:
    """Compare the tables of a random run with each other."""
    random = Random(seed)
    is_llm = random.random() < 0.5
    arguments = _plan(random) if is_llm else OnAnyNetwork(seed, folder).options
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = astra_sim.simulate(**arguments, npu_times=True, explain="path")
    except astra_sim.AstraError:
        return []
    results = [*_shares(result), *_summary(result), *_bytes(result, is_llm, arguments), *_explanation(result, is_llm)]
    return results + (list(_llm(result, arguments)) if is_llm else [])


def _plan(random: Random) -> dict[str, Any]:
    arguments = experiment(random, 24)
    if isinstance(arguments["platform"], str) and "congestion" not in arguments["network"]:
        arguments["network"] = {"plugin": "analytical", "model": random.choice(("formula", "nccl"))}
    return arguments


def _different(what: str, first: float, second: float, absolute: float = _ABSOLUTE) -> Iterator[str]:
    if not math.isclose(first, second, rel_tol=_RELATIVE, abs_tol=absolute):
        yield f"{what}: {first} and {second}"


def _shares(result: Any) -> Iterator[str]:
    """Where the time of NPUs goes: NPUs, operations, groups, and NPU 0 by layers."""
    tables = result.npu_tables()
    npus = tables["npu_times"]
    for row in npus:
        parts = sum(row[f"{name}_ns"] for name in ("compute", "exposed", "memory", "idle"))
        yield from _different(f"NPUs {row['npus']}: parts and finish", parts, row["finish_ns"])
        if row["exposed_ns"] > row["communication_ns"] + _ABSOLUTE:
            yield f"NPUs {row['npus']} expose more than they communicate"
    exposed = sum(row["exposed_ns"] * row["count"] for row in npus)
    yield from _different("exposed by operations and NPUs", sum(row["exposed_ns"] for row in tables.get("operations", [])), exposed)
    yield from _different("exposed by groups and NPUs", sum(row["exposed_ns"] for row in tables.get("groups", [])), exposed)
    spent, first = result.attribution, next(row for row in npus if re.match(r"0\b", row["npus"]))
    for name in ("compute", "exposed", "memory"):
        yield from _different(f"{name} of NPU 0", getattr(spent, f"{name}_ps") / 1e3, first[f"{name}_ns"])
    idle = first["idle_ns"] + result.finish_ns - first["finish_ns"]
    yield from _different("idle of NPU 0", spent.idle_ps / 1e3, idle)
    yield from _different("what NPU 0 does not compute", (spent.exposed_ps + spent.memory_ps + spent.idle_ps) / 1e3, result.exposed_comm_ns)
    yield from _different("exposed by layers and of NPU 0", sum(spent.exposed_by.values()), spent.exposed_ps)


def _summary(result: Any) -> Iterator[str]:
    """What is printed: the lines of the summary and the column of layers add up."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_result(result, Screen(every=True, units="ns"))
    text = out.getvalue()
    results = {
        name: float(number.replace(",", "")) * _UNITS[unit]
        for name, number, unit in re.findall(r"^ ([a-z ]+?) +([\d.,]+)  (ns|us|ms|s)$", text, re.MULTILINE)
    }
    times = [results.get(name, 0.0) for name in ("exposed communication", "memory", "idle")]
    yield from _different("printed: time without compute", sum(times), result.exposed_comm_ns, 1.0)
    lines = text.splitlines()
    if result.layers:
        start = lines.index("Layers")
        header = re.split(r"  +", lines[start + 1].strip())
        column = header.index("exposed (ns)")
        exposed = 0.0
        for line in lines[start + 2 : start + 4 + len(result.layers)]:
            cells = re.split(r"  +", line.strip())
            if len(cells) == len(header):
                exposed += float(cells[column])
        yield from _different("printed: exposed by layers", exposed, times[0], 1.0)


def _bytes(result: Any, is_llm: bool, arguments: dict[str, Any]) -> Iterator[str]:
    """Payload and dimensions."""
    payload = result.network["payload_bytes_per_dimension"]
    if sum(payload) != result.network["payload_bytes"]:
        yield f"payload: {payload} and {result.network['payload_bytes']}"
    if not is_llm:
        return
    if [each.bytes for each in result.dimensions] != payload:
        yield f"bytes of dimensions: {[each.bytes for each in result.dimensions]} and payload {payload}"
    if math.prod(each.size for each in result.dimensions) != result.npus:
        yield f"dimensions of {[each.size for each in result.dimensions]} NPUs, and {result.npus} NPUs"
    for number, each in enumerate(result.dimensions):
        if each.bytes and not each.utilisation and each.average_chunk_latency_ns != 0:
            yield f"dimension {number} sends {each.bytes} bytes and is never used"


def _explanation(result: Any, is_llm: bool) -> Iterator[str]:
    """The path names the dimensions and groups that the other tables name."""
    explanation = result.explanation
    if sum(row.ps for row in explanation.path) != explanation.finish_ps:
        yield "the parts of the path do not add up to the run"
    if is_llm:
        shown = [f"{each.topology} of {each.size}" for each in result.dimensions]
        if shown != list(explanation.dimensions):
            yield f"dimensions: {shown}, and on the path {explanation.dimensions}"
        groups = {row["group"] for row in result.npu_tables().get("groups", [])}
        strange = {row.group for row in explanation.path if row.group} - groups
        if strange:
            yield f"groups of the path that the table of groups does not have: {strange}"
        for row in explanation.path:
            if row.kind == "collective" and row.dimension is None:
                yield f"a collective of {row.group} on the path is in no dimension"


def _in_step(result: Any, arguments: dict[str, Any]) -> bool:
    """Whether the NPUs of each stage do the same at the same times."""
    return bool(result.simulated_npus < result.npus or arguments["workload"]["pipeline_parallel"] == result.npus)


def _llm(result: Any, arguments: dict[str, Any]) -> Iterator[str]:
    """The breakdown of an iteration against the tables of all NPUs; where those of a stage are out of step, its first one represents it."""
    if not _in_step(result, arguments):
        return
    tables, passes, npus = result.npu_tables(), arguments["passes"], result.npus
    mean = {name: sum(row[f"{name}_ns"] * row["count"] for row in tables["npu_times"]) / npus for name in ("compute", "idle", "finish")}
    results = {name: 1e9 * passes * seconds for name, seconds in result.breakdown.items()}
    yield from _different("compute of breakdown and NPUs", results["compute"] + results["optimizer"], mean["compute"], 0.1)
    yield from _different("bubble and idle", results["bubble"], mean["idle"] + result.finish_ns - mean["finish"], 0.1)
    groups = {row["group"]: row["exposed_ns"] / npus for row in tables.get("groups", [])}
    for name in ("tp", "pp", "dp", "ep", "cp"):
        yield from _different(f"exposed by {name} of breakdown and groups", results[name], groups.pop(name, 0.0), 0.1)
    if groups:
        yield f"groups that are no parallelism: {sorted(groups)}"
    yield from _different("bubble", result.bubble_share * result.iteration_s, result.breakdown["bubble"], 1e-15)
