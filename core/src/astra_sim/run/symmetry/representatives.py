"""Who is simulated for whom: classes of NPUs that do the same at the same time, the first of which stands for the others.

On a network without contention, NPUs with one program stay in step if what they exchange is alike. All classes have as many members, in a
fixed order, and member j of a class sends to and receives from members j of other classes only, with the same delay for every j; its
collectives are among the members of its class, with a schedule in which all ranks do the same over routes that take as long. Then the
simulation of all first members is that of everyone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from astra_sim.engine import CONTROL_BYTES
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Operation, Receive, Send, peer_of
from astra_sim.network import RouteDelayNetwork
from astra_sim.rows import kinds_of


@attrs.frozen
class NpuClass:
    """NPUs in order, the first of which stands for all, and the place of their program among the graph's."""

    members: tuple[int, ...]
    program: int

    @property
    def representative(self) -> int:
        """The NPU that is simulated for all."""
        return self.members[0]


def find_classes(graph: ExecutionGraph, network: RouteDelayNetwork, rendezvous: bool) -> list[NpuClass] | None:
    """The classes of a graph, by their first member; None where one NPU cannot stand for others.

    Of collectives only the members are looked at, not what they do: see `ScheduleSymmetry`.
    """
    npus = network.platform.npus
    programs = graph.programs(npus)
    messages = [[o for o in kinds_of(program.operations) if isinstance(o, (Send, Receive))] for program in programs]
    program_of = _program_of(programs, npus)
    if any(not 0 <= peer_of(o, npu, npus) < npus for npu in range(npus) for o in messages[program_of[npu]]):
        return None
    classes = _split_by_peers(messages, program_of)
    size = len(classes[0].members)
    if size == 1 or any(len(one.members) != size for one in classes):
        return None
    place_of = {npu: place for one in classes for place, npu in enumerate(one.members)}
    for one in classes:
        if not _collectives_are_within(one, kinds_of(programs[one.program].operations)):
            return None
        if not _keeps_in_step(one, messages[one.program], place_of, network, rendezvous):
            return None
    return classes


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
    checked = set()
    for operation in messages:
        # A receive puts on the network what asks for the message, or nothing.
        size = operation.bytes if isinstance(operation, Send) else CONTROL_BYTES if rendezvous else None
        key = operation.to if isinstance(operation, Send) else operation.source, size
        if key in checked:
            continue
        checked.add(key)
        peers = [peer_of(operation, npu, npus) for npu in one.members]
        if any(place_of[npu] != place_of[peer] for npu, peer in zip(one.members, peers, strict=True)):
            return False
        if size is None:
            continue
        routes = {network.route(npu, peer) for npu, peer in zip(one.members, peers, strict=True)}
        if len({network.delay(route, size) for route in routes}) > 1:
            return False
    return True


def _collectives_are_within(one: NpuClass, operations: Sequence[Operation]) -> bool:
    return all(o.group == one.members for o in operations if isinstance(o, Communicate))
