"""`detail=pass` of the workload `llm` is approximate in time alone: what a pass is made of stays in the result.

For every plan the bytes, the messages, the algorithms, and how often each operation runs equal those of `detail=layer`. Where the
exchanges of passes meet no others, so that both details take equally long, everything that the result says is equal: times, the critical
path, sensitivities, bounds, and the tables of all NPUs.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
from support import figures
from support.llm_experiments import experiment

IN_TESTS = 6
IN_NIGHTLY = 400

_RELATIVE = 1e-9
_COUNTED = ("operation", "kind", "group", "alike", "npus", "count")


def check(seed: int, folder: Path) -> list[str]:
    """Compare `detail=pass` with `detail=layer` on a random plan."""
    random = Random(seed)
    arguments = experiment(random, 16)
    explain = random.choice(("path", True)) if random.random() < 0.5 else False
    try:
        layer = _run(arguments, "layer", explain)
    except (astra_sim.InputError, astra_sim.DeadlockError):
        return []
    one = _run(arguments, "pass", explain)
    result = list(_differences(_counts(layer), _counts(one)))
    if _passes_are_alone(arguments, layer) and layer.finish_ns == one.finish_ns:
        result += _differences(_everything(layer), _everything(one))
    elif _passes_are_alone(arguments, layer):
        result.append(f"passes take {one.finish_ns} ns, layers {layer.finish_ns} ns")
    if one.explanation is not None and sum(row.ps for row in one.explanation.path) != one.explanation.finish_ps:
        result.append("the parts of the path do not add up to the run")
    return result


def _run(arguments: dict[str, Any], detail: str, explain: Any) -> Any:
    deepcopy = copy.deepcopy(arguments)
    deepcopy["workload"]["detail"] = detail
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return astra_sim.simulate(**deepcopy, explain=explain, npu_times=True)


def _passes_are_alone(arguments: dict[str, Any], layer: Any) -> bool:
    """Whether the exchanges of a pass meet no others: nothing runs on after a pass, those of several parallelisms do not run at the same
    time through the same queues, no links are shared, and no NPU is out of step.
    """
    overlap = arguments["workload"].get("overlap", {})
    several = overlap.get("ep") and overlap.get("tp", "none") != "none"
    return not overlap.get("dp") and not several and "congestion" not in arguments["network"] and layer.simulated_npus < layer.npus


def _counts(result: Any) -> dict[str, Any]:
    """What a result says that no time changes."""
    tables = result.npu_tables()
    return {
        "messages": result.messages,
        "payload": result.network["payload_bytes_per_dimension"],
        "dimensions": [(each.topology, each.size, each.bytes) for each in result.dimensions],
        "algorithms": sorted({(each.dimension, each.collective, each.algorithm) for each in result.algorithms}),
        "operations": sorted(tuple(row[name] for name in _COUNTED) for row in tables["operations"] if row["kind"] != "wait"),
        "groups": sorted((row["group"], row["count"], row["bytes"]) for row in tables.get("groups", [])),
    }


def _everything(result: Any) -> dict[str, Any]:
    """Everything that a result says of the simulated system. Rows are sorted: those of one length have no order."""
    results = figures(result)
    del results["algorithms"]  # those of a pass have the bytes of another collective, the first of the pass
    results |= result.npu_tables()
    return {name: _sorted(value) for name, value in results.items()}


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=repr)
    return {key: _sorted(each) for key, each in value.items()} if isinstance(value, dict) else value


def _differences(layer: Any, one: Any, where: str = "") -> Iterator[str]:
    """Where two values differ by more than rounding."""
    if isinstance(layer, dict) and isinstance(one, dict):
        for key in dict.fromkeys([*layer, *one]):
            yield from _differences(layer.get(key), one.get(key), f"{where}{'.' if where else ''}{key}")
    elif isinstance(layer, (list, tuple)) and isinstance(one, (list, tuple)) and len(layer) == len(one):
        for number, (first, second) in enumerate(zip(layer, one, strict=True)):
            yield from _differences(first, second, f"{where}[{number}]")
    elif isinstance(layer, float | int) and isinstance(one, float | int):
        if not math.isclose(layer, one, rel_tol=_RELATIVE, abs_tol=1e-15):
            yield f"{where}: {layer!r} of layers, {one!r} of passes"
    elif layer != one:
        yield f"{where}: {layer!r} of layers, {one!r} of passes"
