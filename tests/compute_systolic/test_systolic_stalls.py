"""Stalls and traffic to DRAM: the fast model against the rules of SCALE-SIM.md, applied element by element."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from astra_sim.shapes import Convolution, Gemm, Shape
from astra_sim_compute_systolic.array import Dataflow, Srams, SystolicArray
from astra_sim_compute_systolic.stalls import simulate_stalls, simulate_without_stalls
from astra_sim_compute_systolic.write_buffer import DramTraffic
from hypothesis import given, settings
from hypothesis import strategies as st

Row = list[int]


def transposed(matrix: list[Row]) -> list[Row]:
    return [list(column) for column in zip(*matrix, strict=True)]


class Layer:
    """A layer as matrices of addresses, and what the array demands of them cycle by cycle."""

    def __init__(self, array: SystolicArray, shape: Shape) -> None:
        self.array, self.gemm = array, shape.gemm
        m, n, k = self.gemm.m, self.gemm.n, self.gemm.k
        self.inputs = [[self.input_address(shape, row, column) for column in range(k)] for row in range(m)]
        self.weights = [[row * n + column for column in range(n)] for row in range(k)]
        self.mapping = array.mapping(m, n, k)

    @staticmethod
    def input_address(shape: Shape, row: int, column: int) -> int:
        if isinstance(shape, Gemm):
            return row * shape.k + column
        image, pixel = divmod(row, shape.output_height * shape.output_width)
        y, x = pixel // shape.output_width * shape.stride, pixel % shape.output_width * shape.column_stride
        down, rest = divmod(column, shape.filter_width * shape.channels)
        right, channel = divmod(rest, shape.channels)
        y, x = y + down, x + right
        if y >= shape.input_height or x >= shape.input_width:
            return -1
        return ((image * shape.input_height + y) * shape.input_width + x) * shape.channels + channel

    def operand_tiles(self) -> tuple[list[list[Row]], list[list[Row]], bool]:
        """Tiles of the operand along the rows and of that along the columns of the array; whether the first is the ifmap."""
        if self.array.dataflow is Dataflow.OUTPUT_STATIONARY:
            return self.cut(transposed(self.inputs), self.array.rows), self.cut(self.weights, self.array.columns), True
        if self.array.dataflow is Dataflow.WEIGHT_STATIONARY:
            return self.cut(self.inputs, self.array.rows), self.cut(self.weights, self.array.columns), True
        return self.cut(transposed(self.weights), self.array.rows), self.cut(transposed(self.inputs), self.array.columns), False

    @staticmethod
    def cut(matrix: list[Row], width: int) -> list[list[Row]]:
        count = -(-len(matrix[0]) // width)
        return [[(row[t * width : (t + 1) * width] + [-1] * width)[:width] for row in matrix] for t in range(count)]

    def skewed(self, tile: list[Row], start: int, length: int) -> list[Row]:
        rows: list[Row] = [[] for _ in range(length)]
        for t, row in enumerate(tile):
            for column, address in enumerate(row):
                rows[start + t + column].append(address)
        # Within a cycle elements are demanded from the first column on: those that came into the array last.
        return [row[::-1] for row in rows]

    def demands(self) -> Iterator[tuple[Row, Row, int]]:
        """For every cycle: addresses along the rows and along the columns, and how many outputs leave."""
        first, second, _ = self.operand_tiles()
        array, time = self.array, self.mapping.time
        length = array.fold_cycles(time)
        for column, right in enumerate(second):
            for row, left in enumerate(first):
                used_rows = min(array.rows, self.mapping.rows - row * array.rows)
                used_columns = min(array.columns, self.mapping.columns - column * array.columns)
                outputs = [0] * length
                if array.dataflow is Dataflow.OUTPUT_STATIONARY:
                    moving = self.skewed(left, 0, length)
                    other = self.skewed(right, 0, length)
                    starts = [time - 1 + array.rows - 1 - r for r in range(used_rows)]
                else:
                    moving = self.skewed(left, array.rows, length)
                    part = right[row * array.rows : row * array.rows + used_rows]
                    loading: list[list[int]] = [[] for _ in range(array.rows - used_rows)] + part[::-1]
                    other = loading + [[] for _ in range(length - array.rows)]
                    starts = [2 * array.rows - 1 + t for t in range(time)]
                for start in starts:
                    for c in range(used_columns):
                        outputs[start + c] += 1
                yield from zip(moving, other, outputs, strict=True)

    def streams(self) -> tuple[Row, Row]:
        """The order in which the operands are fetched, with what is missing."""
        first, second, _ = self.operand_tiles()
        if self.array.dataflow is Dataflow.OUTPUT_STATIONARY:
            return self.diagonals(first), self.diagonals(second)
        return self.diagonals(first), [address for tile in second for row in tile for address in row]

    @staticmethod
    def diagonals(tiles: list[list[Row]]) -> Row:
        rows = [row for tile in tiles for row in tile]
        result: dict[int, Row] = {}
        for number in reversed(range(len(rows))):
            for column, address in enumerate(rows[number]):
                result.setdefault(number + column, []).append(address)
        return [address for number in sorted(result) for address in result[number]]


class Reader:
    def __init__(self, stream: Row, size: int, bandwidth: int) -> None:
        present = [address for address in stream if address >= 0]
        per_set = -(-size // 100)
        self.sets = [set(present[i : i + per_set]) for i in range(0, len(present) // per_set * per_set + 1, per_set)]
        half = size // 2
        self.window = min(len(self.sets), -(-half // per_set))
        self.step = min(len(self.sets) - self.window, -(-half // per_set))
        self.start, self.ready, self.lines = 0, -1, -(-half // bandwidth)

    def hit(self, address: int) -> bool:
        return any(address in self.sets[(self.start + i) % len(self.sets)] for i in range(self.window))

    def wait(self, row: Row, cycle: int) -> int:
        offset = 1
        for address in row:
            while address >= 0 and not self.hit(address):
                self.start = (self.start + self.step) % len(self.sets)
                self.ready += self.lines + 1
                offset += max(0, self.ready - (cycle + offset))
        return offset - 1


class Writer:
    def __init__(self, size: int, bandwidth: int) -> None:
        self.free, self.half, self.bandwidth = size, size // 2, bandwidth
        self.lines: deque[int] = deque()
        self.line, self.drained_at = 0, 0

    def wait(self, outputs: int, cycle: int) -> int:
        now = cycle
        for _ in range(outputs):
            self.line += 1
            self.free -= 1
            if self.line == self.bandwidth:
                self.lines.append(self.line)
                self.line = 0
            if now < self.drained_at:
                if self.free <= 0:
                    now = self.drained_at
            elif self.free < self.half:
                if self.line:
                    self.lines.append(self.line)
                    self.line = 0
                taken = [self.lines.popleft() for _ in range(min(len(self.lines), -(-self.half // self.bandwidth)))]
                self.free += (len(taken) - 1) * self.bandwidth + taken[-1]
                self.drained_at = now + len(taken) - 1
        return now - cycle


def by_the_rules(array: SystolicArray, shape: Shape, srams: Srams, bandwidth: int) -> tuple[int, int]:
    """Total and stalls, element by element."""
    layer = Layer(array, shape)
    rows_are_inputs = layer.operand_tiles()[2]
    sizes = (srams.ifmap, srams.filter) if rows_are_inputs else (srams.filter, srams.ifmap)
    along_rows, along_columns = (Reader(stream, size, bandwidth) for stream, size in zip(layer.streams(), sizes, strict=True))
    writer = Writer(srams.ofmap, bandwidth)
    stalls, last = 0, 0
    for cycle, (left, right, outputs) in enumerate(layer.demands()):
        now = cycle + stalls
        written = writer.wait(outputs, now)
        last = now + written
        stalls += max(along_rows.wait(left, now), along_columns.wait(right, now), written)
    return last, stalls


arrays = st.builds(SystolicArray, st.integers(1, 6), st.integers(1, 6), st.sampled_from(Dataflow))
gemms = st.builds(Gemm, m=st.integers(1, 40), n=st.integers(1, 40), k=st.integers(1, 40))


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Convolution(
        input_height=height + draw(st.integers(0, 7)),
        input_width=width + draw(st.integers(0, 7)),
        filter_height=height,
        filter_width=width,
        channels=draw(st.integers(1, 4)),
        filters=draw(st.integers(1, 8)),
        stride=draw(st.integers(1, 3)),
        stride_width=draw(st.none() | st.integers(1, 3)),
        batch=draw(st.integers(1, 2)),
    )


# SRAMs of a few dozen elements make windows slide; a set is then one element.
srams = st.builds(Srams, *(st.integers(1, 150).map(lambda half: 2 * half) for _ in range(3)))


@settings(deadline=None, max_examples=150)
@given(arrays, gemms | convolutions(), srams, st.integers(1, 40))
def test_stalls_are_those_of_the_rules(array: SystolicArray, shape: Shape, srams: Srams, bandwidth: int) -> None:
    timing = simulate_stalls(array, shape, srams, bandwidth)
    assert (timing.total, timing.stalls) == by_the_rules(array, shape, srams, bandwidth)


@settings(deadline=None, max_examples=50)
@given(arrays, gemms | convolutions())
def test_with_enough_sram_nothing_waits(array: SystolicArray, shape: Shape) -> None:
    large = Srams(1 << 20, 1 << 20, 1 << 20)
    gemm = shape.gemm
    for timing in (simulate_stalls(array, shape, large, 1), simulate_without_stalls(array, shape, large)):
        assert timing.stalls == 0
        assert timing.total == array.total_cycles(gemm.m, gemm.n, gemm.k)


@settings(deadline=None, max_examples=50)
@given(arrays, gemms)
def test_every_element_is_fetched_and_written_at_least_once(array: SystolicArray, shape: Gemm) -> None:
    timing = simulate_without_stalls(array, shape, Srams(200, 200, 200))
    assert timing.ifmap_dram.elements >= shape.m * shape.k
    assert timing.filter_dram.elements >= shape.k * shape.n
    assert timing.ofmap_dram.elements >= shape.m * shape.n


def test_a_stall_by_hand() -> None:
    # One unit that multiplies six inputs with six weights, one pair in a cycle. The SRAM of weights holds two: the first weight is there,
    # every further one is fetched in a cycle, and one more of latency: weight t is there in cycle -1 + 2t. It is asked for in cycle t
    # plus the stalls before, and not late a cycle after that: weights 3, 4 and 5 are late by one cycle each. The last cycle ends with
    # the output, whatever the operands do: the two stalls before it count for the total.
    timing = simulate_stalls(SystolicArray(1, 1, Dataflow.OUTPUT_STATIONARY), Gemm(m=1, n=1, k=6), Srams(100, 2, 100), bandwidth=1)
    assert (timing.total, timing.stalls) == (5 + 2, 3)
    assert timing.filter_dram == DramTraffic(start=-1, stop=9, elements=1 + 5)
