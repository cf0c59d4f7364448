"""The engine in readable Python. This is what simulated time means; the compiled engine gives the same answers.

What it is given is described in `interface`. Inside, everything is a task, a queue, a message or a barrier: a **message** is sent by a
rank's schedule and meets a receive at its destination, a **barrier** makes the tasks of a phase end together.

Time is an integer count of picoseconds. Within one instant messages arrive and endpoints make credits; what these bring about in the
same instant follows, level by level; then tasks end, and what that brings about in the same instant is another round. What
happens at one level, or in one round, does so in the order of its **trail**: the times, latest first, at which what leads to it was
scheduled. For a timer that is its start; for the end of a phase, when its last credit was scheduled, when the message that brought it was
sent, when the credit that sent it was scheduled, and so on. An earlier trail goes first, then what its NPU scheduled earlier; on an
event network, and where NPUs share a port, what any NPU scheduled earlier, and the credits of an NPU together. (ASTRA-sim keeps a list of
events for every instant, and one for every NPU and instant of what its endpoint does, which comes to the same.) So
without contention nothing depends on the order in which NPUs are visited, nor ever on a hash or an address, and equal inputs give
equal runs. What is sent at one level is handed to an event network together, in that order.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import chain, groupby

from astra_sim.boundary import MAX_PICOSECONDS
from astra_sim.engine.interface import (
    ACCESS,
    COLLECTIVE,
    CONTROL_BYTES,
    MAX_UNITS,
    RECEIVE,
    SEND,
    TIMER,
    TRAIL_LENGTH,
    Issue,
    Part,
    PartRecord,
    PartRecords,
    RankState,
    Task,
    Trail,
    UnlikeCollectivesError,
    advance,
    check_groups,
    check_ports,
    check_program,
    inject,
    not_under_way,
    task_rows,
    too_long,
)
from astra_sim.engine.orders import Job, Order
from astra_sim.engine.queues import Queue, make_queue
from astra_sim.engine.shared_bus import BusOptions, SharedBus
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import LogicalDimension
from astra_sim.rows import kinds_of
from astra_sim.schedule import Action, LoweredProgram
from astra_sim.units import PS_PER_NS

_ARRIVAL, _REQUEST, _CREDIT, _CALLED, _LETTER, _LETTER_REQUEST, _MEETING = range(7)
_TASKS, _ROUND = 1 << 39, 1 << 40
_NOT_YET, _ARRIVED, _POSTED, _DONE = range(4)


class _Task:
    """A task of an NPU, or (with `part`) a part of a chunk. Of a collective, `chunks` have not ended yet."""

    __slots__ = (
        "chunk",
        "chunks",
        "ended_at",
        "job",
        "npu",
        "number",
        "order",
        "part",
        "part_number",
        "place",
        "program",
        "queue",
        "ready_at",
        "run",
        "started_at",
        "successors",
        "task",
        "waits",
    )

    def __init__(self, npu: int, number: int, task: Task, program: _Program) -> None:
        self.npu = npu
        self.number = number
        self.task = task
        self.program = program
        self.part: Part | None = None
        self.job: Job | None = None
        self.part_number = self.chunk = self.place = -1
        self.queue: Queue[_Task] | None = None
        self.run: _Rank | None = None
        self.waits = len(task.after)
        self.chunks = 0
        self.successors: list[_Task] = []
        self.order = 0
        self.ready_at = self.started_at = self.ended_at = -1


class _Mailbox:
    """Messages of one kind between two NPUs: those that have `arrived`, receives that wait, requests, and sends that wait for one."""

    __slots__ = ("arrived", "offered", "posted", "requests")

    def __init__(self) -> None:
        self.arrived = 0
        self.requests = 0
        self.posted: deque[_Task] = deque()
        self.offered: deque[_Task] = deque()


class _Units:
    """The units of an NPU: which are busy, and the ready tasks of each by number; the last is for tasks that need none."""

    __slots__ = ("busy", "ready")

    def __init__(self) -> None:
        self.busy = [False] * MAX_UNITS
        self.ready: list[list[tuple[int, _Task]]] = [[] for _ in range(MAX_UNITS + 1)]

    def next(self) -> _Task | None:
        """Take the ready task of the lowest number whose unit is not busy, and make it busy."""
        free = [ready for unit, ready in enumerate(self.ready) if ready and (unit == MAX_UNITS or not self.busy[unit])]
        if not free:
            return None
        task = heapq.heappop(min(free))[1]
        if task.task.unit >= 0:
            self.busy[task.task.unit] = True
        return task


class _Program:
    """A program and what its collectives issued, until the last NPU has: with how many NPUs that have. `ordinals` counts them by group."""

    __slots__ = ("has_units", "issue", "issued", "npus", "number", "ordinals")

    def __init__(self, number: int, npus: int, issue: Issue, has_units: bool) -> None:
        self.number = number
        self.npus = npus
        self.has_units = has_units
        self.issue = issue
        self.issued: dict[int, tuple[_Issued, list[int]]] = {}
        self.ordinals: Counter[int] = Counter()


class _Issued:
    """A collective that was issued, as the `number`-th: its plan, the phases of its parts, whose it was, and how many programs are left."""

    __slots__ = ("chunks", "first", "left", "number", "phases", "plan")

    def __init__(self, number: int, plan: int, chunks: Sequence[Sequence[Part]], first: _Task) -> None:
        self.number = number
        self.plan = plan
        self.chunks = chunks
        self.phases: dict[tuple[int, int], _Phase] = {}
        self.first = first
        self.left = 0


class _Rank:
    """One rank's part of a phase: its program, how far it is, and what it measured.

    `last_trail` is the latest trail of the credits at `credited_at`.
    """

    __slots__ = (
        "credited_at",
        "credits",
        "delay_sum",
        "handled",
        "last_trail",
        "members",
        "next_action",
        "npu",
        "offers",
        "order",
        "phase",
        "posted_at",
        "program",
        "rank",
        "received",
        "requests",
        "slots",
        "task",
    )

    def __init__(self, npu: int, rank: int, members: Sequence[int], program: LoweredProgram, phase: _Phase) -> None:
        self.npu = npu
        self.rank = rank
        self.members = members
        self.program = program
        self.phase = phase
        self.task: _Task | None = None
        self.order = 0
        self.credits = 0
        self.credited_at = -1
        self.last_trail: Trail = ()
        self.handled = 0
        self.next_action = 0
        self.slots = bytearray(len(program.memory_bytes))
        self.posted_at = [0] * len(program.memory_bytes)
        self.delay_sum = 0
        self.received = 0
        self.offers: dict[int, tuple[int, int, int]] = {}
        self.requests: set[int] = set()


class _Phase:
    """The ranks of a phase that happens, which end together or each by itself: its barrier.

    `by_npu` says who receives for an NPU. `trail` is the latest of those ranks that finished last, at `ended_at`.
    """

    __slots__ = ("by_npu", "ended_at", "kind", "open", "ranks", "trail")

    def __init__(self, kind: _PhaseKind) -> None:
        self.ranks: list[_Rank] = []
        self.by_npu: dict[int, _Rank] = {}
        self.open = 0
        self.ended_at = -1
        self.trail: Trail = ()
        self.kind = kind


class _PhaseKind:
    """A phase, as often as it happens; `trail` is that of the last time."""

    __slots__ = ("endpoint_ps", "queue", "schedule", "together", "trail")

    def __init__(self, schedule: int, queue: int, together: bool, endpoint_ps: int) -> None:
        self.schedule = schedule
        self.queue = queue
        self.together = together
        self.endpoint_ps = endpoint_ps
        self.trail: Trail = ()


_Event = tuple[int, int, tuple[Trail, int], int, int, _Task | _Rank | Callable[[], None], int, Trail]
"""(time, stage, (trail, kind), order, NPU that scheduled it, what, argument, trail): in this order things happen."""


class ReferenceEngine:
    """Runs tasks, queues and messages.

    `network` moves messages (None where all parts take a given time), `endpoint_ps` is the time an endpoint needs for a credit,
    `memory_ps` the time it needs to reduce so many received bytes. With `rendezvous` a message waits for a request from its receiver.
    With a `bus`, endpoints share it instead of taking `endpoint_ps`.
    """

    def __init__(
        self,
        npus: int,
        network: RouteDelayNetwork | EventNetwork | None = None,
        endpoint_ps: int = 0,
        memory_ps: Callable[[int], int] | None = None,
        rendezvous: bool = False,
        bus: BusOptions | None = None,
    ) -> None:
        self.now = 0
        self.events = 0
        self.messages = 0
        self._npus = npus
        self._network = network
        self._route_delay = network.message_delay if isinstance(network, RouteDelayNetwork) else None
        self._contended = isinstance(network, EventNetwork)
        self._endpoint_ps = endpoint_ps
        self._memory_ps = memory_ps or (lambda size: 0)
        self._rendezvous = rendezvous
        self._bus = bus
        self._buses: dict[int, SharedBus] = {}
        self._heap: list[_Event] = []
        self._stage = _TASKS
        self._trail: Trail = ()
        self._orders: dict[int, int] = {}
        self._task_orders: dict[int, int] = {}
        self._queues: list[list[Queue[_Task]]] = [[] for _ in range(npus)]
        self._ports: Sequence[int] = [-1] * npus
        self._port_free_at: dict[int, int] = {}
        self._tasks: dict[int, list[_Task]] = {}
        self._units: dict[int, _Units] = {}
        self._mailboxes: dict[tuple[int, int, int, int], _Mailbox] = {}
        self._ended_at = [-1] * npus
        self._parts: dict[int, list[_Task]] = {}
        self._to_start: list[_Task] = []
        self._groups: list[tuple[Sequence[Sequence[int]], bool]] = []
        self._schedules: list[tuple[Sequence[LoweredProgram], int]] = []
        self._phases: list[_PhaseKind] = []
        self._programs = 0
        self._sharing: Counter[int] = Counter()  # by group, how many programs share its collectives
        self._shared: dict[tuple[int, int], _Issued] = {}
        self._plans: list[Sequence[Sequence[Part]]] = []
        self._first_parts = [0]  # of each plan, among the parts of all
        self._planned: dict[int, int] = {}  # the plans of collectives that repeat
        self._uses: list[int] = []
        self._collectives = 0
        # messages on their way through an event network, those it has not seen, and a time up to which it has nothing more to deliver
        self._under_way: dict[int, tuple[int, int, _Rank | Callable[[], None], int, Trail]] = {}
        self._outbox: list[Message] = []
        self._quiet_until: int | None = -1

    # -- building ------------------------------------------------------------------------------------------------------

    def add_queues(self, queues: Sequence[tuple[int, Order]]) -> None:
        """Give every NPU queues: the slots and the order of each."""
        for slots, order in queues:
            for own in self._queues:
                own.append(make_queue(slots, order))

    def add_ports(self, ports: Sequence[int]) -> None:
        """Say which port each NPU uses (from 0 on; -1: its accesses never wait)."""
        check_ports(ports, self._npus)
        self._ports = ports
        used = [port for port in ports if port >= 0]
        self._contended = self._contended or len(set(used)) < len(used)

    def add_program(self, tasks: Sequence[Task], npus: Sequence[int], issue: Issue) -> None:
        """Let NPUs run a program. `issue` is called for each collective when the first of them has come to it."""
        check_program(task_rows(tasks), npus, self._npus)
        for number, given in enumerate(tasks):
            for other in given.after:
                if not 0 <= other < number:
                    raise ValueError(f"task {number} waits for task {other}; earlier ones are right")
        program = _Program(self._programs, len(npus), issue, any(task.unit >= 0 for task in kinds_of(tasks)))
        self._programs += 1
        self._sharing.update({task.group for task in kinds_of(tasks) if task.kind == COLLECTIVE and task.group >= 0})
        for npu in npus:
            if npu in self._tasks:
                raise ValueError(f"NPU {npu} has a program already")
            own = self._tasks[npu] = [_Task(npu, number, task, program) for number, task in enumerate(tasks)]
            self._parts[npu] = []
            for task in own:
                for other in task.task.after:
                    own[other].successors.append(task)
                if not task.waits:
                    self._to_start.append(task)

    def add_groups(self, groups: Sequence[Sequence[int]], dimension: LogicalDimension | None = None, loop_back: bool = False) -> int:
        """Groups that run phases together; with `loop_back` the first NPU stands for all. Returns their number."""
        check_groups(groups, self._npus)
        self._groups.append((groups, loop_back))
        return len(self._groups) - 1

    def add_schedule(self, programs: Sequence[LoweredProgram], groups: int) -> int:
        """A schedule for groups: one program for all ranks or one for each. Returns its number."""
        ranks = len(self._groups[groups][0][0])
        if len(programs) not in (1, ranks):
            raise ValueError(f"{len(programs)} programs for groups of {ranks}; 1 or {ranks} are right")
        self._schedules.append((programs, groups))
        return len(self._schedules) - 1

    def add_phase(self, schedule: int, queue: int = -1, together: bool = True, endpoint_ps: int | None = None) -> int:
        """A phase that runs a schedule. Returns its number."""
        self._phases.append(_PhaseKind(schedule, queue, together, self._endpoint_ps if endpoint_ps is None else endpoint_ps))
        return len(self._phases) - 1

    # -- answers -------------------------------------------------------------------------------------------------------

    @property
    def undelivered(self) -> int:
        """Messages that an event network was given and has not delivered."""
        return len(self._under_way)

    def times(self, npu: int) -> tuple[list[int], list[int]]:
        """When the tasks of an NPU were ready and when they ended (-1: not yet)."""
        tasks = self._tasks[npu]
        return [task.ready_at for task in tasks], [task.ended_at for task in tasks]

    def sends(self, npu: int) -> tuple[list[int], list[int]]:
        """The sends of an NPU that have begun, by number of the task: the tasks, and when they began."""
        begun = [task for task in self._tasks[npu] if task.task.kind == SEND and task.started_at >= 0]
        return [task.number for task in begun], [task.started_at for task in begun]

    def ended_at(self) -> list[int]:
        """When the last task of each NPU so far ended (-1: none has)."""
        return self._ended_at

    def parts(self, npu: int) -> PartRecords:
        """The parts of chunks on an NPU, in the order in which they were issued."""
        records = [
            PartRecord(
                task.number,
                task.part_number,
                task.ready_at,
                task.started_at,
                task.ended_at,
                task.run.delay_sum if task.run else 0,
                task.run.received if task.run else 0,
            )
            for task in self._parts[npu]
        ]
        return PartRecords(*zip(*records, strict=True)) if records else PartRecords(*[()] * len(PartRecord._fields))

    def uses(self) -> list[int]:
        """How many collectives became each plan."""
        return self._uses

    def trail(self, phase: int) -> Trail:
        """The latest trail of the ranks with which a phase ended last; empty where they end each by itself."""
        return self._phases[phase].trail

    def unfinished(self) -> list[tuple[int, int, bool]]:
        """The tasks that have not ended: NPU, number, and whether it has begun; one that is ready may wait for its unit."""
        waiting = {task for units in self._units.values() for ready in units.ready for _, task in ready}
        return [
            (npu, task.number, task.ready_at >= 0 and task not in waiting)
            for npu, tasks in sorted(self._tasks.items())
            for task in tasks
            if task.ended_at < 0
        ]

    def unreceived(self) -> list[tuple[int, int, int, int, int]]:
        """The messages of tasks that have arrived and that no task has received: source, destination, tag, bytes, and how many."""
        return sorted((*key, mailbox.arrived) for key, mailbox in self._mailboxes.items() if mailbox.arrived)

    def stuck(self) -> list[RankState]:
        """The ranks of phases that have started and not ended, by task, chunk, part and NPU."""
        tasks = [task for tasks in self._parts.values() for task in tasks if task.run and task.started_at >= 0 > task.ended_at]
        return [
            RankState(
                task.number,
                task.chunk,
                task.place,
                task.npu,
                run.rank,
                run.members,
                run.program,
                run.credits,
                run.received,
                run.next_action,
                [slot for slot, state in enumerate(run.slots) if state == _POSTED],
            )
            for task in sorted(tasks, key=lambda task: (task.number, task.chunk, task.place, task.npu))
            if (run := task.run)
        ]

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, events: int | None = None) -> bool:
        """Run until nothing is left to do, or for some `events` and the rest of their instant; returns whether something is left."""
        starting, self._to_start = sorted(self._to_start, key=lambda task: (task.npu, task.number)), []
        for npu, tasks in groupby(starting, key=lambda task: task.npu):
            self._start_all(npu, list(tasks))
        heap = self._heap
        network = self._network if isinstance(self._network, EventNetwork) else None
        limit = self.events + events if events is not None else -1
        pending: deque[_Event] = deque()
        while True:
            if not pending:
                if network is not None:
                    self._exchange_with(network)
                if not heap:
                    return False
                if self.events >= limit >= 0:
                    return True
                pending = self._next_level()
            self.now, self._stage, key, _, _, what, argument, self._trail = pending.popleft()
            self.events += 1
            if isinstance(what, _Task):
                self._finish(what)
            elif not isinstance(what, _Rank):
                what()
            elif key[1] == _CREDIT:
                self._credit(what)
            elif key[1] == _ARRIVAL:
                self._arrive(what, argument)
            elif key[1] == _MEETING:
                self._receive(what, argument)
            else:
                self._grant(what, argument)

    def _next_level(self) -> deque[_Event]:
        """Take what happens next at one level; where NPUs wait for each other, the credits of each where the first of them is."""
        heap = self._heap
        level = heap[0][:2]
        events: list[list[_Event]] = []
        credits: dict[int, list[_Event]] = {}
        while heap and heap[0][:2] == level:
            event = heapq.heappop(heap)
            if not self._contended or event[2][1] != _CREDIT or not isinstance(event[5], _Rank):
                events.append([event])
                continue
            if event[4] not in credits:
                credits[event[4]] = []
                events.append(credits[event[4]])
            credits[event[4]].append(event)
        return deque(chain.from_iterable(events))

    # -- tasks and queues ----------------------------------------------------------------------------------------------

    def _start_all(self, npu: int, tasks: Sequence[_Task]) -> None:
        """Make the first tasks of an NPU ready."""
        if not tasks or not tasks[0].program.has_units:
            for task in tasks:
                self._start(task)
            return
        self._pump_units(npu, tasks)

    def _pump_units(self, npu: int, tasks: Sequence[_Task]) -> None:
        """Make tasks ready, and begin those that find their unit free in order of number."""
        units = self._units.setdefault(npu, _Units())
        self._add_ready(units, tasks)
        while (task := units.next()) is not None:
            if task.task.kind in (TIMER, ACCESS, SEND, RECEIVE):
                self._begin(task)
            elif task.task.kind != COLLECTIVE or not self._issue(task):
                self._end(task)
                self._add_ready(units, [successor for successor in task.successors if self._release(successor)])

    def _add_ready(self, units: _Units, tasks: Sequence[_Task]) -> None:
        for task in tasks:
            task.ready_at = self.now
            heapq.heappush(units.ready[task.task.unit], (task.number, task))

    def _start(self, task: _Task) -> None:
        """Make a task ready that waits for nothing."""
        stack = [task]
        while stack:
            current = stack.pop()
            current.ready_at = self.now
            if current.queue is not None:
                self._enqueue(current)
                self._pump(current.queue)
                continue
            if current.part is not None or current.task.kind in (TIMER, ACCESS, SEND, RECEIVE):
                self._begin(current)
                continue
            current.started_at = self.now
            if current.task.kind == COLLECTIVE and self._issue(current):
                continue
            self._end(current)
            stack.extend(reversed([successor for successor in current.successors if self._release(successor)]))

    def _release(self, task: _Task) -> bool:
        """Take one wait off a task; whether that was the last."""
        task.waits -= 1
        return not task.waits

    def _issue(self, task: _Task) -> int:
        """Start the chunks of a collective; returns how many those are."""
        issued = self._issued(task)
        task.chunks = len(issued.chunks)
        part_number = self._first_parts[issued.plan]
        for number, parts in enumerate(issued.chunks):
            first = previous = None
            for place, part in enumerate(parts):
                made = _Task(task.npu, task.number, task.task, task.program)
                made.part, made.chunk, made.place = part, number, place
                made.part_number = part_number
                part_number += 1
                made.job = part.job._replace(priority=part.job.priority + part.age * issued.number)
                made.queue = self._queues[task.npu][part.queue] if part.queue >= 0 else None
                if part.phase >= 0:
                    if (number, place) not in issued.phases:
                        issued.phases[number, place] = self._happening(self._phases[part.phase])
                    made.run = issued.phases[number, place].by_npu[task.npu]
                self._parts[task.npu].append(made)
                if previous is not None:
                    previous.successors.append(made)
                first, previous = first or made, made
            assert first is not None
            self._start(first)
        return len(issued.chunks)

    def _issued(self, task: _Task) -> _Issued:
        """What a collective became when the first NPU issued it, which may be this one."""
        program, number = task.program, task.number
        if number not in program.issued:
            program.issued[number] = self._share(task), [0]
        issued, count = program.issued[number]
        count[0] += 1
        if count[0] == program.npus:
            del program.issued[number]
        return issued

    def _share(self, task: _Task) -> _Issued:
        """What a collective became when the first program issued it, which may be this one."""
        program, group = task.program, task.task.group
        if group < 0:
            return self._plan(task)
        key = group, program.ordinals[group]
        program.ordinals[group] += 1
        if key not in self._shared:
            self._shared[key] = self._plan(task)
            self._shared[key].left = self._sharing[group]
        issued = self._shared[key]
        if issued.first.task.collective != task.task.collective:
            first = issued.first.program.number, issued.first.number
            raise UnlikeCollectivesError((program.number, task.number), first, key[1] + 1)
        issued.left -= 1
        if not issued.left:
            del self._shared[key]
        return issued

    def _plan(self, task: _Task) -> _Issued:
        """Let a collective become chunks."""
        kind = task.task
        plan = self._planned.get(kind.collective, -1) if kind.repeats else -1
        if plan < 0:
            plan = len(self._plans)
            self._plans.append(task.program.issue(task.number, self.now))
            self._first_parts.append(self._first_parts[-1] + sum(map(len, self._plans[-1])))
            self._uses.append(0)
            if kind.repeats:
                self._planned[kind.collective] = plan
        self._uses[plan] += 1
        self._collectives += 1
        return _Issued(self._collectives - 1, plan, self._plans[plan], task)

    def _happening(self, kind: _PhaseKind) -> _Phase:
        """A phase that happens now, on all its NPUs."""
        programs, number = self._schedules[kind.schedule]
        groups, loop_back = self._groups[number]
        phase = _Phase(kind)
        for group in groups:
            for rank, npu in enumerate(group):
                phase.by_npu[npu] = made = _Rank(npu, rank, group, programs[rank % len(programs)], phase)
                phase.ranks.append(made)
                if loop_back:
                    phase.by_npu = dict.fromkeys(group, made)
                    break
            if loop_back:
                break
        phase.open = len(phase.ranks)
        return phase

    def _begin(self, task: _Task) -> None:
        task.started_at = self.now
        npu = task.npu
        order = self._next_order(self._task_orders, npu)
        run = task.run
        if task.part is None and task.task.kind in (SEND, RECEIVE):
            task.order = order
            (self._begin_send if task.task.kind == SEND else self._begin_receive)(task)
            return
        if run is None:
            delay, offsets = (task.task.delay, ()) if task.part is None else (task.part.delay, task.part.trail)
            begin, port = self.now, self._ports[npu]
            if task.task.kind == ACCESS and port >= 0:
                begin = max(begin, self._port_free_at.get(port, 0))
                self._port_free_at[port] = begin + delay
            end = begin + delay
            trail = tuple(end - offset for offset in offsets) if offsets else (self.now,)
            self._push_task(end, trail, order, task)
            return
        run.task = task
        run.order = order
        for start in range(-run.program.starts, 0):
            self._handle(run, start)
        self._advance(run)

    def _end(self, task: _Task) -> None:
        task.ended_at = self.now
        if task.part is None:
            self._ended_at[task.npu] = self.now
            if task.task.unit >= 0:
                self._units[task.npu].busy[task.task.unit] = False

    def _finish(self, task: _Task) -> None:
        self._end(task)
        queue = task.queue
        if queue is not None:
            queue.leave(task)
        if task.part is not None and not task.successors:
            self._chunk_ended(self._tasks[task.npu][task.number])
        if task.part is None and task.program.has_units:
            self._pump_units(task.npu, [successor for successor in task.successors if self._release(successor)])
            return
        entered = []
        for successor in task.successors:
            if successor.part is None:
                if self._release(successor):
                    self._start(successor)
            elif successor.queue is None:
                self._start(successor)
            else:
                successor.ready_at = self.now
                self._enqueue(successor)
                entered.append(successor.queue)
        if queue is not None:
            self._pump(queue)
        for other in entered:
            self._pump(other)

    def _chunk_ended(self, collective: _Task) -> None:
        collective.chunks -= 1
        if not collective.chunks:
            self._begin(collective)

    def _enqueue(self, task: _Task) -> None:
        assert task.queue is not None
        assert task.job is not None
        task.queue.enter(task, task.job)

    def _pump(self, queue: Queue[_Task]) -> None:
        """Start the tasks that have a slot."""
        while (task := queue.start()) is not None:
            self._begin(task)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _push(self, time: int, kind: int, npu: int, what: _Rank | Callable[[], None], argument: int = 0, via: Trail = ()) -> None:
        """Let something happen that `npu` schedules, now or (`via`, latest first) at times to come before it happens."""
        key = trail = self._next_trail()
        if via:
            trail = (*via, *trail)[:TRAIL_LENGTH]
            # What comes via the very instant in which it happens joins what is scheduled for that already.
            key = key if via[0] == time else trail
        self._push_event(time, kind, npu, what, argument, trail, key)

    def _next_trail(self) -> Trail:
        """The trail of what is scheduled now."""
        return (self.now, *self._trail)[:TRAIL_LENGTH]

    def _next_order(self, orders: dict[int, int], npu: int) -> int:
        """Which event or task of an NPU this is; where NPUs wait for each other, of all NPUs: there it matters who comes first."""
        whose = -1 if self._contended else npu
        order = orders[whose] = orders.get(whose, 0) + 1
        return order

    def _push_event(
        self, time: int, kind: int, npu: int, what: _Rank | Callable[[], None], argument: int, trail: Trail, key: Trail
    ) -> None:
        if time > MAX_PICOSECONDS:
            raise too_long(self.now)
        stage = 0
        if time == self.now:
            # A level after what happens now.
            stage = self._stage - _TASKS + _ROUND if self._stage & _TASKS else self._stage + 1
        order = self._next_order(self._orders, npu)
        heapq.heappush(self._heap, (time, stage, (key, kind), order, npu, what, argument, trail))

    def _push_task(self, time: int, trail: Trail, order: int, task: _Task) -> None:
        """Let a task end: in this instant, after all messages and credits, and a round after the tasks that end now."""
        if time > MAX_PICOSECONDS:
            raise too_long(self.now)
        stage = _TASKS
        if time == self.now:
            stage += self._stage // _ROUND * _ROUND + (_ROUND if self._stage & _TASKS else 0)
        heapq.heappush(self._heap, (time, stage, (trail, 0), order, task.npu, task, 0, ()))

    def _credit(self, run: _Rank) -> None:
        """A rank has handled a message, or a start."""
        run.last_trail = max(run.last_trail, self._trail) if run.credited_at == self.now else self._trail
        run.credited_at = self.now
        run.credits += 1
        self._advance(run)

    def _advance(self, run: _Rank) -> None:
        """Take every step that the credits of a rank allow."""
        actions = run.program.actions
        while run.next_action < len(actions):
            action = actions[run.next_action]
            if run.credits < action.after or run.received < action.after_arrivals:
                return
            run.next_action += 1
            if action.send_to is not None:
                self._send(run, action)
            if action.receive_from is not None:
                self._post(run, action)
        if run.credits == run.program.credits:
            self._finish_phase(run)

    def _send(self, run: _Rank, action: Action) -> None:
        destination = run.members[action.send_to.of(run.rank, len(run.members))]  # type: ignore[union-attr]
        target = run.phase.by_npu[destination]
        if not self._rendezvous:
            self._transmit(run.npu, destination, action.bytes, _ARRIVAL, target, action.slot)
            return
        target.offers[action.slot] = (run.npu, destination, action.bytes)
        if action.slot in target.requests:
            # A request that is there already counts when it is looked for.
            self._push(self.now, _REQUEST, run.npu, target, action.slot)

    def _post(self, run: _Rank, action: Action) -> None:
        slot = action.receive_slot
        run.posted_at[slot] = self.now
        if run.slots[slot] == _ARRIVED:
            # A message that is there already is met by an event of its own.
            self._push(self.now, _MEETING, run.npu, run, slot)
            return
        run.slots[slot] = _POSTED
        if self._rendezvous:
            sender = run.members[action.receive_from.of(run.rank, len(run.members))]  # type: ignore[union-attr]
            self._transmit(run.npu, sender, CONTROL_BYTES, _REQUEST, run, slot)

    def _grant(self, run: _Rank, slot: int) -> None:
        """The request for a message has reached its sender, who sends it as soon as it has it."""
        run.requests.add(slot)
        if slot in run.offers:
            self._transmit(*run.offers.pop(slot), _ARRIVAL, run, slot)

    def _transmit(self, source: int, destination: int, size: int, kind: int, run: _Rank, slot: int) -> None:
        """Put a message on the network; at its arrival the event `kind` happens to the receive `slot` of `run`."""
        self.messages += 1
        if self._route_delay is not None:
            self._push(self.now + self._route_delay(source, destination, size), kind, source, run, slot)
        else:
            self._outbox.append(Message(self.messages, source, destination, size, run.phase.kind.queue))
            self._under_way[self.messages] = (kind, source, run, slot, self._next_trail())

    def _arrive(self, run: _Rank, slot: int) -> None:
        if run.slots[slot] == _POSTED:
            self._receive(run, slot)
        else:
            run.slots[slot] = _ARRIVED

    def _receive(self, run: _Rank, slot: int) -> None:
        """A message has met its receive: the endpoint makes a credit of it."""
        run.slots[slot] = _DONE
        run.delay_sum += self.now - run.posted_at[slot]
        run.received += 1
        self._handle(run, slot)

    def _handle(self, run: _Rank, slot: int) -> None:
        """The endpoint makes a credit of a message; of a start, where `slot` is negative."""
        place = run.received - 1 if run.program.in_turn else slot
        size, computing = (run.program.memory_bytes[place], run.program.compute_ps[place]) if slot >= 0 else (0, 0)
        if self._bus is None:
            done = self.now + run.phase.kind.endpoint_ps
            if not size and not computing:
                self._push(done, _CREDIT, run.npu, run)
            else:
                # The pass through memory, and computing, are scheduled when the endpoint is done.
                self._push(done + self._memory_time(size) + computing, _CREDIT, run.npu, run, via=(done,))
            return

        def carried() -> None:
            if size or computing:
                self._push(self.now + self._memory_time(size) + computing, _CREDIT, run.npu, run)
            else:
                self._credit(run)

        carriage = run.program.carriages[run.handled]
        run.handled += 1
        bus = self._bus_of(run.npu)
        carry = bus.to_npu if carriage.to_npu else bus.to_memory
        carry(carriage.bytes, size > 0, carriage.returned, carried)

    def _memory_time(self, size: int) -> int:
        return self._memory_ps(size) if size else 0

    def _bus_of(self, npu: int) -> SharedBus:
        assert self._bus is not None
        bus = self._buses.get(npu)
        if bus is None:

            def after(nanoseconds: int, call: Callable[[], None]) -> None:
                self._push(self.now + nanoseconds * PS_PER_NS, _CALLED, npu, call)

            bus = self._buses[npu] = SharedBus(self._bus, lambda: self.now // PS_PER_NS, after)
        return bus

    # -- messages between tasks ----------------------------------------------------------------------------------------

    def _mailbox(self, source: int, destination: int, task: Task) -> _Mailbox:
        return self._mailboxes.setdefault((source, destination, task.tag, task.bytes), _Mailbox())

    def _peer(self, task: _Task) -> int:
        assert task.task.peer is not None
        return task.task.peer.of(task.npu, self._npus)

    def _begin_send(self, task: _Task) -> None:
        mailbox = self._mailbox(task.npu, self._peer(task), task.task)
        if not self._rendezvous:
            self._send_letter(task)
            return
        mailbox.offered.append(task)
        if mailbox.requests:
            mailbox.requests -= 1
            self._push(self.now, _LETTER_REQUEST, task.npu, lambda: self._requested(mailbox))

    def _send_letter(self, task: _Task) -> None:
        destination = self._peer(task)
        self._transmit_letter(task.npu, destination, task.task.bytes, _LETTER, lambda: self._delivered(task, destination))

    def _begin_receive(self, task: _Task) -> None:
        source = self._peer(task)
        mailbox = self._mailbox(source, task.npu, task.task)
        if mailbox.arrived:
            mailbox.arrived -= 1
            self._push_task(self.now, (self.now,), task.order, task)
        else:
            mailbox.posted.append(task)
        if self._rendezvous:
            self._transmit_letter(task.npu, source, CONTROL_BYTES, _LETTER_REQUEST, lambda: self._requested(mailbox))

    def _requested(self, mailbox: _Mailbox) -> None:
        """The request of a receive has reached the sender."""
        if mailbox.offered:
            self._send_letter(mailbox.offered.popleft())
        else:
            mailbox.requests += 1

    def _delivered(self, task: _Task, destination: int) -> None:
        """The message of a send has arrived: the send ends, and so does the receive that waits for it."""
        mailbox = self._mailbox(task.npu, destination, task.task)
        self._push_task(self.now, self._trail, self._next_order(self._task_orders, task.npu), task)
        if mailbox.posted:
            receive = mailbox.posted.popleft()
            self._push_task(self.now, self._trail, self._next_order(self._task_orders, receive.npu), receive)
        else:
            mailbox.arrived += 1

    def _transmit_letter(self, source: int, destination: int, size: int, kind: int, arrived: Callable[[], None]) -> None:
        self.messages += 1
        if self._route_delay is not None:
            self._push(self.now + self._route_delay(source, destination, size), kind, source, arrived)
        else:
            self._outbox.append(Message(self.messages, source, destination, size))
            self._under_way[self.messages] = (kind, source, arrived, 0, self._next_trail())

    def _exchange_with(self, network: EventNetwork) -> None:
        """Hand new messages to the network, and take all that arrive before anything else happens."""
        if self._outbox:
            inject(network, self.now, self._outbox)
            self._outbox = []
            self._quiet_until = -1
        since = self.now  # deliveries come in order of time
        while self._quiet_until is not None:
            until = self._heap[0][0] if self._heap else None
            if until is not None and until <= self._quiet_until:
                return
            delivery = advance(network, since, until)
            if delivery is None:
                self._quiet_until = until
                return
            time, numbers = delivery
            since = time
            for number in numbers:
                message = self._under_way.pop(number, None)
                if message is None:
                    raise not_under_way(network, number)
                kind, source, run, slot, trail = message
                self._push_event(time, kind, source, run, slot, trail, trail)

    def _finish_phase(self, run: _Rank) -> None:
        """A rank has finished its part of a phase."""
        trail = run.last_trail if run.credited_at == self.now else (self.now,)
        phase = run.phase
        phase.open -= 1
        if not phase.kind.together:
            assert run.task is not None
            self._push_task(self.now, trail, self._next_order(self._task_orders, run.npu), run.task)
            return
        phase.trail = max(phase.trail, trail) if phase.ended_at == self.now else trail
        phase.ended_at = self.now
        if not phase.open:
            phase.kind.trail = phase.trail
            for rank in phase.ranks:
                assert rank.task is not None
                self._push_task(self.now, phase.trail, rank.order, rank.task)
