"""Lets a system layer plan collectives, and passes pieces of data through its phases, to prove that the result is right."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from astra_sim.errors import InputError, PluginError
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Pass
from astra_sim.platform import Group, LogicalDimension, Platform, product_dimension
from astra_sim.providers import call
from astra_sim.schedule import Collective, Request
from astra_sim.system import ChunkPlan, PhasePlan, QueuePlan, System, SystemSession, check_chunks

from astra_sim_devkit.testing.bench import run_on_bench
from astra_sim_devkit.testing.pieces import Contents, check_schedule
from astra_sim_devkit.testing.requirement import require

_SIZES = (1 << 20, 12345, 1 << 30)


def operations(platform: Platform) -> Iterator[Communicate]:
    """Every collective, of several sizes, on all dimensions, on each one alone, and in a group of half of the NPUs."""
    every = tuple(range(len(platform.dimensions)))
    half = tuple(range(0, platform.npus, 2))
    alone = [((number,), None) for number in every[::-1]]
    for collective, size in itertools.product(Collective, _SIZES):
        for dimensions, group in ((every, None), *alone, (every, half)):
            yield Communicate((), collective, size, dimensions, -1, Pass.FORWARD, group=group)


def check_system(system: System, platform: Platform) -> None:
    """Raise AssertionError or PluginError unless the system layer does every collective that it does not refuse, and it must do one."""
    require(isinstance(system, System), f"it made {system!r}, which is not a System")
    require(type(system.endpoint_ps) is int and system.endpoint_ps >= 0, f"endpoint_ps is {system.endpoint_ps!r}; expected at least 0")
    require(type(system.tick_ps) is int and system.tick_ps >= 1, f"tick_ps is {system.tick_ps!r}; expected at least 1")
    served: list[Communicate] = []
    reasons = []
    for operation in operations(platform):
        try:
            plan = _planned(system, operation, platform)
        except PluginError:
            raise
        except InputError as error:
            reasons.append(str(error))
            continue
        served.append(operation)
        _check_plan(plan, operation, platform)
        again = _planned(system, operation, platform)
        require(_outline(plan) == _outline(again), f"{name_of(operation)}: a second session plans it in another way; expected the same")
        if operation.bytes == _SIZES[0]:
            run_on_bench(_alone(operation, platform), platform, system)
    require(served, f"it does no collective: {'; '.join(dict.fromkeys(reasons))}")
    _check_one_after_another(system, served, platform)


def _check_one_after_another(system: System, served: list[Communicate], platform: Platform) -> None:
    """Raise AssertionError or PluginError unless collectives are done in any order in one session, too."""
    random.Random(1).shuffle(served)
    session = _session(system, platform)
    for operation in served:
        plan = _issued(session, operation, platform)
        try:
            _check_plan(plan, operation, platform)
        except AssertionError as error:
            raise AssertionError(f"after other collectives in its session: {error}") from None
        logical = product_dimension([platform.logical_dimensions()[number] for number in operation.dimensions])
        what = Group(operation.group) if operation.group is not None else logical
        queue, _ = call(f"{name_of(operation)}: assign_queue", session.assign_queue, operation, operation.dimensions[0], what)
        right = type(queue) is int and -1 <= queue < len(session.queues)
        require(right, f"{name_of(operation)}: assign_queue gives queue {queue!r}; expected -1 to {len(session.queues) - 1}")


def name_of(operation: Communicate) -> str:
    """A collective, in words."""
    where = f"dimensions {list(operation.dimensions)}" if operation.group is None else f"the group {list(operation.group)}"
    return f"{operation.collective} of {operation.bytes} bytes on {where}"


def _alone(operation: Communicate, platform: Platform) -> ExecutionGraph:
    members = operation.group or range(platform.npus)
    idle = tuple(npu for npu in range(platform.npus) if npu not in members)
    others = (NpuProgram((), idle),) if idle else ()
    return ExecutionGraph([operation], platform.logical_dimensions(), (), others=others)


def _planned(system: System, operation: Communicate, platform: Platform) -> list[ChunkPlan]:
    """The chunks of a collective that is alone in a session."""
    return _issued(_session(system, platform), operation, platform)


def _session(system: System, platform: Platform) -> SystemSession:
    session: SystemSession = call("session", system.session, platform.logical_dimensions())
    require(session.queues, "its session has no queues")
    for number, queue in enumerate(session.queues):
        require(isinstance(queue, QueuePlan) and queue.slots >= 1, f"queue {number} is {queue!r}; expected a QueuePlan with a slot")
    return session


def _issued(session: SystemSession, operation: Communicate, platform: Platform) -> list[ChunkPlan]:
    """The chunks of a collective, with the queues that the session has."""
    where = name_of(operation)
    chunks: list[ChunkPlan] = call(where, session.issue, operation, 0)
    try:
        check_chunks(chunks, operation.bytes, platform.npus)
    except PluginError as error:
        raise PluginError(f"{where}: {error}") from None
    for chunk in chunks:
        for phase in chunk.phases:
            right = 0 <= phase.queue < len(session.queues)
            require(right, f"{where}: a phase is in queue {phase.queue}; expected 0 to {len(session.queues) - 1}")
            right = 0 <= phase.dimension < len(platform.dimensions)
            require(right, f"{where}: a phase counts for dimension {phase.dimension}; expected 0 to {len(platform.dimensions) - 1}")
    if session.repeats(operation):
        again = _outline(call(where, session.issue, operation, 0))
        require(_outline(chunks) == again, f"{where}: repeats promises that it is planned alike every time, and it is not")
    return chunks


def _outline(chunks: Sequence[ChunkPlan]) -> list[object]:
    """The properties that two plans of the same collective must share."""
    return [
        (chunk.priority, [(p.dimension, p.logical, p.collective, p.bytes, p.queue, p.schedule.output_bytes) for p in chunk.phases])
        for chunk in chunks
    ]


def _check_plan(chunks: Sequence[ChunkPlan], operation: Communicate, platform: Platform) -> None:
    where = name_of(operation)
    require(chunks, f"{where}: it planned nothing")
    seen: set[object] = set()
    for number, chunk in enumerate(chunks):
        for phase in chunk.phases:
            if (phase.schedule, phase.collective, phase.bytes) not in seen:
                seen.add((phase.schedule, phase.collective, phase.bytes))
                _check_phase(phase, where)
        _Flow(operation, platform, f"{where}: chunk {number}").check(chunk.phases)


def _check_phase(phase: PhasePlan, where: str) -> None:
    phase.schedule.check(phase.logical.size)
    try:
        check_schedule(phase.schedule, Request(phase.collective, phase.logical.size, phase.bytes))
    except AssertionError as error:
        raise AssertionError(f"{where}: its {phase.collective} on {phase.logical.size} ranks: {error}") from None


class _Flow:
    """Pieces of data of all NPUs, as the phases of a chunk move them: for each NPU, whose contributions it holds to which pieces.

    A buffer has as many pieces as NPUs take part. For all-to-all the piece (a, b) is the data of NPU a for NPU b.
    """

    def __init__(self, operation: Communicate, platform: Platform, where: str) -> None:
        self._collective = operation.collective
        self._where = where
        self._npus = platform.npus
        self._members = _members(operation, platform)
        self._held = {npu: self._initial(npu) for npu in self._members}

    def _initial(self, npu: int) -> Contents:
        names: Sequence[Hashable] = range(len(self._members[npu]))
        if self._collective is Collective.ALL_GATHER:
            names = [npu]
        elif self._collective is Collective.ALL_TO_ALL:
            names = [(npu, other) for other in self._members[npu]]
        return {name: Counter([npu]) for name in names}

    def check(self, phases: Sequence[PhasePlan]) -> None:
        """Pass all pieces through the phases, and raise AssertionError if they do not end at their destinations."""
        for number, phase in enumerate(phases):
            what = f"{self._where}, phase {number} ({phase.collective})"
            for group in phase.logical.groups(self._npus):
                if group[0] in self._held:
                    self._pass_through(phase, group, what)
        for npu, members in self._members.items():
            self._check_result(npu, members)

    def _pass_through(self, phase: PhasePlan, group: Sequence[int], what: str) -> None:
        """Apply a phase to the pieces of the NPUs of a group."""
        before = [self._held.get(npu, {}) for npu in group]
        if phase.collective in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER):
            names = list(before[0])
            require(all(held.keys() == before[0].keys() for held in before), f"{what}: NPUs {list(group)} hold different pieces")
            total = {name: sum((held[name] for held in before), Counter()) for name in names}
            scatters = phase.collective is Collective.REDUCE_SCATTER
            share, rest = divmod(len(names), len(group)) if scatters else (0, 0)
            require(not rest, f"{what}: {len(names)} pieces are not divided by {len(group)} NPUs")
            for index, npu in enumerate(group):
                self._held[npu] = {name: total[name] for name in (names[index * share : (index + 1) * share] if scatters else names)}
            return
        if phase.collective is Collective.ALL_GATHER:
            gathered = {name: counts for held in before for name, counts in held.items()}
            require(len(gathered) == sum(map(len, before)), f"{what}: NPUs {list(group)} hold some pieces twice before they gather them")
            self._held.update({npu: dict(gathered) for npu in group})
            return
        self._held.update({npu: {} for npu in group})
        for held in before:
            for name, counts in held.items():
                assert isinstance(name, tuple)
                self._held[_towards(phase.logical, group, name[1])][name] = counts

    def _check_result(self, npu: int, members: Sequence[int]) -> None:
        held, complete = self._held[npu], Counter(members)
        if self._collective is Collective.ALL_GATHER:
            right = held.keys() == set(members)
        elif self._collective is Collective.ALL_TO_ALL:
            right = held.keys() == {(other, npu) for other in members}
        else:
            count = len(members) if self._collective is Collective.ALL_REDUCE else 1
            right = len(held) == count and all(counts == complete for counts in held.values())
        require(right, f"{self._where}: at the end NPU {npu} does not hold the result; it holds {_words(held)}")


def _words(held: Contents) -> str:
    if not held:
        return "nothing"
    name, counts = next(iter(held.items()))
    sums = ", ".join(f"NPU {npu} {times} times" if times > 1 else f"NPU {npu}" for npu, times in sorted(counts.items()))
    return f"{len(held)} pieces, of which piece {name} has the contributions of {sums}"


def _members(operation: Communicate, platform: Platform) -> dict[int, Sequence[int]]:
    """For each NPU that takes part, the NPUs with which it does the collective."""
    if operation.group is not None:
        return dict.fromkeys(operation.group, operation.group)
    members: dict[int, Sequence[int]] = {}
    fixed = [index for index in range(len(platform.dimensions)) if index not in operation.dimensions]
    alike: dict[tuple[int, ...], list[int]] = {}
    for npu in range(platform.npus):
        members[npu] = alike.setdefault(tuple(platform.coordinate(npu, index) for index in fixed), [])
        alike[tuple(platform.coordinate(npu, index) for index in fixed)].append(npu)
    return members


def _towards(logical: LogicalDimension | Group, group: Sequence[int], destination: int) -> int:
    """The NPU of a group at the place of a destination."""
    return group[logical.index(destination)]
