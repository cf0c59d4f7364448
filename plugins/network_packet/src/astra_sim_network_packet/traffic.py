"""The command `astra traffic`: latency against throughput under synthetic traffic."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import click
from astra_sim import InputError
from astra_sim.commands import (
    Column,
    Experiment,
    Progress,
    Screen,
    Table,
    build_platform,
    candidates,
    json_option,
    quiet_option,
    say_json,
    shared_plugins,
    write_then_show,
)
from astra_sim.display import all_option
from astra_sim.files import FileSet, csv_lines
from astra_sim.options import structure
from astra_sim.platform import Platform

from astra_sim_network_packet import fabric, heat_map, patterns
from astra_sim_network_packet.load import LoadMeasurement, TrafficLoad, measure
from astra_sim_network_packet.options import PacketOptions

MAX_RATES = 1000
_BAR = 16


@click.command()
@click.option(
    "--platform",
    required=True,
    metavar="S",
    help="Platform: plugin:NAME[?key=value&...] or a file.",
    shell_complete=candidates("component", "platform"),
)
@click.option(
    "--network",
    default="plugin:packet?preset=booksim",
    metavar="S",
    show_default=True,
    help="The packet network and its options.",
    shell_complete=candidates("component", "network"),
)
@click.option(
    "--pattern",
    default="uniform",
    metavar="NAME",
    show_default=True,
    help=f"{', '.join(patterns.PATTERNS)} or permutation.",
    shell_complete=candidates("one_of", "astra_sim_network_packet.patterns:names"),
)
@click.option("--permutation", metavar="FILE", type=click.Path(), help="File with the destination of each source, for pattern permutation.")
@click.option("--rate", "rates", required=True, metavar="R", help="Flits per node and cycle: 0.1, or 0.1,0.2, or FROM:TO:STEP.")
@click.option("--packet-flits", type=int, default=1, show_default=True, help="Flits of a packet.")
@click.option("--warm-up", type=int, default=2500, show_default=True, help="Cycles before measuring.")
@click.option("--period", type=int, default=2500, show_default=True, help="Cycles of a measured period.")
@click.option("--periods", type=int, default=4, show_default=True, help="Measured periods.")
@click.option("--drain-limit", type=int, default=100_000, show_default=True, help="Cycles to wait for measured packets afterwards.")
@click.option("--hot-node", type=int, default=0, show_default=True, help="The NPU that is the hot spot.")
@click.option("--hot-share", type=float, default=0.1, show_default=True, help="Share of packets to the hot spot, for pattern hot_spot.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of random numbers.")
@click.option(
    "-o", "--output", metavar="DIR", type=click.Path(file_okay=False), help="Write traffic.csv, links.csv, traffic.json and pictures here."
)
@all_option
@json_option
@quiet_option
def traffic(
    platform: str,
    network: str,
    pattern: str,
    permutation: str | None,
    rates: str,
    output: str | None,
    every: bool,
    as_json: bool,
    quiet: bool,
    hot_share: float,
    **measurement: Any,
) -> None:
    """Drive a platform with synthetic traffic, and show latency against throughput."""
    points = parse_rates(rates)
    described = read_platform(platform)
    is_hot = pattern.replace("-", "_").lower() in ("hot_spot", "hotspot")
    how = LoadMeasurement(hot_share=hot_share if is_hot else 0.0, **measurement)
    with Progress(enabled=not quiet, unit="cycles") as progress:
        loads = sweep(described, read_options(network), pattern, points, how, permutation, progress)
    table = {
        "platform": platform,
        "network": network,
        "pattern": pattern,
        "npus": described.npus,
        "seed": how.seed,
        "packet_flits": how.packet_flits,
        "saturation_rate": next((load.rate for load in loads if not load.stable), None),
        "rates": [_row(load) for load in loads],
    }

    def write_files() -> None:
        if output is not None:
            write(output, table, loads)

    def show() -> None:
        if not as_json and not quiet:
            _print(table, loads, Screen(every))

    write_then_show(write_files, show)
    if as_json:
        say_json(table)


def read_platform(spec: str) -> Platform:
    """The platform that a spec string or file names. Raises InputError."""
    plugins = shared_plugins()
    experiment = Experiment()
    experiment.use("platform", spec, plugins)
    return build_platform(experiment, plugins)


def read_options(spec: str) -> PacketOptions:
    """The options of the packet network that a spec string or file names. Raises InputError."""
    experiment = Experiment()
    experiment.use("network", spec, shared_plugins())
    table = dict(experiment.sections["network"])
    if table.pop("plugin", "packet") != "packet":
        raise InputError(f"{spec}: only the packet network can run traffic; expected plugin:packet?key=value&...")
    options: PacketOptions = structure(PacketOptions, table, experiment.where("network"))
    return options


def parse_rates(text: str) -> list[float]:
    """Rates of `0.1`, `0.1,0.2` or `FROM:TO:STEP`. Raises InputError."""
    number = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    if not re.fullmatch(f"{number}(,{number})*|{number}:{number}:{number}", text):
        raise InputError(f"--rate {text}: expected a number, numbers with commas between them, or FROM:TO:STEP, such as 0.05:0.5:0.05")
    if ":" not in text:
        rates = [float(part) for part in text.split(",")]
    else:
        first, last, step = map(float, text.split(":"))
        if step <= 0 or last < first or (last - first) / step > MAX_RATES:
            raise InputError(f"--rate {text}: expected FROM at most TO, and a STEP above 0 that makes no more than {MAX_RATES} rates")
        rates = [round(first + step * count, 12) for count in range(int((last - first) / step + 1e-9) + 1)]
    if len(rates) > MAX_RATES or any(rate <= 0 for rate in rates):
        raise InputError(f"--rate {text}: expected at most {MAX_RATES} rates, all above 0")
    return rates


def sweep(
    platform: Platform,
    options: PacketOptions,
    pattern: str,
    rates: Sequence[float],
    how: LoadMeasurement,
    permutation: str | None = None,
    progress: Progress | None = None,
) -> list[TrafficLoad]:
    """Measure every rate; `progress` is called with how far it has come. Raises InputError."""
    settings = options.settings()
    settings = attrs.evolve(settings, packet_bytes=how.packet_flits * settings.flit_bytes)
    settings.check()
    platform = platform.wired()
    fabric.check_size(platform)
    targets = patterns.targets(pattern, platform, permutation)
    shape = fabric.shape_of(platform, settings, ports_by_dimension=False)
    loads = []
    cycles = how.warm_up + how.period * how.periods
    for number, rate in enumerate(rates):
        tell = None
        if progress is not None:
            progress.stage(f"rate {rate:g}", number / len(rates), 1 / len(rates))
            tell = partial(_tell, progress, cycles)
        loads.append(measure(shape, targets, rate, how, tell))
    return loads


def _tell(progress: Progress, cycles: int, now: int) -> None:
    """Say how many of the cycles that are measured, and warm up before, are over; packets that are under way then take some more."""
    progress.ended(min(now, cycles), cycles)
    progress.reached(now)


def _row(load: TrafficLoad) -> dict[str, Any]:
    return attrs.asdict(load, filter=lambda field, _: field.name != "links")


def write(folder: str, table: Mapping[str, Any], loads: Sequence[TrafficLoad]) -> None:
    """Write traffic.json, traffic.csv, links.csv (of the last rate), and pictures if matplotlib is installed: all, or none.

    Raises RunError.
    """
    pictures = {"traffic.png": heat_map.draw_curve(loads), "links.png": heat_map.draw_links(loads[-1].links)}
    texts = {
        "traffic.json": json.dumps(table, indent=1, allow_nan=False) + "\n",
        "traffic.csv": _csv([_row(load) for load in loads]),
        "links.csv": _csv([attrs.asdict(link) for link in loads[-1].links]),
    }
    with FileSet() as files:
        files.make_folder(folder)
        for name, text in texts.items():
            with files.open(os.path.join(folder, name)) as file:
                file.write(text)
        for name, picture in pictures.items():
            if picture is not None:
                with files.open(os.path.join(folder, name), "wb") as file:
                    file.write(picture)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table of CSV, below the names of their columns."""
    return "".join(csv_lines([list(rows[0]) if rows else [], *(row.values() for row in rows)]))


def _print(table: Mapping[str, Any], loads: Sequence[TrafficLoad], screen: Screen) -> None:
    """Print a line for each rate, with a bar for the latency if the network keeps up."""
    columns = (
        Column("rate"),
        Column("accepted"),
        Column("latency"),
        Column("+-", rank=3),
        Column("in network", rank=2),
        Column("hops", rank=1),
        Column("state", "word"),
        Column("", "word", 4),
    )
    highest = max((load.packet_latency or 0.0 for load in loads if load.stable), default=0.0)
    rows = []
    for load in loads:
        bar = "#" * round(_BAR * min(1.0, (load.packet_latency or 0.0) / highest)) if load.stable and highest else ""
        cells = (load.packet_latency, load.packet_latency_half_width, load.network_latency, load.hops)
        numbers = [f"{load.rate:g}", f"{load.accepted_rate:.4f}", *("-" if cell is None else f"{cell:.2f}" for cell in cells)]
        rows.append([*numbers, "stable" if load.stable else "saturated", bar])
    title = f"{table['pattern']} traffic on {table['npus']} NPUs, {table['packet_flits']} flits a packet; latencies in cycles"
    screen.table(Table(columns, rows, title))
    for line in heat_map.lines(loads[-1].links, most=None if screen.every else heat_map.MAX_ROUTERS):
        screen.text(line, further=" " * 7)
