"""Classes of NPUs that do the same at the same time, so that the first of each can stand for the others.

On a network without contention, NPUs with one program stay in step if what they exchange is alike. All classes have as many members, in a
fixed order, and member j of a class sends to and receives from members j of other classes only, with the same delay for every j; its
collectives are among the members of its class, with a schedule in which all ranks do the same over routes that take as long. Then the
simulation of all first members is that of everyone.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from astra_sim.graph import Communicate, ExecutionGraph, Receive, Send
from astra_sim.network import RouteDelayNetwork
from astra_sim.rows import kinds_of


@attrs.frozen
class NpuClass:
    """NPUs in order, the first of which stands for all, and the place of their program among the graph's."""

    members: tuple[int, ...]
    program: int


def find_classes(graph: ExecutionGraph, network: RouteDelayNetwork) -> list[NpuClass] | None:
    """The classes of a graph, by their first member; None where one NPU cannot stand for others.

    What collectives do is not looked at, but for whom they are among.
    """
    npus = network.platform.npus
    programs = graph.programs(npus)
    letters = [[o for o in kinds_of(program.operations) if isinstance(o, (Send, Receive))] for program in programs]
    class_of = [0] * npus
    for number, program in enumerate(programs):
        for npu in program.npus:
            class_of[npu] = number
    program_of = list(class_of)
    if any(not 0 <= peer_of(o, npu, npus) < npus for npu in range(npus) for o in letters[program_of[npu]]):
        return None
    while True:
        # Members of a class have peers of one class each; else it is split.
        signatures = [(class_of[npu], *(class_of[peer_of(o, npu, npus)] for o in letters[program_of[npu]])) for npu in range(npus)]
        numbers = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
        if len(numbers) == len(set(class_of)):
            break
        class_of = [numbers[signature] for signature in signatures]
    members: dict[int, list[int]] = {}
    for npu, number in enumerate(class_of):
        members.setdefault(number, []).append(npu)
    classes = [NpuClass(tuple(found), program_of[found[0]]) for found in members.values()]
    place = {npu: number for found in members.values() for number, npu in enumerate(found)}
    size = len(classes[0].members)
    if size == 1 or any(len(one.members) != size for one in classes):
        return None
    for one in classes:
        if not _collectives_are_within(one, kinds_of(programs[one.program].operations)):
            return None
        if not _keep_in_step(one, letters[one.program], place, network):
            return None
    return classes


def peer_of(operation: Send | Receive, npu: int, npus: int) -> int:
    """The NPU that an NPU of `npus` sends to, or receives from."""
    return (operation.to if isinstance(operation, Send) else operation.source).of(npu, npus)


def _keep_in_step(one: NpuClass, letters: Sequence[Send | Receive], place: dict[int, int], network: RouteDelayNetwork) -> bool:
    npus = network.platform.npus
    checked = set()
    for operation in letters:
        key = operation.to if isinstance(operation, Send) else operation.source, operation.bytes
        if key in checked:
            continue
        checked.add(key)
        peers = [peer_of(operation, npu, npus) for npu in one.members]
        if any(place[npu] != place[peer] for npu, peer in zip(one.members, peers, strict=True)):
            return False
        routes = {network.route(npu, peer) for npu, peer in zip(one.members, peers, strict=True)}
        if len({network.delay(route, operation.bytes) for route in routes}) > 1:
            return False
    return True


def _collectives_are_within(one: NpuClass, operations: Sequence[object]) -> bool:
    return all(o.group == one.members for o in operations if isinstance(o, Communicate))
