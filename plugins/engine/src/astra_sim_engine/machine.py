"""The compiled engine, with the interface `astra_sim.engines.Engine`: hands its parts to the machine in C++ and asks the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import attrs
from astra_sim.engines import (
    MAX_PICOSECONDS,
    RECEIVE,
    SEND,
    BusOptions,
    ComputePs,
    Issue,
    Order,
    OverheadPs,
    Task,
    UnlikeCollectivesError,
    check_groups,
    check_ports,
    check_program,
    task_rows,
    too_long,
)
from astra_sim.errors import AstraError, PluginError
from astra_sim.memo import ObjectCaches
from astra_sim.network import EventNetwork, RouteDelayNetwork, not_under_way
from astra_sim.platform import LogicalDimension
from astra_sim.providers import call
from astra_sim.rows import Rows, packed
from astra_sim.schedule import LoweredProgram

from astra_sim_engine import _compiled, columns
from astra_sim_engine.callbacks import Callbacks
from astra_sim_engine.queues import CompiledQueues
from astra_sim_engine.record import CompiledRecord
from astra_sim_engine.schedules import CompiledGroups, Schedules, peer_numbers

_MOST_TASKS = 4096
_programs: ObjectCaches[tuple[int, tuple[int, ...] | None], _Program] = ObjectCaches("programs of the compiled engine", 64)
"""Programs of one NPU as the machine takes them, by their tasks, which runs may share, how many NPUs there are, and which runs them."""


class _Program(NamedTuple):
    """A program as the machine takes it, and whether its tasks send or receive messages."""

    columns: tuple[list[bytes], bytes, bytes, bytes, bytes, bytes]
    has_messages: bool

    @classmethod
    def of(cls, tasks: Rows[Task], npus: int) -> _Program:
        """That of tasks that have been checked."""
        peers = [peer_numbers(task.peer, npus) for task in tasks.kinds]
        of_tasks = [each for place, each in enumerate(zip(*tasks.kinds, strict=True)) if Task._fields[place] not in ("after", "peer")]
        fields = [packed(numbers, "q") for numbers in [*of_tasks, *zip(*peers, strict=True)]]
        after = tasks.after
        times, priorities = (b"" if each is None else each.tobytes() for each in (tasks.times, tasks.priorities))
        columns = fields, tasks.kind_of.tobytes(), times, priorities, after.end.tobytes(), after.rows.tobytes()
        return cls(columns, any(task.kind in (SEND, RECEIVE) for task in tasks.kinds))


class CompiledEngine:
    """Runs tasks, queues and messages; for the arguments see `ReferenceEngine`.

    It follows rules of queues itself. Orders that are functions are called; their results for a short queue are cached, whichever NPU
    it belongs to. Networks with a function table are spoken to through it, others in Python.
    """

    computing = staticmethod(columns.computing)
    uses_of = staticmethod(columns.uses_of)
    repeated = staticmethod(columns.repeated)

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
        reports_completion = isinstance(network, EventNetwork) and network.reports_completion
        self._machine = _compiled.Machine(npus, events, endpoint_ps, rendezvous, options, reports_completion)
        self._npus = npus
        self._network = network
        self._has_table = False
        self._endpoint_ps = endpoint_ps
        self._queues = CompiledQueues()
        self._schedules = Schedules(network, memory_ps, bus is not None, rendezvous)
        self._callbacks = Callbacks(self._machine, self._queues, network)
        self.record = CompiledRecord(self._machine, self._schedules)
        self.record.observe(0)

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
    def ended(self) -> int:
        """Tasks that have ended, of all NPUs."""
        return self._machine.ended

    @property
    def undelivered(self) -> int:
        """Messages that an event network was given and has not delivered."""
        return self._machine.undelivered

    # -- building ------------------------------------------------------------------------------------------------------

    def add_queues(self, queues: Sequence[tuple[int, Order]]) -> None:
        """Give every NPU queues: the slots and the order of each."""
        self._machine.add_queues(self._queues.add(queues))

    def set_traffic_classes(self, without_queue: int, of_queues: Sequence[int]) -> None:
        """Say which traffic class messages in no queue, and those of each queue, ask for (-1: the network chooses)."""
        self._machine.set_traffic_classes(without_queue, list(of_queues))

    def add_ports(self, ports: Sequence[int]) -> None:
        """Say which port each NPU uses (from 0 on; -1: its accesses never wait)."""
        check_ports(ports, self._npus)
        self._machine.add_ports(list(ports))

    def set_compute_times(self, compute_ps: ComputePs) -> None:
        """Say who is asked for the times of COMPUTE tasks."""
        self._callbacks.compute_ps = compute_ps
        self._machine.set_compute_times()

    def set_overheads(self, overhead_ps: OverheadPs, compute: bool) -> None:
        """Let processors send and receive messages, those that `compute` or others beside them."""
        self._callbacks.overhead_ps = overhead_ps
        self._machine.set_overheads(compute)

    def add_program(self, tasks: Sequence[Task], npus: Sequence[int], issue: Issue, agreement: int = -1) -> None:
        """Let NPUs run a program. `issue` is called for each collective when the first of them has come to it."""
        rows = task_rows(tasks)
        key = self._npus, tuple(npus) if len(npus) == 1 else None
        programs = _programs.of(rows)
        program = programs.get(key)
        if program is None:
            check_program(rows, npus, self._npus)
            program = _Program.of(rows, self._npus)
            if isinstance(tasks, Rows) and len(rows) <= _MOST_TASKS and key[1] is not None:
                programs.add(key, program)
        if program.has_messages:
            self._use_table()
        self._machine.add_program(*program.columns, list(npus), agreement)
        self._callbacks.issuers.append(issue)

    def add_groups(self, groups: Sequence[Sequence[int]], dimension: LogicalDimension | None = None, loop_back: bool = False) -> int:
        """Groups that run phases together; with `loop_back` the first NPU represents all. Returns their number."""
        check_groups(groups, self._npus)
        self._schedules.add_groups(CompiledGroups(groups, dimension, loop_back))
        return self._machine.add_groups([npu for group in groups for npu in group], len(groups[0]), loop_back)

    def add_schedule(self, programs: Sequence[LoweredProgram], groups: int) -> int:
        """A schedule for groups: one program for all ranks or one for each. Returns its number."""
        rows, program_of, has_delays = self._schedules.add(programs, groups)
        if not has_delays:
            self._use_table()
        return self._machine.add_schedule(rows, program_of, groups, self._schedules.ranks_of(groups))

    def _use_table(self) -> None:
        """Let the machine speak to the network through its function table, if there is one."""
        if self._network is None or self._has_table:
            return
        self._has_table = True
        table = call(f"network {type(self._network).__name__}: function_table", self._network.function_table)
        if table is not None:
            from astra_sim.function_table import FunctionTable

            FunctionTable(table, self._failure).require("delay" if isinstance(self._network, RouteDelayNetwork) else "events")
            self._machine.set_table(table)

    def _failure(self, why: str) -> AstraError:
        """The error if the network's function table reports one, or is broken."""
        if isinstance(self._network, EventNetwork):
            return self._network.failure(why)
        return PluginError(f"network {type(self._network).__name__}: {why}")

    def add_phase(
        self, schedule: int, queue: int = -1, together: bool = True, endpoint_ps: int | None = None, barrier: bool = False
    ) -> int:
        """A phase that runs a schedule. Returns its number."""
        endpoint_ps = self._endpoint_ps if endpoint_ps is None else endpoint_ps
        if endpoint_ps > MAX_PICOSECONDS:
            raise too_long(0)
        return self._machine.add_phase(schedule, queue, together, endpoint_ps, barrier)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, events: int | None = None) -> bool:
        """Run until nothing is left to do, or for some `events` and the rest of their instant; returns whether something is left."""
        try:
            calls = self._callbacks
            left = self._machine.run(
                events or 0,
                calls.issue,
                self._queues.standing,
                self._queues.place,
                calls.compute,
                calls.overhead,
                calls.delay,
                calls.inject,
                calls.advance,
            )
        except _compiled.TooLong:
            raise too_long(self.now) from None
        except _compiled.UnlikeCollectives as error:
            raise UnlikeCollectivesError(error.issued, error.first, error.ordinal) from None
        except _compiled.NotUnderWay as error:
            raise not_under_way(self._network, error.number) from None
        except _compiled.NetworkFailure as error:
            raise self._failure(str(error)) from None
        if not left:
            self._callbacks.forget()
        return left
