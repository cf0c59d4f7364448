"""Results that are not of one run, as JSON: of `astra goodput`, `jobs`, `sample` and `serve`, as tables for pages and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim.errors import InputError
from astra_sim.files import parse_json, read_text

from astra_sim_report.figures import in_unit

SHARES = {
    "useful": "useful work",
    "checkpoint": "writing checkpoints",
    "lost": "repeated work",
    "detect": "noticing interruptions",
    "replace": "replacing nodes",
    "load": "loading checkpoints",
    "waiting": "waiting for nodes",
    "degraded": "lower speed",
}
"""The parts of the time of a job in months of training, by their keys."""


@attrs.frozen
class OutcomeTable:
    """A table of texts with its title; the first column has names, the others are numbers."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@attrs.frozen
class Outcome:
    """A result by its name: `kind` is the command that wrote it; `shares` divide a time, `whole`, by causes, if it has them."""

    name: str
    kind: str
    tables: Sequence[OutcomeTable]
    shares: Mapping[str, float] = attrs.field(factory=dict)
    whole: str = "time"


def is_outcome(path: str) -> bool:
    """Whether a file is such a result, by the keys of its JSON."""
    return path.endswith(".json") and Path(path).is_file() and _kind(_document(path)) is not None


def read_outcome(path: str) -> Outcome:
    """The result in a file. Raises InputError if it is none of these."""
    document = _document(path)
    kind = _kind(document)
    if kind is None:
        raise InputError(f"{path}: expected what astra goodput, jobs, sample or serve print with --json")
    try:
        return _READERS[kind](document, Path(path).stem)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: no result of astra {kind}: {error!r}") from None


def _document(path: str) -> Any:
    return parse_json(read_text(path), path)


def _kind(document: Any) -> str | None:
    if not isinstance(document, Mapping) or ("finish_ns" in document and "npus" in document):
        return None
    for kind, keys in _KEYS.items():
        if all(key in document for key in keys):
            return kind
    return None


_KEYS = {
    "goodput": ("goodput", "shares", "mtti_h"),
    "jobs": ("jobs", "messages_wait"),
    "sample": ("seeds", "T_ideal"),
    "serve": ("requests", "ttft_s", "tpot_s"),
}
"""Keys that only the result of a command has."""


def _goodput(document: Mapping[str, Any], name: str) -> Outcome:
    """What months of training cost, and what of it is lost to what."""
    days, shares = document["days"], document["shares"]
    figures = [
        ("goodput", f"{100 * document['goodput']:.2f} %"),
        ("effective training time", f"{100 * document['ettr']:.2f} %"),
        ("time", f"{days:,.2f} days"),
        ("GPUs", f"{document['gpus']:,}"),
        ("interruptions", f"{document['failures']['mean']:,.1f}"),
        ("mean time between", "-" if document["mtti_h"] is None else f"{document['mtti_h']:.3f} h"),
        ("work between checkpoints", "-" if document["interval_s"] is None else f"{document['interval_s']:,.1f} s"),
    ]
    if document.get("mfu") is not None:
        figures.insert(2, ("model FLOPs utilisation", f"{100 * document['mfu']:.2f} %"))
    cost = document.get("cost") or {}
    figures += [(label, f"{cost[key]:,.0f} USD") for key, label in (("usd", "cost"), ("usd_lost", "of which lost")) if key in cost]
    usd = cost.get("usd")
    parts = [
        (SHARES.get(key, key), f"{100 * share:.2f} %", f"{share * days:,.2f}", *(() if usd is None else (f"{share * usd:,.0f}",)))
        for key, share in shares.items()
        if share
    ]
    tables = [
        OutcomeTable("Months of training", ("", ""), figures),
        OutcomeTable("Where the time goes", ("", "share", "days", *(() if usd is None else ("USD",))), parts),
    ]
    failures = document["failures"]
    components = sorted(failures["by_component"].items(), key=lambda each: -each[1])
    causes = [(each, f"{mean:,.1f}", f"{failures['lost_days'][each]:,.2f}") for each, mean in components]
    tables.append(OutcomeTable("Interruptions", ("component", "mean", "lost days"), causes))
    faults = [(each["name"], f"{each['mean_present']:.3f}", f"{100 * each['lost']:.3f} %") for each in document.get("faults", ())]
    if faults:
        tables.append(OutcomeTable("Faults that slow the job", ("", "present on average", "lost speed"), faults))
    return Outcome(str(document.get("name", name)), "goodput", tables, {SHARES.get(key, key): share for key, share in shares.items()})


def _jobs(document: Mapping[str, Any], name: str) -> Outcome:
    """Jobs on one platform, or the schedule of a cluster."""
    rows = []
    for job in document["jobs"]:
        slowdown = job.get("slowdown")
        rows.append((job["name"], f"{job['npus']:,}", in_unit(job["duration_ns"]), "-" if slowdown is None else f"{slowdown:.4f}"))
    tables = [OutcomeTable("Jobs", ("", "NPUs", "duration", "slowdown"), rows)]
    fairness = document.get("fairness")
    if fairness:
        figures = [("fairness (Jain)", f"{fairness['jain']:.4f}"), ("worst slowdown", f"{fairness['worst_slowdown']:.4f}")]
        tables.append(OutcomeTable("Fairness", ("", ""), figures))
    if document.get("wait_ns"):
        names = [job["name"] for job in document["jobs"]]
        waits = [(own, *map(in_unit, row)) for own, row in zip(names, document["wait_ns"], strict=True)]
        tables.append(OutcomeTable("Waits for links while they send messages of each job", ("", *names), waits))
    return Outcome(str(document.get("run_name", name)), "jobs", tables)


def _sample(document: Mapping[str, Any], name: str) -> Outcome:
    """A run that varies, over seeds."""
    low, high = document["interval95"]
    figures = [
        ("seeds", f"{len(document['seeds']):,}"),
        ("mean", in_unit(document["mean"])),
        ("95 % interval", f"{in_unit(low)} to {in_unit(high)}"),
        ("deviation of runs", in_unit(document["sd"])),
        ("without variation", in_unit(document["T_ideal"])),
        ("slowdown", f"{document['slowdown']:.4f}"),
    ]
    blame = [(f"entry {each['compute']} (ranks {each['ranks']})", in_unit(each["costs"])) for each in document["blame"]]
    tables = [OutcomeTable("Spread of the time", ("", ""), figures)]
    return Outcome(name, "sample", [*tables, OutcomeTable("Cost of each variation", ("", "costs"), blame)] if blame else tables)


_LATENCIES = {"ttft_s": "time to the first token", "tpot_s": "time for each further token", "itl_s": "between tokens"}
_LATENCIES |= {"e2e_s": "until the last token", "queue_s": "in the queue"}
_COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
_APART = ("requests", "count", "mean_s")


def _serve(document: Mapping[str, Any], name: str) -> Outcome:
    """Served requests: latencies, throughput, and the causes of latencies."""
    requests, throughput, kv, goodput = (document[key] for key in ("requests", "throughput", "kv", "goodput"))
    figures = [
        ("requests", f"{requests['arrived']:,}, of which {requests['finished']:,} finished and {requests['shed']:,} were shed"),
        ("preemptions", f"{requests['preemptions']:,}"),
        ("makespan", f"{document['makespan_s']:,.3f} s"),
        ("throughput", f"{throughput['requests_s']:,.3f} requests/s, {throughput['output_tokens_s']:,.1f} tokens/s"),
        ("tokens of an NPU", f"{throughput['output_tokens_s_per_npu']:,.1f} /s"),
        ("cache in use", f"{100 * kv['mean_use']:.2f} % on average, {100 * kv['peak_use']:.2f} % at most"),
    ]
    if goodput:
        slo = ", ".join(f"{key} {value:g}" for key, value in goodput["slo"].items() if isinstance(value, (int, float)))
        figures.insert(3, ("within the SLO", f"{100 * goodput['fraction']:.2f} % ({slo}), {goodput['requests_s']:,.3f} requests/s"))
    latencies = [
        (label, *(in_unit(1e9 * document[key][column]) for column in _COLUMNS)) for key, label in _LATENCIES.items() if document.get(key)
    ]
    tables = [OutcomeTable("Served requests", ("", ""), figures), OutcomeTable("Latencies", ("", *_COLUMNS), latencies)]
    tables += [
        _causes(label, document["explanation"][key]) for key, label in (("ttft", _LATENCIES["ttft_s"]), ("tpot", _LATENCIES["tpot_s"]))
    ]
    parts = {key: float(seconds) for key, seconds in document["time"].items() if seconds}
    whole = sum(parts.values())
    shares = {part: seconds / whole for part, seconds in parts.items()} if whole else {}
    return Outcome(str(document.get("name", name)), "serve", tables, shares, "time of the instances")


def _causes(label: str, rows: Sequence[Mapping[str, Any]]) -> OutcomeTable:
    """The causes of a latency, by percentiles of the requests."""
    causes = [key for key in (rows[0] if rows else ()) if key not in _APART and any(row[key] for row in rows)]
    cells = [(str(row["requests"]), f"{row['count']:,}", *(in_unit(1e9 * row[key]) for key in ("mean_s", *causes))) for row in rows]
    return OutcomeTable(f"Causes of the {label}", ("", "requests", "mean", *causes), cells)


_READERS: Mapping[str, Callable[[Mapping[str, Any], str], Outcome]] = {
    "goodput": _goodput,
    "jobs": _jobs,
    "sample": _sample,
    "serve": _serve,
}
