"""The order in which an array demands its operands, and the order in which they are prefetched (SCALE-Sim v2).

An operand is fetched in *tiles*, one below another, of which the array demands one in each fold. A *moving* operand flows through the
array: it is demanded with a skew, element (row t, column c) of a tile in cycle t + c, and fetched ahead along the diagonals of all its
tiles. A *stationary* operand is loaded row by row, last row first, and fetched ahead row by row. Either way the elements that one cycle
demands are side by side in the order of fetching: a *span* of positions.

The last tile may be narrower than the array; its missing elements are neither demanded nor fetched.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from astra_sim import InputError
from astra_sim.shapes import Convolution, Shape
from numpy.typing import NDArray

from astra_sim_compute_systolic.array import Dataflow, SystolicArray

Numbers = NDArray[np.int64]


class StreamSpans(NamedTuple):
    """The demands of one fold: in cycle cycles[i] of the fold, the positions first[i] to last[i] of the order of fetching."""

    cycles: Numbers
    first: Numbers
    last: Numbers


class Tiles(NamedTuple):
    """The tiles of an operand: `number` of them, of `height` x `width` elements, the last one only `last_width` wide."""

    number: int
    height: int
    width: int
    last_width: int

    @property
    def padded(self) -> int:
        """Elements, including those missing in the last tile."""
        return self.number * self.height * self.width

    @property
    def elements(self) -> int:
        """Elements that exist."""
        return self.padded - self.height * (self.width - self.last_width)

    def width_of(self, tile: int) -> int:
        """Columns of a tile."""
        return self.last_width if tile == self.number - 1 else self.width


class OperandStream(Protocol):
    """An operand as its SRAM sees it."""

    tiles: Tiles

    def spans(self, row_fold: int, column_fold: int) -> StreamSpans:
        """The demands of a fold, in padded positions, in order of time."""

    def order(self, rows: Numbers, columns: Numbers) -> Numbers:
        """The padded position of elements at a row (counted through all tiles) and a column; shapes are broadcast."""

    def tile_of(self, row_fold: int, column_fold: int) -> int:
        """The tile that a fold demands."""


class MovingStream:
    """An operand that flows through the array. Its tiles follow the row folds, or the column folds."""

    def __init__(self, tiles: Tiles, along_rows: bool, start: int) -> None:
        self.tiles = tiles
        self._along_rows = along_rows
        self._start = start
        self._pattern = {width: self._columns_by_cycle(width) for width in {tiles.width, tiles.last_width}}

    def tile_of(self, row_fold: int, column_fold: int) -> int:
        """The tile that a fold demands."""
        return row_fold if self._along_rows else column_fold

    def spans(self, row_fold: int, column_fold: int) -> StreamSpans:
        """The demands of a fold, in padded positions, in order of time: one diagonal of its tile in each cycle."""
        tile = self.tile_of(row_fold, column_fold)
        cycles, left, right = self._pattern[self.tiles.width_of(tile)]
        origin = self._origin(np.arange(tile * self.tiles.height, tile * self.tiles.height + len(left)))
        return StreamSpans(cycles, origin + left, origin + right)

    def order(self, rows: Numbers, columns: Numbers) -> Numbers:
        """The padded position of elements: diagonal after diagonal, each from left to right."""
        return np.asarray(self._origin(rows + columns) + columns)

    def _origin(self, diagonals: Numbers) -> Numbers:
        """The position of column 0 of diagonals: the number of elements before them, less their columns that are below the last tile."""
        rows, columns = self.tiles.number * self.tiles.height, self.tiles.width
        short, long = min(rows, columns), max(rows, columns)
        left = rows + columns - 1 - diagonals
        growing = diagonals * (diagonals + 1) // 2
        level = short * (short + 1) // 2 + (diagonals - short) * short
        shrinking = rows * columns - left * (left + 1) // 2
        before = np.where(diagonals <= short, growing, np.where(diagonals <= long, level, shrinking))
        return np.asarray(before - np.maximum(0, diagonals - rows + 1))

    def _columns_by_cycle(self, width: int) -> tuple[Numbers, Numbers, Numbers]:
        steps = np.arange(self.tiles.height + width - 1)
        return steps + self._start, np.maximum(0, steps - self.tiles.height + 1), np.minimum(steps, width - 1)


class StationaryStream:
    """An operand that is loaded into the array, last row first. A tile of it holds the rows of all row folds of one column fold."""

    def __init__(self, tiles: Tiles, array_rows: int) -> None:
        self.tiles = tiles
        self._array_rows = array_rows

    def tile_of(self, row_fold: int, column_fold: int) -> int:
        """The tile that a fold demands a part of."""
        return column_fold

    def spans(self, row_fold: int, column_fold: int) -> StreamSpans:
        """The demands of a fold, in padded positions, in order of time: the rows of its part of a tile, last row first."""
        height, width = self.tiles.height, self.tiles.width
        top = row_fold * self._array_rows
        used = min(self._array_rows, height - top)
        cycles = np.arange(self._array_rows - used, self._array_rows)
        first = (column_fold * height + top + self._array_rows - 1 - cycles) * width
        return StreamSpans(cycles, first, first + self.tiles.width_of(column_fold) - 1)

    def order(self, rows: Numbers, columns: Numbers) -> Numbers:
        """The padded position of elements: row after row, each from left to right."""
        return np.asarray(rows * self.tiles.width + columns)


class Operands(NamedTuple):
    """The operands of a layer as streams."""

    ifmap: MovingStream | StationaryStream
    filter: MovingStream | StationaryStream


_MAX_FOLD = 1 << 23
"""Limit on the cycles of a fold, which are held in memory at once: some 800 MB."""
_MAX_CYCLES = 1 << 32
"""Limit on the cycles of all folds: some 30 seconds of run time. A short fold costs as much as one of _SHORT_FOLD cycles."""
_SHORT_FOLD = 1 << 12


def operands(array: SystolicArray, shape: Shape) -> Operands:
    """The streams of a layer's operands. Raises InputError if the layer is too large."""
    gemm = shape.gemm
    mapping = array.mapping(gemm.m, gemm.n, gemm.k)
    cycles, folds = int(array.fold_cycles(mapping.time)), array.folds(mapping)
    too_large = f"{shape} is too large for its memory traffic to be simulated:"
    if cycles > _MAX_FOLD:
        raise InputError(f"{too_large} a fold of the array takes {cycles} cycles; expected at most {_MAX_FOLD}")
    if int(folds.rows * folds.columns) * max(cycles, _SHORT_FOLD) > _MAX_CYCLES:
        most = _MAX_CYCLES // max(cycles, _SHORT_FOLD)
        raise InputError(f"{too_large} {folds.rows * folds.columns} folds of {cycles} cycles; expected at most {most} of them")
    by_rows = (int(folds.rows), array.rows, int(mapping.rows - (folds.rows - 1) * array.rows))
    by_columns = (int(folds.columns), array.columns, int(mapping.columns - (folds.columns - 1) * array.columns))

    def tiles(folded: tuple[int, int, int], height: int) -> Tiles:
        return Tiles(folded[0], height, folded[1], folded[2])

    if array.dataflow is Dataflow.OUTPUT_STATIONARY:
        return Operands(
            MovingStream(tiles(by_rows, gemm.k), along_rows=True, start=0),
            MovingStream(tiles(by_columns, gemm.k), along_rows=False, start=0),
        )
    moving = MovingStream(tiles(by_rows, mapping.time), along_rows=True, start=array.rows)
    stationary = StationaryStream(tiles(by_columns, mapping.rows), array.rows)
    if array.dataflow is Dataflow.WEIGHT_STATIONARY:
        return Operands(moving, stationary)
    return Operands(stationary, moving)


_MAX_ADDRESSES = 1 << 27
"""Limit on the elements of windows that are looked up one by one: some 2 GB of memory."""


def ifmap_addresses(array: SystolicArray, shape: Shape) -> NDArray[np.int32] | None:
    """The input element at each position of the ifmap's tiles, row by row through all tiles: shape (rows, width), -1 beyond the input.

    None if every element is used only once and there is nothing to look up: in matrix products, and in convolutions whose windows
    neither overlap nor reach beyond the input. Raises InputError if there are too many elements.
    """
    if not isinstance(shape, Convolution) or not _windows_meet(shape):
        return None
    elements = shape.gemm.m * shape.gemm.k
    if elements > _MAX_ADDRESSES or shape.input_elements > _MAX_ADDRESSES:
        raise InputError(
            f"a convolution whose windows have {elements} elements is too large for its memory traffic to be simulated; expected "
            f"at most {_MAX_ADDRESSES} (a smaller batch, or the product of matrices that it is: {shape.gemm})"
        )
    windows = _window_addresses(shape)  # pixels x elements of a filter
    over_pixels = array.dataflow is Dataflow.WEIGHT_STATIONARY
    width = array.columns if array.dataflow is Dataflow.INPUT_STATIONARY else array.rows
    matrix = windows if over_pixels else windows.T
    missing = -matrix.shape[1] % width
    matrix = np.pad(matrix, ((0, 0), (0, missing)), constant_values=-1)
    return np.concatenate(np.split(matrix, matrix.shape[1] // width, axis=1))


def _windows_meet(shape: Convolution) -> bool:
    """Whether windows share elements, or reach beyond the input."""
    sides = (
        (shape.input_height, shape.filter_height, shape.stride, shape.output_height),
        (shape.input_width, shape.filter_width, shape.column_stride, shape.output_width),
    )
    return any(
        (outputs > 1 and stride < filter_) or (outputs - 1) * stride + filter_ > input_ for input_, filter_, stride, outputs in sides
    )


def _window_addresses(shape: Convolution) -> NDArray[np.int32]:
    """The input element under each element of each window, row by row, column by column, channel by channel; -1 beyond the input."""
    pixel = np.arange(shape.batch * shape.output_height * shape.output_width)
    image, within = np.divmod(pixel, shape.output_height * shape.output_width)
    row, column = np.divmod(within, shape.output_width)
    row, column = row * shape.stride, column * shape.column_stride
    element = np.arange(shape.filter_height * shape.filter_width * shape.channels)
    down, rest = np.divmod(element, shape.filter_width * shape.channels)
    right, channel = np.divmod(rest, shape.channels)
    corner = ((image * shape.input_height + row) * shape.input_width + column) * shape.channels
    offset = (down * shape.input_width + right) * shape.channels + channel
    address = corner.astype(np.int32)[:, None] + offset.astype(np.int32)
    # Only the last windows may reach beyond the input.
    for place, reach, size in ((row, down, shape.input_height), (column, right, shape.input_width)):
        last = np.flatnonzero(place + reach.max() >= size)
        address[last] = np.where(place[last, None] + reach >= size, np.int32(-1), address[last])
    return np.asarray(address)
