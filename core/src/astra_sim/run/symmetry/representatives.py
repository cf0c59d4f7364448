"""Representatives: classes of NPUs that do the same at the same time, the first of which represents the others.

On a network without contention, NPUs with one program stay in step if their exchanges are equal. All classes have as many members, in a
fixed order, and member j of a class sends to and receives from members j of other classes only, with the same delay for every j; its
collectives are among members of its class, with a schedule in which all ranks do the same over routes that take as long. Then the
simulation of all first members is that of everyone.

Programs that are run by blocks of NPUs one after another, all of one size, and that send to whole blocks further on, as the stages of a
pipeline do, are classes as they are; this is seen without looking at each NPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from astra_sim.engine.interface import CONTROL_BYTES
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Operation, Receive, Send, peer_of
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import LogicalDimension, LogicalProduct
from astra_sim.rows import kinds_of


class NpuClass(NamedTuple):
    """NPUs in order, the first of which represents all, and the place of their program among the graph's."""

    members: Sequence[int]
    program: int

    @property
    def representative(self) -> int:
        """The NPU that is simulated for all."""
        return self.members[0]


def find_classes(graph: ExecutionGraph, network: RouteDelayNetwork, rendezvous: bool) -> list[NpuClass] | None:
    """The classes of a graph, by their first member; None if one NPU cannot represent others.

    Of collectives only the members are compared, not their schedules: see `ScheduleSymmetry`.
    """
    npus = network.platform.npus
    programs = graph.programs(npus)
    messages = [[o for o in kinds_of(program.operations) if isinstance(o, (Send, Receive))] for program in programs]
    # Blocks, as pipeline stages form them, are looked at by program: no list of a million NPUs is made.
    blocks = _blocks(programs, messages, network, rendezvous)
    if blocks is not None:
        within = all(
            _collectives_are_within(one, kinds_of(program.operations), graph.dimensions)
            for one, program in zip(blocks, programs, strict=True)
        )
        return blocks if within else None
    program_of = _program_of(programs, npus)
    if any(not 0 <= peer_of(o, npu, npus) < npus for npu in range(npus) for o in messages[program_of[npu]]):
        return None
    classes = _split_by_peers(messages, program_of)
    size = len(classes[0].members)
    # Each message of a representative counts for as many NPUs as its class has, so all classes need one size.
    if size == 1 or any(len(one.members) != size for one in classes):
        return None
    place_of = {npu: place for one in classes for place, npu in enumerate(one.members)}
    for one in classes:
        if not _collectives_are_within(one, kinds_of(programs[one.program].operations), graph.dimensions):
            return None
        if not _keeps_in_step(one, messages[one.program], place_of, network, rendezvous):
            return None
    return classes


def _blocks(
    programs: Sequence[NpuProgram], messages: Sequence[Sequence[Send | Receive]], network: RouteDelayNetwork, rendezvous: bool
) -> list[NpuClass] | None:
    """The classes of programs run by blocks of one size that send to whole blocks further on; None if they are not so."""
    size = len(programs[0].npus)
    if size == 1 or any(program.npus != range(start * size, (start + 1) * size) for start, program in enumerate(programs)):
        return None
    peers = {o.to if isinstance(o, Send) else o.source for of_program in messages for o in of_program}
    if any(peer.operator != "shift" or peer.value % size for peer in peers):
        return None
    places = _places(network, size)
    for program, of_program in zip(programs, messages, strict=True):
        if not _delays_are_alike([program.npus[place] for place in places], of_program, network, rendezvous):
            return None
    return [NpuClass(program.npus, number) for number, program in enumerate(programs)]


def _places(network: RouteDelayNetwork, size: int) -> range:
    """Places in a block of `size` NPUs that have all the routes to other blocks: those that differ in dimensions which blocks cut."""
    # Routes of the platform repeat along the largest stride that divides a block, so NPUs between need no look; a network that finds
    # routes by itself may treat each of them otherwise.
    if type(network).route is not RouteDelayNetwork.route:
        return range(size)
    return range(0, size, max(stride for stride in network.platform.strides if size % stride == 0))


def _collectives_are_within(one: NpuClass, operations: Sequence[Operation], dimensions: Sequence[LogicalDimension]) -> bool:
    """Whether the collectives of a class are among all its members, or over dimensions whose groups hold members alone."""
    over: set[tuple[int, ...]] = set()
    for operation in operations:
        if isinstance(operation, Communicate):
            if operation.group is None and not operation.algorithm:
                over.add(operation.dimensions)
            elif operation.group is None or operation.group != tuple(one.members):
                return False
    used = {number for numbers in over for number in numbers if dimensions[number].size > 1}
    return is_closed([dimensions[number] for number in used], one.members)


def _program_of(programs: Sequence[NpuProgram], npus: int) -> list[int]:
    """The place of the program that each NPU runs."""
    program_of = [0] * npus
    for number, program in enumerate(programs):
        for npu in program.npus:
            program_of[npu] = number
    return program_of


def _split_by_peers(messages: Sequence[Sequence[Send | Receive]], program_of: Sequence[int]) -> list[NpuClass]:
    """NPUs by program, split until all members of a class have peers in one class each."""
    npus = len(program_of)
    class_of = list(program_of)
    # Partition refinement: a class is split while its members have peers in different classes. Each round splits one at least, and
    # pipelines need as many rounds as stages, so nothing cleverer pays (Paige and Tarjan, 1987, do it in n log n).
    while True:
        signatures = [(class_of[npu], *(class_of[peer_of(o, npu, npus)] for o in messages[program_of[npu]])) for npu in range(npus)]
        numbers = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
        if len(numbers) == len(set(class_of)):
            break
        class_of = [numbers[signature] for signature in signatures]
    members: dict[int, list[int]] = {}
    for npu, number in enumerate(class_of):
        members.setdefault(number, []).append(npu)
    return [NpuClass(tuple(npus), program_of[npus[0]]) for npus in members.values()]


def _keeps_in_step(
    one: NpuClass, messages: Sequence[Send | Receive], place_of: Mapping[int, int], network: RouteDelayNetwork, rendezvous: bool
) -> bool:
    """Whether members of a class exchange messages with members at their own place, which all take as long."""
    npus = network.platform.npus
    for peer in {o.to if isinstance(o, Send) else o.source for o in messages}:
        if any(place_of[npu] != place_of[peer.of(npu, npus)] for npu in one.members):
            return False
    return _delays_are_alike(one.members, messages, network, rendezvous)


def _delays_are_alike(members: Sequence[int], messages: Sequence[Send | Receive], network: RouteDelayNetwork, rendezvous: bool) -> bool:
    """Whether the traffic of class members for a message takes as long for each of them."""
    npus = network.platform.npus
    # A receive sends the request for the message, or nothing.
    sizes = {(o.to, o.bytes) if isinstance(o, Send) else (o.source, CONTROL_BYTES) for o in messages if isinstance(o, Send) or rendezvous}
    for peer, size in sizes:
        routes = {network.route(npu, peer.of(npu, npus)) for npu in members}
        if len({network.delay(route, size) for route in routes}) > 1:
            return False
    return True


def is_closed(dimensions: Sequence[LogicalDimension], npus: Sequence[int]) -> bool:
    """Whether some NPUs in ascending order are whole groups of each of some dimensions."""
    if isinstance(npus, range) and npus.step == 1:
        parts = [part for one in dimensions for part in (one.parts if isinstance(one, LogicalProduct) else (one,))]
        blocks = [part.size * part.stride for part in parts]
        # Aligned blocks hold whole groups: none of a million NPUs is looked at.
        if all(npus.start % block == 0 and len(npus) % block == 0 for block in blocks):
            return True
    members = set(npus)
    return all(members.issuperset(dimension.group(npu)) for dimension in dimensions for npu in npus if not dimension.index(npu)) and all(
        dimension.group(npu)[0] in members for dimension in dimensions for npu in npus
    )
