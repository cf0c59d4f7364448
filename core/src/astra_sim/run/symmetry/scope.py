"""Select the part of a platform to simulate, before a run."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from astra_sim.errors import AstraError
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Receive, Send, cached_for, graph_kinds
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Group, LogicalDimension
from astra_sim.rows import kinds_of
from astra_sim.run.inputs import RunInputs, check_ranks
from astra_sim.run.symmetry.representatives import NpuClass, find_classes
from astra_sim.run.symmetry.schedules import ScheduleSymmetry
from astra_sim.schedule import Schedule
from astra_sim.system import System


class Scope(enum.Enum):
    """The part of the platform that is simulated."""

    PHASES = "one NPU represents all, and a phase is one event"
    ONE_NPU = "one NPU represents all, message by message"
    CLASSES = "the first NPU of each class represents the others, and a phase over dimensions is one event"
    ALL_NPUS = "every NPU and every message"


class ScopeSelection(NamedTuple):
    """A scope, with the classes of `CLASSES`, and the reason why no NPU can represent others in `ALL_NPUS`."""

    scope: Scope
    classes: tuple[NpuClass, ...] = ()
    reason: str = ""

    def programs(self, graph: ExecutionGraph, npus: int) -> list[NpuProgram]:
        """The programs that are run, each by those of `npus` NPUs that are simulated. NPU 0 runs the first."""
        if self.scope is Scope.CLASSES:
            programs = graph.programs(npus)
            return [NpuProgram(programs[one.program].operations, (one.representative,)) for one in self.classes]
        return [program for program in graph.programs(self.npu_numbers(npus)) if program.npus]

    def npu_numbers(self, npus: int) -> int:
        """The number of NPU numbers that the engine needs on a platform of `npus`: representatives keep theirs."""
        return npus if self.scope in (Scope.ALL_NPUS, Scope.CLASSES) else 1

    def times_phases(self, system: System) -> bool:
        """Whether phases over dimensions are timed beforehand. Those that run at the same time disturb each other on a shared bus."""
        return self.scope in (Scope.PHASES, Scope.CLASSES) and system.bus is None

    def simulated(self, npus: int) -> int:
        """The number of simulated NPUs among `npus`."""
        return len(self.classes) if self.scope is Scope.CLASSES else self.npu_numbers(npus)

    def stands_for(self, npu: int) -> int:
        """The number of NPUs that a simulated NPU represents; 0: all of its program."""
        if self.scope is Scope.CLASSES:
            return next(len(one.members) for one in self.classes if one.representative == npu)
        return 1 if self.scope is Scope.ALL_NPUS else 0

    def messages(self, planned: int, sent: int) -> int:
        """Messages of all NPUs, from those planned for collectives (of classes, in timed phases) and those sent by the engine."""
        match self.scope:
            case Scope.ALL_NPUS:
                return sent
            case Scope.CLASSES:
                return planned + sent * len(self.classes[0].members)
        return planned


def every_npu(reason: str) -> ScopeSelection:
    """Every NPU and every message, for a reason that the result names."""
    return ScopeSelection(Scope.ALL_NPUS, reason=reason)


def choose(inputs: RunInputs, schedules: ScheduleSymmetry) -> ScopeSelection:
    """The least that gives the same answer as all NPUs.

    One NPU can represent others on a network without contention, if no NPU waits for memory, compute takes the same everywhere, and
    processors spend no time on messages.
    The collectives are looked at, too: one of each kind is planned, in a session of its own.
    """
    choice = _by_programs(inputs)
    if choice.scope is not Scope.ALL_NPUS and not all(is_exact(choice.scope, inputs, schedules, *stage) for stage in _stages(inputs)):
        return every_npu("a collective does not treat all ranks alike")
    return choice


def is_exact(scope: Scope, inputs: RunInputs, schedules: ScheduleSymmetry, schedule: Schedule, logical: LogicalDimension | Group) -> bool:
    """Whether a phase on all groups of `logical` has the same answer in a scope as with every NPU."""
    if scope is Scope.ALL_NPUS:
        return True
    if scope is not Scope.PHASES:
        return schedules.is_symmetric(schedule, logical)
    # A group leaves out the other NPUs, so NPU 0 cannot represent all.
    if isinstance(logical, Group):
        return False
    # A phase that ends everywhere at once takes the same time for all, whatever its ranks do, if it does in all groups.
    together = inputs.system.phases_end_together
    return schedules.is_symmetric(schedule, logical) or (together and schedules.groups_are_alike(logical))


def _by_programs(inputs: RunInputs) -> ScopeSelection:
    """The choice if only the programs of NPUs and their messages count."""
    network = inputs.network
    if not isinstance(network, RouteDelayNetwork):
        return every_npu("messages share links of the network")
    reason = _against_symmetry(inputs, network)
    if reason:
        return every_npu(reason)
    if cached_for(inputs.graph, "NPUs are alike", partial(_npus_are_alike, inputs.graph)):
        # Phases that run at the same time disturb each other on a shared bus.
        return ScopeSelection(Scope.PHASES if inputs.system.bus is None else Scope.ONE_NPU)
    classes = find_classes(inputs.graph, network, inputs.system.rendezvous)
    if classes is None:
        return every_npu("NPUs do not form classes of one size whose members keep in step")
    return ScopeSelection(Scope.CLASSES, tuple(classes))


def _against_symmetry(inputs: RunInputs, network: RouteDelayNetwork) -> str:
    """Why the parts of a run let no NPU represent others, whatever their programs; empty if they do."""
    if inputs.has_overheads:  # which message a processor handles first may depend on the numbers of NPUs
        return "the system has an overhead of messages"
    if network.delays_by_pair:
        return "the network's delays depend on both ends of a message"
    if inputs.npu_ps is not None:
        return "computing takes other times on other NPUs"
    if _may_wait_for_memory(inputs):
        return "NPUs may wait for each other at remote memory"
    return ""


def _npus_are_alike(graph: ExecutionGraph) -> bool:
    """Whether all NPUs run one program, without messages between two of them and without groups."""
    return not graph.others and not any(
        isinstance(kind, (Send, Receive)) or (isinstance(kind, Communicate) and kind.group is not None)
        for kind in kinds_of(graph.operations)
    )


def _may_wait_for_memory(inputs: RunInputs) -> bool:
    return inputs.uses_remote_memory() and any(port >= 0 for port in inputs.memory_ports(inputs.platform.npus))


def _stages(inputs: RunInputs) -> Iterator[tuple[Schedule, LogicalDimension | Group]]:
    """The schedules of a run with the dimensions or groups they run on: those of one collective of each kind, whatever its bytes.

    Collectives of other sizes have the same messages but for their bytes. Should a system layer or an algorithm do it otherwise, or
    change by when a collective is issued, it shows in the run.
    """
    # A session of its own: queues and trees that take turns are to begin the run as if nothing had been planned.
    session = inputs.session()
    for operation in cached_for(inputs.graph, "kinds of collectives", partial(_kinds_of_collectives, inputs.graph)):
        # An invalid plan is reported in the run, with the operation that is issued.
        with contextlib.suppress(AstraError):
            plans = (plan for chunk in inputs.plan(session, operation, 0) for plan in chunk.phases)
            for plan in {(plan.schedule, id(plan.logical)): plan for plan in plans}.values():
                check_ranks(plan)
                yield plan.schedule, plan.logical


def _kinds_of_collectives(graph: ExecutionGraph) -> Sequence[Communicate]:
    """The first collective of each kind, whatever its bytes."""
    kinds: dict[Hashable, Communicate] = {}
    for operation in graph_kinds(graph):
        if isinstance(operation, Communicate):
            kinds.setdefault((operation.collective, operation.dimensions, operation.group, operation.algorithm), operation)
    return list(kinds.values())
