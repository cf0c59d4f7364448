"""The time of slices of a program on the target network: simulated as they are, or a large collective extrapolated from smaller ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import attrs
from astra_sim.graph import Communicate, ExecutionGraph, Operation
from astra_sim.network import EventNetwork, Simulations
from astra_sim.platform import Platform
from astra_sim.records import RunRecord

from astra_sim_network_auto.formula import FormulaNetwork
from astra_sim_network_auto.slices import PartSlice

_MESSAGE_BYTES = 256
"""The least simulation cost of a message, in bytes that are sent."""
_SMALLER = 1, 2, 4
"""Sizes from which a large slice is continued, as multiples of the smallest."""
_ROUNDED = 0.002
"""The error share of an extrapolation beyond that of its slopes: sizes of packets and chunks are rounded."""


@attrs.frozen
class SliceTimes:
    """The time of a slice alone, in picoseconds.

    `durations_ps` are those of its operations on NPU 0, `ps` that of all of it there. NPUs end between `least_ps` and `most_ps`; for one
    that is `continued` from smaller sizes these are the bounds of its estimated time. `bytes` are those that all NPUs sent in
    the simulated part of it.
    """

    durations_ps: tuple[int, ...]
    ps: int
    least_ps: int
    most_ps: int
    continued: bool = False
    bytes: int = 0
    skew_ps: int = 0


class Measuring:
    """Simulates slices of a graph on the target network, each kind of them once.

    A slice of one collective in which NPUs send more than `part_bytes` in all is continued from smaller ones.
    """

    def __init__(self, simulations: Simulations, target: EventNetwork, part_bytes: int) -> None:
        self._simulations = simulations
        self._target = target
        self._formula = FormulaNetwork(target.platform)
        self._part_bytes = part_bytes
        self._known: dict[Hashable, SliceTimes] = {}

    def times(self, part: PartSlice) -> SliceTimes:
        """The time of a slice."""
        key = part.content()
        if key not in self._known:
            self._known[key] = self._measured(part.operations)
        return self._known[key]

    def _cost(self, operations: Sequence[Operation]) -> tuple[int, frozenset[str]]:
        """The simulation cost of operations, in bytes of all NPUs and of messages' cost; and the algorithms of their collectives."""
        record = self._simulations.run(self._graph(operations), self._formula)
        size = sent_bytes(record, self._target.platform) + record.messages * _MESSAGE_BYTES
        return size, frozenset(phase.plan.algorithm for phase in record.planned)

    def _graph(self, operations: Sequence[Operation]) -> ExecutionGraph:
        return ExecutionGraph(list(operations), self._simulations.graph.dimensions, ())

    def is_continued(self, part: PartSlice) -> bool:
        """Whether a slice is continued from smaller ones."""
        return self._divisor(part.operations) > 1

    def _measured(self, operations: Sequence[Operation]) -> SliceTimes:
        divisor = self._divisor(operations)
        if divisor == 1:
            return self._simulated(operations)
        divided = [[_divided(operation, divisor // multiple) for operation in operations] for multiple in _SMALLER]
        smaller = list(map(self._simulated, divided))
        return _continued(smaller, divisor)

    def _divisor(self, operations: Sequence[Operation]) -> int:
        """The divisor of a collective such that it is small enough, and the smallest part has the algorithms of the whole; 1: none.

        There is none if it is small, because little would be saved, and if smaller ones go by other algorithms.
        """
        if len(operations) > 1:
            return 1
        size, algorithms = self._cost(operations)
        if size <= self._part_bytes:
            return 1
        divisor = _SMALLER[-1]
        while size * _SMALLER[-1] // divisor > self._part_bytes:
            divisor *= 2
        while divisor > _SMALLER[-1] and self._cost([_divided(operation, divisor) for operation in operations])[1] != algorithms:
            divisor //= 2
        return divisor if divisor >= 2 * _SMALLER[-1] else 1

    def _simulated(self, operations: Sequence[Operation]) -> SliceTimes:
        record = self._simulations.run(self._graph(operations), self._target)
        return _times_of(record, len(operations), sent_bytes(record, self._target.platform))


def sent_bytes(record: RunRecord, platform: Platform) -> int:
    """The bytes that all NPUs send, if each sends as many as NPU 0."""
    return sum(record.payload) * platform.npus


def _times_of(record: RunRecord, count: int, size: int) -> SliceTimes:
    ends = [end - record.start_ps for end in record.npu_end_ps]
    durations = tuple(record.end_ps[number] - record.begin_ps[number] for number in range(count))
    longest = max((record.end_ps[number] - record.start_ps for number in range(count)), default=0)
    return SliceTimes(durations, longest, min(ends), max(ends), skew_ps=max(ends) - min(ends), bytes=size)


def _divided(operation: Operation, divisor: int) -> Operation:
    """A collective of a part of the bytes of another."""
    return attrs.evolve(operation, bytes=operation.bytes // divisor) if isinstance(operation, Communicate) else operation


def _continued(smaller: Sequence[SliceTimes], divisor: int) -> SliceTimes:
    """The times of a slice from those of three parts of it: along the line through the two larger ones.

    Its bounds follow from the slopes of the lines through the smaller two and the larger two, and from as much again beyond
    both as they are apart.
    """
    places = [multiple / divisor for multiple in _SMALLER]

    def ended(values: Sequence[int], first: int) -> float:
        """The value of the whole, from that of the largest part on with the slope between a part and the next."""
        slope = (values[first + 1] - values[first]) / (places[first + 1] - places[first])
        return values[-1] + slope * (1 - places[-1])

    def on(values: Sequence[int]) -> int:
        return round(ended(values, 1))

    def bounds(values: Sequence[int]) -> tuple[float, float]:
        ends = ended(values, 0), ended(values, 1)
        spread = max(ends) - min(ends)
        return (min(ends) - spread) * (1 - _ROUNDED), (max(ends) + spread) * (1 + _ROUNDED)

    durations = tuple(map(on, zip(*(each.durations_ps for each in smaller), strict=True)))
    return SliceTimes(
        durations_ps=durations,
        ps=on([each.ps for each in smaller]),
        least_ps=int(bounds([each.least_ps for each in smaller])[0]),
        most_ps=int(bounds([each.most_ps for each in smaller])[1]) + 1,
        continued=True,
        bytes=sum(each.bytes for each in smaller),
        skew_ps=max(0, on([each.most_ps - each.least_ps for each in smaller])),
    )
