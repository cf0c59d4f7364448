"""The command `astra flows`: messages without a workload, from a file or a pattern, on any network."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click
from astra_sim.commands import (
    Column,
    Experiment,
    Progress,
    Screen,
    Table,
    build,
    component_options,
    json_option,
    quiet_option,
    say_json,
    shared_plugins,
    table_options,
)
from astra_sim.display import network_files
from astra_sim.errors import InputError
from astra_sim.files import FileSet, csv_lines, read_text
from astra_sim.graph import ExecutionGraph
from astra_sim.network import EventNetwork, Network
from astra_sim.platform import Platform
from astra_sim.units import parse_size

from astra_sim_flows.flow_files import Id, NamedFlows, parse_flows
from astra_sim_flows.patterns import PATTERNS, SIZES, PatternOptions, make_flows
from astra_sim_flows.running import FlowTimes, IdealTimes, run_flows

_FIGURES = ("packets", "acks", "nacks", "marked_acks")
_PERCENTILES = (50, 95, 99, 100)


@attrs.frozen
class FlowRow:
    """A flow as it is shown and written. Times in ns; `slowdown` is the time to arrival over that of the flow alone without headers."""

    id: Id
    src: int
    dst: int
    bytes: int
    start_ns: float
    received_ns: float
    end_ns: float
    packets: int | None
    acks: int | None
    nacks: int | None
    marked_acks: int | None
    slowdown: float | None


@click.command()
@component_options(multiple=False, kinds=("platform", "network"))
@click.option("--flows", "file", metavar="FILE", type=click.Path(), help="Flows: CSV with a heading, or a JSON object a line.")
@click.option("--pattern", type=click.Choice(PATTERNS), help="Flows of a pattern, instead of a file.")
@click.option("--bytes", "size", metavar="SIZE", default="1000000", show_default=True, help="Pattern: size of each flow.")
@click.option("--to", "target", type=click.IntRange(min=0), default=0, show_default=True, help="incast: the NPU that all send to.")
@click.option("--senders", type=click.IntRange(min=1), help="incast: how many send.  [default: all others]")
@click.option("--count", type=click.IntRange(min=1, max=10**7), default=1000, show_default=True, help="poisson: number of flows.")
@click.option("--load", type=click.FloatRange(min=0, max=2, min_open=True), default=0.5, show_default=True, help="poisson: share of NICs.")
@click.option(
    "--distribution",
    metavar="SIZES",
    default="websearch",
    show_default=True,
    help=f"poisson: {', '.join(SIZES)} or SIZE:SHARE,...",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of permutation and poisson.")
@click.option("-o", "--output", metavar="DIR", type=click.Path(file_okay=False), help="Write flows.json, flows.csv and more.")
@table_options
@json_option
@quiet_option
def flows(
    assignments: tuple[str, ...],
    file: str | None,
    pattern: str | None,
    size: str,
    target: int,
    senders: int | None,
    count: int,
    load: float,
    distribution: str,
    seed: int,
    output: str | None,
    every: bool,
    units: str | None,
    as_json: bool,
    quiet: bool,
    **components: str | None,
) -> None:
    """Let flows run by themselves on a network: each is a message of an NPU to another.

    \b
    astra flows --network config.txt --flows flows.csv
    astra flows --platform 'plugin:switch?size=8&link_bandwidth_gb_per_s=12.5&link_latency_ns=500' --network plugin:roce --pattern incast

    Columns of a file are id, src, dst, bytes, start_ns, after and pg. A flow starts start_ns after the last of the flows `after` has ended;
    in CSV their ids are separated by spaces. pg is the traffic class. Flows take the time that the network computes, to the picosecond.
    """
    if (file is None) == (pattern is None):
        raise InputError("astra flows needs either --flows FILE or --pattern NAME")
    network, platform = _components(components, assignments)
    if file is not None:
        named = parse_flows(read_text(file), file, platform.npus)
    else:
        options = PatternOptions(parse_size(size, "--bytes"), target, senders, count, load, distribution, seed)
        generated = make_flows(str(pattern), options, platform.npus, _nic_bandwidth(platform))
        named = NamedFlows(tuple(range(len(generated))), tuple(generated))
    began = time.perf_counter()
    with Progress(enabled=not quiet, unit="ps") as progress:
        if isinstance(network, EventNetwork):
            network.on_progress(progress.reached)
        times = run_flows(network, named.flows)
        if isinstance(network, EventNetwork):
            network.on_progress(None)
    rows = _rows(named, times, _ideal(platform))
    statistics = network.statistics()
    table = {
        "flows": [{key: value for key, value in attrs.asdict(row).items() if key in _SHOWN} for row in rows],
        "drops": statistics.get("drops"),
        "pfc_frames": statistics.get("pfc_frames"),
        "finish_ns": max((row.end_ns for row in rows), default=0),
    }
    if output is not None:
        _write(output, table, rows, network)
    if as_json:
        say_json(table)
    elif not quiet:
        _print(rows, statistics, time.perf_counter() - began, Screen(every, units))


_SHOWN = ("id", "start_ns", "received_ns", "end_ns", *_FIGURES)


def _components(components: dict[str, str | None], assignments: Sequence[str]) -> tuple[Network, Platform]:
    """The network and the platform of a run without a workload."""
    plugins, experiment = shared_plugins(), Experiment()
    for kind in ("network", "platform"):  # a platform of its own comes after that of a network's file
        spec = components.get(kind)
        if spec is not None:
            experiment.use(kind, spec, plugins, where=kind)
    experiment.use("workload", ExecutionGraph((), (), ()), plugins)
    for assignment in assignments:
        experiment.set(assignment)
    wired = experiment.sections.get("platform")
    if isinstance(wired, Mapping) and len(wired) > 1:  # how collectives see the NPUs does not matter: flows run on all that are wired
        experiment.sections["platform"] = {key: value for key, value in wired.items() if key != "logical_dims"}
    built = build(experiment, plugins)
    return built.network, built.platform


def _nic_bandwidth(platform: Platform) -> float:
    """Bytes per nanosecond that an NPU sends over all of its links, on the average."""
    return sum(d.link_bandwidth * d.topology.links_per_npu() for d in platform.wired().dimensions)


def _ideal(platform: Platform) -> IdealTimes | None:
    try:
        return IdealTimes(platform.fabric())
    except InputError:  # a platform that does not list its links
        return None


def _ns(picoseconds: int) -> float:
    return picoseconds // 1000 if picoseconds % 1000 == 0 else picoseconds / 1000


def _rows(named: NamedFlows, times: Sequence[FlowTimes], ideal: IdealTimes | None) -> list[FlowRow]:
    rows = []
    for number, flow, each in zip(named.ids, named.flows, times, strict=True):
        alone = None if ideal is None else ideal.ns(flow.source, flow.destination, flow.bytes)
        slowdown = (each.received - each.started) / 1000 / alone if alone else None
        figures: dict[str, Any] = {name: getattr(each.figures, name, None) for name in _FIGURES}
        moments = (_ns(each.started), _ns(each.received), _ns(each.ended))
        rows.append(FlowRow(number, flow.source, flow.destination, flow.bytes, *moments, slowdown=slowdown, **figures))
    return rows


def _write(folder: str, table: dict[str, Any], rows: Sequence[FlowRow], network: Network) -> None:
    """Write all files, or none. Raises RunError."""
    names = [field.name for field in attrs.fields(FlowRow)]
    lines = csv_lines([names, *([getattr(row, name) for name in names] for row in rows)])
    texts = {"flows.json": json.dumps(table, indent=1, allow_nan=False) + "\n", "flows.csv": "".join(lines)}
    texts |= network_files(network)
    with FileSet() as files:
        files.make_folder(folder)
        for name, text in texts.items():
            with files.open(os.path.join(folder, name)) as file:
                file.write(text)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that as many per cent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share / 100 * len(ordered)) - 1)]


def _print(rows: Sequence[FlowRow], statistics: dict[str, object], wall_s: float, screen: Screen) -> None:
    """Print percentiles of the flows' times, and the network's counters."""
    spans = [row.received_ns - row.start_ns for row in rows]
    unit = screen.time_unit(max(spans, default=0.0))
    columns = [Column("", "word"), *(Column("largest" if share == 100 else f"{share} %") for share in _PERCENTILES)]
    shown = []
    if rows:
        shown.append([f"time to arrival ({unit.name})", *(unit.number(percentile(spans, share)) for share in _PERCENTILES)])
        slow = [row.slowdown for row in rows if row.slowdown is not None]
        if slow:
            shown.append(["slowdown", *(f"{percentile(slow, share):.3f}" for share in _PERCENTILES)])
    screen.table(Table(columns, shown, f"{len(rows)} flows"))
    finish = max((row.end_ns for row in rows), default=0.0)
    screen.text(f"finish: {screen.time_unit(finish)(finish)}; wall time: {wall_s:.2f} s")
    marked = [row.marked_acks for row in rows if row.marked_acks is not None]
    if marked:
        acks = sum(row.acks or 0 for row in rows)
        refused = [row.nacks for row in rows if row.nacks is not None]
        screen.text(f"marked: {sum(marked)} of {acks} acknowledgements" + (f"; refused: {sum(refused)}" if refused else ""))
    for key, label in (("pfc_frames", "pauses and resumes"), ("drops", "drops"), ("highest_queue_bytes", "highest queue (bytes)")):
        if key in statistics:
            screen.text(f"{label}: {statistics[key]}")
