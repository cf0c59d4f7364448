"""The kinds of communication of a graph: each collective of groups that issue it together, and the messages of each program."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import attrs
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, ProgramTimes, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.rows import Rows, kinds_of
from astra_sim.schedule import rank

from astra_sim_network_auto.components import Member

_GOLDEN = (5**0.5 - 1) / 2
_Sends = TypeVar("_Sends", Communicate, Send)


@attrs.frozen(eq=False)
class TrafficKind:
    """Communication that is measured at once: an operation that waits for nothing, and the NPUs that issue it.

    A collective is that of all groups of some `programs` (by number) that have members in common; a message that of one program.
    """

    operation: Communicate | Send
    npus: tuple[int, ...]
    programs: frozenset[int]

    @property
    def name(self) -> str:
        """Describe it."""
        operation = self.operation
        what = f"1 x {operation.collective}" if isinstance(operation, Communicate) else "1 x message"
        return f"{what} of {operation.bytes} bytes"

    def members(self, dimensions: Sequence[LogicalDimension], npus: int, role: int = 0) -> list[Member]:
        """Its groups, or the ends of its messages, on a platform of `npus` NPUs."""
        if isinstance(self.operation, Communicate):
            return [Member(role, group) for group in groups_of(self.operation, self.npus, dimensions)]
        return [Member(role, (npu, self.operation.to.of(npu, npus))) for npu in self.npus]

    def alone(self, graph: ExecutionGraph, npus: int, issuing: tuple[int, ...]) -> ExecutionGraph:
        """A graph of it alone, on a platform of `npus` NPUs: those of its own that are given issue it at once, the others do nothing."""
        if isinstance(self.operation, Send):
            return self._messages(graph, self.operation, npus, issuing)
        members = set(issuing)
        idle: list[Operation] = [Compute((), 0)]
        others = tuple(npu for npu in range(npus) if npu not in members)
        issued: list[Operation] = [self.operation]
        first, rest = issued, idle
        if 0 not in members:
            first, rest, others = idle, issued, issuing
        return ExecutionGraph(first, graph.dimensions, (), others=(NpuProgram(rest, others),) if others else ())

    def apart(self, graph: ExecutionGraph, npus: int, issuing: tuple[int, ...], span_ps: int) -> tuple[ExecutionGraph, int]:
        """A graph of a collective to which some of its NPUs come at different moments within `span_ps` picoseconds; and the last of these.

        They are multiples of the golden section, so those of any ranks are spread evenly.
        """
        assert isinstance(self.operation, Communicate)
        collective = attrs.evolve(self.operation, after=(0,))
        begins = {npu: int(span_ps * (place * _GOLDEN % 1)) for place, npu in enumerate(issuing)}
        first: list[Operation] = [Compute((), begins[0]), collective] if 0 in begins else [Compute((), 0)]
        others = [NpuProgram([Compute((), begin), collective], (npu,)) for npu, begin in begins.items() if npu]
        return ExecutionGraph(first, graph.dimensions, (), others=(*others, *idle_programs(begins, npus))), max(begins.values())

    def _messages(self, graph: ExecutionGraph, send: Send, npus: int, issuing: tuple[int, ...]) -> ExecutionGraph:
        """A graph in which each of some NPUs sends a message; every NPU has another program, so that the times of each are kept."""
        operations: dict[int, list[Operation]] = {npu: [send] for npu in issuing}
        for npu in issuing:
            operations.setdefault(send.to.of(npu, npus), []).append(Receive((), rank(npu), send.bytes, send.tag))
        first = operations.pop(0, [Compute((), 0)])
        others = [NpuProgram(program, (npu,)) for npu, program in sorted(operations.items())]
        return ExecutionGraph(first, graph.dimensions, (), others=(*others, *idle_programs(operations, npus)))


def idle_programs(busy: Container[int], npus: int) -> Iterator[NpuProgram]:
    """The program of NPUs but 0 that have nothing to do."""
    idle = tuple(npu for npu in range(1, npus) if npu not in busy)
    if idle:
        yield NpuProgram([Compute((), 0)], idle)


class GraphTraffic:
    """The kinds of communication of a graph on `npus` NPUs.

    `programs` are the sequences of operations, each once, with the NPUs that run it.
    """

    def __init__(self, graph: ExecutionGraph, npus: int) -> None:
        self.programs: list[tuple[Sequence[Operation], tuple[int, ...]]] = []
        self.kinds: list[TrafficKind] = []
        self._number_of: dict[tuple[int, int], int] = {}
        members: dict[int, list[int]] = {}
        programs = graph.programs(npus)
        for program in programs:
            members.setdefault(id(program.operations), []).extend(program.npus)
        of_id = {id(program.operations): program.operations for program in programs}
        self.programs = [(of_id[key], tuple(numbers)) for key, numbers in members.items()]
        self._add_collectives(graph.dimensions)
        self._add_messages()

    def number(self, program: int, kind: int) -> int | None:
        """The number of the traffic of a kind of operations (`kinds_of`) of a program; None if it sends nothing."""
        return self._number_of.get((program, kind))

    def instances(self) -> int:
        """How many operations of all programs communicate."""
        total = 0
        for number, (operations, _) in enumerate(self.programs):
            places = operations.kind_of if isinstance(operations, Rows) else range(len(operations))
            total += sum((number, kind) in self._number_of for kind in places)
        return total

    def _of(self, cls: type[_Sends]) -> Iterator[tuple[int, int, _Sends]]:
        """The operations of a class that send something: program, kind, operation."""
        for program, (operations, _) in enumerate(self.programs):
            for kind, operation in enumerate(kinds_of(operations)):
                if isinstance(operation, cls) and operation.bytes:
                    yield program, kind, operation

    def _add_collectives(self, dimensions: Sequence[LogicalDimension]) -> None:
        """Add the collectives of all programs: one kind for those of equal content whose programs have groups in common."""
        alike: dict[Hashable, list[tuple[int, int, Communicate]]] = {}
        for program, kind, operation in self._of(Communicate):
            alike.setdefault(content(operation), []).append((program, kind, operation))
        for entries in alike.values():
            operation = entries[0][2]
            places: dict[int, list[int]] = {}
            for program, kind, _ in entries:
                places.setdefault(program, []).append(kind)
            groups = {program: _groups(operation, self.programs[program][1], dimensions) for program in places}
            for together in _with_common(groups):
                number = self._add(alone(operation), together)
                self._number_of.update({(program, kind): number for program in together for kind in places[program]})

    def _add_messages(self) -> None:
        known: dict[Hashable, int] = {}
        for program, kind, operation in self._of(Send):
            key = program, operation.to, operation.bytes
            if key not in known:
                message = Send((), operation.to, operation.bytes, unit=operation.unit)
                known[key] = self._add(message, {program})
            self._number_of[program, kind] = known[key]

    def _add(self, operation: Communicate | Send, programs: Iterable[int]) -> int:
        numbers = frozenset(programs)
        npus = sorted(npu for program in numbers for npu in self.programs[program][1])
        self.kinds.append(TrafficKind(operation, tuple(npus), numbers))
        return len(self.kinds) - 1


def content(operation: Communicate) -> Hashable:
    """What the time of a collective depends on, if it runs alone."""
    return operation.collective, operation.bytes, operation.dimensions, operation.group, operation.algorithm, operation.urgent


def alone(operation: Communicate) -> Communicate:
    """A collective that waits for nothing, and ends with its last chunk."""
    return attrs.evolve(operation, after=(), update_ps=0, layer=-1, blocking=False)


def groups_of(operation: Communicate, npus: Sequence[int], dimensions: Sequence[LogicalDimension]) -> list[tuple[int, ...]]:
    """The groups in which NPUs issue a collective, each with its NPUs in the order of ranks."""
    if operation.group is not None:
        return [operation.group]
    groups: dict[int, list[int]] = {}
    for npu in npus:
        groups.setdefault(_lowest(operation, npu, dimensions), []).append(npu)
    return [tuple(group) for group in groups.values()]


def _groups(operation: Communicate, npus: Sequence[int], dimensions: Sequence[LogicalDimension]) -> set[int]:
    """The groups in which NPUs issue a collective, by their lowest NPU."""
    if operation.group is not None:
        return {min(operation.group)}
    return {_lowest(operation, npu, dimensions) for npu in npus}


def _lowest(operation: Communicate, npu: int, dimensions: Sequence[LogicalDimension]) -> int:
    """The lowest NPU of the group in which one issues a collective over dimensions."""
    involved = [dimensions[number] for number in operation.dimensions]
    return npu - sum((npu // each.stride) % each.size * each.stride for each in involved)


def _with_common(groups: dict[int, set[int]]) -> list[set[int]]:
    """Programs that have groups in common, if only through others."""
    result: list[tuple[set[int], set[int]]] = []
    for program, lowest in groups.items():
        programs, members = {program}, set(lowest)
        apart = []
        for others, theirs in result:
            if members & theirs:
                programs |= others
                members |= theirs
            else:
                apart.append((others, theirs))
        result = [*apart, (programs, members)]
    return [programs for programs, _ in result]


def kept_times() -> tuple[list[ProgramTimes], Callable[[Sequence[ProgramTimes], int], dict[str, Any]]]:
    """A list, and figures of a graph that put the times of its programs there."""
    seen: list[ProgramTimes] = []

    def keep(programs: Sequence[ProgramTimes], finish_ps: int) -> dict[str, Any]:
        seen.extend(programs)
        return {}

    return seen, keep
