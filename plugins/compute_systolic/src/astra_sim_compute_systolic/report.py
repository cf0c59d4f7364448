"""The figures of SCALE-Sim's reports for one layer."""

from __future__ import annotations

import attrs
import numpy as np
from astra_sim.shapes import Gemm, Shape

from astra_sim_compute_systolic.array import Accesses, Srams, SystolicArray
from astra_sim_compute_systolic.stalls import Timing, simulate_stalls, simulate_without_stalls


@attrs.frozen
class LayerReport:
    """A layer's row in SCALE-Sim's reports. Shares are percentages, bandwidths elements per cycle, cycles are counted from 0."""

    name: str
    gemm: Gemm
    timing: Timing
    overall_utilisation: float
    mapping_efficiency: float
    compute_utilisation: float
    accesses: Accesses

    @property
    def sram_bandwidths(self) -> tuple[float, float, float]:
        """Elements per cycle between the array and the SRAMs of ifmap, filter and ofmap, on average."""
        return tuple(accesses / max(1, self.timing.total) for accesses in self.accesses)

    @property
    def dram_bandwidths(self) -> tuple[float, float, float]:
        """The same between SRAMs and DRAM."""
        return self.timing.ifmap_dram.bandwidth, self.timing.filter_dram.bandwidth, self.timing.ofmap_dram.bandwidth


def report_layer(name: str, shape: Shape, array: SystolicArray, srams: Srams, bandwidth: int | None) -> LayerReport:
    """A layer's report. `bandwidth`: elements per cycle of each interface to DRAM; None: unlimited (`CALC`)."""
    gemm = shape.gemm
    timing = simulate_without_stalls(array, shape, srams) if bandwidth is None else simulate_stalls(array, shape, srams, bandwidth)
    mapping_efficiency, compute_utilisation = fold_averages(array, gemm)
    return LayerReport(
        name=name,
        gemm=gemm,
        timing=timing,
        overall_utilisation=100 * gemm.m * gemm.n * gemm.k / (max(1, timing.total) * array.rows * array.columns),
        mapping_efficiency=mapping_efficiency,
        compute_utilisation=compute_utilisation,
        accesses=array.sram_accesses(gemm.m, gemm.n, gemm.k),
    )


def fold_averages(array: SystolicArray, gemm: Gemm) -> tuple[float, float]:
    """Mapping efficiency and compute utilisation in per cent, averaged over the folds one by one as SCALE-Sim does it.

    In exact arithmetic these equal `array.mapping_efficiency` and its like; adding fold by fold gives SCALE-Sim's last digits.
    """
    mapping = array.mapping(gemm.m, gemm.n, gemm.k)
    folds = array.folds(mapping)
    rows = np.full(folds.rows, array.rows)
    rows[-1] = mapping.rows - (folds.rows - 1) * array.rows
    columns = np.full(folds.columns, array.columns)
    columns[-1] = mapping.columns - (folds.columns - 1) * array.columns
    used = (columns[:, None] * rows[None, :]).ravel()
    units = array.rows * array.columns
    efficiency = np.cumsum(used / units)[-1] / len(used) * 100
    utilisation = np.cumsum(used * mapping.time / (units * array.utilisation_cycles(mapping.time)))[-1] / len(used) * 100
    return float(efficiency), float(utilisation)
