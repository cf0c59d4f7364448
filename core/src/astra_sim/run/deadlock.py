"""Describe runs that cannot finish: who waits for whom, and which messages were not received or lost by the network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from astra_sim.engine.interface import Engine
from astra_sim.errors import DeadlockError, PluginError, RunError
from astra_sim.graph import NpuProgram, Operation, Receive, Send, operation_rows, peer_of, waits_of
from astra_sim.run.describe import OperationNames, describe_rank
from astra_sim.run.inputs import RunInputs
from astra_sim.run.lowering import unit_of

_LINES_OF_A_DEADLOCK = 20

_Unfinished = Sequence[tuple[int, int, bool]]
"""NPU, number of the operation, and whether it has begun."""


def check_finished(inputs: RunInputs, programs: Sequence[NpuProgram], names: OperationNames, engine: Engine, start_ps: int) -> None:
    """Raise DeadlockError, RunError or PluginError if an engine with nothing left to do has not done all."""
    _Inquest(inputs, programs, names, engine).check(start_ps)


class _Inquest:
    """Looks at an engine that has nothing left to do."""

    def __init__(self, inputs: RunInputs, programs: Sequence[NpuProgram], names: OperationNames, engine: Engine) -> None:
        self._inputs = inputs
        self._npus = inputs.platform.npus
        self._programs = programs
        self._program_of = {npu: number for number, program in enumerate(programs) for npu in program.npus}
        self._names = names
        self._engine = engine

    def check(self, start_ps: int) -> None:
        """Raise an error unless all operations have ended, and all messages were delivered and received."""
        unfinished, unreceived, lost = self._engine.record.unfinished(), self._unreceived(), self._lost()
        if unfinished:
            lines = self._point_to_point(unfinished) + unreceived + self._ranks() + self._not_begun(unfinished)
            now_ns = (start_ps + self._engine.now) / 1000
            why = f"at {now_ns:g} ns nothing is left to happen, and {len(unfinished)} operations wait"
            head = f"{lost + '; ' if lost else ''}the run cannot finish: {why}{self._own_orders()}"
            raise DeadlockError("\n  ".join([head, *_shown(lines)]), lines)
        if lost:
            raise PluginError(lost)
        if unreceived:
            head = "messages have arrived for which no receive is there"
            raise RunError("\n  ".join([head, *_shown(unreceived)]))

    def _own_orders(self) -> str:
        """Advice if ranks that have begun wait, and the system lets NPUs begin chunks each in its own order; empty otherwise."""
        if not self._inputs.system.own_orders or not self._engine.record.blocked_ranks():
            return ""
        advice = self._inputs.system.own_orders_advice
        return f"; each NPU begins chunks in its own order{f'; {advice}' if advice else ''}"

    def _lost(self) -> str:
        """The number of messages that the network has not delivered, now that it has no more deliveries; empty if none."""
        lost = self._engine.undelivered
        if not lost:
            return ""
        name = type(self._inputs.network).__name__
        return f"network {name} lost {lost} of {self._engine.messages} messages: it reports none under way, and they did not arrive"

    def _unreceived(self) -> list[str]:
        """The messages that have arrived and that nothing receives."""
        lines = []
        for source, destination, tag, size, count in self._engine.record.unreceived():
            number = self._program_of[source]
            rows = operation_rows(self._programs[number].operations)
            alike = {kind for kind, operation in enumerate(rows.kinds) if self._sends(operation, source, destination, tag, size)}
            # The n-th send meets the n-th receive, so it is the last ones that nothing receives.
            sends = [index for index, kind in enumerate(rows.kind_of) if kind in alike][-count:]
            lines += [
                f"NPU {source}: {self._names(index, number)} to NPU {destination} with tag {tag} is received by none" for index in sends
            ]
        return lines

    def _sends(self, operation: Operation, source: int, destination: int, tag: int, size: int) -> bool:
        """Whether an operation of an NPU sends such a message to another."""
        if not isinstance(operation, Send) or (operation.tag, operation.bytes) != (tag, size):
            return False
        return peer_of(operation, source, self._npus) == destination

    def _point_to_point(self, unfinished: _Unfinished) -> list[str]:
        """The sends and receives that have begun."""
        lines = []
        for npu, index, begun in unfinished:
            operation = self._operation(npu, index)
            if begun and isinstance(operation, (Send, Receive)):
                peer, what = peer_of(operation, npu, self._npus), "message" if isinstance(operation, Receive) else "receive"
                lines.append(f"NPU {npu}: {self._name(npu, index)} waits for a {what} of NPU {peer} with tag {operation.tag}")
        return lines

    def _ranks(self) -> list[str]:
        """The ranks of phases that have begun. Messages that do not come explain the rest, so they go first."""
        lines: list[str] = []
        blocked_ranks = self._engine.record.blocked_ranks()
        for state in blocked_ranks:
            where = f"{self._name(state.npu, state.task)}, chunk {state.chunk}, phase {state.step + 1}"
            lines.extend(f"{line} ({where})" for line in describe_rank(state))
            if not state.program.actions:
                # A collective that takes a given time begins when all have come to it.
                here = {other.npu for other in blocked_ranks if other.members == state.members}
                missing = next((npu for npu in state.members if npu not in here), None)
                if missing is not None:
                    lines.append(f"NPU {state.npu} waits for NPU {missing} to come to the collective ({where})")
        return sorted(lines, key=lambda line: "waits for a message" not in line)

    def _not_begun(self, unfinished: _Unfinished) -> list[str]:
        """The operations that wait for others, or for those that hold their unit."""
        lines = []
        left = {(npu, index) for npu, index, _ in unfinished}
        holders = self._holders(unfinished)
        for npu, index, begun in unfinished:
            if not begun:
                operation = self._operation(npu, index)
                missing = [other for other in waits_of(operation) if (npu, other) in left]
                # If all that it depends on has ended, another operation holds its unit.
                missing = missing or holders[npu, unit_of(operation, self._inputs.system)]
                lines.append(f"NPU {npu}: {self._name(npu, index)} waits for " + ", ".join(self._name(npu, o) for o in missing[:3]))
        return lines

    def _holders(self, unfinished: _Unfinished) -> dict[tuple[int, int], list[int]]:
        """The operations that have begun and not ended, by NPU and unit: at most one for each unit."""
        holders: dict[tuple[int, int], list[int]] = defaultdict(list)
        for npu, index, begun in unfinished:
            if begun:
                holders[npu, unit_of(self._operation(npu, index), self._inputs.system)].append(index)
        return holders

    def _operation(self, npu: int, index: int) -> Operation:
        return self._programs[self._program_of[npu]].operations[index]

    def _name(self, npu: int, index: int) -> str:
        return self._names(index, self._program_of[npu])


def _shown(lines: Sequence[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = [f"and {len(lines) - _LINES_OF_A_DEADLOCK} more"] if len(lines) > _LINES_OF_A_DEADLOCK else []
    return [*lines[:_LINES_OF_A_DEADLOCK], *more]
