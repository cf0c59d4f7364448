"""SCALE-Sim's report files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from astra_sim.files import FileSet

from astra_sim_compute_systolic.report import LayerReport

COMPUTE = ("Total Cycles", "Stall Cycles", "Overall Util %", "Mapping Efficiency %", "Compute Util %")
BANDWIDTH = tuple(f"Avg {operand} {memory} BW" for memory in ("SRAM", "DRAM") for operand in ("IFMAP", "FILTER", "OFMAP"))
DETAILED = tuple(
    f"{memory} {operand} {what}"
    for memory in ("SRAM", "DRAM")
    for operand, count in (("IFMAP", "Reads"), ("Filter", "Reads"), ("OFMAP", "Writes"))
    for what in ("Start Cycle", "Stop Cycle", count)
)


def compute_report(layers: Sequence[LayerReport]) -> str:
    """COMPUTE_REPORT.csv."""
    return _table(
        COMPUTE,
        [
            (
                layer.timing.total,
                layer.timing.stalls,
                layer.overall_utilisation,
                layer.mapping_efficiency,
                layer.compute_utilisation,
            )
            for layer in layers
        ],
    )


def bandwidth_report(layers: Sequence[LayerReport]) -> str:
    """BANDWIDTH_REPORT.csv."""
    return _table(BANDWIDTH, [(*layer.sram_bandwidths, *layer.dram_bandwidths) for layer in layers])


def detailed_access_report(layers: Sequence[LayerReport]) -> str:
    """DETAILED_ACCESS_REPORT.csv. Cycles have a decimal point, as in SCALE-Sim."""
    rows = []
    for layer in layers:
        row: list[object] = []
        active = (layer.timing.ifmap_sram, layer.timing.filter_sram, layer.timing.ofmap_sram)
        for (start, stop), count in zip(active, layer.accesses, strict=True):
            row += [float(start), float(stop), count]
        for start, stop, count in (layer.timing.ifmap_dram, layer.timing.filter_dram, layer.timing.ofmap_dram):
            row += [float(start), float(stop), count]
        rows.append(row)
    return _table(DETAILED, rows)


def write_reports(layers: Sequence[LayerReport], folder: str) -> list[Path]:
    """Write the three files into a folder, which is created if needed: all, or none. Returns their paths. Raises RunError."""
    texts = {
        "COMPUTE_REPORT.csv": compute_report(layers),
        "BANDWIDTH_REPORT.csv": bandwidth_report(layers),
        "DETAILED_ACCESS_REPORT.csv": detailed_access_report(layers),
    }
    with FileSet() as files:
        files.make_folder(folder)
        for name, text in texts.items():
            with files.open(Path(folder, name)) as file:
                file.write(text)
    return [Path(folder, name) for name in texts]


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [", ".join(["LayerID", *columns])]
    lines += [", ".join(str(cell) for cell in (number, *row)) for number, row in enumerate(rows)]
    return "".join(f"{line},\n" for line in lines)
