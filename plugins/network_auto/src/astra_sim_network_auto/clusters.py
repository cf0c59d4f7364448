"""Collectives and messages that are under way at once and share links: they are simulated together, each kind of such a cluster once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs
from astra_sim.graph import Communicate, Compute, NpuProgram, Operation, ProgramTimes, Receive, Send, Unit, Wait
from astra_sim.network import EventNetwork, Simulations

from astra_sim_network_auto.components import TrafficComponent, alike, connected
from astra_sim_network_auto.instances import Instances
from astra_sim_network_auto.slices import content_of
from astra_sim_network_auto.traffic import GraphTraffic, idle_programs, kept_times

_GRID = 8
"""Moments are rounded to this part of how much times may be off anyway, so that more clusters are alike."""


@attrs.frozen(eq=False)
class RunTimes:
    """The times of a run in which communication takes known times: of the operations of each program, and of each instance."""

    ended_ps: Sequence[Sequence[int]]
    begin_ps: Sequence[int]
    end_ps: Sequence[int]
    makespan_ps: int


Price = tuple[tuple[int, int], ...]
"""Picoseconds of messages by the NPU that sends them; or of a collective in each group, by its first NPU: from when the last NPU of the
group has come until the last has ended."""


class SharedTimes(NamedTuple):
    """The price of an instance that ran with others, and how far apart its NPUs have ended (picoseconds)."""

    price: Price
    skew_ps: int


@attrs.frozen(eq=False)
class Scene:
    """What NPUs do while instances are under way together: the operations of each program, and where its instances are among them.

    `numbers` are the instances, whose places here are their roles.
    """

    numbers: tuple[int, ...]
    operations: Mapping[int, list[Operation]]
    roles: Mapping[int, Mapping[int, int]]

    def places(self, types: type | tuple[type, ...]) -> dict[tuple[int, int], int]:
        """Where each program has the operation of some types of each role."""
        return {
            (program, role): place
            for program, roles in self.roles.items()
            for place, role in roles.items()
            if isinstance(self.operations[program][place], types)
        }

    def content(self, programs: Sequence[int]) -> Hashable:
        """What the times depend on, besides routes, of NPUs that run such programs."""
        order = dict.fromkeys(programs)
        numbers = {program: number for number, program in enumerate(order)}
        what = [(tuple(map(content_of, self.operations[each])), tuple(self.roles[each].items())) for each in order]
        return tuple(what), tuple(numbers[each] for each in programs)


class Clusters:
    """Simulates instances together on a target network, each kind of components that are alike once."""

    def __init__(
        self,
        simulations: Simulations,
        target: EventNetwork,
        traffic: GraphTraffic,
        instances: Instances,
        is_one_by_one: bool,
        margin: Callable[[int], int],
    ) -> None:
        self._is_one_by_one = is_one_by_one
        self._margin = margin
        self._grid_ps = 1
        self._simulations = simulations
        self._target = target
        self._traffic = traffic
        self._instances = instances
        self._npus = target.platform.npus
        self._known: dict[Hashable, tuple[list[tuple[int, int, int]], int]] = {}
        self._program_of = {npu: number for number, (_, npus) in enumerate(traffic.programs) for npu in npus}

    def scene(self, numbers: Sequence[int], times: RunTimes) -> Scene:
        """What happens from the first of some instances until the last, with the times of all else."""
        numbers = sorted(numbers, key=lambda number: (times.begin_ps[number], times.end_ps[number], number))
        start = times.begin_ps[numbers[0]]
        self._grid_ps = max(1, self._margin(max(times.end_ps[number] for number in numbers) - start) // _GRID)
        places: dict[int, dict[int, int]] = {}
        for role, number in enumerate(numbers):
            instance = self._instances.all[number]
            for program, place in (*instance.places.items(), *instance.received):
                places.setdefault(program, {})[place] = role
        built = {program: self._window(program, at, start, times) for program, at in places.items()}
        operations = {program: each for program, (each, _) in built.items()}
        return Scene(tuple(numbers), operations, {program: roles for program, (_, roles) in built.items()})

    def together(self, scene: Scene, components: Sequence[TrafficComponent]) -> list[SharedTimes]:
        """The times of the instances of a scene whose groups and messages have such components, in the order of the scene."""
        each_ps: list[dict[int, int]] = [{} for _ in scene.numbers]
        ends: list[list[int]] = [[] for _ in scene.numbers]
        for same in alike(components):
            times = self._of(scene, same[0])[0]
            for component in same:
                for member, (ps, first, last) in zip(component.members, times, strict=True):
                    each_ps[member.role][member.npus[0]] = ps
                    ends[member.role] += [first, last]
        return [SharedTimes(tuple(each.items()), max(moments) - min(moments)) for each, moments in zip(each_ps, ends, strict=True)]

    def cost(self, scene: Scene, components: Sequence[TrafficComponent]) -> int:
        """The bytes that are sent in simulations of a scene that are still to be done."""
        total = 0
        for same in alike(components):
            if self._key(scene, same[0]) not in self._known:
                sizes = [self._traffic.kinds[self._instances.all[number].kind].operation.bytes for number in scene.numbers]
                total += sum(sizes[member.role] * len(member.npus) for member in same[0].members)
        return total

    @property
    def simulated_bytes(self) -> int:
        """The bytes that were sent on the target."""
        return sum(size for _, size in self._known.values())

    def _key(self, scene: Scene, component: TrafficComponent) -> Hashable:
        npus = list(dict.fromkeys(npu for member in component.members for npu in member.npus))
        return component.shape, scene.content([self._program_of[npu] for npu in npus])

    def _of(self, scene: Scene, component: TrafficComponent) -> tuple[list[tuple[int, int, int]], int]:
        key = self._key(scene, component)
        if key not in self._known:
            self._known[key] = self._simulated(scene, component)
        return self._known[key]

    def _simulated(self, scene: Scene, component: TrafficComponent) -> tuple[list[tuple[int, int, int]], int]:
        """The times of the members of a component on the target, in order: how long each took, and when its NPUs ended; and the bytes."""
        seen, keep = kept_times()
        npus = component.npus
        programs_of = {npu: list(scene.operations[self._program_of[npu]]) for npu in npus}
        first: list[Operation] = programs_of[0] if 0 in programs_of else [Compute((), 0)]
        others = [NpuProgram(operations, (npu,)) for npu, operations in programs_of.items() if npu]
        programs = (*others, *idle_programs(programs_of, self._npus))
        graph = attrs.evolve(self._simulations.graph, operations=first, others=programs, shared=False, figures=keep)
        self._simulations.run(graph, self._target)
        times = {each.program.npus[0]: each for each in seen}
        at, received = scene.places((Communicate, Send)), scene.places(Receive)
        result = []
        for member in component.members:
            instance = self._instances.all[scene.numbers[member.role]]
            kind = self._traffic.kinds[instance.kind]
            if isinstance(kind.operation, Send):
                npu, end = member.npus
                place = at[self._program_of[npu], member.role]
                begun = dict(zip(times[npu].sends, times[npu].sends_begun_ps, strict=True))[place]
                first_end = last_end = times[end].ended_ps[received[self._program_of[end], member.role]]
                ps = last_end - begun
            else:
                rows = [(times[npu], at[self._program_of[npu], member.role]) for npu in member.npus]
                update = scene.operations[self._program_of[member.npus[0]]][rows[0][1]].update_ps  # type: ignore[union-attr]
                begin = max(self._begun_ps(each, place) for each, place in rows)
                ends = [each.ended_ps[place] for each, place in rows]
                first_end, last_end = min(ends), max(ends)
                ps = last_end - begin - update
            result.append((ps, first_end, last_end))
        size = sum(load.bytes for load in self._target.links())
        return result, size

    def _begun_ps(self, times: ProgramTimes, place: int) -> int:
        """When an NPU begins a collective: once it is ready, and has done other communication if it does one at a time."""
        ready, ended = times.ready_ps[place], times.ended_ps[place]
        if not self._is_one_by_one:
            return ready
        operations = times.program.operations
        before = (
            end
            for other, (operation, end) in enumerate(zip(operations, times.ended_ps, strict=True))
            if other != place and end <= ended and isinstance(operation, (Communicate, Send)) and operation.unit is Unit.COMMUNICATION
        )
        return max(ready, *before, 0)

    def _window(self, program: int, at: Mapping[int, int], start: int, times: RunTimes) -> tuple[list[Operation], dict[int, int]]:
        """The operations of a program from its first instance to its last, and the role of each instance by its place among them.

        What is no instance here takes the time that it takes in the run.
        """
        first, last = min(at), max(at)
        ended, all_operations = times.ended_ps[program], self._instances.operations[program]
        result: list[Operation] = []
        moved: dict[int, int] = {}
        roles: dict[int, int] = {}

        def entry(moment: int) -> tuple[int, ...]:
            """An operation that ends at a moment of the run; none if that is the beginning."""
            after_start = (moment - start) // self._grid_ps * self._grid_ps
            if after_start <= 0:
                return ()
            result.append(Compute((), after_start, unit=Unit.NONE))
            return (len(result) - 1,)

        for place in range(first, last + 1):
            operation = all_operations[place]
            waits = (*operation.after, *(operation.pending if isinstance(operation, Wait) else ()))
            inside = tuple(moved[each] for each in waits if each in moved)
            outside = max((ended[each] for each in waits if each < first), default=0)
            if isinstance(operation, (Communicate, Send)) and place in at:
                begin = times.begin_ps[self._instances.number_at[program, place]]
                after = (*inside, *entry(outside if inside else begin))
                changed: Operation = attrs.evolve(operation, after=after)
                roles[len(result)] = at[place]
            elif isinstance(operation, Receive) and place in at:
                changed = attrs.evolve(operation, after=(*inside, *entry(outside)))
                roles[len(result)] = at[place]
            elif isinstance(operation, Compute) and inside:
                after = (*inside, *entry(outside))
                changed = Compute(after, operation.duration_ps, unit=operation.unit)
            elif isinstance(operation, Wait) and inside:
                changed = Compute((*inside, *entry(outside)), 0, unit=Unit.NONE)
            else:
                latest = max((ended[each] for each in waits if each in moved), default=start)
                changed = Compute(inside, max(0, ended[place] - latest), unit=Unit.NONE)
            moved[place] = len(result)
            result.append(changed)
        return result, roles


def merged(times: RunTimes, share: Callable[[int, int], bool], apart_ps: Callable[[int, int], int], longest_ps: int) -> list[list[int]]:
    """The numbers of instances that are under way at once and share something, together.

    Two of which one begins less than `apart_ps` after the other has ended may meet, too; that is at most `longest_ps`.
    """
    order = sorted(range(len(times.begin_ps)), key=times.begin_ps.__getitem__)

    def meeting() -> Iterator[tuple[int, int]]:
        under_way: list[int] = []
        for number in order:
            begin = times.begin_ps[number]
            under_way = [each for each in under_way if times.end_ps[each] + longest_ps > begin]
            yield from ((each, number) for each in under_way if share(each, number) and times.end_ps[each] + apart_ps(each, number) > begin)
            under_way.append(number)

    return connected(order, meeting())
