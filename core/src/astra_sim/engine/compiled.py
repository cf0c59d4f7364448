"""The compiled engine, with the interface of `interface.Engine`. What it means is written in `reference`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import overload

import attrs

from astra_sim._boundary import MAX_PICOSECONDS, call
from astra_sim.engine import BusOptions, _compiled
from astra_sim.engine.interface import (
    CONTROL_BYTES,
    RECEIVE,
    SEND,
    History,
    Issue,
    Link,
    LinkKind,
    PhaseStepRecords,
    RankState,
    Task,
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
from astra_sim.engine.orders import Job, Order, RuleOrder, Standing, place_of
from astra_sim.errors import AstraError, InputError, PluginError, in_figures
from astra_sim.function_table import FunctionTable
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import LogicalDimension, Route
from astra_sim.rows import packed, view
from astra_sim.schedule import LoweredProgram, Peer

_KINDS = {"shift": 1, "xor": 2, "rank": 3}
_UNKNOWN = -1
_MOST_ROUTES = 1 << 16
"""Routes that an engine compares beforehand; where there are more, every message asks for its own."""
MAX_PRIORITY = 1 << 62


def _unknown(peer: Peer, size: int) -> int:
    return _UNKNOWN


class _MadeJobs(dict[tuple[int, int], Job]):
    """Jobs by class and priority, each made when it is first looked at."""

    def __init__(self, classes: Sequence[tuple[str, int, int]]) -> None:
        super().__init__()
        self._classes = classes

    def __missing__(self, key: tuple[int, int]) -> Job:
        job_class, priority = key
        made = self[key] = Job(priority, *self._classes[job_class])
        return made


class _Jobs(Sequence[Job]):
    """The jobs of a queue. They are gone when the order has answered."""

    __slots__ = ("_jobs", "_made")

    def __init__(self, jobs: _compiled.Jobs, made: _MadeJobs) -> None:
        self._jobs = jobs
        self._made = made

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, place: int) -> Job: ...
    @overload
    def __getitem__(self, place: slice) -> list[Job]: ...
    def __getitem__(self, place: int | slice) -> Job | list[Job]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return self._made[self._jobs[place]]


class CompiledEngine:
    """Runs tasks, queues and messages; for the arguments see `ReferenceEngine`.

    It follows rules of queues itself. Orders that are functions are asked; what they answer for a short queue is remembered, whichever NPU
    it belongs to. Networks with a function table are spoken to through it, others in Python.
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
        options = None if bus is None else attrs.astuple(bus)
        for time in (endpoint_ps, *(options or ())):
            if time > MAX_PICOSECONDS:
                raise too_long(0)
        events = isinstance(network, EventNetwork)
        tells_sent = isinstance(network, EventNetwork) and network.tells_sent
        self._machine = _compiled.Machine(npus, events, endpoint_ps, rendezvous, options, tells_sent)
        self._machine.observe(0)
        self._npus = npus
        self._network = network
        self._memory_ps = memory_ps
        self._has_bus = bus is not None
        self._has_table = False
        self._endpoint_ps = endpoint_ps
        self._orders: list[Order] = []
        self._job_classes: dict[tuple[str, int, int], int] = {}
        self._job_class_list: list[tuple[str, int, int]] = []
        self._made_jobs = _MadeJobs(self._job_class_list)
        self._issuers: list[Issue] = []
        self._groups: list[tuple[Sequence[Sequence[int]], LogicalDimension | None, bool]] = []
        self._schedules: list[tuple[Sequence[LoweredProgram], int]] = []
        self._common_routes: dict[tuple[int, Peer], Route | None] = {}
        self._routes_left = _MOST_ROUTES

    @property
    def now(self) -> int:
        """Picoseconds since the start."""
        return self._machine.now

    @property
    def events(self) -> int:
        """Events that have happened."""
        return self._machine.events

    @property
    def messages(self) -> int:
        """Messages that were sent."""
        return self._machine.messages

    @property
    def undelivered(self) -> int:
        """Messages that an event network was given and has not delivered."""
        return self._machine.undelivered

    # -- building ------------------------------------------------------------------------------------------------------

    def add_queues(self, queues: Sequence[tuple[int, Order]]) -> None:
        """Give every NPU queues: the slots and the order of each."""
        self._orders = [order for _, order in queues]
        rules = [order.rules if isinstance(order, RuleOrder) else () for order in self._orders]
        self._machine.add_queues(
            [
                (slots, [(rule.key is None, rule.before_equal, rule.in_turn is not None) for rule in of_order])
                for (slots, _), of_order in zip(queues, rules, strict=True)
            ]
        )

    def add_ports(self, ports: Sequence[int]) -> None:
        """Say which port each NPU uses (from 0 on; -1: its accesses never wait)."""
        check_ports(ports, self._npus)
        self._machine.add_ports(list(ports))

    def keep_causes(self) -> None:
        """Keep which event brings about which."""
        self._machine.keep_causes()

    def critical_path(self) -> list[Link]:
        """The links that lead to what happened last."""
        columns = [view(column, "q") for column in self._machine.critical_path()]
        return [Link(LinkKind(kind), *rest) for kind, *rest in zip(*columns, strict=True)]

    def observe(self, npu: int) -> None:
        """Keep the moments of an NPU."""
        self._machine.observe(npu)

    def add_program(self, tasks: Sequence[Task], npus: Sequence[int], issue: Issue) -> None:
        """Let NPUs run a program. `issue` is called for each collective when the first of them has come to it."""
        columns = task_rows(tasks)
        check_program(columns, npus, self._npus)
        kinds = columns.kinds
        peers = [(0, 0) if task.peer is None else (_KINDS[task.peer.operator], task.peer.normal(self._npus).value) for task in kinds]
        of_tasks = [numbers for place, numbers in enumerate(zip(*kinds, strict=True)) if Task._fields[place] not in ("after", "peer")]
        fields = [*of_tasks, *zip(*peers, strict=True)]
        if any(task.kind in (SEND, RECEIVE) for task in kinds):
            self._use_table()
        after, times = columns.after, b"" if columns.times is None else columns.times.tobytes()
        given = [packed(numbers, "q") for numbers in fields]
        self._machine.add_program(given, columns.kind_of.tobytes(), times, after.end.tobytes(), after.rows.tobytes(), list(npus))
        self._issuers.append(issue)

    def add_groups(self, groups: Sequence[Sequence[int]], dimension: LogicalDimension | None = None, loop_back: bool = False) -> int:
        """Groups that run phases together; with `loop_back` the first NPU stands for all. Returns their number."""
        check_groups(groups, self._npus)
        self._groups.append((groups, dimension, loop_back))
        return self._machine.add_groups([npu for group in groups for npu in group], len(groups[0]), loop_back)

    def add_schedule(self, programs: Sequence[LoweredProgram], groups: int) -> int:
        """A schedule for groups: one program for all ranks or one for each. Returns its number."""
        self._schedules.append((programs, groups))
        delay = self._delays(programs, groups)
        if delay is None:
            self._use_table()
        ranks = len(self._groups[groups][0][0])
        return self._machine.add_schedule([self._rows(program, ranks, delay or _unknown) for program in programs], groups)

    def _use_table(self) -> None:
        """Let the machine speak to the network through its function table, if there is one."""
        if self._network is None or self._has_table:
            return
        self._has_table = True
        table = call(f"network {type(self._network).__name__}: function_table", self._network.function_table)
        if table is not None:
            FunctionTable(table, self._failure).require("delay" if isinstance(self._network, RouteDelayNetwork) else "events")
            self._machine.set_table(table)

    def _failure(self, why: str) -> AstraError:
        """The error where the network's function table reports one, or is broken."""
        if isinstance(self._network, EventNetwork):
            return self._network.failure(why)
        return PluginError(f"network {type(self._network).__name__}: {why}")

    def _delays(self, programs: Sequence[LoweredProgram], groups: int) -> Callable[[Peer, int], int] | None:
        """Picoseconds to a peer, which are the same from every rank; None where they are not, or where that is not known."""
        _, dimension, _ = self._groups[groups]
        network = self._network
        if dimension is None or len(programs) > 1 or not isinstance(network, RouteDelayNetwork):
            return None
        routes: dict[Peer, Route] = {}
        for peer in {peer for action in programs[0].actions for peer in (action.send_to, action.receive_from) if peer is not None}:
            route = self._common_route(network, groups, peer)
            if route is None:
                return None
            routes[peer] = route
        return lambda peer, size: network.delay(routes[peer], size)

    def _common_route(self, network: RouteDelayNetwork, groups: int, peer: Peer) -> Route | None:
        """The route to a peer from every rank of all groups; None where they differ, or there are more than shall be asked for.

        Where one NPU stands for all, that its route is that of the others has been found out before.
        """
        if (groups, peer) not in self._common_routes:
            members, _, loop_back = self._groups[groups]
            size = len(members[0])
            pairs = [(group[rank], group[peer.of(rank, size)]) for group in members for rank in range(size)]
            found: set[Route] = set()
            if loop_back or len(pairs) <= self._routes_left:
                asked = pairs[:1] if loop_back else pairs
                self._routes_left -= len(asked)
                found = {network.route(*pair) for pair in asked}
            self._common_routes[groups, peer] = found.pop() if len(found) == 1 else None
        return self._common_routes[groups, peer]

    def _rows(
        self, program: LoweredProgram, ranks: int, delay: Callable[[Peer, int], int]
    ) -> tuple[int, list[int], list[int], list[bool], list[int], bool]:
        """A program as the machine takes it."""
        peers: dict[Peer | None, tuple[int, int]] = {None: (0, 0)}
        rows: list[int] = []
        delays: dict[tuple[Peer, int], int] = {}
        for action in program.actions:
            to, source, size = action.send_to, action.receive_from, action.bytes
            if size > MAX_PICOSECONDS:
                raise InputError(f"a message of {in_figures(size)} bytes; at most {MAX_PICOSECONDS} can be simulated")
            for peer, amount in ((to, size), (source, CONTROL_BYTES)):
                if peer is not None and (peer, amount) not in delays:
                    peers[peer] = _KINDS[peer.operator], peer.normal(ranks).value
                    delays[peer, amount] = delay(peer, amount)
            rows += (
                action.after,
                action.after_arrivals,
                *peers[to],
                action.receipt,
                *peers[source],
                action.own_receipt,
                size,
                _UNKNOWN if to is None else delays[to, size],
                _UNKNOWN if source is None else delays[source, CONTROL_BYTES],
            )
        reduce = self._memory_ps or (lambda size: 0)
        times = {size: reduce(size) if size else 0 for size in set(program.memory_bytes)}
        if max([*times.values(), *program.compute_ps], default=0) > MAX_PICOSECONDS // 2:
            raise too_long(0)
        handling = [
            times[size] + computing if size or computing else -1
            for size, computing in zip(program.memory_bytes, program.compute_ps, strict=True)
        ]
        reduced = [size > 0 for size in program.memory_bytes] if self._has_bus else []
        carried = [number for carriage in program.carriages for number in carriage] if self._has_bus else []
        return program.starts, rows, handling, reduced, [int(number) for number in carried], program.in_turn

    def add_phase(
        self, schedule: int, queue: int = -1, together: bool = True, endpoint_ps: int | None = None, barrier: bool = False
    ) -> int:
        """A phase that runs a schedule. Returns its number."""
        endpoint_ps = self._endpoint_ps if endpoint_ps is None else endpoint_ps
        if endpoint_ps > MAX_PICOSECONDS:
            raise too_long(0)
        return self._machine.add_phase(schedule, queue, together, endpoint_ps, barrier)

    # -- answers -------------------------------------------------------------------------------------------------------

    def times(self, npu: int) -> tuple[Sequence[int], Sequence[int]]:
        """When the tasks of an observed NPU were ready and when they ended (-1: not yet)."""
        ready, ended = self._machine.times(npu)
        return view(ready, "q"), view(ended, "q")

    def sends(self, npu: int) -> tuple[Sequence[int], Sequence[int]]:
        """The sends of an observed NPU that have begun, by number of the task: the tasks, and when they began."""
        tasks, begun = self._machine.sends(npu)
        return view(tasks, "q"), view(begun, "q")

    def ended_at(self) -> list[int]:
        """When the last task of each NPU so far ended (-1: none has)."""
        return self._machine.ended_at()

    def phase_steps(self, npu: int) -> PhaseStepRecords:
        """The phase steps of chunks on an observed NPU, in the order in which they were issued."""
        return PhaseStepRecords(*(view(data, "q") for data in self._machine.phase_steps(npu)))

    def uses(self) -> list[int]:
        """How many collectives became each plan."""
        return self._machine.uses()

    def history(self, phase: int) -> History:
        """The latest history of the ranks with which a phase ended last; empty where they end each by itself."""
        return tuple(time for time in self._machine.history(phase) if time >= 0)

    def unfinished(self) -> list[tuple[int, int, bool]]:
        """The tasks that have not ended: NPU, number, and whether it has begun; one that is ready may wait for its unit."""
        return self._machine.unfinished()

    def unreceived(self) -> list[tuple[int, int, int, int, int]]:
        """The messages of tasks that have arrived and that no task has received: source, destination, tag, bytes, and how many."""
        return sorted(self._machine.unreceived())

    def stuck(self) -> list[RankState]:
        """The ranks of phases that have started and not ended, by task, chunk, step and NPU."""
        states = []
        for task, chunk, step, npu, schedule, place, tokens, arrivals, next_action, posted in self._machine.stuck():
            programs, groups = self._schedules[schedule]
            members = self._groups[groups][0]
            group, rank = divmod(place, len(members[0]))
            program = programs[rank % len(programs)]
            states.append(RankState(task, chunk, step, npu, rank, members[group], program, tokens, arrivals, next_action, posted))
        return states

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, events: int | None = None) -> bool:
        """Run until nothing is left to do, or for some `events` and the rest of their instant; returns whether something is left."""
        try:
            return self._machine.run(events or 0, self._issue, self._standing, self._place, self._delay, self._inject, self._advance)
        except _compiled.TooLong:
            raise too_long(self.now) from None
        except _compiled.UnlikeCollectives as error:
            raise UnlikeCollectivesError(error.issued, error.first, error.ordinal) from None
        except _compiled.NotUnderWay as error:
            raise not_under_way(self._network, error.number) from None
        except _compiled.NetworkFailure as error:
            raise self._failure(str(error)) from None

    def _job_class(self, job: Job) -> int:
        """The number of what a job is, but for its priority."""
        number = self._job_classes.setdefault(job[1:], len(self._job_class_list))
        if number == len(self._job_class_list):
            self._job_class_list.append(job[1:])
        return number

    def _issue(self, program: int, task: int, now: int) -> list[list[tuple[int, int, int, int, int, int, History]]]:
        chunks = self._issuers[program](task, now)
        for step in chain.from_iterable(chunks):
            if step.delay > MAX_PICOSECONDS:
                raise too_long(now)
            if abs(step.job.priority) > MAX_PRIORITY:
                raise PluginError(f"a chunk has the priority {step.job.priority}; expected -{MAX_PRIORITY} to {MAX_PRIORITY}")
        return [
            [(self._job_class(step.job), step.job.priority, step.age, step.queue, step.phase, step.delay, step.history) for step in steps]
            for steps in chunks
        ]

    def _standing(self, queue: int, job_class: int) -> Standing:
        order = self._orders[queue]
        assert isinstance(order, RuleOrder)
        return order.standing(Job(0, *self._job_class_list[job_class]))

    def _place(self, queue: int, jobs: _compiled.Jobs, running: int, job: tuple[int, int]) -> int:
        return place_of(self._orders[queue], _Jobs(jobs, self._made_jobs), running, self._made_jobs[job])

    def _delay(self, source: int, destination: int, size: int) -> int:
        assert isinstance(self._network, RouteDelayNetwork)
        return self._network.message_delay(source, destination, size)

    def _inject(self, now: int, messages: list[tuple[int, ...]]) -> None:
        assert isinstance(self._network, EventNetwork)
        inject(self._network, now, [Message(*message) for message in messages])

    def _advance(self, since: int, until: int | None) -> tuple[int, list[int], list[int]] | None:
        assert isinstance(self._network, EventNetwork)
        delivery = advance(self._network, since, until)
        if delivery is None:
            return None
        for number in (*delivery[1], *delivery[2]):
            if not 0 <= number <= self.messages:
                raise not_under_way(self._network, number)
        return delivery[0], list(delivery[1]), list(delivery[2])
