"""Measured kernels against the gpu compute model: products of matrices, and flash attention.

    python validation/kernels.py            print the table of validation/KERNELS.md
    python validation/kernels.py --assign   record the half of every line that has none yet

Each line of `data/kernels.jsonl` names its source, and its `half`: "fit" (the numbers of the device were fitted to it), "held_out", or
"none" (its table is in no fit). A half that is recorded stays.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim.compute import Work
from astra_sim.fitting import ErrorOf
from astra_sim.shapes import Attention, Cast, Gemm
from astra_sim_compute_gpu.fitting import LARGE_OPERATIONS, KernelMeasurement, error_over
from astra_sim_compute_gpu.model import Gpu, GpuOptions

FILE = Path(__file__).parent / "data" / "kernels.jsonl"
FIT, HELD_OUT, NONE = HALVES = ("fit", "held_out", "none")


@attrs.frozen
class Table:
    """Measured kernels of one device by one library: how its lines are known, and whether the device was fitted to it."""

    title: str
    device: str
    gpu: str
    what: str
    element_type: str
    library: str
    is_fitted: bool = True

    def has(self, line: dict[str, Any]) -> bool:
        """Whether a line of the file is of this table."""
        named = line["gpu"] == self.gpu and line["what"].startswith(self.what) and self.library in line["source"]["path"]
        return named and line["dtype"].replace("bfloat", "bf") == self.element_type


_GEMM, _ATTENTION, _BEST = "gemm", "causal attention", "gemm, best of many shapes"
_BACKWARD = "causal attention backward (flash)"
_A100, _H100, _H200, _B200 = "A100-SXM4-80GB", "H100-SXM5-80GB", "H200", "B200-SXM"
_TRTLLM, _SGLANG, _CUDNN = "/trtllm/1.3.0rc20/", "/sglang/0.5.10/", "sdpa_benchmark_training/results/"
_ML_ENGINEERING = "compute/accelerator/README.md"
TABLES = (
    Table("A100, bf16, SGLang 0.5.10", "a100-80", _A100, _GEMM, "bf16", _SGLANG),
    Table("A100, bf16, TensorRT-LLM 1.0.0, with the numbers of the line above", "a100-80", _A100, _GEMM, "bf16", "/trtllm/1.0.0/", False),
    Table("H100, bf16", "h100", _H100, _GEMM, "bf16", _TRTLLM),
    Table("H100, fp8 with cast", "h100", _H100, _GEMM, "fp8", _TRTLLM),
    Table("H200, bf16", "h200", _H200, _GEMM, "bf16", _TRTLLM),
    Table("H200, fp8 with cast", "h200", _H200, _GEMM, "fp8", _TRTLLM),
    Table("B200, bf16", "b200", _B200, _GEMM, "bf16", _TRTLLM),
    Table("B200, fp8 with cast", "b200", _B200, _GEMM, "fp8", _TRTLLM),
    Table("A100, flash attention, causal, d = 128", "a100-80", _A100, _ATTENTION, "bf16", _SGLANG),
    Table("H100, flash attention", "h100", _H100, _ATTENTION, "bf16", _SGLANG),
    Table("H200, flash attention", "h200", _H200, _ATTENTION, "bf16", _SGLANG),
    *(
        Table(f"{gpu}, cuDNN attention, forward and backward, {precision}", gpu.lower(), gpu, _ATTENTION, precision, _CUDNN)
        for gpu in ("GB200", "GB300")
        for precision in ("bf16", "fp8")
    ),
    Table("A100, best of many products", "a100-80", "A100-SXM4", _BEST, "bf16", _ML_ENGINEERING, False),
    Table("H100, best of many products", "h100", "H100-SXM5", _BEST, "bf16", _ML_ENGINEERING, False),
    Table("B200, best of many products", "b200", "B200-SXM", _BEST, "bf16", _ML_ENGINEERING, False),
)
"""What is compared. Other lines are of devices without a file, of MI300X, which was scaled to its line, or B200's attention, of which
rows are faster than the device's peak."""


@attrs.frozen
class Point:
    """A measured kernel and its simulated time, in microseconds."""

    table: Table
    half: str
    measurement: KernelMeasurement
    simulated_us: float


@attrs.frozen
class Row:
    """The errors of a table: of what was fitted, of what was not, and of the latter's kernels above 10^11 operations."""

    table: Table
    rows: int
    fitted: ErrorOf
    held_out: ErrorOf
    held_out_large: ErrorOf


def read_lines(path: Path = FILE) -> list[dict[str, Any]]:
    """The lines of a file of measured kernels."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def measurement_of(line: dict[str, Any]) -> KernelMeasurement:
    """The kernel of a line. Times of FP8 include the cast of the first factor; best products are given in 10^12 operations/s."""
    held_out = {FIT: False, HELD_OUT: True}.get(line.get("half", NONE))
    if line["what"].startswith(_ATTENTION):
        heads, length = line["batch"] * line["heads"], line["seq"]
        shape = Attention(
            heads=heads,
            key_heads=line["batch"] * line["kv_heads"],
            query_length=length,
            key_length=length,
            head_size=line["head_dim"],
            value_size=line.get("value_dim"),
            causal=True,
            backward=line["what"] == _BACKWARD,
            element_type=line["dtype"].replace("bfloat", "bf"),
        )
        return KernelMeasurement(shape, line["value"], held_out=held_out)
    element_type = line["dtype"].replace("bfloat", "bf")
    gemm = Gemm(m=line["m"], n=line["n"], k=line["k"], element_type=element_type)
    microseconds = line["value"] if line["unit"] == "us" else gemm.operations / line["value"] / 1e6
    return KernelMeasurement(gemm, microseconds, cast=element_type == "fp8", held_out=held_out)


@functools.cache
def _model(device: str) -> Gpu:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # devices of which attention alone was fitted
        return Gpu(GpuOptions(device=device))


def simulated_us(device: str, measurement: KernelMeasurement) -> float:
    """Microseconds of a kernel on a device, with its cast where the measured time includes one."""
    took = _model(device).duration_ns(Work(shape=measurement.shape))
    if measurement.cast and isinstance(measurement.shape, Gemm):
        took += _model(device).duration_ns(Work(shape=Cast(elements=measurement.shape.input_elements)))
    return took / 1000


def points(lines: Iterable[dict[str, Any]] | None = None) -> list[Point]:
    """All kernels that are compared, table by table."""
    lines = read_lines() if lines is None else list(lines)
    result = []
    for table in TABLES:
        for line in filter(table.has, lines):
            measurement = measurement_of(line)
            result.append(Point(table, line["half"], measurement, simulated_us(table.device, measurement)))
    return result


def summary(found: Sequence[Point] | None = None) -> list[Row]:
    """The errors of each table. Where it is in no fit, all its rows count as held out."""
    found = points() if found is None else found
    rows = []
    for table in TABLES:
        of_table = [point for point in found if point.table == table]
        fitted = [point for point in of_table if point.half == FIT]
        others = [point for point in of_table if point.half != FIT]
        large = [point for point in others if point.measurement.shape.operations > LARGE_OPERATIONS]
        rows.append(Row(table, len(of_table), *(_error(table, part) for part in (fitted, others, large))))
    return rows


def _error(table: Table, found: Sequence[Point]) -> ErrorOf:
    return error_over([point.measurement for point in found], functools.partial(simulated_us, table.device))


def markdown(rows: Sequence[Row]) -> list[str]:
    """The lines of a table of errors."""
    lines = [
        "| device, kernels | rows | error fitted | held out | held out, over 10^11 operations |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        errors = (f"{error.mean:.1%}".replace("%", " %") if error.rows else "" for error in (row.fitted, row.held_out, row.held_out_large))
        lines.append(f"| {row.table.title} | {row.rows} | {' | '.join(errors)} |".replace("  |", " |"))
    return lines


def assign_halves(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines, each with a half. One without takes that of its shape in the same table, or else that of the hash of the shape alone.

    So it depends on no other shape, and what has been fitted is never held out.
    """
    halves: dict[tuple[Table, str], str] = {}
    tables = [next((table for table in TABLES if table.is_fitted and table.has(line)), None) for line in lines]
    for table, line in zip(tables, lines, strict=True):
        if table is not None and "half" in line:
            halves[table, measurement_of(line).text] = line["half"]
    result = []
    for table, line in zip(tables, lines, strict=True):
        if "half" not in line:
            text = "" if table is None else measurement_of(line).text
            line = {**line, "half": NONE if table is None else halves.setdefault((table, text), half_of(text))}
        result.append(line)
    return result


def half_of(text: str) -> str:
    """The half of a shape that has none yet, by the lowest bit of the SHA-256 of its text."""
    return FIT if hashlib.sha256(text.encode()).digest()[-1] % 2 == 0 else HELD_OUT


def main() -> None:
    """Print the table, or assign halves."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--assign", action="store_true", help="record the half of every line that has none yet")
    if parser.parse_args().assign:
        FILE.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in assign_halves(read_lines())), encoding="utf-8")
    else:
        print("\n".join(markdown(summary())))


if __name__ == "__main__":
    main()
