"""The single collectives and messages of a graph, as all NPUs of a program do them at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import attrs
from astra_sim.graph import Operation, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.rows import Rows

from astra_sim_network_auto.components import Member
from astra_sim_network_auto.traffic import GraphTraffic

Place = tuple[int, int]
"""An operation: the number of a program, and its place there."""


@attrs.frozen(eq=False)
class Instance:
    """A collective of all groups of some programs, or a message of each NPU of one: its kind of traffic and its place in each program.

    `received` are the places of the receives of a message.
    """

    kind: int
    places: dict[int, int]
    received: tuple[Place, ...] = ()


class Instances:
    """All collectives and messages of a graph, program by program, in the order of their places."""

    def __init__(self, traffic: GraphTraffic, npus: int) -> None:
        self._traffic = traffic
        self._npus = npus
        self.operations: list[Sequence[Operation]] = [_all(operations) for operations, _ in traffic.programs]
        self.all: list[Instance] = []
        self.number_at: dict[Place, int] = {}
        self.is_matched = True
        """Whether all members of each collective are known, and the receives of each message."""
        self._program_of = {npu: number for number, (_, npus) in enumerate(traffic.programs) for npu in npus}
        listed: dict[tuple[int, int], int] = {}
        receives = self._receives()
        for program, (operations, _) in enumerate(traffic.programs):
            counts: dict[int, int] = {}
            sent: dict[Hashable, int] = {}
            places = operations.kind_of if isinstance(operations, Rows) else range(len(operations))
            for place, kind in enumerate(places):
                number = traffic.number(program, kind)
                if number is None:
                    continue
                operation = self.operations[program][place]
                if isinstance(operation, Send):
                    key = operation.to, operation.tag, operation.bytes
                    sent[key] = sent.get(key, -1) + 1
                    instance = Instance(number, {program: place}, self._received(program, operation, sent[key], receives))
                    self.number_at[program, place] = len(self.all)
                    self.all.append(instance)
                    continue
                count = counts[number] = counts.get(number, -1) + 1
                if (number, count) not in listed:
                    listed[number, count] = len(self.all)
                    self.all.append(Instance(number, {}))
                self.all[listed[number, count]].places[program] = place
                self.number_at[program, place] = listed[number, count]
        self.is_matched &= all(each.places.keys() == traffic.kinds[each.kind].programs for each in self.all)

    def members(self, number: int, role: int, dimensions: Sequence[LogicalDimension]) -> list[Member]:
        """The groups, or the ends of the messages, of an instance."""
        return self._traffic.kinds[self.all[number].kind].members(dimensions, self._npus, role)

    def _receives(self) -> dict[tuple[int, int, int], list[tuple[Receive, int]]]:
        """The receives of each program by tag and bytes, with their places."""
        result: dict[tuple[int, int, int], list[tuple[Receive, int]]] = {}
        for program, operations in enumerate(self.operations):
            for place, operation in enumerate(operations):
                if isinstance(operation, Receive):
                    result.setdefault((program, operation.tag, operation.bytes), []).append((operation, place))
        return result

    def _received(
        self, program: int, send: Send, count: int, receives: dict[tuple[int, int, int], list[tuple[Receive, int]]]
    ) -> tuple[Place, ...]:
        """The receives of the messages that all NPUs of a program send with one operation."""
        result: set[Place] = set()
        for npu in self._traffic.programs[program][1]:
            end = send.to.of(npu, self._npus)
            theirs = self._program_of.get(end, -1)
            places = [place for each, place in receives.get((theirs, send.tag, send.bytes), ()) if each.source.of(end, self._npus) == npu]
            if count >= len(places):
                self.is_matched = False
                return ()
            result.add((theirs, places[count]))
            if len(result) == 1 and self._is_shift(send) and self._is_whole(program, theirs, send):
                break
        return tuple(sorted(result))

    def _is_shift(self, send: Send) -> bool:
        return send.to.operator == "shift"

    def _is_whole(self, program: int, theirs: int, send: Send) -> bool:
        """Whether the NPUs of one program send to all of another, so that one of them tells for all."""
        ours, others = self._traffic.programs[program][1], self._traffic.programs[theirs][1]
        return len(ours) == len(others) and {send.to.of(npu, self._npus) for npu in ours} == set(others)


def _all(operations: Sequence[Operation]) -> Sequence[Operation]:
    """The operations of a program as a list, with those of rows made."""
    return list(operations) if isinstance(operations, Rows) else operations
