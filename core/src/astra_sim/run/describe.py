"""Operations and ranks in words, for messages."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim.engine.interface import RankState
from astra_sim.graph import Communicate, Composite, ExecutionGraph, MemoryAccess, NpuProgram, Receive, Send, Wait


class OperationNames:
    """Names the operations of a run's programs."""

    def __init__(self, graph: ExecutionGraph, programs: Sequence[NpuProgram]) -> None:
        self._layers = graph.layers
        self._programs = programs

    def __call__(self, index: int, program: int) -> str:
        """An operation of a program, by their numbers."""
        operation = self._programs[program].operations[index]
        layer = self._layers[operation.layer] if 0 <= operation.layer < len(self._layers) else None
        where = f" of layer {layer}" if layer else ""
        if isinstance(operation, MemoryAccess):
            memory = " of remote memory" if operation.remote else ""
            return f"operation {index} ({'write' if operation.write else 'read'} of {operation.bytes} bytes{memory}{where})"
        if isinstance(operation, (Send, Receive)):
            return f"operation {index} ({type(operation).__name__.lower()} of {operation.bytes} bytes{where}{_quoted(operation.name)})"
        what = type(operation).__name__.lower()
        if isinstance(operation, Composite):
            return f"operation {index} ({what} of {len(operation.operations)} operations{_quoted(operation.name)})"
        if isinstance(operation, Communicate):
            algorithm = f" by {operation.algorithm}" if operation.algorithm else ""
            what = f"{operation.collective} of {operation.bytes} bytes{algorithm}"
        if not isinstance(operation, Wait) and operation.name:
            return f"operation {index} ({what}{_quoted(operation.name)})"
        return f"operation {index} ({what}{where}, {operation.training_pass}, iteration {operation.iteration})"


def describe_rank(state: RankState) -> list[str]:
    """Describe the wait of a rank that has not finished in a phase."""
    program, ranks = state.program, len(state.members)
    if state.tokens >= program.tokens and state.next_action == len(program.actions):
        return []
    lines, posted = [], set(state.posted)
    for action in program.actions[: state.next_action]:
        if action.receive_from is not None and action.own_receipt in posted:
            sender = state.members[action.receive_from.of(state.rank, ranks)]
            lines.append(f"NPU {state.npu} waits for a message of {action.bytes} bytes from NPU {sender}")
    if state.next_action < len(program.actions):
        action = program.actions[state.next_action]
        lines.append(
            f"NPU {state.npu} has {state.tokens} tokens and {state.arrivals} messages, and waits for {action.after} tokens"
            f" and {action.after_arrivals} messages before its step {state.next_action + 1} of {len(program.actions)}"
        )
    return lines


def _quoted(name: str) -> str:
    return f", {name!r}" if name else ""
