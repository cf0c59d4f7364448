"""The interface of system layers: the rules by which an NPU cuts collectives into chunks, phases and queues.

The orders of its queues (`Rule`, `RuleOrder`, `Order`, `Job`) and the bus that endpoints may share (`BusOptions`) are named here, too.

Example:

A system layer for all-reduces, which it cuts into two chunks. Each passes through the dimensions in order, in a queue of each dimension
that runs one chunk at a time, where every rank exchanges data with all others in turn:

    >>> from astra_sim.platform import Group
    >>> from astra_sim.schedule import Request, Schedule, exchange, shift
    >>> from astra_sim.system import ChunkPlan, PhasePlan, QueueAssignment, QueuePlan, RuleOrder, System, SystemSession
    >>> def in_turn(request):
    ...     n, block = request.ranks, request.bytes // request.ranks
    ...     add_up = exchange(shift(1), block, times=n - 1, stride=1, reduce=True)
    ...     return Schedule.shared(request, [add_up, exchange(shift(1), block, times=n - 1, stride=1)])
    >>> class Halves(System):
    ...     endpoint_ps = 10_000
    ...
    ...     def session(self, dimensions):
    ...         return HalvesSession(dimensions)
    >>> class HalvesSession(SystemSession):
    ...     def __init__(self, dimensions):
    ...         self.dimensions = dimensions
    ...         self.queues = [QueuePlan(slots=1, order=RuleOrder()) for _ in dimensions]
    ...
    ...     def issue(self, operation, now_ps):
    ...         stages = [(number, self.dimensions[number]) for number in operation.dimensions]
    ...         if operation.group is not None:
    ...             stages = [(0, Group(operation.group))]
    ...         phases, size = [], -(-operation.bytes // 2)
    ...         for number, ranks in stages:
    ...             schedule = in_turn(Request(operation.collective, ranks.size, size))
    ...             phases.append(PhasePlan(number, ranks, operation.collective, size, schedule, queue=number))
    ...             size = schedule.output_bytes
    ...         return [ChunkPlan(None, tuple(phases))] * 2
    ...
    ...     def assign_queue(self, operation, dimension, logical):
    ...         return QueueAssignment(queue=dimension, priority=None)

The plan of an all-reduce of 8 MB over 4 x 2 NPUs, its queue on a network that gives a time for whole collectives, and a run:

    >>> from astra_sim import simulate
    >>> from astra_sim.graph import Communicate, Pass
    >>> from astra_sim.platform import LogicalDimension
    >>> from astra_sim.schedule import Collective
    >>> session = Halves().session([LogicalDimension(4, 1, 0), LogicalDimension(2, 4, 1)])
    >>> operation = Communicate((), Collective.ALL_REDUCE, 8_000_000, (0, 1), layer=0, training_pass=Pass.FORWARD)
    >>> [[(phase.logical.size, phase.bytes) for phase in chunk.phases] for chunk in session.issue(operation, now_ps=0)]
    [[(4, 4000000), (2, 4000000)], [(4, 4000000), (2, 4000000)]]
    >>> session.assign_queue(operation, 0, session.dimensions[0])
    QueueAssignment(queue=0, priority=None)
    >>> nodes = {"topology": "switch", "size": 4, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 500}
    >>> pods = {"topology": "switch", "size": 2, "link_bandwidth_gb_per_s": 25, "link_latency_ns": 500}
    >>> experiment = {"workload": "plugin:collective?collective=all_reduce&bytes=8000000", "platform": {"dimensions": [nodes, pods]}}
    >>> simulate(**experiment, system=Halves()).finish_ns
    450172

The same if the messages of an NPU share the bus to its memory, by LogGP (ns):

    >>> from astra_sim.system import BusOptions
    >>> class OnABus(Halves):
    ...     bus = BusOptions(L=10, o=10, g=1, G=0.01)
    >>> simulate(**experiment, system=OnABus()).finish_ns
    849154

The order of a queue: a phase of a reduce-scatter goes before smaller ones, but never before one that runs. `RuleOrder` returns its place:

    >>> from astra_sim.system import Job, Rule
    >>> largest_first = RuleOrder(by_kind={"reduce_scatter": Rule(key=lambda kind, size, remaining: -size)})
    >>> queue = [Job(0, "reduce_scatter", size, 1) for size in (100, 400, 200)]
    >>> largest_first(queue, 1, Job(0, "reduce_scatter", 300, 1))
    2

The order of dimensions: chunks of at most 1 MiB, which pass through the dimensions by their bandwidth, the fastest first:

    >>> from astra_sim.system import DimensionOrder
    >>> class FastestFirst(DimensionOrder):
    ...     has_memory = False
    ...
    ...     def __init__(self, platform):
    ...         self.bandwidths = [dimension.link_bandwidth for dimension in platform.dimensions]
    ...
    ...     def chunk(self, collective, rest, size, dimensions, usable):
    ...         order = sorted(range(len(dimensions)), key=lambda number: -self.bandwidths[dimensions[number].physical])
    ...         return min(rest, size, 2**20), order
    >>> from astra_sim.commands import Experiment, Plugins, build_platform
    >>> plugins, pod = Plugins(), Experiment()
    >>> pod.use("platform", {"dimensions": [pods, nodes]}, plugins)
    >>> platform = build_platform(pod, plugins)
    >>> FastestFirst(platform).chunk(Collective.ALL_REDUCE, 8_000_000, 4_000_000, platform.logical_dimensions(), [True, True])
    (1048576, [1, 0])
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import attrs

from astra_sim._boundary import COUNT, FLAG, FUNCTION, TEXT, TIME, Contract, Expected, each, of_type, shown, whole
from astra_sim._deprecation import FormerName, former_names
from astra_sim.engine.interface import BusOptions
from astra_sim.engine.orders import Job, Order, Rule, RuleOrder
from astra_sim.errors import PluginError
from astra_sim.graph import Communicate
from astra_sim.platform import Group, LogicalDimension
from astra_sim.schedule import Collective, Schedule
from astra_sim.value_objects import ValueObject

__all__ = [
    "BusOptions",
    "ChunkPlan",
    "DimensionOrder",
    "Job",
    "PhasePlan",
    "QueueAssignment",
    "QueuePlan",
    "Rule",
    "RuleOrder",
    "System",
    "SystemSession",
]


@attrs.define(slots=True)
class PhasePlan:
    """One phase of a chunk: `collective` on the ranks of `logical`, carried out by `schedule`, in queue `queue`.

    `dimension` is the index under which the phase counts in reports; that of a group counts in the dimensions that its messages take.
    `queue` counts over all queues of an NPU. `bytes` is the data of each rank before the phase. `endpoint_ps` is the endpoint delay
    (picoseconds) if it is not the system's.

    A collective that the network prices has a schedule without steps, and its time is `endpoint_ps`: it ends for all of a group so long
    after the last of them has begun it. Then `counted` has the messages whose bytes count.

    `algorithm` names the algorithm of the schedule, and `reason` why if it was not chosen by name: "auto: ..." with the
    compared. Both are for people.
    """

    dimension: int
    logical: LogicalDimension | Group
    collective: Collective
    bytes: int
    schedule: Schedule
    queue: int
    endpoint_ps: int | None = None
    counted: Schedule | None = None
    algorithm: str = ""
    reason: str = attrs.field(default="", eq=False)


@attrs.define(slots=True)
class ChunkPlan:
    """A chunk: its phases in order, and its priority in queues (higher goes first; None: by when the collective was issued)."""

    priority: int | None
    phases: tuple[PhasePlan, ...]


class QueueAssignment(NamedTuple):
    """The queue of a whole collective, counted over all queues of an NPU (-1: none), and its priority there."""

    queue: int
    priority: int | None


@attrs.frozen(eq=False, repr=False)
class QueuePlan(ValueObject):
    """A queue of every NPU: its order, how many chunks of it run at a time, and the traffic class that its messages ask for.

    Classes count from 0; with -1 the network chooses.
    """

    slots: int = attrs.field(validator=whole(1, 2**31 - 1))
    order: Order = attrs.field(validator=FUNCTION)
    traffic_class: int = attrs.field(default=-1, validator=whole(-1, 2**31 - 1))


def _is_chunk(answer: Any, order: Any) -> bool:
    size, dimensions = answer
    return type(size) is int and all(type(number) is int for number in dimensions)


class DimensionOrder(Contract, abc.ABC):
    """In which order chunks pass through the dimensions, and how large they are: a scheduler plugin, made anew for every run.

    `all_reduces_last`: an all-reduce of several dimensions does the last of them in one phase, not as reduce-scatter and all-gather.
    `has_memory`: the result of `chunk` depends on earlier calls, not on its arguments alone. `cuts_by_bandwidth`: chunks have other sizes
    if the bandwidths of the platform are a little other ones.
    """

    _kind = "order of dimensions"
    _attributes: ClassVar = {"all_reduces_last": FLAG, "has_memory": FLAG, "cuts_by_bandwidth": FLAG}
    _answers: ClassVar = {
        "begin": Expected("nothing", lambda answer, order: True),
        "chunk": Expected("whole numbers: the bytes of a chunk, and an order of dimensions", _is_chunk),
    }

    all_reduces_last: bool = True
    has_memory: bool = True
    cuts_by_bandwidth: bool = False

    def begin(self, collective: Collective, now_ps: int) -> None:
        """A collective is issued now, at `now_ps` picoseconds; its chunks follow."""
        return

    @abc.abstractmethod
    def chunk(
        self, collective: Collective, rest: int, size: int, dimensions: Sequence[LogicalDimension], usable: Sequence[bool]
    ) -> tuple[int, Sequence[int]]:
        """The bytes of the next chunk, of `rest` bytes left and `size` asked for, and the order of all dimensions.

        Dimensions that are not `usable` are skipped.
        """


_PRIORITY = whole(-(2**63) + 1)
_OF_PHASE = {
    "dimension": COUNT,
    "logical": of_type("a LogicalDimension or a Group", LogicalDimension, Group),
    "collective": of_type("a Collective", Collective),
    "bytes": COUNT,
    "schedule": of_type("a Schedule", Schedule),
    "queue": whole(-1, 2**31 - 1),
    "endpoint_ps": TIME.optional(),
    "counted": of_type("a Schedule", Schedule).optional(),
    "algorithm": TEXT,
    "reason": TEXT,
}


def _check_phase(phase: object, number: int) -> None:
    """Raise PluginError for an invalid phase of a chunk."""
    if not isinstance(phase, PhasePlan):
        raise PluginError(f"it planned {shown(phase)} as a phase of chunk {number}; expected a PhasePlan")
    for name, expected in _OF_PHASE.items():
        value = getattr(phase, name)
        if not expected.is_right(value, phase):
            raise PluginError(f"it planned chunk {number} with a phase whose {name} is {shown(value)}; expected {expected.words}")
    phase.schedule.check(phase.schedule.ranks)
    if phase.counted is not None:
        phase.counted.check(phase.counted.ranks)


def check_chunks(chunks: Sequence[ChunkPlan], size: int, npus: int) -> None:
    """Raise PluginError unless chunks hold the `size` bytes of a collective, and phases begin with the bytes that those before them leave.

    No chunk at all is right if there is nothing to do. The last of several chunks may be filled up, and every one to a byte for each of
    the platform's `npus`.
    """
    if not isinstance(chunks, (list, tuple)):
        raise PluginError(f"it planned {shown(chunks)}; expected a list of ChunkPlan")
    checked: set[int] = set()  # many are the same object
    for number, chunk in enumerate(chunks):
        if id(chunk) in checked:
            continue
        if not isinstance(chunk, ChunkPlan) or not _PRIORITY.optional().is_right(chunk.priority, chunk):
            raise PluginError(f"it planned {shown(chunk)} as chunk {number}; expected a ChunkPlan with a priority of 64 bits, or None")
        if not isinstance(chunk.phases, (tuple, list)):
            raise PluginError(f"it planned chunk {number} with the phases {shown(chunk.phases)}; expected a tuple of PhasePlan")
        for phase in chunk.phases:
            _check_phase(phase, number)
        checked.add(id(chunk))
        if not chunk.phases:
            raise PluginError(f"it planned chunk {number} without phases")
        for before, after in pairwise(chunk.phases):
            if after.bytes != before.schedule.output_bytes:
                raise PluginError(
                    f"chunk {number} has {before.schedule.output_bytes} bytes after its {before.collective} of {before.bytes} bytes,"
                    f" and goes on with {after.collective} of {after.bytes} bytes"
                )
    sizes = [chunk.phases[0].bytes for chunk in chunks]
    most = max(size + (max(sizes) - 1 if len(sizes) > 1 else 0), len(sizes) * npus)
    if sizes and not size <= sum(sizes) <= most:
        raise PluginError(f"it planned {len(chunks)} chunks of {sum(sizes)} bytes in total for a collective of {size} bytes")


def _is_assignment(assignment: Any, session: Any) -> bool:
    queue, priority = assignment
    return type(queue) is int and -1 <= queue < len(session.queues) and (priority is None or _PRIORITY.holds(priority, session))


class SystemSession(Contract, abc.ABC):
    """The system layer during one run. It may keep state; all NPUs that run one program share it.

    `later_first`: of chunks without a priority of their own those of later collectives go first, else those of earlier ones.
    `cuts_by_bandwidth`: see `DimensionOrder`.
    """

    _kind = "session of a system"
    _attributes: ClassVar = {
        "queues": each("a list of QueuePlan", of_type("a QueuePlan", QueuePlan)),
        "later_first": FLAG,
        "cuts_by_bandwidth": FLAG,
    }
    _answers: ClassVar = {
        "assign_queue": Expected("a QueueAssignment: one of the queues, or -1, and a priority", _is_assignment),
        "repeats": FLAG,
    }

    queues: Sequence[QueuePlan]
    later_first: bool = True
    cuts_by_bandwidth: bool = False

    @abc.abstractmethod
    def issue(self, operation: Communicate, now_ps: int) -> Sequence[ChunkPlan]:
        """Plan a collective that is issued now, at `now_ps` picoseconds. An empty list: there is nothing to do.

        Called once per collective, in order of issue; of collectives that repeat, once for all. Return a tuple to promise that it and
        its items never change: then data derived from it is cached, for other runs, too, whose sessions return the same object.
        """

    def assign_queue(self, operation: Communicate, dimension: int, logical: LogicalDimension | Group) -> QueueAssignment:
        """The queue of a collective that the network prices, as one chunk with one phase on the ranks of `logical`.

        `dimension` is the first of the program's dimensions that it involves; a group counts as the first of all. Called in place of
        `issue`, when that would be. Raises InputError if the system refuses the collective.
        """
        return QueueAssignment(-1, None)

    place: Any = FormerName("assign_queue", "a session", "0.3")

    def repeats(self, operation: Communicate) -> bool:
        """Whether collectives like this one (in all but name and dependencies) get the same chunks, whenever they are issued."""
        return False


def _are_algorithms(algorithms: Any, system: Any) -> bool:
    return isinstance(algorithms, Mapping) and all(type(node) is int and isinstance(name, str) for node, name in algorithms.items())


class System(Contract, abc.ABC):
    """A system layer.

    `endpoint_ps` is the time an endpoint needs for every message it handles; with a `bus`, endpoints share it instead. `tick_ps` is the
    clock to which compute times are truncated; both are picoseconds. `phases_end_together`: a phase ends on all NPUs of the
    machine when the last has finished it. `one_at_a_time`: an NPU has one operation of each sort under way: computing, computing
    on the CPU, and communication and memory together; of those that are ready the first of the program begins. Receives may always begin.
    If `one_at_a_time_unless_ordered`, that is only the default, and programs that keep their orders themselves go without
    (`ExecutionGraph.keeps_order`).

    With `own_orders` each NPU begins chunks and collectives in its own order; if NPUs are out of step they may then wait for each other,
    and the run ends with an error, which ends with `own_orders_advice`. Without it, NPUs that run the same program begin them in one order.
    """

    _kind = "system"
    _attributes: ClassVar = {
        "endpoint_ps": TIME,
        "tick_ps": whole(1),
        **dict.fromkeys(("phases_end_together", "one_at_a_time", "one_at_a_time_unless_ordered", "own_orders"), FLAG),
        **dict.fromkeys(("rendezvous", "replay_only", "overhead_on_compute"), FLAG),
        "node_algorithms": Expected("names of algorithms by numbers of nodes", _are_algorithms),
        "bus": of_type("BusOptions", BusOptions).optional(),
        "send_class": whole(-1, 2**31 - 1),
        **dict.fromkeys(("reduce_ps", "send_overhead_ps", "receive_overhead_ps"), FUNCTION.optional()),
    }

    endpoint_ps: int = 0
    tick_ps: int = 1
    phases_end_together: bool = True
    one_at_a_time: bool = False
    one_at_a_time_unless_ordered: bool = False
    own_orders: bool = False
    own_orders_advice: str = ""
    rendezvous: bool = False
    replay_only: bool = False
    """Operations of a trace take the time that it recorded, collectives too."""
    node_algorithms: Mapping[int, str] = MappingProxyType({})
    """The collective algorithms (`NAME` or `NAME?key=value`) of single nodes of a trace, by their ids. They go before all others."""
    bus: BusOptions | None = None
    send_class: int = -1
    """The traffic class that messages in no queue ask for, which are those between two NPUs (-1: the network chooses)."""
    reduce_ps: Callable[[int], int] | None = None
    """Picoseconds to add received bytes to a buffer, if the memory model is not asked."""
    send_overhead_ps: Callable[[int], int] | None = None
    """Picoseconds that the processor of an NPU spends on sending a message, before the network has it: `o` of LogGP. It
    does one message after another. The function is pure, and is called once for each size; None: no time is spent."""
    receive_overhead_ps: Callable[[int], int] | None = None
    """The same for receiving one, when the network has delivered it. Requests (`rendezvous`) are messages, too."""
    overhead_on_compute: bool = True
    """Whether that processor is the one that computes, so that an operation waits for messages and these for it; else it is another."""

    @abc.abstractmethod
    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        """A new session for a program whose collectives speak of `dimensions`.

        A run may have several: it has one collective of each kind planned in one that it discards, to detect symmetry.
        Raises InputError if the system's options do not fit the dimensions.
        """


__getattr__ = former_names(__name__, {"Place": "QueueAssignment"}, "0.3")
