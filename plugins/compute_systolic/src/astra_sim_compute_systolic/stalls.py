"""Runs a layer against its SRAMs: stalls, and traffic to DRAM (SCALE-Sim v2).

In each cycle the array demands operands and puts out results. If an operand is missing, it waits for the last element of a prefetched
half SRAM; if the SRAM of outputs is full, it waits for them to drain. In one cycle the longest of the three waits counts. Only
cycles in which a wait can begin are simulated: those in which a window slides, and those in which outputs drain or wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import attrs
from astra_sim.shapes import Shape

from astra_sim_compute_systolic.array import Folds, Srams, SystolicArray, ceil_div
from astra_sim_compute_systolic.read_buffer import BufferRanks, LookedUpRanks, ReadBuffer, ranks
from astra_sim_compute_systolic.streams import ifmap_addresses, operands
from astra_sim_compute_systolic.traffic import operand_traffic
from astra_sim_compute_systolic.write_buffer import DramTraffic, OutputPattern, WriteBuffer


class Active(NamedTuple):
    """The first and the last cycle in which an SRAM is accessed."""

    start: int
    stop: int


@attrs.frozen
class Timing:
    """The cycles of a layer, and when its memories are busy. Cycles count from 0; `total` is the number of the last."""

    total: int
    stalls: int
    ifmap_sram: Active
    filter_sram: Active
    ofmap_sram: Active
    ifmap_dram: DramTraffic
    filter_dram: DramTraffic
    ofmap_dram: DramTraffic


def simulate_stalls(array: SystolicArray, shape: Shape, srams: Srams, bandwidth: int) -> Timing:
    """A layer whose three interfaces to DRAM carry `bandwidth` elements per cycle each."""
    elements = _elements(array, shape)
    tiles = (stream.tiles for stream in operands(array, shape))
    sizes = (srams.ifmap, srams.filter)
    readers = tuple(_StallReader(*reader, bandwidth) for reader in zip(elements, (part.padded for part in tiles), sizes, strict=True))
    return _StallRun(array, shape, elements, readers, WriteBuffer(srams.ofmap, bandwidth)).run()


def simulate_without_stalls(array: SystolicArray, shape: Shape, srams: Srams) -> Timing:
    """A layer whose operands are always there. Outputs drain with one element per cycle for each column of the array."""
    return _StallRun(array, shape, _elements(array, shape), (), WriteBuffer(srams.ofmap, array.columns)).run(
        operand_traffic(array, shape, srams.ifmap, srams.filter)
    )


_Elements = tuple[BufferRanks | LookedUpRanks, BufferRanks | LookedUpRanks]


def _elements(array: SystolicArray, shape: Shape) -> _Elements:
    streams = operands(array, shape)
    return ranks(streams.ifmap, ifmap_addresses(array, shape)), ranks(streams.filter, None)


class _StallReader:
    """An operand's buffer, with the cycle at which its prefetched elements have arrived."""

    def __init__(self, elements: BufferRanks | LookedUpRanks, padded: int, size: int, bandwidth: int) -> None:
        self.buffer = ReadBuffer(elements, size)
        self._lines = ceil_div(self.buffer.half, bandwidth)
        first_lines = min(ceil_div(size - self.buffer.half, bandwidth), ceil_div(padded, bandwidth))
        self._bandwidth = bandwidth
        self._first = -first_lines
        self._fetched = first_lines
        self.ready = -1

    def slide(self, count: int) -> None:
        """Fetch half an SRAM ahead, `count` times: a line in each cycle, and one more for the latency."""
        self.ready += count * (self._lines + 1)
        self._fetched += count * self._lines

    def traffic(self) -> DramTraffic:
        """The elements fetched so far."""
        return DramTraffic(self._first, self.ready, self._fetched * self._bandwidth)


_IFMAP, _FILTER, _OFMAP = range(3)


class _StallRun:
    """A layer in time. Cycles here are those of an array that never waits; `_stalls` is how much later they are."""

    def __init__(
        self, array: SystolicArray, shape: Shape, elements: _Elements, readers: tuple[_StallReader, ...], writer: WriteBuffer
    ) -> None:
        gemm = shape.gemm
        self._array = array
        self._elements = elements
        self._mapping = array.mapping(gemm.m, gemm.n, gemm.k)
        self._folds: Folds = array.folds(self._mapping)
        self._fold_cycles = int(array.fold_cycles(self._mapping.time))
        self._readers = readers
        self._writer = writer
        self._slides = heapq.merge(*(self._slides_of(operand, reader) for operand, reader in enumerate(readers)))
        self._next_slide = next(self._slides, None)
        self._patterns: dict[tuple[int, int], OutputPattern] = {}
        self._stalls = 0
        self._stalled: list[tuple[int, int]] = [(-1, 0)]  # (cycle, stalls up to and including it)
        self._waits: dict[tuple[int, int], int] = {}  # (operand, cycle): the wait for this operand alone

    def run(self, fetched: tuple[DramTraffic, DramTraffic] | None = None) -> Timing:
        """Go through all folds. `fetched`: traffic of the operands; None: that of the readers."""
        for fold in range(self._folds.rows * self._folds.columns):
            self._fold(fold)
        if fetched is None:
            ifmap, filter_ = self._readers
            fetched = ifmap.traffic(), filter_.traffic()
        return self._timing(fetched)

    def _slides_of(self, operand: int, reader: _StallReader) -> Iterator[tuple[int, int, int]]:
        """Cycle, operand and number of the slides of a window."""
        for slides in reader.buffer.slides(self._folds.rows, self._folds.columns, self._fold_cycles):
            yield slides.cycle, operand, slides.times

    def _fold(self, fold: int) -> None:
        """Go from one cycle in which something can wait to the next."""
        begin, end = fold * self._fold_cycles, (fold + 1) * self._fold_cycles
        pattern = self._pattern(fold)
        cycle = begin
        while cycle < end:
            event = min(end, begin + self._next_write(pattern, cycle - begin, begin + self._stalls))
            if self._next_slide is not None:
                event = min(event, self._next_slide[0])
            self._writer.put(pattern.before(event - begin) - pattern.before(cycle - begin))
            if event < end:
                self._serve(event, pattern.before(event + 1 - begin) - pattern.before(event - begin))
            cycle = event + 1

    def _serve(self, cycle: int, outputs: int) -> None:
        """Serve the demands of one cycle; the longest of the waits delays all later cycles."""
        now = cycle + self._stalls
        waits = [self._writer.write(outputs, now) - now]
        self._waits[_OFMAP, cycle] = waits[0]
        while self._next_slide is not None and self._next_slide[0] == cycle:
            _, operand, times = self._next_slide
            self._readers[operand].slide(times)
            waits.append(max(0, self._readers[operand].ready - (now + 1)))
            self._waits[operand, cycle] = waits[-1]
            self._next_slide = next(self._slides, None)
        self._stalls += max(waits)
        self._stalled.append((cycle, self._stalls))

    def _pattern(self, fold: int) -> OutputPattern:
        column, row = divmod(fold, self._folds.rows)
        used = (
            min(self._array.rows, self._mapping.rows - row * self._array.rows),
            min(self._array.columns, self._mapping.columns - column * self._array.columns),
        )
        if used not in self._patterns:
            self._patterns[used] = OutputPattern(self._array, self._mapping.time, *used)
        return self._patterns[used]

    def _next_write(self, pattern: OutputPattern, cycle: int, offset: int) -> int:
        """The cycle of the fold, from `cycle` on, in which outputs begin to drain or to wait; its end if they do neither.

        `offset` makes cycles of the fold cycles with stalls.
        """
        before = pattern.before(cycle)
        waiting = before + self._writer.outputs_to_wait()
        if waiting <= pattern.outputs:
            largest = pattern.cycle_of(waiting)
            if largest + offset < self._writer.drain_end:
                return largest
        draining = before + self._writer.outputs_to_drain()
        if draining > pattern.outputs:
            return self._fold_cycles
        largest = max(pattern.cycle_of(draining), self._writer.drain_end - offset)
        return largest if largest <= pattern.stop else self._fold_cycles

    def _timing(self, fetched: tuple[DramTraffic, DramTraffic]) -> Timing:
        """The cycles of the layer, when all folds are done: the buffer of results is drained, then when each operand was active."""
        folds = self._folds.rows * self._folds.columns
        last = folds * self._fold_cycles - 1
        total = self._served(_OFMAP, last, latency=0)
        self._writer.drain_rest(total)
        ofmap_first = self._pattern(0).start
        ofmap_last = (folds - 1) * self._fold_cycles + self._pattern(folds - 1).stop
        return Timing(
            total,
            self._stalls,
            self._active(_IFMAP),
            self._active(_FILTER),
            Active(self._served(_OFMAP, ofmap_first, latency=0), self._served(_OFMAP, ofmap_last, latency=0)),
            *fetched,
            self._writer.traffic(),
        )

    def _active(self, operand: int) -> Active:
        """The first and the last cycle in which a demand on an operand's SRAM is served."""
        elements = self._elements[operand]
        fold = self._folds.rows * self._folds.columns
        last = None
        while last is None:  # a fold may be wholly beyond the input
            fold -= 1
            column, row = divmod(fold, self._folds.rows)
            cycles = elements.spans(row, column)[0]
            last = int(cycles[-1]) if len(cycles) else None
        first = int(elements.spans(0, 0)[0][0])
        return Active(self._served(operand, first, latency=1), self._served(operand, fold * self._fold_cycles + last, latency=1))

    def _served(self, operand: int, cycle: int, latency: int) -> int:
        """The cycle, stalls included, in which an operand's SRAM serves the demand of a cycle."""
        before = next(stalls for when, stalls in reversed(self._stalled) if when < cycle)
        return cycle + before + self._waits.get((operand, cycle), 0) + latency
