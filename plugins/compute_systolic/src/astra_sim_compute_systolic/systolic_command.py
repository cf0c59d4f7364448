"""The command `astra systolic`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from astra_sim_compute_systolic.report import LayerReport


@click.command()
@click.option("--config", required=True, metavar="F.cfg", type=click.Path(), help="SCALE-Sim configuration: array, SRAMs, bandwidth.")
@click.option("--topology", required=True, metavar="F.csv", type=click.Path(), help="SCALE-Sim topology: layers.")
@click.option("--gemm", is_flag=True, help="Layers are matrix products (name, M, N, K), not convolutions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--output", metavar="DIR", type=click.Path(file_okay=False), help="Write SCALE-Sim's reports into this folder.")
def systolic(config: str, topology: str, gemm: bool, as_json: bool, output: str | None) -> None:
    """Cycles, stalls, utilisation and memory traffic of layers on a systolic array, as SCALE-Sim reports them.

    Traffic is counted in elements, bandwidth in elements per cycle. Total cycles is the number of the last cycle, counted from 0.
    """
    from astra_sim.files import read_text

    from astra_sim_compute_systolic.report import report_layer
    from astra_sim_compute_systolic.reports_csv import write_reports
    from astra_sim_compute_systolic.scale_sim_files import read_configuration, read_topology

    machine = read_configuration(read_text(config), config)
    layers = read_topology(read_text(topology), topology, gemm)
    reports = [report_layer(layer.name, layer.shape, machine.array, machine.srams, machine.bandwidth) for layer in layers]
    written = write_reports(reports, output) if output is not None else []
    if as_json:
        click.echo(json.dumps({"total_cycles": _total(reports), "layers": [_row(layer) for layer in reports]}, allow_nan=False))
        return
    _print(reports, machine.name)
    if written:
        click.echo(f"{len(written)} reports in {output}")


def _total(reports: Sequence[LayerReport]) -> int:
    return sum(layer.timing.total for layer in reports)


def _row(layer: LayerReport) -> dict[str, Any]:
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


def _print(reports: Sequence[LayerReport], title: str) -> None:
    from astra_sim.commands import console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("layer")
    columns = ("M", "N", "K", "cycles", "stalls", "overall util. %", "mapping eff. %", "compute util. %", "DRAM elements/cycle")
    for column in columns:
        table.add_column(column, justify="right")
    for layer in reports:
        gemm, timing = layer.gemm, layer.timing
        shares = (layer.overall_utilisation, layer.mapping_efficiency, layer.compute_utilisation)
        counts = (gemm.m, gemm.n, gemm.k, timing.total, timing.stalls)
        dram = " ".join(f"{bandwidth:.2f}" for bandwidth in layer.dram_bandwidths)
        table.add_row(layer.name, *map(str, counts), *(f"{share:.2f}" for share in shares), dram)
    out = console()
    out.print(table)
    out.print(f"total {_total(reports):,} cycles; DRAM bandwidth is that of ifmap, filter and ofmap", highlight=False)
