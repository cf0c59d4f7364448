"""Runs a layer against its SRAMs: stalls, and traffic to DRAM (SCALE-Sim v2).

In each cycle the array asks for its operands and puts out results. What is missing makes it wait: for the last element of a half SRAM that
is fetched ahead, or for outputs to drain. In one cycle the longest of the three waits counts. Only cycles in which something can happen are
looked at: those in which a window slides, and those in which outputs drain or wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import attrs
from astra_sim.models import Shape

from astra_sim_compute_systolic.array import Folds, Srams, SystolicArray, ceil_div
from astra_sim_compute_systolic.read_buffer import LookedUpRanks, Ranks, ReadBuffer, Slides, ranks
from astra_sim_compute_systolic.streams import ifmap_addresses, operands
from astra_sim_compute_systolic.traffic import operand_traffic
from astra_sim_compute_systolic.write_buffer import DramTraffic, OutputPattern, WriteBuffer


class Active(NamedTuple):
    """The first and the last cycle in which an SRAM is accessed."""

    start: int
    stop: int


@attrs.frozen
class Timing:
    """How long a layer takes, and when its memories are busy. Cycles count from 0; `total` is the number of the last."""

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
    readers = tuple(_Reader(*reader, bandwidth) for reader in zip(elements, (part.padded for part in tiles), sizes, strict=True))
    return _Run(array, shape, elements, readers, WriteBuffer(srams.ofmap, bandwidth)).run()


def simulate_without_stalls(array: SystolicArray, shape: Shape, srams: Srams) -> Timing:
    """A layer whose operands are always there. Outputs drain with one element per cycle for each column of the array."""
    return _Run(array, shape, _elements(array, shape), (), WriteBuffer(srams.ofmap, array.columns)).run(
        operand_traffic(array, shape, srams.ifmap, srams.filter)
    )


_Elements = tuple[Ranks | LookedUpRanks, Ranks | LookedUpRanks]


def _elements(array: SystolicArray, shape: Shape) -> _Elements:
    streams = operands(array, shape)
    return ranks(streams.ifmap, ifmap_addresses(array, shape)), ranks(streams.filter, None)


class _Reader:
    """An operand's buffer, with the time at which what it has fetched ahead is there."""

    def __init__(self, elements: Ranks | LookedUpRanks, padded: int, size: int, bandwidth: int) -> None:
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
        """What was fetched."""
        return DramTraffic(self._first, self.ready, self._fetched * self._bandwidth)


class _Run:
    def __init__(self, array: SystolicArray, shape: Shape, elements: _Elements, readers: tuple[_Reader, ...], writer: WriteBuffer) -> None:
        gemm = shape.gemm
        self._array = array
        self._elements = elements
        self._mapping = array.mapping(gemm.m, gemm.n, gemm.k)
        self._folds: Folds = array.folds(self._mapping)
        self._fold_cycles = int(array.fold_cycles(self._mapping.time))
        self._readers = readers
        self._writer = writer
        self._patterns: dict[tuple[int, int], OutputPattern] = {}
        self._stalled: list[tuple[int, int]] = [(-1, 0)]  # (cycle without stalls, stalls up to and including it)
        self._own: dict[tuple[int, int], int] = {}  # (operand, cycle without stalls): its own wait there

    def run(self, fetched: tuple[DramTraffic, DramTraffic] | None = None) -> Timing:
        """Go through all folds. `fetched`: traffic of the operands; not given: that of the readers."""
        slides = heapq.merge(*(self._numbered(number, reader) for number, reader in enumerate(self._readers)))
        upcoming = next(slides, None)
        stalls = 0
        for fold in range(self._folds.rows * self._folds.columns):
            begin, end = fold * self._fold_cycles, (fold + 1) * self._fold_cycles
            pattern = self._pattern(fold)
            cycle = begin
            while True:
                write = self._next_write(pattern, cycle - begin, begin + stalls)
                following = min(upcoming[0] if upcoming is not None else end, end if write is None else begin + write)
                stop = min(following, end)
                self._writer.put(pattern.before(stop - begin) - pattern.before(cycle - begin))
                if following >= end:
                    break
                waits = [0]
                while upcoming is not None and upcoming[0] == following:
                    _, number, slide = upcoming
                    reader = self._readers[number]
                    reader.slide(slide.times)
                    self._own[number, following] = max(0, reader.ready - (following + stalls + 1))
                    waits.append(self._own[number, following])
                    upcoming = next(slides, None)
                outputs = pattern.before(following + 1 - begin) - pattern.before(following - begin)
                written = self._writer.write(outputs, following + stalls)
                waits.append(written - following - stalls)
                self._own[2, following] = waits[-1]
                stalls += max(waits)
                self._stalled.append((following, stalls))
                cycle = following + 1
        if fetched is None:
            ifmap, filter_ = self._readers
            fetched = ifmap.traffic(), filter_.traffic()
        return self._timing(stalls, fetched)

    def _numbered(self, number: int, reader: _Reader) -> Iterator[tuple[int, int, Slides]]:
        for slides in reader.buffer.slides(self._folds.rows, self._folds.columns, self._fold_cycles):
            yield slides.cycle, number, slides

    def _pattern(self, fold: int) -> OutputPattern:
        column, row = divmod(fold, self._folds.rows)
        used = (
            min(self._array.rows, self._mapping.rows - row * self._array.rows),
            min(self._array.columns, self._mapping.columns - column * self._array.columns),
        )
        if used not in self._patterns:
            self._patterns[used] = OutputPattern(self._array, self._mapping.time, *used)
        return self._patterns[used]

    def _next_write(self, pattern: OutputPattern, cycle: int, offset: int) -> int | None:
        """The cycle of the fold, from `cycle` on, in which outputs begin to drain or to wait; None: in this fold no more.

        `offset` makes cycles of the fold cycles with stalls.
        """
        before = pattern.before(cycle)
        waiting = before + self._writer.outputs_to_wait()
        if waiting <= pattern.outputs:
            found = pattern.cycle_of(waiting)
            if found + offset < self._writer.drain_end:
                return found
        draining = before + self._writer.outputs_to_drain()
        if draining > pattern.outputs:
            return None
        found = max(pattern.cycle_of(draining), self._writer.drain_end - offset)
        return found if found <= pattern.stop else None

    def _timing(self, stalls: int, fetched: tuple[DramTraffic, DramTraffic]) -> Timing:
        folds = self._folds.rows * self._folds.columns
        last = folds * self._fold_cycles - 1
        total = self._served(2, last, latency=0)
        self._writer.drain_rest(total)
        ofmap_first = self._pattern(0).start
        ofmap_last = (folds - 1) * self._fold_cycles + self._pattern(folds - 1).stop
        return Timing(
            total,
            stalls,
            self._active(0),
            self._active(1),
            Active(self._served(2, ofmap_first, latency=0), self._served(2, ofmap_last, latency=0)),
            *fetched,
            self._writer.traffic(),
        )

    def _active(self, operand: int) -> Active:
        """The first and the last cycle in which what is demanded of an operand's SRAM is there."""
        elements = self._elements[operand]
        begin = self._folds.rows * self._folds.columns
        last = None
        while last is None:  # a fold may lie wholly beyond the input
            begin -= 1
            column, row = divmod(begin, self._folds.rows)
            cycles = elements.spans(row, column)[0]
            last = int(cycles[-1]) if len(cycles) else None
        first = int(elements.spans(0, 0)[0][0])
        return Active(self._served(operand, first, latency=1), self._served(operand, begin * self._fold_cycles + last, latency=1))

    def _served(self, operand: int, cycle: int, latency: int) -> int:
        """The cycle, with stalls, in which what an operand's SRAM is asked for in a cycle without stalls is done."""
        before = next(stalls for when, stalls in reversed(self._stalled) if when < cycle)
        return cycle + before + self._own.get((operand, cycle), 0) + latency
