"""Execution graphs: the operations of every NPU, and their order, complete before a run starts.

A program is a list of operations; each waits for earlier ones (`after`) and refers to them by their place in the list.
NPUs that do the same share one program.

Example:

Two stages of a pipeline: NPU 0 computes for 10 us and sends 1 MB, which takes 20 us at 50 bytes/ns, to NPU 1, which computes then.

    >>> from astra_sim import simulate
    >>> from astra_sim.graph import Compute, ExecutionGraph, NpuProgram, Receive, Send
    >>> from astra_sim.schedule import rank
    >>> first = [Compute(after=(), duration_ps=10_000_000), Send(after=(0,), to=rank(1), bytes=1_000_000)]
    >>> second = [Receive(after=(), source=rank(0), bytes=1_000_000), Compute(after=(0,), duration_ps=10_000_000)]
    >>> graph = ExecutionGraph(first, dimensions=(), layers=(), others=(NpuProgram(second, npus=[1]),))
    >>> pair = "plugin:switch?size=2&link_bandwidth_gb_per_s=50&link_latency_ns=250"
    >>> simulate(workload=graph, platform=pair).finish_ns
    40500

The same with a figure of its own: the share of the time in which the second stage waits for its input.

    >>> import attrs
    >>> from astra_sim.graph import Figure, ProgramTimes
    >>> def figures(programs: list[ProgramTimes], finish_ps: int):
    ...     return {"bubble": Figure(programs[1].ended_ps[0] / finish_ps, "bubble of the second stage", "share")}
    >>> result = simulate(workload=attrs.evolve(graph, figures=figures), platform=pair)
    >>> round(result.bubble, 3), result.shown["bubble"].label
    (0.753, 'bubble of the second stage')

A `ProgramBuilder` writes a program step by step. Layer 0 computes while the gradients of layer 1 are exchanged, and hides them:

    >>> from astra_sim.graph import Pass, ProgramBuilder
    >>> from astra_sim.platform import LogicalDimension
    >>> from astra_sim.schedule import Collective
    >>> builder = ProgramBuilder()
    >>> for layer in (1, 0):
    ...     builder.compute(50_000_000, layer, Pass.WEIGHT_GRADIENT)
    ...     builder.communicate(Collective.ALL_REDUCE, 1_000_000, [0], layer, Pass.WEIGHT_GRADIENT)
    >>> for layer in (1, 0):
    ...     builder.wait(layer, Pass.WEIGHT_GRADIENT)
    >>> graph = builder.build([LogicalDimension(size=8, stride=1, physical=0)], ["first", "second"])
    >>> ring = "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
    >>> {layer.name: layer.weight_gradient.exposed_comm_ns for layer in simulate(workload=graph, platform=ring).layers}
    {'first': 24650, 'second': 0}

Operations name earlier ones by their place. When 100 MB are read, in 50 us, the collective begins, and the CPU computes for 10 us. The wait
is `after` the CPU, and the time from then on that the `pending` collective takes is exposed:

    >>> from astra_sim.graph import Communicate, MemoryAccess, Unit, Wait
    >>> FORWARD = Pass.FORWARD
    >>> operations = [
    ...     MemoryAccess(after=(), bytes=100_000_000, layer=0),
    ...     Communicate(after=(0,), collective=Collective.ALL_REDUCE, bytes=1_000_000, dimensions=(0,), layer=0, training_pass=FORWARD),
    ...     Compute(after=(0,), duration_ps=10_000_000, unit=Unit.CPU),
    ...     Wait(after=(2,), pending=(1,), layer=0, training_pass=FORWARD),
    ... ]
    >>> graph = ExecutionGraph(operations, (LogicalDimension(size=8, stride=1, physical=0),), ("first",))
    >>> result = simulate(workload=graph, platform=ring, memory="plugin:local?bandwidth_bytes_per_ns=2000")
    >>> result.finish_ns, result.layers[0].forward.exposed_comm_ns
    (75301, 15301)
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, repeat
from operator import attrgetter, lt, sub
from typing import Any, NamedTuple, TypeVar

import attrs

from astra_sim._boundary import COUNT, FLAG, FUNCTION, MAX_PICOSECONDS, NOT_NEGATIVE, TEXT, TIME, Expected, each, of_type, shown, whole
from astra_sim.memo import ObjectCaches
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.rows import Dependencies, Rows, column, first_like, kinds_of
from astra_sim.schedule import Collective, Peer
from astra_sim.value_objects import ValueObject

__all__ = [
    "Communicate",
    "Compute",
    "ExecutionGraph",
    "Figure",
    "MemoryAccess",
    "NpuProgram",
    "Pass",
    "ProgramBuilder",
    "ProgramTimes",
    "Receive",
    "Send",
    "Unit",
    "Wait",
]

T = TypeVar("T")


class Pass(enum.StrEnum):
    """The passes of training a layer."""

    FORWARD = "forward"
    INPUT_GRADIENT = "input_gradient"
    WEIGHT_GRADIENT = "weight_gradient"


class Unit(enum.StrEnum):
    """The unit of an NPU that an operation occupies, if a system does one such operation at a time."""

    ACCELERATOR = "accelerator"
    CPU = "cpu"
    COMMUNICATION = "communication"
    NONE = "none"


@attrs.define(slots=True)
class Compute:
    """Compute of `duration_ps` picoseconds on a `unit`. A duration of 0 causes no event at all. `idle` time belongs to no layer.

    Communication that takes the time recorded in a trace is a Compute on the unit COMMUNICATION (a receive: NONE).
    """

    after: tuple[int, ...]
    duration_ps: int
    layer: int = -1
    training_pass: Pass = Pass.FORWARD
    iteration: int = 0
    idle: bool = False
    unit: Unit = Unit.ACCELERATOR
    name: str = ""


@attrs.define(slots=True)
class Communicate:
    """A collective of `bytes` bytes over the logical dimensions `dimensions`, or among the NPUs of `group`, in the order of ranks.

    The n-th collective that an NPU issues in a group is the n-th of all its members; over dimensions a group are the NPUs that differ in
    these dimensions alone. It ends `update_ps` after its last chunk (the time in which the layer uses the result). If it is `blocking`,
    the program waits for it; if it is `urgent`, it goes before all others. It needs the `unit` of its NPU, if a system layer does one
    such operation at a time. `algorithm` (`NAME` or `NAME?key=value`) runs it over all NPUs or all of the group, and overrides the
    system's algorithm. `parallelism` names the parallelism that it belongs to, for figures; "": none but that of its dimensions.
    With `priced_ps` it is not simulated: it ends `priced_ps` picoseconds after the last of its NPUs has issued it.
    """

    after: tuple[int, ...]
    collective: Collective
    bytes: int
    dimensions: tuple[int, ...]
    layer: int
    training_pass: Pass
    iteration: int = 0
    update_ps: int = 0
    blocking: bool = False
    urgent: bool = False
    group: tuple[int, ...] | None = None
    algorithm: str = ""
    name: str = ""
    unit: Unit = Unit.COMMUNICATION
    parallelism: str = ""
    priced_ps: int | None = None


@attrs.define(slots=True)
class Send:
    """Sends `bytes` bytes to another NPU, and ends when they have arrived. `to` is a `Peer` among all NPUs.

    The n-th send of a tag and size from one NPU to another meets the n-th receive of that tag and size there. `group` is the name of the
    parallelism that the message belongs to, for figures; "": none.
    """

    after: tuple[int, ...]
    to: Peer
    bytes: int
    tag: int = 0
    layer: int = -1
    name: str = ""
    unit: Unit = Unit.COMMUNICATION
    group: str = ""


@attrs.define(slots=True)
class Receive:
    """Receives `bytes` bytes from another NPU. For `group` see `Send`."""

    after: tuple[int, ...]
    source: Peer
    bytes: int
    tag: int = 0
    layer: int = -1
    name: str = ""
    group: str = ""


@attrs.define(slots=True)
class Wait:
    """Waits for `after` and for the operations `pending`; the time spent on the latter is exposed communication of the layer.

    With `until_first`, only the time until the first of them has ended counts as exposed.
    """

    after: tuple[int, ...]
    pending: tuple[int, ...]
    layer: int
    training_pass: Pass
    iteration: int = 0
    until_first: bool = False


@attrs.define(slots=True)
class MemoryAccess:
    """Reads or writes `bytes` bytes of the NPU's own memory, or of `remote` memory, on a `unit` of the NPU."""

    after: tuple[int, ...]
    bytes: int
    write: bool = False
    remote: bool = False
    layer: int = -1
    iteration: int = 0
    name: str = ""
    unit: Unit = Unit.COMMUNICATION


@attrs.define(slots=True, eq=False)
class Composite:
    """Operations that are simulated as one, for the time they take if their collectives meet no others.

    Each collective takes the time that it takes alone, when all NPUs issue it at once; a `Compute` begins when its dependencies have
    ended. The run is approximate in time alone: each of the `operations` is in its record, with its bytes, messages, phases and place on
    the critical path. They wait for earlier ones by their number (`after`, `pending`). A composite ends when its operations `until` have
    ended (none: all). It needs its `unit`; those of its operations do not count. Its compute and collectives count for their layers; a
    `Wait` in it has none.

    One that continues a `previous` one, which it must be the first to follow, shares its clock: its operations are numbered on from those
    of the previous one and may wait for them, and it takes the remaining time from the end of the previous one to its own.
    Operations may come as `Rows`.
    """

    after: tuple[int, ...]
    operations: Sequence[Operation]
    until: tuple[int, ...] = ()
    previous: Composite | None = None
    name: str = ""
    unit: Unit = Unit.ACCELERATOR
    layer: int = -1

    def chain(self) -> list[Composite]:
        """This composite and those that it continues, the first of them first."""
        composites: list[Composite] = []
        one: Composite | None = self
        while one is not None:
            composites.append(one)
            one = one.previous
        return composites[::-1]


Operation = Compute | Communicate | Send | Receive | Wait | MemoryAccess | Composite


_OPERATIONS = of_type("a sequence of operations", list, tuple, Rows)


@attrs.frozen(eq=False)
class NpuProgram:
    """The program of some NPUs. Operations of which many are alike may come as `Rows`, of kinds without `after` and names.

    Of operations that are ready at once, an NPU starts the one with the lowest priority first: `Rows.priorities`, else the place.

    The times of rows are durations of `Compute` operations; their kinds must not have a duration of 0.
    """

    operations: Sequence[Operation] = attrs.field(validator=_OPERATIONS)
    npus: Sequence[int] = attrs.field(
        validator=Expected("numbers of NPUs", lambda npus, program: isinstance(npus, range) or set(map(type, npus)) <= {int})
    )


@attrs.frozen(eq=False)
class ProgramTimes:
    """When the first NPU of a program did its operations: ready, begun if it is a message that is sent, ended (picoseconds).

    `sends` are the numbers of the messages that it sent, `sends_begun` when each began. `within` is the time that a composite
    takes (it may have been ready earlier), and has its operations, each with its begin and end from that of the composite.
    """

    program: NpuProgram
    ready_ps: Sequence[int]
    ended_ps: Sequence[int]
    sends: Sequence[int]
    sends_begun_ps: Sequence[int]
    within: Callable[[Composite], tuple[int, Sequence[tuple[Operation, int, int]]]] = lambda composite: (0, ())


@attrs.frozen(eq=False, repr=False)
class Figure(ValueObject):
    """A figure that people read: its value, its title, its unit, and a remark.

    Values of the units s, bytes, FLOP/s and share (of 1) are scaled to their size. A mapping has the parts of a whole by name.
    """

    value: Any
    label: str
    unit: str = ""
    note: str = ""


Figures = Callable[[Sequence[ProgramTimes], int], Mapping[str, Any]]
"""Figures of a workload from its run: (times of the first NPU of each program, end of the last) -> figures by name.

They are ready for JSON, with units in their names. One that is a `Figure` is shown in tables, too; others are in `--json` alone.
Timelines draw the rows of `memory_over_time`: `npu`, `at_ns`, `total_bytes`, and bytes of parts. Explanations print `memory_peak`."""


_LOGICAL = Expected(
    "a LogicalDimension of at least one rank, with a stride of at least 1",
    lambda logical, graph: (
        isinstance(logical, LogicalDimension)
        and type(logical.size) is type(logical.stride) is int
        and logical.size > 0 < logical.stride
        and (logical.physical is None or type(logical.physical) is int)
        and isinstance(logical.name, str)
    ),
)


@attrs.frozen(eq=False)
class ExecutionGraph:
    """The program that all NPUs run, the dimensions its collectives speak of, and the names of its layers.

    `footprint_bytes` is the memory that an NPU needs for it, if the workload says so. NPUs named in `others` run another program;
    NPU 0 is not among them. With `figures` a workload adds figures of its own to the result. `shared`: the same object is given to several
    runs, and neither it nor its operations change, so derived data holds for all of them (`cached_for`).
    `exposed_first` are parallelisms: if several communicate while an NPU computes nothing, that time counts as exposed by the first of
    them (`report.npu_shares`). `precision` is the type of the elements that its products multiply, if the workload has one.
    `keeps_order` means that all orders in which an NPU does its operations are among their dependencies, as in a recorded trace: a
    system that does one operation of each sort at a time does not so unless its options request it (`System.one_at_a_time`).
    """

    operations: Sequence[Operation] = attrs.field(validator=_OPERATIONS)
    dimensions: tuple[LogicalDimension, ...] = attrs.field(validator=each("a tuple of LogicalDimension", _LOGICAL, tuple))
    layers: tuple[str, ...] = attrs.field(validator=each("a tuple of texts", TEXT, tuple))
    footprint_bytes: int | None = attrs.field(default=None, validator=NOT_NEGATIVE.optional())
    others: tuple[NpuProgram, ...] = attrs.field(default=(), validator=each("programs of NPUs", of_type("an NpuProgram", NpuProgram)))
    figures: Figures | None = attrs.field(default=None, validator=FUNCTION.optional())
    shared: bool = attrs.field(default=False, validator=FLAG)
    exposed_first: tuple[str, ...] = attrs.field(default=(), validator=each("a tuple of texts", TEXT, tuple))
    precision: str = attrs.field(default="", validator=TEXT)
    keeps_order: bool = attrs.field(default=False, validator=FLAG)

    def layer_of(self, operation: Operation) -> str:
        """The name of the layer of an operation, or its own if it belongs to none."""
        layer = operation.layer
        return self.layers[layer] if 0 <= layer < len(self.layers) else getattr(operation, "name", "")

    def layers_of(self, operations: Sequence[Operation]) -> Iterator[str]:
        """The same of all operations of a program, which need not be made for it."""
        rows = operation_rows(operations)
        of_kinds = [self.layer_of(kind) for kind in rows.kinds]
        if rows.name is None:
            yield from map(of_kinds.__getitem__, rows.kind_of)
            return
        in_layers = [0 <= kind.layer < len(self.layers) for kind in rows.kinds]
        for place, kind in enumerate(rows.kind_of):
            yield of_kinds[kind] if in_layers[kind] else rows.name(place)

    def programs(self, npus: int) -> list[NpuProgram]:
        """The programs of a platform of `npus` NPUs, that of NPU 0 first."""
        return [NpuProgram(self.operations, _left(self.others, npus)), *self.others]


_of_graphs: ObjectCaches[Hashable, Any] = ObjectCaches("graphs", 12)


def cached_for(graph: ExecutionGraph, key: Hashable, compute: Callable[[], T]) -> T:
    """The value of `compute`, which must depend only on the graph and the key; for a shared graph it is computed once.

    The result must not refer to the graph itself, which else would never go.
    """
    return _of_graphs.of(graph).value(key, compute) if graph.shared else compute()


def _left(others: Sequence[NpuProgram], npus: int) -> Sequence[int]:
    """The NPUs that run none of some programs: a range if the others run one after another to the last NPU."""
    if not others:
        return range(npus)
    end = npus
    for program in reversed(others):
        if program.npus != range(program.npus[0] if program.npus else 0, end):
            break
        end = program.npus[0]
    else:
        return range(end)
    elsewhere = {npu for program in others for npu in program.npus}
    return tuple(npu for npu in range(npus) if npu not in elsewhere)


class ProgramBuilder:
    """Writes a program as a training loop does it: compute, issue, wait; one thing after another.

    It checks nothing: `check_graph` looks at the finished graph, before a run.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.iteration = 0
        self._control: tuple[int, ...] = ()
        self._outstanding: dict[tuple[int, Pass], list[int]] = {}

    def _add(self, operation: Operation) -> int:
        self.operations.append(operation)
        return len(self.operations) - 1

    def compute(self, duration_ps: int, layer: int, training_pass: Pass) -> None:
        """Compute for a layer, given by its number, for `duration_ps` picoseconds."""
        self._control = (self._add(Compute(self._control, duration_ps, layer, training_pass, self.iteration)),)

    def idle(self, duration_ps: int) -> None:
        """Let `duration_ps` picoseconds pass that belong to no layer."""
        self._control = (self._add(Compute(self._control, duration_ps, idle=True, iteration=self.iteration)),)

    def access(self, bytes: int, layer: int, *, write: bool = False, remote: bool = False) -> None:
        """Read or `write` bytes of the NPU's own or of `remote` memory for a layer."""
        self._control = (
            self._add(MemoryAccess(after=self._control, bytes=bytes, write=write, remote=remote, layer=layer, iteration=self.iteration)),
        )

    def communicate(
        self,
        collective: Collective,
        bytes: int,
        dimensions: Sequence[int],
        layer: int,
        training_pass: Pass,
        *,
        update_ps: int = 0,
        blocking: bool = False,
        urgent: bool = False,
    ) -> None:
        """Issue a collective; go on at once, or when it has ended if it is `blocking`. For the arguments see `Communicate`."""
        index = self._add(
            Communicate(
                after=self._control,
                collective=collective,
                bytes=bytes,
                dimensions=tuple(dimensions),
                layer=layer,
                training_pass=training_pass,
                iteration=self.iteration,
                update_ps=update_ps,
                blocking=blocking,
                urgent=urgent,
            )
        )
        if blocking:
            self._control = (index,)
        else:
            self._outstanding.setdefault((layer, training_pass), []).append(index)

    def wait(self, layer: int, training_pass: Pass, *, until_first: bool = False) -> None:
        """Wait for the collectives issued for this pass of the layer. For `until_first` see `Wait`."""
        pending = self._outstanding.pop((layer, training_pass), None)
        if pending:
            wait = Wait(self._control, tuple(pending), layer, training_pass, self.iteration, until_first)
            self._control = (self._add(wait),)

    def build(self, dimensions: Sequence[LogicalDimension], layers: Sequence[str], footprint_bytes: int | None = None) -> ExecutionGraph:
        """The finished graph."""
        return ExecutionGraph(tuple(self.operations), tuple(dimensions), tuple(layers), footprint_bytes)


def peer_of(operation: Send | Receive, npu: int, npus: int) -> int:
    """The NPU that an NPU of `npus` sends to, or receives from."""
    return (operation.to if isinstance(operation, Send) else operation.source).of(npu, npus)


def chooses_algorithms(graph: ExecutionGraph) -> bool:
    """Whether some collective names its algorithm."""
    return any(isinstance(kind, Communicate) and bool(kind.algorithm) for kind in graph_kinds(graph))


def accounting_dimensions(graph: ExecutionGraph, platform: Platform) -> tuple[LogicalDimension, ...]:
    """The dimensions in which the communication of a graph counts: its own, or those of the platform if its own are parallelisms.

    Parallelisms (dimensions with a name) may be in the same dimension of the platform, over each other, or across several of them, and
    messages between two NPUs may cross none. Exposed times and bytes of each are in the table of groups.
    """
    return platform.logical_dimensions() if counts_by_platform(graph) else graph.dimensions


def counts_by_platform(graph: ExecutionGraph) -> bool:
    """Whether the communication of a graph counts in the dimensions of the platform."""
    return any(dimension.name for dimension in graph.dimensions)


def graph_kinds(graph: ExecutionGraph) -> Iterator[Operation]:
    """The kinds of operations of all programs of a graph."""
    return chain.from_iterable(kinds_of(operations) for operations in (graph.operations, *(each.operations for each in graph.others)))


def waits_of(operation: Operation) -> tuple[int, ...]:
    """All operations that an operation waits for."""
    return operation.after + operation.pending if isinstance(operation, Wait) else operation.after


def operation_rows(operations: Sequence[Operation]) -> Rows[Operation]:
    """Operations in columns; unless they are in columns already, each has its own kind. `after` holds all operations they wait for."""
    if isinstance(operations, Rows):
        return operations
    waits = Dependencies.of([waits_of(operation) for operation in operations])
    return Rows(operations, column(range(len(operations)), "I"), waits, lambda operation, row, after: operation)


def check_graph(graph: ExecutionGraph, npus: int) -> None:
    """Raise ValueError if an operation waits for a later one, moves less than nothing, or names something that does not exist."""
    cached_for(graph, ("checked", npus), lambda: _check_graph(graph, npus))


def _check_graph(graph: ExecutionGraph, npus: int) -> None:
    """Raise ValueError if NPUs, operations, their waits or the members of their groups do not fit together."""
    elsewhere: set[int] = set()
    for program in graph.others:
        for npu in program.npus:
            if not 0 < npu < npus or npu in elsewhere:
                raise ValueError(f"a program of its own is given to NPU {npu}; expected NPUs 1 to {npus - 1}, each at most once")
            elsewhere.add(npu)
    programs = [(program.operations, program.npus) for program in graph.programs(npus)]
    for operations, _ in programs:
        for number, operation in enumerate(kinds_of(operations)):
            wrong = _wrong_type(operation)
            if wrong:
                raise ValueError(f"operation {first_like(operations, number)} {wrong}")
    for operations, running in programs:
        _check_waits(operations)
        groups: dict[tuple[int, ...], int] = {}
        for number, operation in enumerate(kinds_of(operations)):
            wrong = _wrong_with(operation, graph, npus)
            if wrong:
                raise ValueError(f"operation {first_like(operations, number)} {wrong}")
            if isinstance(operation, Communicate) and operation.group is not None:
                groups.setdefault(operation.group, number)
        _check_members(operations, groups, running)


def _check_members(operations: Sequence[Operation], groups: Mapping[tuple[int, ...], int], running: Iterable[int]) -> None:
    """Raise ValueError if an NPU runs a program with a collective of a group to which it does not belong.

    `groups` holds the first operation of each group. NPUs are checked until one is not a member, so hardly more of them than members.
    """
    if not groups:
        return
    common = set.intersection(*map(set, groups))
    stranger = next((npu for npu in running if npu not in common), None)
    if stranger is not None:
        members, number = next((group, number) for group, number in groups.items() if stranger not in group)
        where = f"operation {first_like(operations, number)} is a collective of the group {list(members)}"
        raise ValueError(f"{where}, and NPU {stranger}, which runs it, is not a member")


_WHOLE = whole(-(2**63))
_NUMBERS = each("a tuple of numbers of operations", of_type("a number", int), tuple)
_FIELDS: dict[str, Expected] = {
    **dict.fromkeys(("after", "pending", "until"), _NUMBERS),
    **dict.fromkeys(("duration_ps", "update_ps"), TIME),
    "priced_ps": TIME.optional(),
    "bytes": COUNT,
    **dict.fromkeys(("layer", "iteration", "tag"), _WHOLE),
    "training_pass": of_type("a Pass", Pass),
    "collective": of_type("a Collective", Collective),
    "unit": of_type("a Unit", Unit),
    **dict.fromkeys(("to", "source"), of_type("a Peer", Peer)),
    "dimensions": each("a tuple of numbers of dimensions", of_type("a number", int), tuple),
    "operations": _OPERATIONS,
    **dict.fromkeys(("idle", "blocking", "urgent", "until_first", "write", "remote"), FLAG),
    **dict.fromkeys(("group", "name", "algorithm", "parallelism"), TEXT),
}
"""Constraints on the fields of operations, except those that only the classes themselves set."""
_MEMBERS = each("a tuple of NPUs", of_type("a number", int), tuple).optional()


_INT = {int}


class _Fields(NamedTuple):
    """The fields of a class of operations. `alike` has the types of those that were right, and for these the places of numbers, which are
    looked at each time, and of tuples of them."""

    names: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    alike: dict[tuple[type, ...], tuple[list[int], list[int]]]

    @classmethod
    def of(cls, operation: type) -> _Fields:
        names = tuple(field.name for field in attrs.fields(operation) if field.name in _FIELDS)
        return cls(names, attrgetter(*names), {})

    def wrong(self, operation: Operation) -> str | None:
        """Describe the error in an operation; None: it is valid."""
        values = self.values(operation)
        types = tuple(map(type, values))
        places = self.alike.get(types)
        if places is not None:
            for place in places[0]:
                if not 0 <= values[place] <= MAX_PICOSECONDS:
                    break
            else:
                for place in places[1]:
                    if values[place] and set(map(type, values[place])) != _INT:
                        break
                else:
                    return None
        for name, value in zip(self.names, values, strict=True):
            expected = _MEMBERS if name == "group" and isinstance(operation, Communicate) else _FIELDS[name]
            if not expected.is_right(value, operation):
                return f"has {name} {shown(value)}; expected {expected.words}"
        self.alike[types] = [n for n, kind in enumerate(types) if kind is int], [n for n, kind in enumerate(types) if kind is tuple]
        return None


_FIELDS_OF = {cls: _Fields.of(cls) for cls in (Compute, Communicate, Send, Receive, Wait, MemoryAccess, Composite)}


def _wrong_type(operation: Operation) -> str | None:
    """Describe a field of an operation with a wrong type or far out of range; None: all are valid."""
    fields = _FIELDS_OF.get(type(operation))
    if fields is None:
        return f"is {shown(operation)}; expected an operation (Compute, Communicate, Send, Receive, Wait, MemoryAccess, Composite)"
    return fields.wrong(operation)


def _wrong_with(operation: Operation, graph: ExecutionGraph, npus: int) -> str | None:
    """Describe what an operation needs that a graph of `npus` NPUs does not have; None: nothing."""
    if isinstance(operation, Composite):
        return _wrong_in(operation, graph, npus)
    if not isinstance(operation, Communicate):
        return None
    for dimension in operation.dimensions:
        if not 0 <= dimension < len(graph.dimensions):
            return f"uses dimension {dimension} of {len(graph.dimensions)}"
    members = operation.group or ()
    if len(set(members)) < len(members) or not all(0 <= npu < npus for npu in members):
        return f"is a collective of the group {list(members)}; expected different NPUs from 0 to {npus - 1}"
    return None


def _wrong_in(composite: Composite, graph: ExecutionGraph, npus: int) -> str | None:
    """Describe the error in the operations of a composite; None: they are valid."""
    before = sum(len(one.operations) for one in composite.chain()[:-1])
    rows = operation_rows(composite.operations)
    if rows.times is not None:
        return "is a composite of rows with times of their own; expected those of their kinds"
    for number in dict.fromkeys(rows.kind_of):
        operation, place = rows.kinds[number], before + first_like(rows, number)
        wrong = _wrong_type(operation)
        if wrong:
            return f"is a composite whose operation {place} {wrong}"
        if not isinstance(operation, (Compute, Communicate, Wait)):
            return f"is a composite with a {type(operation).__name__.lower()}; expected compute, collectives and waits"
        if isinstance(operation, Communicate) and operation.group is not None:
            return f"is a composite whose operation {place} is a collective of the group {list(operation.group)}; expected dimensions"
        if isinstance(operation, Wait) and 0 <= operation.layer < len(graph.layers):
            # The record of a run has no row for it, so its waits would be missing from the layer's figures.
            return f"is a composite whose operation {place} is a wait of layer {operation.layer}; expected one without a layer (-1)"
        wrong = _wrong_with(operation, graph, npus)
        if wrong:
            return f"is a composite whose operation {place} {wrong}"
    counts = map(sub, rows.after.end, chain((0,), rows.after.end))
    if not all(map(lt, rows.after.rows, chain.from_iterable(map(repeat, count(before), counts)))):
        return "is a composite of which an operation waits for one that is not before it"
    if any(not 0 <= each < before + len(rows) for each in composite.until):
        return f"is a composite that ends with its operations {list(composite.until)}; it has {before + len(rows)}"
    return None


def _check_waits(operations: Sequence[Operation]) -> None:
    if isinstance(operations, Rows):
        after = operations.after
        counts = map(sub, after.end, chain((0,), after.end))
        if all(map(lt, after.rows, chain.from_iterable(map(repeat, count(), counts)))):
            return
    for index, operation in enumerate(operations):
        for other in waits_of(operation):
            if not 0 <= other < index:
                raise ValueError(f"operation {index} waits for operation {other}; only earlier operations can be waited for")
