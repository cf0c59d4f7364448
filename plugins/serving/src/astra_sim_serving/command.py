"""The command `astra serve`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from astra_sim import InputError
from astra_sim.commands import Column, Progress, Screen, Table, json_option, quiet_option, say_json, write_then_show
from astra_sim.options import Typed

from astra_sim_serving.comparison import compare
from astra_sim_serving.experiment import ServingExperiment, read_experiment
from astra_sim_serving.pool_search import DOES_NOT_FIT, PoolChoice, PoolSearch
from astra_sim_serving.result import ServingResult, csv_of, flat
from astra_sim_serving.serving import serve
from astra_sim_serving.sweep import ServingRow, SweptRuns
from astra_sim_serving.timeline import ServingTimeline, timeline_for

_LATENCIES = (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("ITL", "itl_s"), ("E2E", "e2e_s"), ("queue", "queue_s"))
_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")


@click.command(short_help="Simulate a server of a language model, request by request.")
@click.argument("experiment", type=click.Path())
@click.option("--set", "assignments", metavar="SECTION.KEY=VALUE", multiple=True, help="Change one option. Repeatable.")
@click.option("--requests", metavar="FILE", type=click.Path(), help="A trace of requests, whose format is recognised by its content.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write the result; of several runs *.csv is a table.")
@click.option("--per-request", metavar="FILE.csv", type=click.Path(), help="Write a row for each request.")
@click.option(
    "--timeline", metavar="FILE", type=click.Path(), help="Write the work of instances over time: a table, or *.json for Perfetto."
)
@click.option("--exact", is_flag=True, help="Simulate every iteration by itself, also if nothing changes between them.")
@click.option("--sweep", "axes", metavar="KEY=A,B,...", multiple=True, help="Run each value, and report the highest that meets the SLO.")
@click.option(
    "--search-pools", "npus", metavar="NPUS", type=click.IntRange(1, 4096), help="Find pools of instances that serve most within the SLO."
)
@click.option(
    "--usd-per-hour",
    metavar="USD",
    type=click.FloatRange(0, min_open=True),
    help="Budget of --search-pools, by prices of NPUs (serving.gpu_hour_usd).",
)
@click.option("--compare", "measured", metavar="FILE.jsonl", type=click.Path(), help="Serve measured requests, and print errors.")
@json_option
@quiet_option
def serve_command(
    experiment: str,
    assignments: tuple[str, ...],
    requests: str | None,
    output: str | None,
    per_request: str | None,
    timeline: str | None,
    exact: bool,
    axes: tuple[str, ...],
    npus: int | None,
    usd_per_hour: float | None,
    measured: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Simulate a server of a language model, request by request: latencies, throughput, and their causes.

    \b
    astra serve llama3_70b_h100.toml
    astra serve llama3_70b_h100.toml --set serving.requests.rate=8 --per-request requests.csv
    astra serve llama3_70b_h100.toml --sweep serving.requests.rate=2,4,8,16
    astra serve llama3_70b_h100.toml --search-pools 8
    astra serve measured.toml --compare requests.jsonl
    """
    values: dict[str, Any] = dict(map(_assigned, assignments))
    if requests is not None:
        values["serving.requests.trace"] = requests
    if exact:
        values["serving.jumps"] = False
    case = read_experiment(experiment).with_values(values)
    several = _kind_of_runs(axes, npus, measured)
    for name, value in (("--per-request", per_request), ("--timeline", timeline)):
        if several not in (None, "--compare") and value is not None:
            raise InputError(f"{name} has no effect with {several}")
    if usd_per_hour is not None and npus is None:
        raise InputError("--usd-per-hour has no effect without --search-pools")
    if several in (None, "--compare") and output is not None and output.endswith(".csv"):
        raise InputError(
            f"--output is {output}; expected FILE.json, since a table is for --sweep and --search-pools"
            " (--per-request writes one of requests)"
        )
    if axes:
        _sweep(case, axes, output, as_json, quiet)
    elif npus is not None:
        _search(case, npus, usd_per_hour, output, as_json, quiet)
    elif measured is not None:
        if requests is not None:
            raise InputError("--requests has no effect with --compare, which serves the measured requests")
        _compare(case, measured, output, per_request, timeline, as_json, quiet)
    else:
        result, writer = _run(case, timeline, quiet)
        document = result.document()
        _finish(document, result, writer, (output, per_request, timeline), as_json, quiet, lambda: _print(document))


def _kind_of_runs(axes: Sequence[str], npus: int | None, measured: str | None) -> str | None:
    """Which option asks for something else than one run; None: none does. Raises InputError if several do."""
    wanted = [name for name, value in (("--sweep", axes or None), ("--search-pools", npus), ("--compare", measured)) if value is not None]
    if len(wanted) > 1:
        raise InputError(f"{' and '.join(wanted)} are given; expected one of them")
    return wanted[0] if wanted else None


def _assigned(assignment: str) -> tuple[str, Any]:
    key, equals, value = assignment.partition("=")
    if not equals or "." not in key:
        raise InputError(f"--set {assignment}: expected section.key=value, such as serving.requests.rate=8")
    return key.strip(), Typed(value.strip())


def _run(case: ServingExperiment, timeline: str | None, quiet: bool) -> tuple[ServingResult, ServingTimeline | None]:
    writer = timeline_for(timeline) if timeline is not None else None
    with Progress(enabled=not quiet, unit="s") as progress:
        result = serve(case, on_progress=progress.reached, timeline=writer)
    return result, writer


def _finish(
    document: Mapping[str, Any],
    result: ServingResult,
    writer: ServingTimeline | None,
    paths: tuple[str | None, str | None, str | None],
    as_json: bool,
    quiet: bool,
    show: Any,
) -> None:
    """Write files, then print."""
    output, per_request, timeline = paths

    def write() -> None:
        if output is not None:
            _write(output, json.dumps(document, indent=2, allow_nan=False) + "\n")
        if per_request is not None:
            _write(per_request, result.csv())
        if timeline is not None and writer is not None:
            _write(timeline, writer.text(result.sequences))

    def print_all() -> None:
        if as_json:
            say_json(document)
        elif not quiet:
            show()

    write_then_show(write, print_all)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


# -- Output ----------------------------------------------------------------------------------------------------------------------


def _print(document: Mapping[str, Any]) -> None:
    """Print the tables of a result."""
    screen = Screen(every=True)
    requests, throughput, kv = document["requests"], document["throughput"], document["kv"]
    shed = "".join(f", {count} shed ({why})" for why, count in requests["shed_reasons"].items())
    left = f", {requests['unfinished']} unfinished (stopped)" if requests["unfinished"] else ""
    screen.text(
        f"{requests['arrived']} requests in {document['makespan_s']:.4g} s: {requests['finished']} finished{shed}{left},"
        f" {requests['preemptions']} preemptions"
    )
    screen.text(
        f"{throughput['requests_s']:.4g} requests/s, {throughput['output_tokens_s']:.5g} tokens/s of answers"
        f" ({throughput['output_tokens_s_per_npu']:.4g} an NPU)"
    )
    if document["goodput"]["slo"]:
        slo = ", ".join(f"{key.removesuffix('_ms')} {value:g} ms" for key, value in document["goodput"]["slo"].items())
        screen.text(
            f"goodput {document['goodput']['requests_s']:.4g} requests/s ({_percent(document['goodput']['fraction'])} of them within {slo})"
        )
    _print_latencies(screen, document)
    _print_causes(screen, document)
    screen.text(
        f"KV cache: {kv['blocks']} blocks, {_percent(kv['mean_use'])} in use on average, {_percent(kv['peak_use'])} at most;"
        f" {_percent(kv['prefix_hit_fraction'])} of looked-up tokens were cached"
        + (f", {_percent(kv['tier_hit_fraction'])} in memories behind it" if kv["tier_hit_fraction"] else "")
    )
    if "cost" in document:
        cost = document["cost"]
        tokens, met = cost["usd_per_million_output_tokens"], cost["goodput_requests_per_usd"]
        per_token = "" if tokens is None else f", {tokens:.4g} USD for a million tokens of answers"
        within = f", {met:.4g} requests within the SLO for 1 USD" if document["goodput"]["slo"] and met is not None else ""
        screen.text(f"cost: {cost['usd']:.4g} USD, {cost['usd_per_hour']:.4g} USD/h{per_token}{within}")
    if "models" in document:
        _print_models(screen, document["models"])
    if "scaling" in document:
        scaling = document["scaling"]
        screen.text(f"autoscaling: {scaling['mean_npus']:.4g} NPUs on average, {scaling['starts']} starts, {scaling['stops']} stops")
    if "speculation" in document:
        drafts = document["speculation"]
        screen.text(f"drafts: {drafts['accepted']} of {drafts['drafted']} tokens were accepted ({_percent(drafts['acceptance'])})")
    if "lora" in document:
        screen.text(f"adapters: {document['lora']['requests']} requests had one, {document['lora']['loads']} loads from the host")
    pricing = document["pricing"]
    if pricing["tables"]:
        screen.text(
            f"times of kernels: {pricing['tables']} by tables, {pricing['formulas']} by formulas,"
            f" {pricing['extrapolated']} of them outside of their table"
        )


def _print_latencies(screen: Screen, document: Mapping[str, Any]) -> None:
    rows = [
        [name, *(f"{document[key][statistic] * 1e3:.5g}" for statistic in _STATISTICS)]
        for name, key in _LATENCIES
        if document[key] is not None
    ]
    if rows:
        columns = [Column("latency (ms)", "name"), *(Column(name) for name in _STATISTICS)]
        screen.table(Table(columns, rows, ""))


def _print_causes(screen: Screen, document: Mapping[str, Any]) -> None:
    """The causes of TTFT and TPOT for groups of requests."""
    for name, key in (("TTFT", "ttft"), ("TPOT", "tpot")):
        _print_bands(screen, name, [(band["requests"], band) for band in document["explanation"][key]])


def _print_models(screen: Screen, models: Mapping[str, Any]) -> None:
    """Print requests, latencies and mean causes of each of several models."""
    names = ("NPUs", "requests", "finished", "shed", "requests/s", "tokens/s", "within SLO (%)", "goodput (1/s)", "cache in use (%)")
    rows, latencies = [], []
    for model, document in models.items():
        requests, throughput, goodput = document["requests"], document["throughput"], document["goodput"]
        within = goodput["fraction"] if goodput["slo"] else None
        counts = map(str, (document["npus"], requests["arrived"], requests["finished"], requests["shed"]))
        rows.append([
            model, *counts, f"{throughput['requests_s']:.4g}", f"{throughput['output_tokens_s']:.5g}",
            "-" if within is None else f"{100 * within:.4g}", f"{goodput['requests_s']:.4g}" if goodput["slo"] else "-",
            f"{100 * document['kv']['mean_use']:.3g}",
        ])  # fmt: skip
        latencies += [
            [model, name, *(f"{document[key][statistic] * 1e3:.5g}" for statistic in _STATISTICS)]
            for name, key in _LATENCIES
            if document[key] is not None
        ]
    screen.table(Table([Column("model", "name"), *map(Column, names)], rows, ""))
    if latencies:
        columns = [Column("model", "name"), Column("latency (ms)", "name"), *(Column(name) for name in _STATISTICS)]
        screen.table(Table(columns, latencies, ""))
    for name, key in (("TTFT", "ttft"), ("TPOT", "tpot")):
        _print_bands(
            screen, name, [(model, document["explanation"][key][0]) for model, document in models.items() if document["explanation"][key]]
        )


def _print_bands(screen: Screen, name: str, bands: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """The causes of a latency for groups of requests, without those that take no time at all."""
    if bands:
        first = bands[0][1]
        causes = [cause for cause in first if cause not in ("requests", "count", "mean_s") and any(band[cause] for _, band in bands)]
        columns = [Column(f"{name} (ms)", "name"), Column("requests"), Column("mean"), *(Column(cause) for cause in causes)]
        rows = [[label, str(band["count"]), *(f"{band[each] * 1e3:.4g}" for each in ("mean_s", *causes))] for label, band in bands]
        screen.table(Table(columns, rows, ""))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"


# -- Several runs ----------------------------------------------------------------------------------------------------------------


def _sweep(case: ServingExperiment, axes: Sequence[str], output: str | None, as_json: bool, quiet: bool) -> None:
    """Run a sweep, write its rows, and print them."""
    # Processes come before the thread of the progress.
    with SweptRuns(case, [_axis(axis) for axis in axes]) as runs, Progress(enabled=not quiet, unit="s") as progress:
        rows, best = runs.rows(progress)
    table = [{**row.values, **flat(row.document)} for row in rows]
    document = {"rows": table, "best": None if best is None else best.values}

    def write() -> None:
        if output is not None:
            _write(output, csv_of(table) if output.endswith(".csv") else json.dumps(document, indent=2, allow_nan=False) + "\n")

    def show() -> None:
        if as_json:
            say_json(document)
        elif not quiet:
            _print_sweep(rows, best)

    write_then_show(write, show)


def _axis(axis: str) -> tuple[str, list[Any]]:
    key, equals, values = axis.partition("=")
    parts = [Typed(part.strip()) for part in values.split(",") if part.strip()]
    if not equals or "." not in key or not parts:
        raise InputError(f"--sweep {axis}: expected section.key=VALUE,VALUE,..., such as serving.requests.rate=2,4,8")
    return key.strip(), parts


def _print_sweep(rows: Sequence[ServingRow], best: ServingRow | None) -> None:
    """Print a row for each run, and the best."""
    screen = Screen(every=True)
    names = list(rows[0].values)
    columns = [Column(name, "name") for name in names]
    columns += [Column(name) for name in ("requests/s", "tokens/s", "TTFT p99 (ms)", "TPOT p99 (ms)", "within SLO (%)", "goodput (1/s)")]
    cells = []
    for row in rows:
        document = row.document
        ttft, tpot = document["ttft_s"], document["tpot_s"]
        fraction = document["goodput"]["fraction"]
        cells.append([
            *map(str, row.values.values()),
            f"{document['throughput']['requests_s']:.4g}",
            f"{document['throughput']['output_tokens_s']:.5g}",
            "-" if ttft is None else f"{ttft['p99'] * 1e3:.5g}",
            "-" if tpot is None else f"{tpot['p99'] * 1e3:.4g}",
            "-" if fraction is None else f"{100 * fraction:.4g}",
            f"{document['goodput']['requests_s']:.4g}",
        ])  # fmt: skip
    screen.table(Table(columns, cells, ""))
    if not rows[0].document["goodput"]["slo"]:
        screen.text("no SLO is given (serving.slo), so that none can be missed")
    elif best is None:
        screen.text("no run meets the SLO with 99 % of its requests")
    else:
        screen.text(f"the highest that meets the SLO with 99 % of its requests: {', '.join(f'{k}={v}' for k, v in best.values.items())}")


def _search(case: ServingExperiment, npus: int, usd_per_hour: float | None, output: str | None, as_json: bool, quiet: bool) -> None:
    """Search for pools, write the outcome of each candidate, and print those that meet the SLO."""
    # Processes come before the thread of the progress.
    with PoolSearch(case, npus, usd_per_hour) as search, Progress(enabled=not quiet, unit="s") as progress:
        choices, best = search.choices(progress)
    documents = [choice.document() for choice in choices]
    document = {"choices": documents, "best": None if best is None else best.document()}

    def write() -> None:
        if output is not None and output.endswith(".csv"):
            _write(output, csv_of([{**each, "pools": str(choice.candidate)} for each, choice in zip(documents, choices, strict=True)]))
        elif output is not None:
            _write(output, json.dumps(document, indent=2, allow_nan=False) + "\n")

    def show() -> None:
        if as_json:
            say_json(document)
        elif not quiet:
            _print_choices(choices)

    write_then_show(write, show)


def _print_choices(choices: Sequence[PoolChoice]) -> None:
    """Print a row for each candidate that meets the SLO, the best first, and how many others there are."""
    screen = Screen(every=True)
    good = sorted((each for each in choices if each.rate is not None), key=lambda each: -each.value)
    columns = [Column("pools", "name"), *map(Column, ("NPUs", "highest rate (1/s)", "goodput (1/s)", "of an NPU (1/s)"))]
    priced = choices[0].candidate.usd_per_hour is not None
    columns += [Column("USD/h"), Column("requests for 1 USD")] if priced else []
    rows = []
    for each in good:
        goodput = each.goodput or 0.0
        rows.append(
            [str(each.candidate), str(each.candidate.npus), f"{each.rate:.4g}", f"{goodput:.4g}", f"{goodput / each.candidate.npus:.4g}"]
            + ([f"{each.candidate.usd_per_hour:.4g}", f"{each.goodput_per_usd:.5g}"] if priced else [])
        )
    if rows:
        screen.table(Table(columns, rows, ""))
    unfit = sum(each.why == DOES_NOT_FIT for each in choices)
    missing = len(choices) - len(good) - unfit
    screen.text(f"{missing} others miss the SLO at the highest rate before them, or at all; for {unfit} the model does not fit")


def _compare(
    case: ServingExperiment,
    measured: str,
    output: str | None,
    per_request: str | None,
    timeline: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    writer = timeline_for(timeline) if timeline is not None else None
    with Progress(enabled=not quiet, unit="s") as progress:
        result, errors = compare(case, measured, progress.reached, writer)
    document = {**result.document(), "comparison": errors}
    _finish(document, result, writer, (output, per_request, timeline), as_json, quiet, lambda: _print_errors(errors))


def _print_errors(errors: Mapping[str, Any]) -> None:
    screen = Screen(every=True)
    columns = [Column("metric", "name"), Column("statistic", "name"), Column("measured (s)"), Column("simulated (s)"), Column("error (%)")]
    rows = [
        [row["metric"], row["statistic"], f"{row['measured_s']:.5g}", f"{row['simulated_s']:.5g}", f"{100 * row['error']:+.2f}"]
        for row in errors["rows"]
    ]
    screen.table(Table(columns, rows, ""))
    for metric, value in errors["per_request"].items():
        screen.text(f"mean absolute error of {metric} by request: {100 * value:.2f} %")
