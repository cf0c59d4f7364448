"""The interface of engines: input and output. `reference` implements it, and so do the engines of packages.

A **program** is a list of tasks that some NPUs run; each task waits for earlier ones. It is of one of these kinds: `JOIN` ends at once,
`TIMER` after its delay, `COMPUTE` after its delay, too, or a time that is asked for when it begins (`Engine.set_compute_times`), on the
processor of its NPU if that handles messages as well (`Engine.set_overheads`), `ACCESS` is a timer that uses
its NPU's port (NPUs that have the same port use it one after another), `SEND` sends a message to another NPU and ends when it has arrived,
`RECEIVE` ends when its message has arrived, `COLLECTIVE` issues chunks and ends its delay after the last of them. A task may need a
**unit** of its NPU, which does one task at a time: of those that are ready the one with the lowest priority (`Rows.priorities`; without
them, the lowest number). A chunk passes through its **phase steps** one after another. A phase step is a phase of the chunk, which the
engine simulates, or the time that the phase takes. It may be in a **queue** of its NPU: it takes the place that the queue's order gives
it, and starts when it is among the first `slots` of the queue.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

import attrs

from astra_sim._boundary import LONGEST_TIME, MAX_PICOSECONDS, in_seconds
from astra_sim.engine.orders import Job, Order
from astra_sim.errors import InputError, RunError
from astra_sim.network import EventNetwork, RouteDelayNetwork
from astra_sim.platform import LogicalDimension
from astra_sim.rows import Column, Dependencies, Rows, column, first_like
from astra_sim.schedule import LoweredProgram, Peer
from astra_sim.value_objects import ValueObject

if TYPE_CHECKING:
    from astra_sim.engine.columns import Use

JOIN, TIMER, COLLECTIVE, ACCESS, SEND, RECEIVE, COMPUTE = range(7)
CONTROL_BYTES = 8192
"""Size of the message with which a receiver asks for the data under the rendezvous protocol (ASTRA-sim 1.0 and 2.x)."""

CausalKey = tuple[int, ...]
"""The schedule times of an event's predecessors, latest first; as many as CAUSAL_KEY_LENGTH."""

CAUSAL_KEY_LENGTH = 8

ComputePs = Callable[[int, int, int], int]
"""The time of a COMPUTE task: (NPU, number of the task, when it begins) -> picoseconds, 0 to MAX_PICOSECONDS."""

OverheadPs = Callable[[int, bool], int]
"""The time of a processor per message: (bytes, whether it receives or sends the message) -> picoseconds, 0 to MAX_PICOSECONDS."""


class Task(NamedTuple):
    """An operation of a program: its kind, its delay in picoseconds, the tasks it waits for, and the unit it needs (-1: none).

    A SEND goes to a `peer`, a RECEIVE comes from one, among all NPUs. The k-th send of equal `bytes` and `tag` from one NPU to
    another meets the k-th receive of that kind.

    A COLLECTIVE with a `group` (from 0 on) is shared by the programs that have that number: the n-th that one issues in the group is the
    n-th of the others, and must have the same number `collective`. Those that have the same such number and `repeats` become the same
    chunks, which are planned once.
    """

    kind: int
    delay: int
    after: Sequence[int] = ()
    unit: int = -1
    peer: Peer | None = None
    bytes: int = 0
    tag: int = 0
    group: int = -1
    collective: int = -1
    repeats: bool = False


class PhaseStep(NamedTuple):
    """A chunk in one of its phases, in queue number `queue` of its NPU (-1: in none).

    It is phase number `phase`, or (-1) takes `delay` picoseconds and ends with `causal_key`, as offsets back from its end. The priority
    of its job grows by `age` with every collective that was issued before.
    """

    job: Job
    queue: int = -1
    phase: int = -1
    delay: int = 0
    causal_key: CausalKey = ()
    age: int = 0


Issue = Callable[[int, int], Sequence[Sequence[PhaseStep]]]
"""The chunks of a collective, planned when the first NPU issues it: (number of the task, picoseconds now) -> phase steps of each chunk."""


@attrs.frozen(eq=False, repr=False)
class BusOptions(ValueObject):
    """Parameters of LogGP, in ns: latency `L`, overhead `o`, gap between transfers `g`, gap per byte `G`.

    `memory_gap_per_byte` is that of the inner bus to local memory. A side lets the other go first when it has sent more than `burst`
    transfers in a row. A reduction takes (bytes // 100) * `reduction_delay` + `reduction_overhead` ns. The defaults are those of
    ASTRA-sim 1.0.
    """

    L: int
    o: int
    g: int
    G: float
    reduction_delay: int = 1
    memory_gap_per_byte: float = 0.0038
    burst: int = 8
    reduction_overhead: int = 50


class UnlikeCollectivesError(Exception):
    """Two programs share a collective that is not the same for them: (program, task) of both, and
    which collective of their group it is, from 1."""

    def __init__(self, issued: tuple[int, int], first: tuple[int, int], ordinal: int) -> None:
        super().__init__(issued, first, ordinal)
        self.issued = issued
        self.first = first
        self.ordinal = ordinal

    def __str__(self) -> str:
        return f"{self.issued} and {self.first} are the collective {self.ordinal} of a group"


class PhaseStepRecord(NamedTuple):
    """A phase step of a chunk on an observed NPU: its task, which of all planned steps it is, when it was queued, started and ended.

    A time is -1 if that has not happened. Steps count through all answers of `Issue`, chunk by chunk. `delay_sum` adds the time from
    posting a receive to its message over `received` messages.
    """

    task: int
    step: int
    queued_at: int
    started_at: int
    ended_at: int
    delay_sum: int
    received: int


@attrs.frozen(eq=False, repr=False)
class PhaseStepRecords(Sequence[PhaseStepRecord]):
    """Records in columns, which have the names of their fields."""

    task: Sequence[int]
    step: Sequence[int]
    queued_at: Sequence[int]
    started_at: Sequence[int]
    ended_at: Sequence[int]
    delay_sum: Sequence[int]
    received: Sequence[int]

    def __len__(self) -> int:
        return len(self.task)

    @overload
    def __getitem__(self, row: int) -> PhaseStepRecord: ...
    @overload
    def __getitem__(self, row: slice) -> list[PhaseStepRecord]: ...
    def __getitem__(self, row: int | slice) -> PhaseStepRecord | list[PhaseStepRecord]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        return PhaseStepRecord(*(getattr(self, name)[row] for name in PhaseStepRecord._fields))

    def __iter__(self) -> Iterator[PhaseStepRecord]:
        return map(PhaseStepRecord, *(getattr(self, name) for name in PhaseStepRecord._fields))


class RankState(NamedTuple):
    """The progress of a rank of a phase that has started and not ended; `posted` are the receives that wait for their message.

    `step` is the place of the phase step in its chunk.
    """

    task: int
    chunk: int
    step: int
    npu: int
    rank: int
    members: Sequence[int]
    program: LoweredProgram
    tokens: int
    arrivals: int
    next_action: int
    posted: Sequence[int]


class LinkKind(enum.IntEnum):
    """The event at the end of a link of the critical path.

    `MESSAGE`: a message of a phase arrives. `REQUEST`: one that asks for such a message (rendezvous). `TOKEN`: an endpoint has handled a
    message, or a start. `BUS`: a shared bus has done something. `POINT_TO_POINT`, `POINT_TO_POINT_REQUEST`: the same of a SEND.
    `MEETING`: a receive finds its message there. `TASK`, `STEP`: a task, or a phase step of a chunk, ends. `OVERHEAD`: a processor has sent
    or received a message.
    """

    MESSAGE = 0
    REQUEST = 1
    TOKEN = 2
    BUS = 3
    POINT_TO_POINT = 4
    POINT_TO_POINT_REQUEST = 5
    MEETING = 6
    TASK = 7
    STEP = 8
    OVERHEAD = 9


class PathEdge(NamedTuple):
    """The time from when `npu` scheduled an event to when it happened (picoseconds), with the task and the phase step it belongs to.

    The number of a step is that of `PhaseStepRecord`; -1: none. A message goes `to` an NPU (-1: it is none), with its bytes; that of an
    overhead is received if `npu` is its destination, else sent.
    """

    kind: LinkKind
    begin: int
    end: int
    npu: int
    task: int
    step: int
    to: int
    bytes: int


class EngineRecord(Protocol):
    """What an engine records of its run: the past, as far as it is to be kept, and what has not ended. It can be read at any time."""

    def keep_causes(self, messages: bool = False) -> None:
        """Keep which event brings about which, before the run; with `messages` all of these, too."""

    def observe(self, npu: int) -> None:
        """Keep the moments of an NPU, before it has its program. NPU 0 is observed always."""

    def times(self, npu: int) -> tuple[Sequence[int], Sequence[int]]:
        """When the tasks of an observed NPU were ready and when they ended (-1: not yet)."""

    def sends(self, npu: int) -> tuple[Sequence[int], Sequence[int]]:
        """The sends of an observed NPU that have begun, by number of the task: the tasks, and when they began."""

    def ended_at(self) -> list[int]:
        """When the last task of each NPU so far ended (-1: none has)."""

    def phase_steps(self, npu: int) -> PhaseStepRecords:
        """The phase steps of chunks on an observed NPU, in the order in which they were issued."""

    def uses(self) -> list[int]:
        """The number of collectives that became each plan: for every answer of `issue`, in order."""

    def causal_key(self, phase: int) -> CausalKey:
        """The latest causal key of the ranks with which a phase ended last; empty if they end each by itself."""

    def critical_path(self) -> list[PathEdge]:
        """The links from the start to the last event, each from the end of the one before it."""

    def carried(self) -> list[PathEdge]:
        """The messages that have arrived, in that order, if they are kept: of phases, and of SEND tasks."""

    def unfinished(self) -> list[tuple[int, int, bool]]:
        """The tasks that have not ended: NPU, number, and whether it has begun; one that is ready may wait for its unit."""

    def unreceived(self) -> list[tuple[int, int, int, int, int]]:
        """The messages of tasks that have arrived and that no task has received: source, destination, tag, bytes, and how many."""

    def blocked_ranks(self) -> list[RankState]:
        """The ranks of phases that have started and not ended, by task, chunk, step and NPU."""


class Engine(Protocol):
    """Runs programs on NPUs 0 to `npus` - 1."""

    @property
    def now(self) -> int:
        """Picoseconds since the start."""

    @property
    def events(self) -> int:
        """Events that have happened."""

    @property
    def messages(self) -> int:
        """Messages that were sent."""

    @property
    def ended(self) -> int:
        """Tasks that have ended, of all NPUs."""

    @property
    def undelivered(self) -> int:
        """Messages that an event network was given and has not delivered."""

    @property
    def record(self) -> EngineRecord:
        """What is known of the run."""

    def add_queues(self, queues: Sequence[tuple[int, Order]]) -> None:
        """Give every NPU queues: the slots and the order of each."""

    def set_traffic_classes(self, without_queue: int, of_queues: Sequence[int]) -> None:
        """Say which traffic class messages ask for: those in no queue, and those of each queue (-1: the network chooses).

        Without this the network chooses for all.
        """

    def add_ports(self, ports: Sequence[int]) -> None:
        """Say which port each NPU uses (from 0 on; -1: its accesses never wait). Without this no access waits."""

    def set_compute_times(self, compute_ps: ComputePs) -> None:
        """Say who is asked for the time of each COMPUTE task, once, when it begins. Before the run; without this their delays count."""

    def set_overheads(self, overhead_ps: OverheadPs, compute: bool) -> None:
        """Let a processor of each NPU send and receive its messages, one after another; call it before the run.

        A message is handed to the network when the processor of its sender has spent its overhead, and has arrived when that of its
        receiver has, too. The processors `compute`, too: COMPUTE tasks and messages take turns in the order in which they come; or there
        is one beside them, and COMPUTE tasks wait for nothing. `overhead_ps` is a pure function, which may be called at any time.
        """

    def add_program(self, tasks: Sequence[Task], npus: Sequence[int], issue: Issue, agreement: int = -1) -> None:
        """Let NPUs run a program, which counts from 0. `issue` is called for each collective when the first of them has come to it.

        It is not if another program has issued the collective, or a collective that repeats is planned already. The NPUs of programs
        with the same `agreement` (from 0 on; their tasks may differ in their times alone) begin chunks in each queue, and collectives in
        each unit, in one order: that of the first of them to begin. With -1 each NPU goes by its own order.
        """

    def add_groups(self, groups: Sequence[Sequence[int]], dimension: LogicalDimension | None = None, loop_back: bool = False) -> int:
        """Groups of one size that run phases together, each NPU in at most one, of a `dimension`. Returns their number.

        With `loop_back` only the first NPU of the first group is simulated: its messages to a peer come back to it, because they equal
        those another sends to it.
        """

    def add_schedule(self, programs: Sequence[LoweredProgram], groups: int) -> int:
        """A schedule for groups: one program for all ranks or one for each. Returns its number."""

    def add_phase(
        self, schedule: int, queue: int = -1, together: bool = True, endpoint_ps: int | None = None, barrier: bool = False
    ) -> int:
        """A phase that runs a schedule: it ends everywhere when the last rank has finished (`together`) or for each rank by itself.

        As a `barrier` it ends for each group when the last of its ranks has, and a shared bus carries none of its tokens.

        `queue` is that of its messages, `endpoint_ps` the time an endpoint needs for a token if it is not the engine's. Returns its
        number. It happens anew, on all its NPUs, for every phase step of a collective's chunks that has this number.
        """

    def run(self, events: int | None = None) -> bool:
        """Run until nothing is left to do, or for some `events` and the rest of their instant; returns whether something is left.

        Raises UnlikeCollectivesError.
        """


class EngineType(Protocol):
    """A class of engines, which the hook `astra_engines` offers: its constructor, and sums over the columns of a run.

    It is the same object each time that it is asked for: phase costs are cached by it. `astra_sim.engine.columns` has the three functions
    in Python.
    """

    def __call__(
        self,
        npus: int,
        network: RouteDelayNetwork | EventNetwork | None = None,
        endpoint_ps: int = 0,
        memory_ps: Callable[[int], int] | None = None,
        rendezvous: bool = False,
        bus: BusOptions | None = None,
    ) -> Engine:
        """An engine for `npus` NPUs; for the arguments see `reference.ReferenceEngine`."""

    def computing(self, rows: Rows[Any], durations: Sequence[int], ended: Sequence[int], /) -> tuple[int, int]:
        """The total time of tasks, and the time they cover (`columns.computing`)."""

    def uses_of(self, records: PhaseStepRecords, groups_of: Sequence[Sequence[int]], groups: int, /) -> tuple[list[int], list[Use]]:
        """The number of executions of each phase step, and the use of each group of steps (`columns.uses_of`)."""

    def repeated(self, parts: Sequence[bytes], numbers: Column, offsets: Column, /) -> bytes:
        """Columns one after another, each with an offset added to its members (`columns.repeated`)."""


def too_long(now: int) -> RunError:
    """The error for a time that does not fit in 64 bits."""
    return RunError(f"the run takes longer than can be simulated, {LONGEST_TIME} (it is at {now / 1000:.6g} ns)")


MAX_UNITS = 8
"""Units of an NPU."""


def check_program(tasks: Rows[Task], npus: Sequence[int], count: int) -> None:
    """Raise ValueError for a broken program. That tasks wait for earlier ones is not checked."""
    for number, task in enumerate(tasks.kinds):
        try:
            _check_task(task, npus, count)
        except (ValueError, InputError) as error:
            raise type(error)(f"task {first_like(tasks, number)} {error}") from None
    for npu in npus:
        if not 0 <= npu < count:
            raise ValueError(f"a program is given to NPU {npu}; expected 0 to {count - 1}")


def _check_task(task: Task, npus: Sequence[int], count: int) -> None:
    """Raise ValueError or InputError for a task that no engine can run."""
    if not JOIN <= task.kind <= COMPUTE:
        raise ValueError(f"is of kind {task.kind}; expected {JOIN} to {COMPUTE}")
    if not -1 <= task.unit < MAX_UNITS:
        raise ValueError(f"needs unit {task.unit}; expected -1 to {MAX_UNITS - 1}")
    if task.delay < 0:
        raise InputError(f"takes {task.delay} ps; expected a time of at least 0")
    if task.delay > MAX_PICOSECONDS:
        raise InputError(f"takes {in_seconds(task.delay)}; expected 0 to {LONGEST_TIME}")
    if task.repeats and task.collective < 0:
        raise ValueError("repeats, but is not a collective with a number")
    if task.kind in (SEND, RECEIVE):
        if task.bytes < 0 or task.bytes > MAX_PICOSECONDS:
            raise InputError(f"moves {task.bytes} bytes; expected 0 to {MAX_PICOSECONDS}")
        if not -(2**31) <= task.tag < 2**31:
            raise InputError(f"has tag {task.tag}; expected a signed 32-bit number")
        for npu in npus:
            peer = task.peer.of(npu, count) if task.peer is not None else npu
            if peer == npu or not 0 <= peer < count:
                raise InputError(f"of NPU {npu} moves a message to or from NPU {peer}; expected another of the {count}")


def task_rows(tasks: Sequence[Task]) -> Rows[Task]:
    """Tasks in columns; each is a kind of its own unless they are in columns already. Raises ValueError."""
    if isinstance(tasks, Rows):
        return tasks
    try:
        after = Dependencies.of([task.after for task in tasks])
    except OverflowError:
        raise ValueError("a task waits for a task that does not exist; expected earlier ones") from None
    return Rows(tasks, column(range(len(tasks)), "I"), after, lambda task, row, waits: task)


def check_ports(ports: Sequence[int], count: int) -> None:
    """Raise ValueError for ports that do not fit the NPUs."""
    if len(ports) != count or not all(-1 <= port < count for port in ports):
        raise ValueError(f"{len(ports)} ports for {count} NPUs; expected one for each, from -1 to {count - 1}")


def check_groups(groups: Sequence[Sequence[int]], count: int) -> None:
    """Raise ValueError for groups that are not of one size, or share NPUs."""
    seen: set[int] = set()
    for group in groups:
        if len(group) != len(groups[0]):
            raise ValueError(f"groups of {len(groups[0])} and {len(group)} NPUs; expected groups of one size")
        for npu in group:
            if npu < 0 or npu in seen:
                raise ValueError(f"NPU {npu} is {'in a group twice' if npu >= 0 else 'negative'}")
            seen.add(npu)
    if not seen:
        raise ValueError("the groups have no NPUs; expected at least one")
