"""The tables of ASTRA-sim 1.0 as text in CSV, with its columns, line by line.

Times are in microseconds with six decimals, sizes in units of 2^20 bytes. A cell that is written twice holds both texts, the
later one first, as there: in detailed.csv this happens if layers have different numbers of phases.

Each result is looked at once, and nothing of it is kept: `runs` may be read from files, one after another.
"""

from __future__ import annotations

import itertools
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence

from astra_sim.files import csv_lines
from astra_sim.reports import LayerFigures, Result
from astra_sim.units import MIB

_COLUMNS = 50
"""Cells of each row in tables of layers."""

_ROWS_BELOW = 19
"""Empty rows below tables of layers."""

_PAYLOAD_DIMENSIONS = 7
_DIMENSION_ROWS = 10
"""Rows of each run in backend_dim_info.csv."""

_PASSES = ("fwd", "wg", "ig")
_IN_MEMORY = 1 << 20
"""Bytes of rows that wait for their turn in memory; more of them are in a file."""


def _quoted(text: str) -> str:
    """A cell of text in CSV. Numbers are written as they are."""
    return next(csv_lines([(text, "")]))[:-2]  # without the comma before the second cell, and the end of the line


def _line(cells: Sequence[str], columns: int) -> str:
    return ",".join(cells) + "," * (columns - len(cells)) + "\n"


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.6f}"


def _write(row: list[str], column: int, text: str) -> None:
    """Write into a cell of a row, before its present text."""
    row += [""] * (column + 1 - len(row))
    row[column] = text + row[column]


def _by_layers(header: Sequence[str], runs: Sequence[Result], rows_of: Iterable[list[str]]) -> Iterator[str]:
    """A table of layers: the rows of a layer's runs follow one another.

    `rows_of` has the lines of each run. Those of several runs are put aside, so that none is kept in memory for the others.
    """
    empty = _line(("",), _COLUMNS)
    yield _line(header, _COLUMNS)
    if len(runs) == 1:
        for lines in rows_of:
            yield from lines
    else:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as aside:
            places, first = array("q", [0]), array("q", [0])  # the end of each line, and the number of each run's first
            for lines in rows_of:
                for line in lines:
                    places.append(places[-1] + aside.write(line.encode("utf-8", "surrogatepass")))
                first.append(len(places) - 1)
            count = max(after - before for before, after in itertools.pairwise(first))
            for number in range(count):
                for before, after in itertools.pairwise(first):
                    place = before + number
                    if place < after:
                        aside.seek(places[place])
                        yield aside.read(places[place + 1] - places[place]).decode("utf-8", "surrogatepass")
                    else:
                        yield empty
    yield empty * _ROWS_BELOW


def end_to_end(runs: Sequence[Result]) -> Iterator[str]:
    """EndToEnd.csv: computing, exposed and total communication of every layer; of a run without layers its totals, in one row."""
    header = ["", ""]
    header += [f"{short} compute" for short in _PASSES]
    header += [f"{short} exposed comm" for short in _PASSES]
    header += [f"{short} total comm" for short in _PASSES]
    header += ["workload finished at", "total comp", "total exposed comm"]
    return _by_layers(header, runs, map(_times_of_layers, runs))


_NINE = ",".join(["%.6f"] * 9)


def _times_of_layers(result: Result) -> list[str]:
    """The rows of a run in EndToEnd.csv."""
    name, finished = _quoted(result.run_name), _us(result.finish_ns)
    rows = [["", name, "," * 8, finished]] if not result.layers else []
    for layer in result.layers:
        forward, weights, inputs = layer.forward, layer.weight_gradient, layer.input_gradient
        times = [forward.compute_ns, weights.compute_ns, inputs.compute_ns]
        times += [forward.exposed_comm_ns, weights.exposed_comm_ns, inputs.exposed_comm_ns]
        times += [forward.total_comm_ns, weights.total_comm_ns, inputs.total_comm_ns]
        rows.append([_quoted(layer.name), name, _NINE % tuple(time / 1000 for time in times), finished])
    rows[0] += [_us(result.compute_ns), _us(result.exposed_comm_ns)]
    return [_line(row, _COLUMNS - 8) for row in rows]  # nine cells are one text


def detailed(runs: Sequence[Result]) -> Iterator[str]:
    """detailed.csv: mean queueing and network delays of every layer's phases, and the mean time of a chunk in each dimension."""
    header = ["", ""]
    first = runs[0]
    if first.layers:
        layer = first.layers[0]
        header += [f"queuing delay phase {number}" for number in range(len(layer.queueing_delay_ns))]
        header += [f"network delay phase {number}" for number in range(1, len(layer.network_delay_ns) + 1)]
    column = _column_of_dimensions(first)
    for index in range(len(first.dimensions)):
        _write(header, column + index, f"avg chunk delay dimension {index + 1}")
    return _by_layers(header, runs, map(_delays_of_layers, runs))


def _column_of_dimensions(result: Result) -> int:
    """The column after the delays of the last layer."""
    return 2 + (len(_delays(result.layers[-1])) if result.layers else 0)


def _delays_of_layers(result: Result) -> list[str]:
    """The rows of a run in detailed.csv."""
    name = _quoted(result.run_name)
    rows = [[_quoted(layer.name), name, *map(_us, _delays(layer))] for layer in result.layers] or [["", name]]
    for column, dimension in enumerate(result.dimensions, _column_of_dimensions(result)):
        latency = dimension.average_chunk_latency_ns
        _write(rows[0], column, "-nan" if latency is None else _us(latency))
    return [_line(row, _COLUMNS) for row in rows]


def _delays(layer: LayerFigures) -> list[float]:
    return [*layer.queueing_delay_ns, *layer.network_delay_ns]


def backend_end_to_end(runs: Sequence[Result]) -> Iterator[str]:
    """backend_end_to_end.csv: a row for each run."""
    rows = [_backend_row(result) for result in runs]
    columns = ["RunName", "CommsTime", "ComputeTime", "ExposedCommsTime", "Cost", "TotalPayloadSize", "DPCommsTime", "MPCommsTime"]
    payload = max(_PAYLOAD_DIMENSIONS, *(dimensions for _, dimensions in rows))
    columns += [f"PayloadSize_Dim{dimension}" for dimension in range(payload)]
    yield _line(columns, len(columns))
    for row, dimensions in rows:
        yield row + ",-1" * (payload - dimensions) + "\n"


def _backend_row(result: Result) -> tuple[str, int]:
    """The row of a run, and the number of dimensions in it, which come last."""
    payload = result.network["payload_bytes_per_dimension"]
    data_parallel = result.layers[0].weight_gradient.exposed_comm_ns if result.layers else 0
    cost = result.network.get("cost_usd")
    cells = [
        _quoted(result.run_name),
        _us(result.finish_ns),
        _us(result.compute_ns),
        _us(result.exposed_comm_ns),
        "nan" if cost is None else f"{cost:.6f}",
        _mib(result.network["payload_bytes"]),
        _us(data_parallel),
        _us(result.exposed_comm_ns - data_parallel),
        *map(_mib, payload),
    ]
    return ",".join(cells), len(payload)


def _mib(size: float) -> str:
    return f"{size / MIB:.6f}"


def backend_dim_info(runs: Sequence[Result]) -> Iterator[str]:
    """backend_dim_info.csv: the mean time of a chunk in each dimension; ten rows for each run, and more go into those of the next."""
    yield "RunName,DimensionIndex,AverageChunkLatency\n"
    beyond: list[list[str]] = []
    for result in runs:
        rows, beyond = beyond, []
        rows += ([""] * 3 for _ in range(_DIMENSION_ROWS - len(rows)))
        for index, dimension in enumerate(result.dimensions):
            latency = dimension.average_chunk_latency_ns
            if index == len(rows):
                rows.append([""] * 3)
            for column, text in enumerate((_quoted(result.run_name), str(index), "-nan" if latency is None else _us(latency))):
                _write(rows[index], column, text)
        rows, beyond = rows[:_DIMENSION_ROWS], rows[_DIMENSION_ROWS:]
        yield from (_line(row, 3) for row in rows)
    yield from (_line(row, 3) for row in beyond)


def tutorial_result(runs: Sequence[Result]) -> Iterator[str]:
    """tutorial_result.csv: total, computing and exposed communication time, and the bytes that an NPU sends; a row for each run."""
    yield "Name,TotalTime(us),ComputeTime(us),ExposedCommunicationTime(us),TotalMessageSize(MB)\n"
    for result in runs:
        times = ",".join(map(_us, (result.finish_ns, result.compute_ns, result.exposed_comm_ns)))
        yield f"{_quoted(result.run_name)},{times},{_mib(result.network['payload_bytes'])}\n"
