"""Loss by scale: pairs of measured iterations that differ in the number of GPUs alone, and the simulated loss of each.

`PROCEDURE.md` says what a family is, what is fitted on which, and what is judged; SCALE.md has the figures.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from validation.iterations import FIT, HELD_OUT, SCATTER, STACKS, Experiment, Line, experiment, lines
from validation.runs import Numbers, Runs, numbers

PAGE = Path(__file__).parent / "SCALE.md"
Results = dict[str, Any]
LARGE = 1024
_SIGN = 0.005
_RELEASE = re.compile(r"NeMo [\w.]+")
_NEWEST = {"h100": "bridge-h100", "gb200": "bridge-gb200"}
"""Stacks of lines whose own is in no fit, by device: the newest."""


def family(line: Line) -> str:
    """What lines of a family have in common: all but the number of GPUs, replicas, and a batch that grows with them."""
    model, parallel, batch = line["model"], line["parallel"], line["batch"]
    groups = [parallel.get(name) or 1 for name in ("tp", "pp", "cp", "ep", "vp")]
    fsdp, group = parallel.get("fsdp"), parallel.get("zero1_group")
    sharding = [fsdp if isinstance(fsdp, str) else bool(fsdp and fsdp > 1), "all" if group in (-1, parallel.get("dp")) else group]
    release = _RELEASE.match(line.get("notes") or "")
    own = [model["name"], model["layers"], model["hidden"], model["seq"], line["gpu"], line["precision"], line.get("recompute")]
    return json.dumps(
        [
            line["stack"],
            line.get("release") or (release and release[0]),
            *own,
            line.get("mp_mode"),
            *groups,
            *sharding,
            batch["micro"],
            batch["global_"] / line["gpus"],
        ]
    )


def families(found: Iterable[Line]) -> dict[str, list[Line]]:
    """Lines by family, those of several numbers of GPUs, smallest first."""
    result: dict[str, list[Line]] = {}
    for line in found:
        result.setdefault(family(line), []).append(line)
    return {name: sorted(own, key=lambda line: line["gpus"]) for name, own in result.items() if len({line["gpus"] for line in own}) > 1}


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


def unfitted(of: Sequence[Pair]) -> list[Pair]:
    """Pairs of which no line was in the fit of a profile."""
    return [pair for pair in of if FIT not in (pair.first["half"], pair.second["half"])]


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
        sent = {name: simulated.workload.get(name) if broadcasts else None for name in ("update", "nics")}
        jobs.append((with_options(simulated, scatter=own, **sent), profile_of(line, results)))
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

    return min((step / 2000 for step in range(101)), key=lambda scatter: value(pairs(of, at(scatter))))


BEFORE, BROADCASTS, BOTH, FITTED = "neither", "broadcasts", "both, scatter as measured", "both, scatter as fitted"
ALL, UNFITTED = "all", "all, no line in the fit of a profile"
OTHERS = "held_out, others than InternEvo"


def summary(runs: Runs, results: Results) -> Results:
    """All figures of SCALE.md, with the profiles of results."""
    found = families(lines())
    half_of = halves(found)
    sides = {half: {name: own for name, own in found.items() if half_of[name] == half} for half in (FIT, HELD_OUT)}
    flat = [line for own in found.values() for line in own]
    before = times_s(runs, results, flat, None, broadcasts=False)
    none, both = times_s(runs, results, flat, None), times_s(runs, results, flat, SCATTER)
    fitted = fitted_scatter(sides[FIT], none, both)
    best = {line: none[line] + fitted / SCATTER * (both[line] - none[line]) for line in none}
    rows: list[Results] = []
    for model, times in ((BEFORE, before), (BROADCASTS, none), (BOTH, both), (FITTED, best)):
        whole = pairs(found, times)
        parts = {half: pairs(side, times) for half, side in sides.items()}
        parts[OTHERS] = [pair for pair in parts[HELD_OUT] if pair.first["stack"] != "internevo"]
        parts |= {ALL: whole, UNFITTED: unfitted(whole)}
        rows += ({"model": model, "pairs_of": of, **figures(own)} for of, own in parts.items())
    listed = [_family(name, own, half_of[name], before, both) for name, own in found.items()]
    return {"fitted": fitted, "rows": rows, "families": listed}


def _family(name: str, own: Sequence[Line], half: str, before: Mapping[int, float], after: Mapping[int, float]) -> Results:
    """The loss of a family from its smallest number of GPUs to its largest; lines that are repeated count as their mean."""
    ends = [[line for line in own if line["gpus"] == gpus] for gpus in (own[0]["gpus"], own[-1]["gpus"])]

    def loss(seconds: Callable[[Line], float]) -> float:
        first, last = (sum(map(seconds, end)) / len(end) for end in ends)
        return round(last / first - 1, 4)

    first, parallel = own[0], own[0]["parallel"]
    sizes = ", ".join(f"{axis} {parallel[axis]}" for axis in ("tp", "pp", "cp") if (parallel.get(axis) or 1) > 1)
    kind = ", ".join(filter(None, (first["precision"], sizes)))
    return {
        "stack": first["stack"],
        "title": f"{first['model']['name']}, {first['gpu'].split('-')[0]}, {kind}",
        "half": half,
        "gpus": [own[0]["gpus"], own[-1]["gpus"]],
        "measured": loss(lambda line: float(line["iteration_s"])),
        "before": loss(lambda line: before[line["id"]]),
        "after": loss(lambda line: after[line["id"]]),
    }


def page(results: Results) -> str:
    """SCALE.md."""
    scale = results["scale"]
    text = f"""# Loss by scale

Weak scaling: pairs of measured iterations that differ in the number of GPUs and the batch alone. How pairs are made and
split, and what is fitted, was [written first](PROCEDURE.md#loss-by-scale-and-changes-before-the-fourteenth-whole-run).
Slope: simulated by measured losses, least squares through no loss. Signs: where a measured loss is above 0.5 %. Errors
are differences of logarithms of losses; `large`: of pairs whose larger machine has 1024 GPUs or more.

{_table(_COLUMNS, map(_row, scale["rows"]))}
Fitted on families of the half `fit` the scatter is {scale["fitted"]:.4f}; stacks have 0.006, which was measured on other jobs
([stragglers](STRAGGLERS.md)): nothing was fitted on losses. The goal, a slope of 0.7 to 1.3 on held-out families, is
met by InternEvo's broadcasts, whose losses are the largest; of the others a half of the loss is still missing.

{_CAUSES}
| family | half | GPUs | measured | before | now |
|---|---|---|---|---|---|
"""
    listed = sorted(scale["families"], key=lambda each: (list(STACKS).index(each["stack"]), each["title"], each["gpus"]))
    for each in listed:
        gpus = f"{each['gpus'][0]:,} to {each['gpus'][1]:,}"
        shares = " | ".join(f"{each[name]:+.1%}".replace("%", " %") for name in ("measured", "before", "after"))
        text += f"| `{each['stack']}`: {each['title']} | {each['half']} | {gpus} | {shares} |\n"
    return text


_COLUMNS = ("modelled", "pairs of", "pairs", "slope", "signs", "mean loss: measured", "simulated", "error", "large (pairs)")


def _row(each: Results) -> tuple[str, ...]:
    def percent(name: str) -> str:
        return f"{each[name]:.2%}".replace("%", " %")

    signs, large = f"{each['signs']} of {each['clear']}", f"{percent('large_error')} ({each['large']})"
    return (
        *(each["model"], each["pairs_of"], str(each["pairs"]), f"{each['slope']:.2f}", signs),
        *(percent("measured"), percent("simulated"), percent("error"), large),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


_CAUSES = """## Causes

Candidates were compared before the procedure was written, on the 121 pairs of all stacks but InternEvo and without one
outlier (MPT-1B on 32 A100, which takes longer than on 64). Each has one number, fitted with one family left out at a
time, which is then judged (slope 0.34 and error 1.14 % without any):

| loss grows as | number, over families left out | slope | error |
|---|---|---|---|
| iteration x expected maximum over nodes: steps of nodes scatter | 0.8 to 1.1 % | 0.54 | 1.04 % |
| the same, if passes scatter independently of each other | 3.2 to 3.7 % of a pass | 0.74 | 0.88 % |
| iteration x nodes | 3.6 to 10 % for 1000 nodes | 0.48 | 1.13 % |
| a time for each doubling of nodes | 9.9 to 12 ms | 0.73 | 0.90 % |
| a time for each node | 0.35 to 0.51 ms | 0.70 | 0.92 % |
| a time for each replica, as rings of gradients have | 0.09 to 0.14 ms | 0.79 | 0.93 % |

Losses do not decide between them, so what was measured elsewhere does: the steps of ranks scatter by 0.6 %, and their
passes not independently ([stragglers](STRAGGLERS.md)). Independent passes were run first: they spoil absolute errors of
large machines ([log](LOG.md)). Sizes of buckets (40 million parameters, or a million for each replica) and latencies of
rings were modelled before; on Nemotron-4 15B they expose 29 ms more on 2,048 GPUs than on 16, of 120 ms that are lost.

InternEvo broadcasts parameters rank by rank. Until the sixteenth run a broadcast was as long as a gather of its bytes, 0.6
to 1.3 ms on 256 and 512 GPUs where 2 to 4 are lost; that it reaches one node after the other, in whole steps of all
channels of NCCL, is the difference ([procedure](PROCEDURE.md#changes-before-the-sixteenth-whole-run)): it takes 0.1 ms
a node there. With pairs of tensor ranks, whose two groups share NICs, this is too much.

Still missing: GPT-3 175B loses 1.2 % from 128 to 256 GPUs alone; MPT-70B of llm-foundry 5.1 and MPT-3B 8.1 % from 128
to 512. Llama 3.1 70B in bf16 loses nothing up to 2,048 GPUs, so a part of the losses belongs to a machine or a day,
not to the size.

## Families
"""


def write(results: Results) -> None:
    """Write SCALE.md."""
    PAGE.write_text(page(results), encoding="utf-8")
