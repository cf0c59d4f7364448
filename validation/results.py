"""All parts of the validation, as what goes into `results.json`."""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from validation import collectives, kernels, unit
from validation.iterations import CORE8, FIT, HELD_OUT, NONE, RELEASES, STACKS, Line, configuration, lines
from validation.runs import Numbers, Runs, numbers
from validation.stack_fits import Point, fit, points

FILE = Path(__file__).parent / "results.json"
Results = dict[str, Any]

TRANSFERS = (
    ("llm-foundry-a100-80", "megatron-2021", ""),
    ("llm-foundry-a100-80", "llm-foundry-a100-40", ""),
    ("llm-foundry-a100-80", "internevo", ""),
    ("llm-foundry-a100-80", "fms-fsdp", "A100"),
    ("megatron-2021", CORE8, ""),
    ("megatron-2021", "mt-nlg", ""),
    ("megatron-2021", "bloom", ""),
    ("llm-foundry-h100", "fms-fsdp", "H100"),
    ("nemo-h100", "bridge-h100", ""),
    ("bridge-h100", "nemo-h100", ""),
    ("nemo-h100", "mlperf-h100", ""),
    ("bridge-h100", "nemo-25.02", "H100"),
    ("bridge-gb200", "nemo-25.02", "GB200"),
    ("bridge-h100", "xla", "H100"),
    ("bridge-gb300", "bridge-gb200", ""),
    ("bridge-gb200", "bridge-gb300", ""),
    *((f"bridge-moe-{old}", f"bridge-moe-{new}", "") for old, new in (("26.02", "26.04"), ("26.04", "26.06"), ("26.06", "26.08"))),
    *((f"bridge-moe-{release}", f"gpt-oss-{release}", "") for release in RELEASES),
)
"""From which stack to which a profile is taken; of the lines of these GPUs alone where a part of the name is given."""

SCALINGS = (
    ("MLPerf GPT-3 175B, H100 (profile nemo-h100)", "nemo-h100", 897, 895),
    ("MLPerf GPT-3 175B, H100 (profile nemo-h100)", "nemo-h100", 897, 894),
    ("llm-foundry MPT-70B, H100", "llm-foundry-h100", 360, 358),
    ("InternEvo 7B, A100, zero 1 over all", "internevo", 700, 706),
    ("InternEvo 7B, A100, zero 1 over 8", "internevo", 708, 714),
    ("Nemotron-4 15B, NeMo 25.02, H100 (profile bridge-h100)", "bridge-h100", 20034, 20041),
    ("Llama 3.1 70B, NeMo 25.02, H100 (profile bridge-h100)", "bridge-h100", 20010, 20015),
    ("GPT-3 175B, NeMo 25.02, H100 (profile bridge-h100)", "bridge-h100", 20058, 20062),
    ("MT-NLG 530B, A100 (profile megatron-2021)", "megatron-2021", 917, 919),
)
"""Title, profile, and the lines of the smaller and of the larger machine."""


def whole(runs: Runs) -> Results:
    """All parts, profiles fitted anew."""
    result = lines()
    by_stack = {name: [line for line in result if line["stack"] == name] for name in STACKS}
    profiles = {
        name: fit(runs, [line for line in by_stack[name] if line["half"] == FIT], stack.numbers, stack.ridge)
        for name, stack in STACKS.items()
        if stack.numbers
    }
    return {
        "unit": _unit(),
        "kernels": [_kernels(row) for row in kernels.summary()],
        "collectives": [_collectives(each) for each in collectives.comparisons()],
        "core8": _core8(points(runs, by_stack[CORE8])),
        "stacks": {name: _stack(runs, name, by_stack[name], profile) for name, profile in profiles.items()},
        "transfer": [_transfer(runs, by_stack, profiles, *each) for each in TRANSFERS],
        "scaling": [_scaling(runs, {line["id"]: line for line in result}, profiles, *each) for each in SCALINGS],
    }


def short(runs: Runs, recorded: Results) -> Results:
    """The short part, in the form of results: closed forms, the eight, and all held-out lines, with the recorded profiles."""
    by_stack: dict[str, list[Line]] = {name: [] for name in (CORE8, *recorded["stacks"])}
    for line in lines():
        if line["stack"] in by_stack and line["half"] != FIT:
            by_stack[line["stack"]].append(line)
    stacks = {}
    for name, stack in recorded["stacks"].items():
        judged = points(runs, by_stack[name], numbers(stack["profile"]))
        stacks[name] = {"fitted": {HELD_OUT: summary(judged)}, "points": [_point(point) for point in judged]}
    return {"unit": _unit(), "core8": _core8(points(runs, by_stack[CORE8])), "stacks": stacks}


def short_part(results: Results) -> Results:
    """What `short` gives, of results of the whole."""
    stacks = {
        name: {
            "fitted": {HELD_OUT: stack["fitted"][HELD_OUT]},
            "points": [point for point in stack["points"] if point["half"] == HELD_OUT],
        }
        for name, stack in results["stacks"].items()
    }
    return {"unit": results["unit"], "core8": results["core8"], "stacks": stacks}


def _unit() -> list[Results]:
    checks = unit.checks()
    parts = ((part, [check for check in checks if check.part == part]) for part in unit.PARTS)
    return [
        {
            "part": part,
            "values": len(own),
            "hold": sum(check.holds for check in own),
            "worst": _rounded(max(abs(check.error) for check in own)),
            "do_not_hold": [{"name": check.name, "error": _rounded(check.error)} for check in own if not check.holds],
        }
        for part, own in parts
    ]


def _kernels(row: kernels.Row) -> Results:
    parts = {"fitted": row.fitted, "held_out": row.held_out, "held_out_large": row.held_out_large}
    return {"table": row.table.title, **{name: _mean(part) for name, part in parts.items()}}


def _collectives(each: collectives.Comparison) -> Results:
    parts = {"fitted": each.fitted, "held_out": each.held_out, "held_out_large": each.held_out_large}
    named = {"device": each.device, "collective": each.operation.value, "ranks": each.ranks}
    return {**named, **{name: _mean(part) for name, part in parts.items()}}


def _mean(error: Any) -> Results | None:
    return {"rows": error.rows, "mean": _rounded(error.mean)} if error.rows else None


def _core8(found: Sequence[Point]) -> Results:
    return {**summary(found), "points": [_point(point) for point in found]}


def _stack(runs: Runs, name: str, own: Sequence[Line], profile: Numbers) -> Results:
    plain, fitted = points(runs, own), points(runs, own, profile)
    of_half = functools.partial(_of_half, own)
    return {
        "title": STACKS[name].title,
        "goal": STACKS[name].goal,
        "profile": dict(profile),
        "not_fitted": {half: summary(of_half(plain, half)) for half in (FIT, HELD_OUT)},
        "fitted": {half: summary(of_half(fitted, half)) for half in (FIT, HELD_OUT)},
        "points": [_point(point) for point in fitted],
    }


def _of_half(own: Sequence[Line], found: Sequence[Point], half: str) -> list[Point]:
    return [point for point, line in zip(found, own, strict=True) if line["half"] == half]


def _transfer(
    runs: Runs, by_stack: Mapping[str, Sequence[Line]], profiles: Mapping[str, Numbers], source: str, target: str, gpu: str
) -> Results:  # fmt: skip
    own = [line for line in by_stack[target] if gpu in line["gpu"]]
    return {
        "from": source,
        "to": f"{target} ({gpu})" if gpu else target,
        "not_fitted": summary(points(runs, own)),
        "transferred": summary(points(runs, own, profiles[source])),
    }


def _scaling(
    runs: Runs, by_id: Mapping[int, Line], profiles: Mapping[str, Numbers], title: str, profile: str, small: int, large: int
) -> Results:  # fmt: skip
    pair = [by_id[small], by_id[large]]
    times = [point.simulated_s for point in points(runs, pair, profiles[profile])]
    measured = _efficiency(pair, [float(line["iteration_s"]) for line in pair])
    simulated = _efficiency(pair, times)
    return {
        "title": title,
        "gpus": [line["gpus"] for line in pair],
        "halves": [line["half"] for line in pair if line["half"] != NONE],
        "measured": _rounded(measured),
        "simulated": _rounded(simulated),
        "error": _rounded(simulated / measured - 1),
    }


def _efficiency(pair: Sequence[Line], times: Sequence[float]) -> float:
    """What a GPU of the larger machine does in a second, over what one of the smaller does."""
    small, large = (line["batch"]["global_"] / time / line["gpus"] for line, time in zip(pair, times, strict=True))
    return float(large / small)


def summary(found: Sequence[Point]) -> Results:
    """Lines, configurations, and mean, 90th percentile, greatest and signed mean of the errors."""
    errors = [point.error for point in found]
    sizes = sorted(map(abs, errors))
    return {
        "lines": len(errors),
        "configurations": len({configuration(point.line) for point in found}),
        "mean": _rounded(statistics.fmean(sizes)),
        "p90": _rounded(sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]),
        "max": _rounded(sizes[-1]),
        "bias": _rounded(statistics.fmean(errors)),
    }


def _point(point: Point) -> Results:
    line = point.line
    return {
        "id": line["id"],
        "half": line["half"],
        "name": point_name(line),
        "measured_s": line["iteration_s"],
        "simulated_s": _rounded(point.simulated_s),
        "error": _rounded(point.error),
    }


def point_name(line: Line) -> str:
    """Model and GPUs of a line; of the eight also what is recomputed."""
    recompute = {"full": ", full recomputation", "selective": ", sequence parallel, selective"}
    beside = recompute.get(line.get("recompute") or "", "") if line["stack"] == CORE8 else ""
    return f"{line['model']['name']}, {line['gpus']} {line['gpu'].partition('-')[0]}{beside}"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def read() -> Results:
    """The recorded results."""
    results: Results = json.loads(FILE.read_text(encoding="utf-8"))
    return results


def write(results: Results) -> None:
    """Record results."""
    FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def differences(recorded: Any, found: Any, where: str = "", tolerance: float = 0.002) -> list[str]:
    """Where results differ by more than rounding on other machines."""
    if isinstance(recorded, dict) and isinstance(found, dict) and recorded.keys() == found.keys():
        return [text for key in recorded for text in differences(recorded[key], found[key], f"{where}.{key}", tolerance)]
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        pairs = enumerate(zip(recorded, found, strict=True))
        return [text for place, (old, new) in pairs for text in differences(old, new, f"{where}[{place}]", tolerance)]
    if isinstance(recorded, (int, float)) and isinstance(found, (int, float)):
        same = abs(recorded - found) <= tolerance * max(1.0, abs(recorded))
        return [] if same else [f"{where.lstrip('.')}: {recorded} is recorded, and {found} is found"]
    return [] if recorded == found else [f"{where.lstrip('.')}: {recorded!r} is recorded, and {found!r} is found"]
