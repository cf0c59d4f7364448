"""The command `astra systolic`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from astra_sim.commands import Column, Progress, Screen, Table, json_option, quiet_option, say_json
from astra_sim.display import Folded, all_option, fold

if TYPE_CHECKING:
    from astra_sim_compute_systolic.report import LayerReport

SHOWN = 10
"""Layers of the table, unless all are wanted."""


@click.command()
@click.option("--config", required=True, metavar="F.cfg", type=click.Path(), help="SCALE-Sim configuration: array, SRAMs, bandwidth.")
@click.option("--topology", required=True, metavar="F.csv", type=click.Path(), help="SCALE-Sim topology: layers.")
@click.option("--gemm", is_flag=True, help="Layers are matrix products (name, M, N, K), not convolutions.")
@all_option
@json_option
@click.option("-o", "--output", metavar="DIR", type=click.Path(file_okay=False), help="Write SCALE-Sim's reports into this folder.")
@quiet_option
def systolic(config: str, topology: str, gemm: bool, every: bool, as_json: bool, output: str | None, quiet: bool) -> None:
    """Cycles, stalls, utilisation and memory traffic of layers on a systolic array, as SCALE-Sim reports them.

    Traffic is counted in elements, bandwidth in elements per cycle. Total cycles is the number of the last cycle, counted from 0.
    """
    from astra_sim.files import read_text

    from astra_sim_compute_systolic.report import report_layer
    from astra_sim_compute_systolic.reports_csv import write_reports
    from astra_sim_compute_systolic.scale_sim_files import read_configuration, read_topology

    machine = read_configuration(read_text(config), config)
    layers = read_topology(read_text(topology), topology, gemm)
    with Progress(enabled=not quiet) as progress:
        reports = []
        for number, layer in enumerate(layers):
            progress.stage(f"layer {number + 1} of {len(layers)} ({layer.name})", number / len(layers))
            reports.append(report_layer(layer.name, layer.shape, machine.array, machine.srams, machine.bandwidth))
        written = write_reports(reports, output) if output is not None else []
    if as_json:
        say_json({"total_cycles": _total(reports), "layers": [_row(layer) for layer in reports]})
        return
    if quiet:
        return
    screen = Screen(every)
    _print(reports, machine.name, screen)
    if written:
        screen.text(f"{len(written)} reports in {output}")


def _total(reports: Sequence[LayerReport]) -> int:
    return sum(layer.timing.total for layer in reports)


def _row(layer: LayerReport) -> dict[str, Any]:
    """The figures of a layer by the names that they have in JSON."""
    row: dict[str, Any] = {
        "name": layer.name,
        "m": layer.gemm.m,
        "n": layer.gemm.n,
        "k": layer.gemm.k,
        "total_cycles": layer.timing.total,
        "stall_cycles": layer.timing.stalls,
        "overall_utilisation_percent": layer.overall_utilisation,
        "mapping_efficiency_percent": layer.mapping_efficiency,
        "compute_utilisation_percent": layer.compute_utilisation,
    }
    operands = ("ifmap", "filter", "ofmap")
    for operand, accesses, bandwidth in zip(operands, layer.accesses, layer.sram_bandwidths, strict=True):
        row[f"{operand}_sram_accesses"] = accesses
        row[f"{operand}_sram_elements_per_cycle"] = bandwidth
    traffic = (layer.timing.ifmap_dram, layer.timing.filter_dram, layer.timing.ofmap_dram)
    for operand, dram, bandwidth in zip(operands, traffic, layer.dram_bandwidths, strict=True):
        row[f"{operand}_dram_accesses"] = dram.elements
        row[f"{operand}_dram_elements_per_cycle"] = bandwidth
    return row


def _print(reports: Sequence[LayerReport], title: str, screen: Screen) -> None:
    """Print the layers, or those that take most cycles; alike ones that follow each other are one line."""
    lines = [Folded(layer.name, [place]) for place, layer in enumerate(reports)]
    notes = ["DRAM: elements a cycle"]
    if not screen.every:
        lines = fold([layer.name for layer in reports], lambda first, other: _figures(reports[first]) == _figures(reports[other]))
        if len(lines) < len(reports):
            notes.append("n x: cycles and stalls of n layers that are alike")
        if len(lines) > SHOWN:
            lines = sorted(lines, key=lambda line: -sum(reports[place].timing.total for place in line.places))[:SHOWN]
            title += f": layers that take most cycles, {sum(len(line.places) for line in lines)} of {len(reports)}"
        if len(lines) < len(reports):
            notes.append("--all: all layers")
    screen.table(
        Table(_COLUMNS, [_cells(line.label, reports[line.places[0]], len(line.places)) for line in lines], title, "; ".join(notes))
    )
    screen.text(f"total {_total(reports):,} cycles")


def _figures(layer: LayerReport) -> tuple[object, ...]:
    """All figures of a layer."""
    return layer.gemm, layer.timing, layer.accesses, layer.overall_utilisation, layer.mapping_efficiency, layer.compute_utilisation


def _cells(label: str, layer: LayerReport, count: int) -> list[str]:
    """The cells of `count` layers that are like this one."""
    gemm, timing = layer.gemm, layer.timing
    shares = layer.overall_utilisation, layer.mapping_efficiency, layer.compute_utilisation
    counts = count * timing.total, count * timing.stalls, gemm.m, gemm.n, gemm.k
    decimals = *shares, *layer.dram_bandwidths
    return [label, *map(str, counts), *(f"{number:.2f}" for number in decimals)]


_COLUMNS = (
    Column("layer", "name"),
    Column("cycles"),
    Column("stalls", rank=1),
    Column("M", rank=4),
    Column("N", rank=4),
    Column("K", rank=4),
    Column("overall util. (%)", rank=1),
    Column("mapping eff. (%)", rank=2),
    Column("compute util. (%)", rank=2),
    Column("ifmap DRAM", rank=3),
    Column("filter DRAM", rank=3),
    Column("ofmap DRAM", rank=3),
)
"""The table of a layer."""
