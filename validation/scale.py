"""Loss by scale: pairs of measured iterations that differ in the number of GPUs alone, and the simulated loss of each.

    python -m validation.scale          write SCALE.md from the recorded profiles; the half of each family follows from its name

`PROCEDURE.md` says what a family is, what is fitted on which, and what is judged.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from validation.iterations import FIT, HELD_OUT, SCATTER, Experiment, Line, experiment, lines
from validation.results import Results, point_name
from validation.runs import Numbers, Runs, numbers

PAGE = Path(__file__).parent / "SCALE.md"
LARGE = 1024
_MEASURED = 0.025
_SIGN = 0.005
_NEWEST = {"h100": "bridge-h100", "gb200": "bridge-gb200"}
"""Stacks of lines whose own is in no fit, by device: the newest."""


def family(line: Line) -> str:
    """What lines of a family have in common: all but the number of GPUs, replicas, and a batch that grows with them."""
    model, parallel, batch = line["model"], line["parallel"], line["batch"]
    groups = [parallel.get(name) or 1 for name in ("tp", "pp", "cp", "ep", "vp")]
    fsdp, group = parallel.get("fsdp"), parallel.get("zero1_group")
    sharding = [fsdp if isinstance(fsdp, str) else bool(fsdp and fsdp > 1), "all" if group in (-1, parallel.get("dp")) else group]
    own = [model["name"], model["layers"], model["hidden"], model["seq"], line["gpu"], line["precision"], line.get("recompute")]
    return json.dumps(
        [line["stack"], line.get("release"), *own, line.get("mp_mode"), *groups, *sharding, batch["micro"], batch["global_"] / line["gpus"]]
    )


def families(found: Iterable[Line]) -> dict[str, list[Line]]:
    """Lines by family, those of several numbers of GPUs, smallest first."""
    result: dict[str, list[Line]] = {}
    for line in found:
        result.setdefault(family(line), []).append(line)
    return {
        name: sorted(own, key=lambda line: line["gpus"]) for name, own in result.items() if len({line["gpus"] for line in own}) > 1
    }


def halves(names: Iterable[str]) -> dict[str, str]:
    """The half of each family: by the SHA-256 of its name, to fit and held_out in turn, fit first."""
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return {name: (FIT, HELD_OUT)[place % 2] for place, name in enumerate(ordered)}


@attrs.frozen
class Pair:
    """Two lines of a family: logarithms of the ratio of their times, measured and simulated, and the error of the larger one."""

    family: str
    first: Line
    second: Line
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """The difference of the logarithms."""
        return self.simulated - self.measured


def profile_of(line: Line, results: Results) -> Numbers:
    """The profile of a line's stack, or if it is in no fit of the newest of the device."""
    stacks = results["stacks"]
    name = line["stack"] if line["stack"] in stacks else _NEWEST.get(experiment(line).device)
    return numbers(stacks[name]["profile"]) if name in stacks else ()


def with_options(simulated: Experiment, **options: Any) -> Experiment:
    """An experiment with other options of its workload; those that are None are left out."""
    workload = {name: value for name, value in {**simulated.workload, **options}.items() if value is not None}
    return attrs.evolve(simulated, workload=workload)


def times_s(runs: Runs, results: Results, found: Sequence[Line], scatter: float | None, broadcasts: bool = True) -> dict[int, float]:
    """The simulated seconds of lines by number, with a scatter of passes."""
    jobs = []
    for line in found:
        simulated = experiment(line)
        own = scatter if "scatter" in simulated.workload else None
        update = simulated.workload.get("update") if broadcasts else None
        jobs.append((with_options(simulated, scatter=own, update=update), profile_of(line, results)))
    return dict(zip((line["id"] for line in found), runs.iterations_s(jobs), strict=True))


def pairs(of: Mapping[str, Sequence[Line]], simulated: Mapping[int, float]) -> list[Pair]:
    """All pairs of lines of different numbers of GPUs."""
    return [
        Pair(
            name,
            first,
            second,
            math.log(second["iteration_s"] / first["iteration_s"]),
            math.log(simulated[second["id"]] / simulated[first["id"]]),
        )
        for name, own in of.items()
        for first, second in itertools.combinations(own, 2)
        if first["gpus"] < second["gpus"]
    ]


def value(of: Sequence[Pair]) -> float:
    """What a fit minimises: the mean over families of the mean error of their pairs."""
    by_family: dict[str, list[float]] = {}
    for pair in of:
        by_family.setdefault(pair.family, []).append(abs(pair.error))
    return sum(sum(errors) / len(errors) for errors in by_family.values()) / len(by_family)


def figures(of: Sequence[Pair]) -> dict[str, float]:
    """The slope of simulated by measured losses (least squares through no loss), signs, and mean errors."""
    squares = sum(pair.measured**2 for pair in of)
    clear = [pair for pair in of if abs(pair.measured) > _SIGN]
    large = [abs(pair.error) for pair in of if pair.second["gpus"] >= LARGE]
    return {
        "pairs": len(of),
        "families": len({pair.family for pair in of}),
        "slope": round(sum(pair.measured * pair.simulated for pair in of) / squares, 2),
        "clear": len(clear),
        "signs": sum(pair.measured * pair.simulated > 0 for pair in clear),
        "measured": round(sum(pair.measured for pair in of) / len(of), 4),
        "simulated": round(sum(pair.simulated for pair in of) / len(of), 4),
        "error": round(sum(abs(pair.error) for pair in of) / len(of), 4),
        "large": len(large),
        "large_error": round(sum(large) / len(large), 4) if large else 0.0,
    }


def fitted_scatter(of: Mapping[str, Sequence[Line]], none: Mapping[int, float], some: Mapping[int, float]) -> float:
    """The scatter that is best on families, given their times with none and with `SCATTER`, between which they are linear."""

    def at(scatter: float) -> dict[int, float]:
        share = scatter / SCATTER
        return {line: none[line] + share * (some[line] - none[line]) for line in none}

    return min((step / 1000 for step in range(101)), key=lambda scatter: value(pairs(of, at(scatter))))
