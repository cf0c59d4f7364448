"""The tables of ASTRA-sim 1.0 as text in CSV, with its columns.

Times are in microseconds with six decimals, sizes in units of 2^20 bytes. A cell that is written twice holds both texts, the
later one first, as there: in detailed.csv this happens where layers have different numbers of phases.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from astra_sim.graph import Pass
from astra_sim.reports import LayerFigures, Result
from astra_sim.units import MIB

_COLUMNS = 50
_PAYLOAD_DIMENSIONS = 7
_PASSES = (("fwd", Pass.FORWARD), ("wg", Pass.WEIGHT_GRADIENT), ("ig", Pass.INPUT_GRADIENT))


class _Grid:
    """Cells of text."""

    def __init__(self, rows: int, columns: int) -> None:
        self._cells = [[""] * columns for _ in range(rows)]

    def write(self, row: int, column: int, text: str) -> None:
        while len(self._cells) <= row:
            self._cells.append([""] * len(self._cells[0]))
        line = self._cells[row]
        line.extend([""] * (column + 1 - len(line)))
        line[column] = text + line[column]

    def __str__(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self._cells)
        return text.getvalue()


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.6f}"


def _grid_of_layers(runs: Sequence[Result]) -> tuple[_Grid, list[tuple[int, int, Result, LayerFigures | None]]]:
    """A grid for layers, and (row, number of the layer, run, layer): the rows of a layer's runs follow one another.

    A run without layers, such as that of a trace, has one row for the whole of it (layer None).
    """
    count = max(max(1, len(result.layers)) for result in runs)
    rows = [
        (number * len(runs) + place + 1, number, result, layer)
        for place, result in enumerate(runs)
        for number, layer in enumerate(result.layers or [None])
    ]
    return _Grid(count * len(runs) + 20, _COLUMNS), rows


def end_to_end(*runs: Result) -> str:
    """EndToEnd.csv: computing, exposed and total communication of every layer; of a run without layers its totals, in one row."""
    grid, rows = _grid_of_layers(runs)
    header = ["", ""]
    header += [f"{short} compute" for short, _ in _PASSES]
    header += [f"{short} exposed comm" for short, _ in _PASSES]
    header += [f"{short} total comm" for short, _ in _PASSES]
    header += ["workload finished at", "total comp", "total exposed comm"]
    for column, text in enumerate(header):
        grid.write(0, column, text)
    for row, number, result, layer in rows:
        cells = ["" if layer is None else layer.name, result.run_name]
        passes = [None if layer is None else layer.of(p) for _, p in _PASSES]
        for figure in ("compute_ns", "exposed_comm_ns", "total_comm_ns"):
            cells += ["" if each is None else _us(getattr(each, figure)) for each in passes]
        cells.append(_us(result.finish_ns))
        if number == 0:
            cells += [_us(result.compute_ns), _us(result.exposed_comm_ns)]
        for column, text in enumerate(cells):
            grid.write(row, column, text)
    return str(grid)


def detailed(*runs: Result) -> str:
    """detailed.csv: mean queueing and network delays of every layer's phases, and the mean time of a chunk in each dimension."""
    grid, rows = _grid_of_layers(runs)
    last_column = {}
    for row, _, result, layer in rows:
        grid.write(row, 0, "" if layer is None else layer.name)
        grid.write(row, 1, result.run_name)
        column = 2
        for header, value in [] if layer is None else _delays(layer):
            if row == 1:
                grid.write(0, column, header)
            grid.write(row, column, _us(value))
            column += 1
        last_column[id(result)] = column
    for place, result in enumerate(runs):
        for index, dimension in enumerate(result.dimensions):
            column = last_column.get(id(result), 2) + index
            latency = dimension.average_chunk_latency_ns
            if place == 0:
                grid.write(0, column, f"avg chunk delay dimension {index + 1}")
            grid.write(place + 1, column, "-nan" if latency is None else _us(latency))
    return str(grid)


def _delays(layer: LayerFigures) -> list[tuple[str, float]]:
    cells = [(f"queuing delay phase {number}", delay) for number, delay in enumerate(layer.queueing_delay_ns)]
    return cells + [(f"network delay phase {number}", delay) for number, delay in enumerate(layer.network_delay_ns, 1)]


def backend_end_to_end(*runs: Result) -> str:
    """backend_end_to_end.csv: a row for each run."""
    return _table([_backend_row(result) for result in runs])


def _backend_row(result: Result) -> dict[str, str]:
    payload = [f"{size / MIB:.6f}" for size in result.network["payload_bytes_per_dimension"]]
    data_parallel = result.layers[0].weight_gradient.exposed_comm_ns if result.layers else 0
    cost = result.network.get("cost_usd")
    columns = {
        "RunName": result.run_name,
        "CommsTime": _us(result.finish_ns),
        "ComputeTime": _us(result.compute_ns),
        "ExposedCommsTime": _us(result.exposed_comm_ns),
        "Cost": f"{cost:.6f}" if cost is not None else "nan",
        "TotalPayloadSize": f"{result.network['payload_bytes'] / MIB:.6f}",
        "DPCommsTime": _us(data_parallel),
        "MPCommsTime": _us(result.exposed_comm_ns - data_parallel),
    }
    for dimension in range(max(_PAYLOAD_DIMENSIONS, len(payload))):
        columns[f"PayloadSize_Dim{dimension}"] = payload[dimension] if dimension < len(payload) else "-1"
    return columns


def backend_dim_info(*runs: Result) -> str:
    """backend_dim_info.csv: the mean time of a chunk in each dimension; ten rows for each run."""
    grid = _Grid(10 * len(runs) + 1, 3)
    for column, text in enumerate(("RunName", "DimensionIndex", "AverageChunkLatency")):
        grid.write(0, column, text)
    for place, result in enumerate(runs):
        for index, dimension in enumerate(result.dimensions):
            latency = dimension.average_chunk_latency_ns
            for column, text in enumerate((result.run_name, str(index), "-nan" if latency is None else _us(latency))):
                grid.write(place * 10 + index + 1, column, text)
    return str(grid)


def tutorial_result(*runs: Result) -> str:
    """tutorial_result.csv: total, computing and exposed communication time, and the bytes that an NPU sends; a row for each run."""
    return _table(
        [
            {
                "Name": result.run_name,
                "TotalTime(us)": _us(result.finish_ns),
                "ComputeTime(us)": _us(result.compute_ns),
                "ExposedCommunicationTime(us)": _us(result.exposed_comm_ns),
                "TotalMessageSize(MB)": f"{result.network['payload_bytes'] / MIB:.6f}",
            }
            for result in runs
        ]
    )


def _table(rows: list[dict[str, str]]) -> str:
    header = max(rows, key=len)
    grid = _Grid(len(rows) + 1, len(header))
    for column, name in enumerate(header):
        grid.write(0, column, name)
        for number, row in enumerate(rows, 1):
            grid.write(number, column, row.get(name, "-1"))
    return str(grid)
