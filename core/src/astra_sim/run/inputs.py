"""The inputs of a run: a graph, a system layer, a network and a memory model, with shared queries about them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import attrs

from astra_sim._boundary import Lazily, call, checked, picoseconds, shown
from astra_sim.compute import NpuPs
from astra_sim.engine.interface import EngineType
from astra_sim.errors import PluginError, ScheduleError, located, warn
from astra_sim.graph import Communicate, ExecutionGraph, MemoryAccess, Operation, cached_for, graph_kinds, operation_rows
from astra_sim.memory import Memory
from astra_sim.network import Network
from astra_sim.platform import Platform
from astra_sim.rows import Rows
from astra_sim.run.composites import Composites, ExpandedProgram
from astra_sim.run.prices import Prices
from astra_sim.system import ChunkPlan, PhasePlan, System, SystemSession, check_chunks


@attrs.frozen(eq=False, repr=False)
class RunInputs:
    """The simulated inputs. The platform is the network's: a run has no other.

    `npu_ps` is the compute time of each NPU; None: the same on all.
    """

    graph: ExecutionGraph
    system: System
    network: Network
    memory: Memory
    composites: Composites
    engine: EngineType
    npu_ps: NpuPs | None = None
    prices: Prices = attrs.field(init=False)
    _reduced: dict[int, int] = attrs.field(init=False, factory=dict)
    _overheads: dict[tuple[int, bool], int] = attrs.field(init=False, factory=dict)
    _warned: list[str] = attrs.field(init=False, factory=list)
    _rows: dict[int, Rows[Operation]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "prices", Prices(self.network, self.graph.dimensions))

    @property
    def platform(self) -> Platform:
        """The platform of the network."""
        return self.network.platform

    def reduce_ps(self, size: int) -> int:
        """Picoseconds to add received bytes to a buffer: from the system layer, else the memory model. It is cached."""
        time = self._reduced.get(size)
        if time is None:
            owner = self.system if self.system.reduce_ps is not None else self.memory
            what = Lazily(lambda: f"{owner._kind} {type(owner).__name__}: reduce_ps of {size} bytes")
            time = self._reduced[size] = picoseconds(call(what, owner.reduce_ps, size), what)  # type: ignore[arg-type]
        return time

    @property
    def has_overheads(self) -> bool:
        """Whether processors spend time on messages."""
        return self.system.send_overhead_ps is not None or self.system.receive_overhead_ps is not None

    @property
    def shares_processors(self) -> bool:
        """Whether the processors that compute spend time on messages, too."""
        return self.has_overheads and self.system.overhead_on_compute

    def overhead_ps(self, size: int, receives: bool) -> int:
        """Picoseconds that a processor spends on receiving or sending a message. It is cached."""
        time = self._overheads.get((size, receives))
        if time is None:
            name = "receive_overhead_ps" if receives else "send_overhead_ps"
            function = getattr(self.system, name)
            what = Lazily(lambda: f"system {self._system_name}: {name} of {size} bytes")
            time = self._overheads[size, receives] = 0 if function is None else picoseconds(call(what, function, size), what)
        return time

    def rows(self, operations: Sequence[Operation]) -> Rows[Operation]:
        """The operations of one of the graph's programs in columns, which are made once in a run."""
        key = id(operations)
        if key not in self._rows:
            whole = operations is self.graph.operations
            self._rows[key] = cached_for(self.graph, "rows", partial(operation_rows, operations)) if whole else operation_rows(operations)
        return self._rows[key]

    def expanded(self, operations: Sequence[Operation]) -> ExpandedProgram:
        """One of the graph's programs with the operations of its composites."""
        return self.composites.expanded(self.rows(operations))

    def session(self) -> SystemSession:
        """A new session of the system layer."""
        what = f"system {self._system_name}: session"
        try:
            session: SystemSession = call(what, self.system.session, self.graph.dimensions)
        except PluginError as error:
            raise located(error, what) from None
        if not isinstance(session, SystemSession):
            raise PluginError(f"{what} returned {shown(session)}; expected a SystemSession")
        return checked(session)  # type: ignore[no-any-return]

    def plan(self, session: SystemSession, operation: Communicate, now_ps: int) -> Sequence[ChunkPlan]:
        """The chunks of a collective that is issued now, checked; one if the network prices it as a whole. Raises AstraError."""
        priced = self.prices.plan(session, operation)
        if priced is not None:
            self._warn_of_price()
            return [priced]
        name = f"system {self._system_name}"
        chunks: Sequence[ChunkPlan] = call(name, session.issue, operation, now_ps)
        try:
            call(name, check_chunks, chunks, operation.bytes, self.platform.npus)
        except PluginError as error:
            raise located(error, name) from None
        if not chunks and operation.bytes > 0 and self.prices.ranks(operation) is not None:
            raise PluginError(f"{name} planned nothing for an {operation.collective} of {operation.bytes} bytes; expected a chunk at least")
        return chunks

    def _warn_of_price(self) -> None:
        """Warn once that a collective has no overhead of messages because the network prices it."""
        if self.has_overheads and not self._warned:
            self._warned.append(
                "the system has an overhead of messages, and this network prices collectives as a whole: those have no messages, and so no"
                " overhead"
            )
            warn(self._warned[0])

    def uses_remote_memory(self) -> bool:
        """Whether an operation reads or writes remote memory."""
        return cached_for(self.graph, "remote memory", partial(_uses_remote_memory, self.graph))

    def memory_ports(self, npus: int) -> list[int]:
        """The ports at which the first `npus` NPUs use remote memory, numbered from 0 on; -1 if accesses never wait."""
        what = f"memory {type(self.memory).__name__}: remote_port"
        ports = [call(what, self.memory.remote_port, npu) for npu in range(npus)]
        numbers = {port: number for number, port in enumerate(dict.fromkeys(port for port in ports if port is not None))}
        return [-1 if port is None else numbers[port] for port in ports]

    @property
    def _system_name(self) -> str:
        return type(self.system).__name__


def _uses_remote_memory(graph: ExecutionGraph) -> bool:
    return any(isinstance(kind, MemoryAccess) and kind.remote for kind in graph_kinds(graph))


def check_ranks(plan: PhasePlan) -> None:
    """Raise ScheduleError if a schedule has other ranks than the NPUs it is for."""
    if plan.schedule.ranks != plan.logical.size:
        raise ScheduleError(f"a schedule of {plan.schedule.ranks} ranks was given for a dimension of {plan.logical.size}")
