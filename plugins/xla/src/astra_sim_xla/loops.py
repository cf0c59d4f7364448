"""The number of iterations of a loop of XLA: from the optimiser's note, or from its counter, step and bound."""

from __future__ import annotations

import re

from astra_sim_xla.hlo_text import Computation, Instruction, Module

_THROUGH = ("copy", "bitcast", "convert", "reshape", "opt-barrier")


def trip_count(loop: Instruction, caller: Computation, module: Module) -> int | None:
    """The iterations of a loop; None if they depend on data."""
    noted = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.attributes)
    if noted:
        return int(noted[1])
    condition = module.computation(loop.callee("condition"), loop)
    body = module.computation(loop.callee("body"), loop)
    compare = condition.root
    if compare.opcode != "compare" or compare.attribute("direction") != "LT":
        return None
    index = _element(condition, compare.operands[0])
    bound = _constant(condition, compare.operands[1])
    initial = caller.instructions[loop.operands[0]]
    if bound is None:
        place = _element(condition, compare.operands[1])
        is_passed_on = place is not None and body.root.opcode == "tuple" and _element(body, body.root.operands[place]) == place
        bound = _constant(caller, initial.operands[place]) if is_passed_on and initial.opcode == "tuple" and place is not None else None
    if index is None or bound is None or initial.opcode != "tuple" or body.root.opcode != "tuple":
        return None
    start, step = _constant(caller, initial.operands[index]), _step(body, index)
    return max(0, -(-(bound - start) // step)) if start is not None and step else None


def _step(body: Computation, index: int) -> int | None:
    add = _source(body, body.root.operands[index])
    if add.opcode != "add":
        return None
    for counter, step in (add.operands, add.operands[::-1]):
        value = _constant(body, step)
        if _element(body, counter) == index and value is not None and value > 0:
            return value
    return None


def _source(computation: Computation, name: str) -> Instruction:
    instruction = computation.instructions[name]
    while instruction.opcode in _THROUGH:
        instruction = computation.instructions[instruction.operands[0]]
    return instruction


def _element(computation: Computation, name: str) -> int | None:
    """Which element of the loop's state a value is."""
    source = _source(computation, name)
    is_state = source.opcode == "get-tuple-element" and computation.instructions[source.operands[0]].opcode == "parameter"
    return int(source.attribute("index") or 0) if is_state else None


def _constant(computation: Computation, name: str) -> int | None:
    source = _source(computation, name)
    return int(source.literal) if source.opcode == "constant" and re.fullmatch(r"-?\d+", source.literal) else None
