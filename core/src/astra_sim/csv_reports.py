"""The CSV files that ASTRA-sim 1.0 writes, with its columns, and result.json.

Times are in microseconds with six decimals, sizes in units of 2^20 bytes. A cell that is written twice holds both texts, the
later one first, as there: in detailed.csv this happens where layers have different numbers of phases.
"""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

from astra_sim.errors import RunError
from astra_sim.graph import Pass
from astra_sim.result import LayerFigures, Result

WINDOW_NS = 10_000
_COLUMNS = 50
_PAYLOAD_DIMENSIONS = 7
_MIB = 2**20
_PASSES = (("fwd", Pass.FORWARD), ("wg", Pass.WEIGHT_GRADIENT), ("ig", Pass.INPUT_GRADIENT))


def write_reports(result: Result, directory: str | Path) -> list[Path]:
    """Write all reports of a run into a directory, made if it does not exist. Returns their paths. Raises RunError."""
    folder = Path(directory)
    texts = {
        "EndToEnd.csv": end_to_end(result),
        "detailed.csv": detailed(result),
        f"{result.run_name}_dimension_utilization.csv": dimension_utilization(result),
        "backend_end_to_end.csv": backend_end_to_end(result),
        "backend_dim_info.csv": backend_dim_info(result),
        "tutorial_result.csv": tutorial_result(result),
        "result.json": json.dumps(result.to_dict(), indent=2) + "\n",
    }
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            path = folder / name.replace("/", "_")
            path.write_text(text, encoding="utf-8", errors="replace")
            paths.append(path)
    except OSError as error:
        raise RunError(f"cannot write to {directory}: {error.strerror or error}") from None
    return paths


class _Grid:
    """Cells of text, each line closed by a comma behind every cell."""

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
        csv.writer(text, lineterminator="\n").writerows([*line, ""] for line in self._cells)
        return text.getvalue()


def _us(nanoseconds: float) -> str:
    return f"{math.floor(nanoseconds) / 1000:.6f}" if isinstance(nanoseconds, int) else f"{nanoseconds / 1000:.6f}"


def end_to_end(result: Result) -> str:
    """EndToEnd.csv: computing, exposed and total communication of every layer."""
    grid = _Grid(len(result.layers) + 20, _COLUMNS)
    header = ["", ""]
    header += [f"{short} compute" for short, _ in _PASSES]
    header += [f"{short} exposed comm" for short, _ in _PASSES]
    header += [f"{short} total comm" for short, _ in _PASSES]
    header += ["workload finished at", "total comp", "total exposed comm"]
    for column, text in enumerate(header):
        grid.write(0, column, text)
    for row, layer in enumerate(result.layers, 1):
        cells = [layer.name, result.run_name]
        cells += [_us(layer.of(p).compute_ns) for _, p in _PASSES]
        cells += [_us(layer.of(p).exposed_comm_ns) for _, p in _PASSES]
        cells += [_us(layer.of(p).total_comm_ns) for _, p in _PASSES]
        cells.append(_us(result.finish_ns))
        if row == 1:
            cells += [_us(result.compute_ns), _us(result.exposed_comm_ns)]
        for column, text in enumerate(cells):
            grid.write(row, column, text)
    return str(grid)


def detailed(result: Result) -> str:
    """detailed.csv: mean queueing and network delays of every layer's phases, and the mean time of a chunk in each dimension."""
    grid = _Grid(len(result.layers) + 20, _COLUMNS)
    column = 2
    for row, layer in enumerate(result.layers, 1):
        grid.write(row, 0, layer.name)
        grid.write(row, 1, result.run_name)
        column = 2
        for header, value in _delays(layer):
            if row == 1:
                grid.write(0, column, header)
            grid.write(row, column, _us(value))
            column += 1
    for index, dimension in enumerate(result.dimensions):
        latency = dimension.average_chunk_latency_ns
        grid.write(0, column + index, f"avg chunk delay dimension {index + 1}")
        grid.write(1, column + index, "-nan" if latency is None else _us(latency))
    return str(grid)


def _delays(layer: LayerFigures) -> list[tuple[str, float]]:
    cells = [(f"queuing delay phase {number}", delay) for number, delay in enumerate(layer.queueing_delay_ns)]
    return cells + [(f"network delay phase {number}", delay) for number, delay in enumerate(layer.network_delay_ns, 1)]


def dimension_utilization(result: Result) -> str:
    """Share of each full window of 10 us in which a dimension has chunks, in percent."""
    lines = [" time (us) ," + "".join(f"dim{number + 1} util," for number in range(len(result.dimensions)))]
    windows = int(result.finish_ns // WINDOW_NS)
    shares = [_busy_in_windows(intervals, windows) for intervals in result.busy_ns]
    for window in range(windows):
        cells = [f"{(window + 1) * WINDOW_NS / 1000:.6f}"] + [f"{share[window]:.6f}" for share in shares]
        lines.append("".join(f"{cell}," for cell in cells))
    lines.append("," * (len(result.dimensions) + 1))
    return "\n".join(lines) + "\n"


def _busy_in_windows(intervals: list[tuple[float, float]], windows: int) -> list[float]:
    busy = [0.0] * (windows + 1)
    for begin, end in intervals:
        window = int(begin // WINDOW_NS)
        while window < windows and window * WINDOW_NS < end:
            busy[window] += min(end, (window + 1) * WINDOW_NS) - max(begin, window * WINDOW_NS)
            window += 1
    return [100.0 * time / WINDOW_NS for time in busy]


def backend_end_to_end(result: Result) -> str:
    """backend_end_to_end.csv: one row for the run."""
    payload = [f"{size / _MIB:.6f}" for size in result.network["payload_bytes_per_dimension"]]
    data_parallel = result.layers[0].weight_gradient.exposed_comm_ns if result.layers else 0
    cost = result.network.get("cost_usd")
    columns = {
        "RunName": result.run_name,
        "CommsTime": _us(result.finish_ns),
        "ComputeTime": _us(result.compute_ns),
        "ExposedCommsTime": _us(result.exposed_comm_ns),
        "Cost": f"{cost:.6f}" if cost is not None else "nan",
        "TotalPayloadSize": f"{result.network['payload_bytes'] / _MIB:.6f}",
        "DPCommsTime": _us(data_parallel),
        "MPCommsTime": _us(result.exposed_comm_ns - data_parallel),
    }
    for dimension in range(max(_PAYLOAD_DIMENSIONS, len(payload))):
        columns[f"PayloadSize_Dim{dimension}"] = payload[dimension] if dimension < len(payload) else "-1"
    return _table(columns)


def backend_dim_info(result: Result) -> str:
    """backend_dim_info.csv: the mean time of a chunk in each dimension."""
    grid = _Grid(11, 3)
    for column, text in enumerate(("RunName", "DimensionIndex", "AverageChunkLatency")):
        grid.write(0, column, text)
    for index, dimension in enumerate(result.dimensions):
        latency = dimension.average_chunk_latency_ns
        for column, text in enumerate((result.run_name, str(index), "-nan" if latency is None else _us(latency))):
            grid.write(index + 1, column, text)
    return str(grid)


def tutorial_result(result: Result) -> str:
    """tutorial_result.csv: total, computing and exposed communication time, and the bytes that an NPU sends."""
    return _table(
        {
            "Name": result.run_name,
            "TotalTime(us)": _us(result.finish_ns),
            "ComputeTime(us)": _us(result.compute_ns),
            "ExposedCommunicationTime(us)": _us(result.exposed_comm_ns),
            "TotalMessageSize(MB)": f"{result.network['payload_bytes'] / _MIB:.6f}",
        }
    )


def _table(columns: dict[str, str]) -> str:
    grid = _Grid(2, len(columns))
    for column, (name, value) in enumerate(columns.items()):
        grid.write(0, column, name)
        grid.write(1, column, value)
    return str(grid)
