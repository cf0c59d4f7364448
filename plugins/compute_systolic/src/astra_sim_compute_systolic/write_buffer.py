"""The SRAM that collects outputs and drains them to DRAM (SCALE-Sim v2).

Outputs collect until more than half of the SRAM is full; then half of it drains, a line of `bandwidth` elements in each cycle. The array
waits only if the SRAM is full while it drains. Addresses do not matter, so outputs are only counted.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from astra_sim_compute_systolic.array import Dataflow, SystolicArray, ceil_div
from astra_sim_compute_systolic.streams import Numbers


class DramTraffic(NamedTuple):
    """The traffic of an interface to DRAM: the first and the last cycle, and elements. As in SCALE-Sim, these include padding."""

    start: int
    stop: int
    elements: int

    @property
    def bandwidth(self) -> float:
        """Elements per cycle."""
        return self.elements / (self.stop - self.start + 1)


class OutputPattern:
    """The outputs that leave the array in each cycle of a fold that uses `rows` x `columns` of its units."""

    def __init__(self, array: SystolicArray, time: int, rows: int, columns: int) -> None:
        if array.dataflow is Dataflow.OUTPUT_STATIONARY:
            # Results leave over the lower edge, bottom row first; rows that are not used would have come before.
            self.start, height = time - 1 + array.rows - rows, rows
        else:
            self.start, height = 2 * array.rows - 1, time
        steps = np.arange(height + columns - 1)
        counts = np.minimum(np.minimum(steps + 1, height + columns - 1 - steps), min(height, columns))
        self._until: Numbers = np.cumsum(counts)
        self.stop = self.start + len(steps) - 1
        self.outputs = height * columns

    def before(self, cycle: int) -> int:
        """Outputs of the fold before a cycle."""
        index = min(cycle - self.start, len(self._until))
        return int(self._until[index - 1]) if index > 0 else 0

    def cycle_of(self, output: int) -> int:
        """The cycle of the fold in which the output of that number (from 1) leaves."""
        return self.start + int(np.searchsorted(self._until, output))


class WriteBuffer:
    """The SRAM of outputs: its contents, and the cycle until which it drains. Cycles here include stalls."""

    def __init__(self, size: int, bandwidth: int) -> None:
        self._active = ceil_div(size, 2)
        self._drained_lines = ceil_div(size - self._active, bandwidth)
        self._bandwidth = bandwidth
        self._free = size
        self._unpacked = 0
        self._lines: deque[tuple[int, int]] = deque()  # (number of lines, elements in each), oldest first
        self.drain_end = 0
        self._first: int | None = None
        self._elements = 0

    def outputs_to_wait(self) -> int:
        """Outputs up to and including the one that makes the array wait, while a drain is going on."""
        return max(1, self._free)

    def outputs_to_drain(self) -> int:
        """Outputs up to and including the one that starts the next drain, when none is going on."""
        return max(1, self._free - self._active + 1)

    def put(self, outputs: int) -> None:
        """Store outputs."""
        self._free -= outputs
        self._unpacked += outputs

    def write(self, outputs: int, cycle: int) -> int:
        """Store the outputs of one cycle; drain and wait as needed. Returns the cycle in which the last is stored."""
        while outputs:
            draining = cycle < self.drain_end
            step = self.outputs_to_wait() if draining else self.outputs_to_drain()
            if step > outputs:
                self.put(outputs)
                break
            self.put(step)
            outputs -= step
            if draining:
                cycle = self.drain_end
            else:
                self._pack()
                self.drain_end = self._drain(cycle)
        return cycle

    def drain_rest(self, cycle: int) -> None:
        """Drain the remaining outputs when the layer has ended."""
        self._pack()
        while self._lines:
            self.drain_end = self._drain(cycle)
            cycle = self.drain_end + 1

    def traffic(self) -> DramTraffic:
        """The elements drained so far."""
        return DramTraffic(self._first or 0, self.drain_end, self._elements)

    def _pack(self) -> None:
        """Pack the stored outputs into lines; the last may stay partly empty."""
        full, rest = divmod(self._unpacked, self._bandwidth)
        self._lines.extend(line for line in ((full, self._bandwidth), (1, rest)) if line[0] and line[1])
        self._unpacked = 0

    def _drain(self, cycle: int) -> int:
        """Drain half an SRAM from a cycle on. Returns the cycle of the last line."""
        lines = 0
        empty = 0
        while self._lines and lines < self._drained_lines:
            count, elements = self._lines.popleft()
            taken = min(count, self._drained_lines - lines)
            if taken < count:
                self._lines.appendleft((count - taken, elements))
            lines += taken
            empty = self._bandwidth - elements
        # SCALE-Sim counts only the last of the lines that are not full.
        drained = lines * self._bandwidth - empty
        self._free += drained
        self._elements += drained
        self._first = cycle if self._first is None else self._first
        return cycle + lines - 1
