"""Measures the systolic-array model on this machine: python3 dev.py bench systolic.

Every figure is the median of several runs, with the smallest beside it. SCALE-Sim's figures are not measured here: they are processor
time of SCALE-Sim v2 (git main), measured once on one core of a two-core machine, for the 54 layers of its own Resnet50.csv, whose
inputs have no padding, and for the same product of matrices. Machines differ by a factor of two.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from astra_sim.shapes import Gemm, Shape
from astra_sim_compute_systolic.array import Dataflow, Srams, SystolicArray
from astra_sim_compute_systolic.generate.model_file import read_model
from astra_sim_compute_systolic.report import report_layer
from rich.console import Console
from rich.table import Table

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
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
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


def main() -> None:
    """Measure everything and print one table."""
    table = Table(title=f"systolic arrays on {platform.machine()}, Python {platform.python_version()}", title_justify="left")
    for name in ("what", "median", "best", "SCALE-Sim v2", "ratio"):
        table.add_column(name, justify="left" if name == "what" else "right")

    def add(what: str, seconds: tuple[float, float], theirs: float | None = None) -> None:
        ratio = "" if theirs is None else f"{theirs / seconds[0]:,.0f}"
        table.add_row(what, *(f"{value * 1e3:.3f} ms" for value in seconds), "" if theirs is None else f"{theirs:g} s", ratio)

    shapes = [layer.shape for layer in read_model("resnet50", 1, {})]
    for (size, dataflow), theirs in SCALE_SIM_RESNET50_S.items():
        array = SystolicArray(size, size, dataflow)
        add(
            f"cycles of ResNet-50, {len(shapes)} layers, {size} x {size}, {dataflow}",
            timed(partial(all_cycles, array, shapes), 50),
            theirs,
        )
    for size in (128, 256):
        theirs = SCALE_SIM_RESNET50_S[size, Dataflow.WEIGHT_STATIONARY]
        add(f"the same with all reports, {size} x {size}, ws", timed(partial(reports, size, None), 3), theirs)
    add("the same with stalls at 10 elements per cycle, 128 x 128, ws", timed(partial(reports, 128, 10), 3))
    product = Gemm(m=1024, n=512, k=512)
    for size, shortest in SCALE_SIM_GEMM_S.items():
        array = SystolicArray(size, size, Dataflow.WEIGHT_STATIONARY)
        kib64 = Srams(64 << 10, 64 << 10, 64 << 10)
        add(
            f"all reports of 1024 x 512 x 512, {size} x {size}, ws",
            timed(partial(report_layer, "", product, array, kib64, None), 5),
            shortest,
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
