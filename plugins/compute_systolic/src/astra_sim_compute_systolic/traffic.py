"""The traffic of an operand from DRAM if fetching never makes the array wait (SCALE-Sim v2, `InterfaceBandwidth: CALC`).

The SRAM holds the elements demanded since it was last emptied, and is emptied when half of it is full. An element that is not in it
when it is demanded is fetched. The bandwidth is the one needed to fetch each half while the half before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from astra_sim import InputError
from astra_sim.shapes import Shape
from numpy.typing import NDArray

from astra_sim_compute_systolic.array import SystolicArray, ceil_div
from astra_sim_compute_systolic.streams import MovingStream, Numbers, OperandStream, ifmap_addresses, operands
from astra_sim_compute_systolic.write_buffer import DramTraffic

_FIRST_BANDWIDTH = 10
"""Elements per cycle at which the first half is fetched, before the layer begins."""


def operand_traffic(array: SystolicArray, shape: Shape, ifmap_sram: int, filter_sram: int) -> tuple[DramTraffic, DramTraffic]:
    """The elements fetched for ifmap and filter. `ifmap_sram` and `filter_sram` are the sizes of their SRAMs, in elements."""
    streams = operands(array, shape)
    folds = array.folds(array.mapping(shape.gemm.m, shape.gemm.n, shape.gemm.k))
    cycles = int(array.fold_cycles(array.mapping(shape.gemm.m, shape.gemm.n, shape.gemm.k).time))
    traffic = []
    for stream, size, addresses in ((streams.ifmap, ifmap_sram, ifmap_addresses(array, shape)), (streams.filter, filter_sram, None)):
        demand = _Demand(stream, addresses)
        traffic.append(_traffic(demand, size, int(folds.rows), int(folds.columns), cycles))
    return traffic[0], traffic[1]


_BLOCK = 1 << 18
"""Elements of demand handled at once; their order takes some 60 bytes each."""
_MAX_NUMBERS = 1 << 27
"""Limit on the elements of an operand, each of which takes 8 bytes."""
_MAX_DEMANDED = 1 << 31
"""Limit on the elements that all folds demand: about a minute of run time."""


class _Demand:
    """The elements that each fold demands, in order, by number: the address, or the position in the operand."""

    def __init__(self, stream: OperandStream, addresses: NDArray[np.int32] | None) -> None:
        self.stream = stream
        self._addresses = addresses
        tiles = stream.tiles
        self.numbers = tiles.padded if addresses is None else int(addresses.max()) + 1
        self._cached: dict[int, tuple[Numbers, Numbers, Numbers]] = {}
        self.different = tiles.elements if addresses is None else int(np.count_nonzero(np.bincount(addresses[addresses >= 0])))

    def fold(self, row_fold: int, column_fold: int) -> Iterator[tuple[Numbers, NDArray[Any]]]:
        """The cycles of the fold and the numbers of the elements that it demands, in order, in blocks."""
        tiles = self.stream.tiles
        tile = self.stream.tile_of(row_fold, column_fold)
        width = tiles.width_of(tile)
        if _moves(self.stream):
            start = int(self.stream.spans(0, 0).cycles[0])
            for cycles, rows, columns in self._diagonals(width):
                yield self._numbered(cycles + start, rows + tile * tiles.height, columns)
        else:
            # Rows of the part of a tile, last row first, according to the spans.
            spans = self.stream.spans(row_fold, column_fold)
            cycles = np.repeat(spans.cycles, width)
            yield self._numbered(cycles, np.repeat(spans.first // tiles.width, width), np.tile(np.arange(width), len(spans.cycles)))

    def _diagonals(self, width: int) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Cycle, row and column of the elements of a tile in the order in which they are demanded; kept if they are one block."""
        diagonals, at_once = self.stream.tiles.height + width - 1, max(1, _BLOCK // width)
        if diagonals > at_once:
            for first in range(0, diagonals, at_once):
                yield _skewed(self.stream.tiles.height, width, first, min(diagonals, first + at_once))
            return
        if width not in self._cached:
            self._cached[width] = _skewed(self.stream.tiles.height, width, 0, diagonals)
        yield self._cached[width]

    def _numbered(self, cycles: Numbers, rows: Numbers, columns: Numbers) -> tuple[Numbers, NDArray[Any]]:
        if self._addresses is None:
            return cycles, rows * self.stream.tiles.width + columns
        numbers = self._addresses[rows, columns]
        exists = numbers >= 0
        return cycles[exists], numbers[exists]


def _moves(stream: OperandStream) -> bool:
    return isinstance(stream, MovingStream)


def _skewed(height: int, width: int, first: int, last: int) -> tuple[Numbers, Numbers, Numbers]:
    """Cycle, row and column of the elements of a tile on its diagonals from `first` to before `last`, one after another."""
    steps = np.arange(first, last)
    left, right = np.maximum(0, steps - height + 1), np.minimum(steps, width - 1)
    lengths = right - left + 1
    cycles = np.repeat(steps, lengths)
    columns = np.arange(len(cycles)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(left, lengths)
    return cycles, cycles - columns, columns


def _traffic(demand: _Demand, size: int, row_folds: int, column_folds: int, fold_cycles: int) -> DramTraffic:
    """The traffic of one operand. It is simulated only if half of the buffer does not hold all of it."""
    set_size = size // 100
    half = 50 * set_size
    if demand.different < half:
        fetched = ceil_div(demand.different, set_size) * set_size
        return DramTraffic(-ceil_div(fetched, _FIRST_BANDWIDTH), -1, demand.different)
    tiles = demand.stream.tiles
    demanded = row_folds * column_folds * tiles.height * tiles.width if _moves(demand.stream) else tiles.padded
    for count, most, what in ((demand.numbers, _MAX_NUMBERS, "elements"), (demanded, _MAX_DEMANDED, "elements demanded over all folds")):
        if count > most:
            raise InputError(f"an operand of {count} {what} is too large for its memory traffic to be simulated; expected at most {most}")
    filled = _Filled(demand.numbers, half)
    for column_fold in range(column_folds):
        for row_fold in range(row_folds):
            for cycles, numbers in demand.fold(row_fold, column_fold):
                filled.add(cycles, numbers, (column_fold * row_folds + row_fold) * fold_cycles)
    before = int(demand.stream.spans(0, 0).cycles[0]) - 1
    return DramTraffic(before - ceil_div(half, _FIRST_BANDWIDTH) + 1, filled.last_emptied + 1, filled.fetched)


class _Filled:
    """The contents of an SRAM that is emptied whenever `half` elements have been fetched into it."""

    def __init__(self, numbers: int, half: int) -> None:
        self._half = half
        self._stamps = np.zeros(numbers, dtype=np.int32)
        self._places = np.zeros(numbers, dtype=np.int32)  # within a block
        self._stamp = 1
        self._room = half
        self.fetched = 0
        self.last_emptied = 0

    def add(self, cycles: Numbers, numbers: NDArray[Any], begin: int) -> None:
        """Fetch the missing ones of the elements with these numbers, in turn. `begin` is added to the cycles."""
        done = 0
        while done < len(numbers):
            missing = done + np.flatnonzero(self._stamps[numbers[done:]] != self._stamp)
            # Of an element that comes several times, the first time counts.
            self._places[numbers[missing[::-1]]] = missing[::-1]
            missing = missing[self._places[numbers[missing]] == missing]
            fetched = missing[: self._room]
            self._stamps[numbers[fetched]] = self._stamp
            self.fetched += len(fetched)
            self._room -= len(fetched)
            if self._room:
                return
            self._stamp += 1
            self._room = self._half
            done = int(fetched[-1]) + 1
            self.last_emptied = begin + int(cycles[fetched[-1]])
