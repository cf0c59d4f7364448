"""The workload `chakra`: execution traces as an execution graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import compress
from operator import and_
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.compute import MissingWork, Work
from astra_sim.context import Context
from astra_sim.graph import Communicate, Compute, ExecutionGraph, MemoryAccess, NpuProgram, Operation, Pass, Receive, Send, Unit, Wait
from astra_sim.providers import Lazily, call
from astra_sim.rows import Column, Rows, column
from astra_sim.schedule import Collective, shift
from astra_sim.units import PS_PER_NS, picoseconds

from astra_sim_chakra.program import program_columns
from astra_sim_chakra.ranks import RankTraces, load_ranks
from astra_sim_chakra.reader import DEPENDENCIES
from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import stated
from astra_sim_chakra.trace_files import load_trace

_COLLECTIVES = {
    CollectiveType.ALL_REDUCE: Collective.ALL_REDUCE,
    CollectiveType.ALL_GATHER: Collective.ALL_GATHER,
    CollectiveType.ALL_TO_ALL: Collective.ALL_TO_ALL,
    CollectiveType.REDUCE_SCATTER: Collective.REDUCE_SCATTER,
    CollectiveType.REDUCE_SCATTER_BLOCK: Collective.REDUCE_SCATTER,
}


@attrs.frozen
class ChakraOptions:
    """Options of a workload of traces."""

    prefix: str = option(help="the trace of rank N is the file PREFIX.N.et, or PREFIX.N.json", path="path")
    dependencies: str = option(
        "both",
        choices=DEPENDENCIES,
        help="dependencies of nodes; both: control and data dependencies, as in ASTRA-sim 2.x; "
        "data: data dependencies alone, as in the feeder of Chakra 1.0.0",
    )


def chakra(options: ChakraOptions, context: Context) -> ExecutionGraph:
    """The graph of all ranks' traces; ranks that do the same share a program. Raises InputError naming file and node."""
    traces = load_ranks(options.prefix, context.platform.npus, dependencies=options.dependencies)
    alike: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for rank, number in enumerate(traces.program_of):
        alike.setdefault((number, tuple(traces.groups_of[rank])), []).append(rank)
    programs = []
    for (number, groups), members in alike.items():
        operations = _TraceBuilder(
            traces=traces, program=number, groups=groups, members=members, dependencies=options.dependencies, context=context
        ).operations()
        programs.append(NpuProgram(operations, tuple(members)))
    first, *others = programs
    keeps_order = all(program.metadata.keeps_order for program in traces.programs)
    return ExecutionGraph(first.operations, context.platform.logical_dimensions(), (), None, tuple(others), keeps_order=keeps_order)


def read_prefix(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `workload` of traces that begin with `path`."""
    return {"workload": {"plugin": "chakra", "prefix": path}}


def recognises(text: str) -> bool:
    """Always False: traces are binary, and are named by a prefix."""
    return False


def _among(column: Column, values: Collection[int]) -> bytes:
    """For each row of a column of signed bytes, whether its value is among `values`."""
    codes = {value % 256 for value in values}
    return column.tobytes().translate(bytes(code in codes for code in range(256)))


def _source(path: str, ids: Sequence[int], dependencies: str) -> Iterator[Mapping[str, Any]]:
    """Fields of nodes in a trace: id, name, type (a number), is_cpu_op, num_ops and tensor_size, and its further attributes by name.

    The trace is read again, with all attributes. Raises InputError.
    """
    from astra_sim_chakra.messages import NodeMessage, attribute_of, parsed  # protobuf, which most runs do not need

    trace = load_trace(path, keep=True, dependencies=dependencies)
    for id_ in ids:
        node = trace.node(trace.row(id_))
        attributes = {name: value for name, _, value in map(attribute_of, parsed(NodeMessage, node.others).attr)}
        yield {
            **attributes,
            "id": node.id,
            "name": node.name,
            "type": int(node.type),
            "is_cpu_op": node.is_cpu_op,
            "num_ops": node.num_ops,
            "tensor_size": node.tensor_size,
        }


class _TraceBuilder:
    """Turns the nodes of one trace into operations, each after those it depends on."""

    def __init__(
        self, traces: RankTraces, program: int, groups: Sequence[str], members: Sequence[int], dependencies: str, context: Context
    ) -> None:
        self._trace = traces.programs[program]
        self._path = traces.path(members[0])
        self._file: Callable[[int], str] = traces.path
        self._dependencies = dependencies
        self._groups = groups
        self._members = members
        self._context = context
        self._all = tuple(range(len(context.platform.dimensions)))

    def operations(self) -> Rows[Operation]:
        """All operations, each after those it waits for; of those that are ready the one with the lowest id starts first."""
        trace = self._trace
        if not len(trace):
            raise InputError(f"{self._path}: the trace has no nodes; expected at least one")
        computing = self._computing()
        algorithms = self._context.node_algorithms
        columns = program_columns(trace, computing, [self._chosen(algorithms)] if algorithms else ())
        durations = [*self._durations(columns.works), -1]
        times = column(map(durations.__getitem__, columns.work_of), "q")
        kinds = [self._operation(row, computing) for row in columns.kinds]

        def make(kind: Operation, place: int, after: tuple[int, ...]) -> Operation:
            assert not isinstance(kind, Wait)
            operation = attrs.evolve(kind, after=after, name=trace.name(columns.rows[place]))
            if isinstance(operation, Compute) and times[place] >= 0:
                operation.duration_ps = times[place]
            return operation

        def name(place: int) -> str:
            return trace.name(columns.rows[place])

        def source(npu: int) -> Iterator[Mapping[str, Any]]:
            return _source(self._file(npu), [trace.id[row] for row in columns.rows], dependencies)

        dependencies = self._dependencies
        return Rows(kinds, columns.kind_of, columns.after, make, times, name, columns.priorities, source)

    def _computing(self) -> bytes:
        """For each row, whether its node computes or takes its recorded time. All nodes do if the trace is replayed."""
        trace, replay = self._trace, self._context.replay_only
        kinds = {kind for kind in NodeType if kind == NodeType.COMP_NODE or (replay and kind > NodeType.METADATA_NODE)}
        computes = bytearray(_among(trace.type, kinds))
        collectives, suspects = _among(trace.type, {NodeType.COMM_COLL_NODE}), _among(trace.comm.type, {-1, CollectiveType.BROADCAST})
        for row in compress(range(len(trace)), map(and_, collectives, suspects)):
            computes[row] = computes[row] or self._takes_recorded_time(row)
        return bytes(computes)

    def _takes_recorded_time(self, row: int) -> bool:
        """Whether a collective is a broadcast, which ASTRA-sim 2.x does not model, or only its call on the host, which sends nothing."""
        trace = self._trace
        is_call = trace.is_cpu_op[row] == 1 and trace.comm.type[row] < 0 and trace.comm.size[row] < 0
        return is_call or trace.comm.type[row] == CollectiveType.BROADCAST

    def _chosen(self, algorithms: Mapping[int, str]) -> Column:
        """For each row, the number (from 1) of the algorithm chosen for this node alone, or 0."""
        numbers = {id_: number for number, id_ in enumerate(algorithms, 1)}
        return column((numbers.get(id_, 0) for id_ in self._trace.id), "I")

    def _unit(self, row: int) -> Unit:
        """The unit that a node which computes, takes its recorded time or accesses memory keeps busy, as in ASTRA-sim 2.x."""
        trace = self._trace
        if trace.is_cpu_op[row] == 1:
            return Unit.CPU
        if trace.type[row] == NodeType.COMP_NODE:
            return Unit.ACCELERATOR
        return Unit.NONE if trace.type[row] == NodeType.COMM_RECV_NODE else Unit.COMMUNICATION

    def _operation(self, row: int, computing: bytes) -> Operation:
        """The operation of a node, without its dependencies, its name and, if it computes, its time."""
        trace, kind = self._trace, self._trace.type[row]
        if computing[row]:
            return Compute((), PS_PER_NS, unit=self._unit(row))
        if kind == NodeType.INVALID_NODE:
            raise self._error(row, "its type is INVALID_NODE, which cannot be run")
        if kind == NodeType.METADATA_NODE:
            return Compute((), 0)
        if kind in (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE):
            (size,) = self._needed(row, tensor_size=trace.tensor_size)
            return MemoryAccess((), size, kind == NodeType.MEM_STORE_NODE, True, unit=self._unit(row))
        if kind == NodeType.COMM_COLL_NODE:
            return self._collective(row)
        sends = kind == NodeType.COMM_SEND_NODE
        peer = "comm_dst" if sends else "comm_src"
        size, distance = self._needed(row, **{"comm_size": trace.comm.size, peer: trace.comm.dst if sends else trace.comm.src})
        if not distance:
            raise self._error(row, f"{peer} is the rank itself; expected another one")
        named = self._groups[trace.comm.group[row]] if trace.comm.group[row] >= 0 else ""
        group = "" if named == "0" else named  # which is everybody
        return (Send if sends else Receive)((), shift(distance), size, trace.comm.tag[row], group=group)

    def _collective(self, row: int) -> Communicate:
        """The operation of a collective, over its group or its dimensions. Raises InputError."""
        trace = self._trace
        if trace.comm.type[row] >= 0 and trace.comm.type[row] not in _COLLECTIVES:
            kind = CollectiveType(trace.comm.type[row])
            known = ", ".join(known.name for known in (*_COLLECTIVES, CollectiveType.BROADCAST))
            raise self._error(row, f"comm_type is {kind.value} ({kind.name}); expected {known} (any with system.replay_only=true)")
        number, size = self._needed(row, comm_type=trace.comm.type, comm_size=trace.comm.size)
        scaled = int(size * self._context.run.comm_scale)
        group_name = self._groups[trace.comm.group[row]] if trace.comm.group[row] >= 0 else None
        group = self._context.members_of(group_name, f"{self._path}: {trace.label(row)}")
        for npu in self._members if group is not None else ():
            if group is not None and npu not in group:
                raise self._error(row, f"pg_name is {group_name!r}, of which rank {npu} is not a member")
        if group is not None and len(group) == self._context.platform.npus:
            group = None
        involved = trace.comm.involved_dims[trace.comm.involved[row]] if trace.comm.involved[row] >= 0 else None
        dimensions = self._all if involved is None else tuple(d for d in self._all if d < len(involved) and involved[d])
        if not dimensions:
            raise self._error(row, "involved_dim names no dimension of the platform; expected at least one")
        algorithm = self._context.node_algorithms.get(trace.id[row], "")
        return Communicate(
            after=(),
            collective=_COLLECTIVES[CollectiveType(number)],
            bytes=scaled,
            dimensions=dimensions,
            layer=-1,
            training_pass=Pass.FORWARD,
            group=group,
            algorithm=algorithm,
        )

    def _durations(self, rows: Sequence[int]) -> list[int]:
        """Picoseconds that nodes take: the recorded time (0 counts as 1 ns), or for nodes that compute the time of the compute model."""
        trace, context = self._trace, self._context
        durations: list[int] = []
        here = Lazily(lambda: f"{self._path}: {trace.label(rows[len(durations)])}")
        model = Lazily(lambda: f"{here}: compute {type(context.compute).__name__}")
        time = Lazily(lambda: f"{here}: the compute time")

        def ask() -> None:
            for row in rows:
                nanoseconds: float = trace.duration_ns[row] or 1
                if trace.type[row] != NodeType.COMP_NODE:
                    durations.append(picoseconds(nanoseconds * PS_PER_NS, time))
                    continue
                if not context.replay_only and trace.is_cpu_op[row] != 1:
                    work = Work(nanoseconds, stated(trace.num_ops[row]), stated(trace.tensor_size[row]))
                    nanoseconds = context.compute.duration_ns(work)
                durations.append(picoseconds(context.scaled_ps(nanoseconds), time))

        try:
            call(model, ask)
        except MissingWork as error:
            raise InputError(f"{here}: {error}") from None
        return durations

    def _needed(self, row: int, **columns: Column) -> tuple[int, ...]:
        """The values of a node in columns, by their names in the file. Raises InputError if one is missing."""
        values = tuple(column[row] for column in columns.values())
        missing = [name for name, value in zip(columns, values, strict=True) if value < 0]
        if missing:
            raise self._error(row, f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        return values

    def _error(self, row: int, what: str) -> InputError:
        return InputError(f"{self._path}: {self._trace.label(row)}: {what}")
