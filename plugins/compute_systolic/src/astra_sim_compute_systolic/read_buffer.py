"""The SRAM of a prefetched operand: when does it lack an element that the array demands? (SCALE-Sim v2, `InterfaceBandwidth: USER`)

The SRAM is two halves. Elements come in the order of the stream, in *sets* of a hundredth of the SRAM. The array reads the sets of the
active window, which is full when the layer begins. An element outside the window makes it slide by half an SRAM, round and round through
the stream, until the element is in it. The number of slides in each cycle does not depend on time, only on the order of demands;
the stalls that they cause do (`stalls.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from astra_sim import InputError
from numpy.typing import NDArray

from astra_sim_compute_systolic.array import ceil_div
from astra_sim_compute_systolic.streams import Numbers, OperandStream

_BLOCK = 512
_ROWS = 1 << 12
_MAX_MISSING = 1 << 26
"""Limit on elements missing in a last tile, which are looked up one by one: 500 MB of memory."""


class Slides(NamedTuple):
    """The number of slides of the window for the demand of one `cycle` of the layer."""

    cycle: int
    times: int


class ReadBuffer:
    """An operand's SRAM of `size` elements."""

    def __init__(self, ranks: BufferRanks | LookedUpRanks, size: int) -> None:
        self._ranks = ranks
        self._set_size = ceil_div(size, 100)
        active = ceil_div(size, 2)
        self.half = size - active
        self.sets = self._ranks.elements // self._set_size + 1
        self._window = min(self.sets, ceil_div(active, self._set_size))
        self._slide = min(self.sets - self._window, ceil_div(self.half, self._set_size))
        self._start = 0
        self._stamped = -1

    def slides(self, row_folds: int, column_folds: int, fold_cycles: int) -> Iterator[Slides]:
        """When and how often the window slides, over all folds of a layer in order of time."""
        if self._window == self.sets:
            return
        self._ranks.prepare()
        for column_fold in range(column_folds):
            for row_fold in range(row_folds):
                begin = (column_fold * row_folds + row_fold) * fold_cycles
                for slides in self._fold(row_fold, column_fold):
                    yield Slides(begin + slides.cycle, slides.times)

    def _fold(self, row_fold: int, column_fold: int) -> Iterator[Slides]:
        """The slides of one fold. Only cycles that read outside of the buffer are simulated, a block of cycles at a time."""
        cycles, first, last = self._ranks.spans(row_fold, column_fold)
        first_set, last_set = first // self._set_size, last // self._set_size
        row = 0
        while row < len(cycles):
            block = slice(row, row + _BLOCK)
            outside = np.flatnonzero(self._outside(first_set[block], last_set[block]))
            if not len(outside):
                row += _BLOCK
                continue
            row += int(outside[0])
            count = self._reach(int(first[row]), int(last[row]))
            if count:
                yield Slides(int(cycles[row]), count)
            row += 1

    def _outside(self, first_set: Numbers, last_set: Numbers) -> NDArray[np.bool_]:
        """For each span of sets, whether it is not wholly in the window, which may wrap around the end of the stream."""
        first, last = (first_set - self._start) % self.sets, (last_set - self._start) % self.sets
        return (first >= self._window) | (last >= self._window) | (last < first)

    def _reach(self, first: int, last: int) -> int:
        """Slide until each element of a span, in turn, has been in the window. Returns the number of slides."""
        count = 0
        position = first
        while position <= last:
            number = position // self._set_size
            if (number - self._start) % self.sets < self._window:
                position = (number + 1) * self._set_size
            elif elsewhere := self._elsewhere(position, last):
                position += elsewhere
            else:
                self._start = (self._start + self._slide) % self.sets
                count += 1
        return count

    def _elsewhere(self, position: int, last: int) -> int:
        """The number of elements of a span, from its first on, that also are at another position which is in the window."""
        if not isinstance(self._ranks, LookedUpRanks):
            return 0
        if self._stamped != self._start:
            self._stamped = self._start
            begin = self._start * self._set_size
            end = begin + self._window * self._set_size
            total = self.sets * self._set_size
            self._ranks.stamp(slice(begin, end), slice(0, max(0, end - total)))
        return self._ranks.count_stamped(position, last)


def ranks(stream: OperandStream, addresses: NDArray[np.int32] | None) -> BufferRanks | LookedUpRanks:
    """The elements of a stream in the order of fetching. `addresses`: see `streams.ifmap_addresses`."""
    return BufferRanks(stream) if addresses is None else LookedUpRanks(stream, addresses)


class BufferRanks:
    """Positions of the elements that exist, in streams whose elements are all different."""

    def __init__(self, stream: OperandStream) -> None:
        self._stream = stream
        self.elements = stream.tiles.elements
        self._missing: Numbers = np.empty(0, dtype=np.int64)

    def prepare(self) -> None:
        """Note which elements of the last tile are missing. Raises InputError if there are too many."""
        tiles = self._stream.tiles
        missing = tiles.padded - tiles.elements
        if missing > _MAX_MISSING:
            raise InputError(
                f"an operand whose last tile has {tiles.height} rows and {tiles.last_width} of {tiles.width} columns is too large for its "
                f"memory traffic to be simulated: {missing} elements are missing there; expected at most {_MAX_MISSING}"
            )
        columns = np.arange(tiles.last_width, tiles.width)[None, :]
        self._missing = np.empty(missing, dtype=np.int64)
        for row in range(0, tiles.height, _ROWS):
            rows = np.arange(row, min(tiles.height, row + _ROWS))[:, None] + (tiles.number - 1) * tiles.height
            self._missing[row * columns.size : (row + len(rows)) * columns.size] = self._stream.order(rows, columns).ravel()
        self._missing.sort()

    def spans(self, row_fold: int, column_fold: int) -> tuple[Numbers, Numbers, Numbers]:
        """Cycles and first and last position of a fold's demands."""
        cycles, first, last = self._stream.spans(row_fold, column_fold)
        if len(self._missing):
            first, last = first - np.searchsorted(self._missing, first), last - np.searchsorted(self._missing, last)
        return cycles, first, last


class LookedUpRanks:
    """Like `Ranks`, for streams in which an element may come several times, or be beyond the input."""

    def __init__(self, stream: OperandStream, addresses: NDArray[np.int32]) -> None:
        self._stream = stream
        ordered = np.empty(addresses.size, dtype=np.int32)
        columns = np.arange(addresses.shape[1])[None, :]
        for begin in range(0, len(addresses), _BLOCK):
            part = addresses[begin : begin + _BLOCK]
            ordered[stream.order(np.arange(begin, begin + len(part))[:, None], columns)] = part
        exists = ordered >= 0
        self._before: NDArray[np.int32] = np.zeros(addresses.size + 1, dtype=np.int32)
        np.cumsum(exists, out=self._before[1:])
        self._addresses = ordered[exists]
        self.elements = len(self._addresses)
        self._stamps = np.zeros(int(addresses.max()) + 1, dtype=np.int32)
        self._stamp = 0

    def prepare(self) -> None:
        """Nothing is left to do."""

    def spans(self, row_fold: int, column_fold: int) -> tuple[Numbers, Numbers, Numbers]:
        """Cycles and first and last position of a fold's demands."""
        cycles, begin, end = self._stream.spans(row_fold, column_fold)
        first, last = self._before[begin].astype(np.int64), self._before[end + 1].astype(np.int64) - 1
        demanded = first <= last
        return cycles[demanded], first[demanded], last[demanded]

    def stamp(self, *window: slice) -> None:
        """Remember which elements are in the window. The window is passed as parts of the stream."""
        self._stamp += 1
        for part in window:
            self._stamps[self._addresses[part]] = self._stamp

    def count_stamped(self, first: int, last: int) -> int:
        """The number of elements of a span that are in the window, before the first that is not."""
        others = np.flatnonzero(self._stamps[self._addresses[first : last + 1]] != self._stamp)
        return int(others[0]) if len(others) else last + 1 - first
