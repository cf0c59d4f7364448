"""Measures the systolic-array model on this machine: python3 dev.py bench systolic.

Every figure is the median of several runs, with the smallest beside it. SCALE-Sim's figures are not measured here: they are processor
time of SCALE-Sim v2 (git main), measured once on one core of a two-core machine, for the 54 layers of its own Resnet50.csv, whose
inputs have no padding, and for the same product of matrices. Machines differ by a factor of two.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from astra_sim.shapes import Gemm, Shape
from astra_sim_compute_systolic.array import Dataflow, Srams, SystolicArray
from astra_sim_compute_systolic.generate.model_file import read_model
from astra_sim_compute_systolic.report import report_layer

from devtools.figures import FigureTable, Row, main

SCALE_SIM_RESNET50_S = {
    (128, Dataflow.OUTPUT_STATIONARY): 118,
    (128, Dataflow.WEIGHT_STATIONARY): 135,
    (128, Dataflow.INPUT_STATIONARY): 141,
    (256, Dataflow.OUTPUT_STATIONARY): 103,
    (256, Dataflow.WEIGHT_STATIONARY): 114,
    (256, Dataflow.INPUT_STATIONARY): 122,
}
"""ResNet-50, 54 layers, by array and dataflow: seconds."""
SCALE_SIM_GEMM_S = {32: 41.0, 256: 2.9}
"""One product of 1024 x 512 x 512, by array: seconds, the shortest."""
MIB = 1 << 20
SRAMS = Srams(6 * MIB, 6 * MIB, 2 * MIB)


def timed(action: Callable[[], object], runs: int) -> tuple[float, float]:
    """Median and minimum seconds of `runs` runs, after one that does not count."""
    action()
    seconds = []
    for _ in range(runs):
        begin = time.process_time()
        action()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds), min(seconds)


def all_cycles(array: SystolicArray, shapes: list[Shape]) -> int:
    """Cycles of all layers, calculated at once, from their shapes."""
    gemms = [shape.gemm for shape in shapes]
    m, n, k = np.array([(gemm.m, gemm.n, gemm.k) for gemm in gemms]).T
    return int(array.total_cycles(m, n, k).sum())


def reports(size: int, bandwidth: int | None) -> list[object]:
    """Reports of all layers of ResNet-50 on a weight-stationary array of this size, with stalls where there is a bandwidth."""
    array = SystolicArray(size, size, Dataflow.WEIGHT_STATIONARY)
    shapes = [layer.shape for layer in read_model("resnet50", 1, {})]
    return [report_layer("", shape, array, SRAMS, bandwidth) for shape in shapes]


CASES: dict[str, Callable[[], object]] = {
    "reports of ResNet-50, 128 x 128": partial(reports, 128, None),
    "reports of ResNet-50, 256 x 256": partial(reports, 256, None),
    "reports of ResNet-50 with stalls, 128 x 128": partial(reports, 128, 10),
}
"""What `dev.py bench systolic --against REVISION` compares."""


def _row(action: Callable[[], object], runs: int, theirs: float | None = None) -> list[str]:
    median, best = timed(action, runs)
    beside = ["", ""] if theirs is None else [f"{theirs:g} s", f"{theirs / median:,.0f}"]
    return [f"{median * 1e3:.3f} ms", f"{best * 1e3:.3f} ms", *beside]


def _cycles(size: int, dataflow: Dataflow) -> Callable[[], object]:
    shapes = [layer.shape for layer in read_model("resnet50", 1, {})]
    return partial(all_cycles, SystolicArray(size, size, dataflow), shapes)


def _product(size: int) -> Callable[[], object]:
    kib64 = Srams(64 << 10, 64 << 10, 64 << 10)
    array = SystolicArray(size, size, Dataflow.WEIGHT_STATIONARY)
    return partial(report_layer, "", Gemm(m=1024, n=512, k=512), array, kib64, None)


def _shape(size: int) -> str:
    return f"{size} x {size}"


CYCLES = FigureTable(
    "cycles",
    ("what", "array", "astra, median", "best", "SCALE-Sim v2, from its own runs", "ratio"),
    [
        *(
            Row([f"cycles of ResNet-50, {dataflow}", _shape(size)], lambda key=(size, dataflow), s=theirs: _row(_cycles(*key), 50, s))  # type: ignore[misc]
            for (size, dataflow), theirs in SCALE_SIM_RESNET50_S.items()
        ),
        *(
            Row(
                ["the same with all reports, ws", _shape(size)],
                partial(_row, partial(reports, size, None), 3, SCALE_SIM_RESNET50_S[size, Dataflow.WEIGHT_STATIONARY]),
            )
            for size in (128, 256)
        ),
        Row(["the same with stalls at 10 elements per cycle, ws", _shape(128)], partial(_row, partial(reports, 128, 10), 3)),
        *(
            Row(["all reports of 1024 x 512 x 512, ws", _shape(size)], lambda size=size, s=theirs: _row(_product(size), 5, s))  # type: ignore[misc]
            for size, theirs in SCALE_SIM_GEMM_S.items()
        ),
    ],
)
TABLES = (CYCLES,)

if __name__ == "__main__":
    sys.exit(main(TABLES))
