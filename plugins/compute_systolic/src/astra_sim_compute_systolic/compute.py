"""The compute model `systolic`."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.compute import Compute, MissingWork, Work
from astra_sim.memo import cached
from astra_sim.shapes import Convolution, Gemm, GroupedGemm, Shape

from astra_sim_compute_systolic.array import Dataflow, Srams, SystolicArray


@attrs.frozen
class SystolicOptions:
    """Options of the systolic model. Without a DRAM bandwidth the array never waits, and SRAM sizes do not matter."""

    array_rows: int = option(128, minimum=1, maximum=1 << 20, help="rows of the array")
    array_cols: int = option(128, minimum=1, maximum=1 << 20, help="columns of the array")
    dataflow: str = option("ws", choices=tuple(Dataflow), help="stationary operand: output, weight or input")
    clock_ghz: float = option(1.0, above=0, help="clock of the array", unit="10^9 cycles/s")
    dram_bandwidth_elements_per_cycle: int | None = option(
        None, minimum=1, help="bandwidth of each operand's interface to DRAM; none: the array never waits", unit="elements/cycle"
    )
    ifmap_sram_kib: int = option(6144, minimum=1, maximum=1 << 30, help="SRAM for inputs", unit="KiB")
    filter_sram_kib: int = option(6144, minimum=1, maximum=1 << 30, help="SRAM for weights", unit="KiB")
    ofmap_sram_kib: int = option(2048, minimum=1, maximum=1 << 30, help="SRAM for outputs", unit="KiB")
    element_bytes: int = option(1, minimum=1, maximum=1024, help="bytes of an element, for SRAM sizes", unit="bytes")


class Systolic(Compute):
    """A pass takes the cycles that SCALE-Sim reports for its shape: the number of the last cycle, stalls included.

    The products of a batch, or of experts, run one after another.
    """

    def __init__(self, options: SystolicOptions) -> None:
        self._options = options
        self._array = SystolicArray(options.array_rows, options.array_cols, Dataflow(options.dataflow))

    def cycles(self, shape: Shape) -> int:
        """Cycles for a shape."""
        bandwidth = self._options.dram_bandwidth_elements_per_cycle
        if bandwidth is None:
            gemm = shape.gemm
            return int(self._array.total_cycles(gemm.m, gemm.n, gemm.k))
        options = self._options
        kib = (options.ifmap_sram_kib, options.filter_sram_kib, options.ofmap_sram_kib)
        return _cycles_with_stalls(self._array, shape, tuple(1024 * size // options.element_bytes for size in kib), bandwidth)

    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes. Raises MissingWork if it has no shape."""
        if work.shape is None:
            raise MissingWork("it has no shape, which the systolic model needs; give gemm = {m = ..., n = ..., k = ...} or a convolution")
        shape = work.shape.batched if isinstance(work.shape, GroupedGemm) else work.shape
        if not isinstance(shape, (Gemm, Convolution)):
            raise MissingWork(
                f"its shape, {shape.kind}, is not a product of matrices, which the systolic model needs; give gemm or convolution"
            )
        if isinstance(shape, Gemm) and shape.batch > 1:
            return shape.batch * self.cycles(attrs.evolve(shape, batch=1)) / self._options.clock_ghz
        return self.cycles(shape) / self._options.clock_ghz


@cached("systolic: cycles with stalls", 4096)
def _cycles_with_stalls(array: SystolicArray, shape: Shape, sram_elements: tuple[int, ...], bandwidth: int) -> int:
    from astra_sim_compute_systolic.stalls import simulate_stalls

    return simulate_stalls(array, shape, Srams(*sram_elements), bandwidth).total
