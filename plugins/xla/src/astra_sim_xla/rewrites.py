"""Rewrites of communication that XLA makes for GPUs after SPMD partitioning: reduce-scatters, and combined collectives.

The facts are those of XLA's source: `xla/service/collective_opt_utils.cc` (an all-reduce of which each device keeps its part is a
reduce-scatter), `xla/service/collective_combiner_utils.h` (collectives that do not depend on each other are one, up to a number of bytes
and of collectives) and `xla/service/collective_utils.h` (the default thresholds).
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping

import attrs

from astra_sim_xla.hlo_text import Computation, Instruction, Module, Shape
from astra_sim_xla.replica_groups import Groups, groups_of

COMBINE_BYTES = 30 * 1024 * 1024 + 7
"""XLA's default for `--xla_gpu_all_gather_combine_threshold_bytes` and its two siblings."""

MOST_COMBINED = 256
"""The collectives that one can consist of."""

_VIEWS = ("bitcast", "reshape", "copy")
_COMBINED = ("all-gather", "all-reduce", "reduce-scatter")


def rewritten(module: Module, thresholds: Mapping[str, int]) -> Module:
    """The module with reduce-scatters, and with collectives combined.

    `thresholds`: the bytes of results up to which those of an opcode are combined; 0: they are not.
    """
    called = {name: _combined(_with_reduce_scatters(one, module), module, thresholds) for name, one in module.computations.items()}
    return attrs.evolve(module, computations=called, entry=called[module.entry.name])


# -- Reduce-scatters


def _with_reduce_scatters(computation: Computation, module: Module) -> Computation:
    """The computation with a reduce-scatter for each all-reduce of which each device keeps its part."""
    users = _users(computation.instructions.values())
    replaced: dict[str, Instruction] = {}
    removed = set[str]()
    for instruction in computation.instructions.values():
        if instruction.opcode != "all-reduce" or len(instruction.operands) != 1 or computation.root is instruction:
            continue
        chain = _only_users(instruction, users)
        if chain and _keeps_its_part(instruction, chain[-1], computation, module):
            sliced = chain[-1]
            replaced[sliced.name] = attrs.evolve(
                instruction, name=sliced.name, shape=sliced.shape, opcode="reduce-scatter", literal="", line=instruction.line
            )
            removed |= {instruction.name, *(each.name for each in chain[:-1])}
    if not replaced:
        return computation
    rows = {name: replaced.get(name, instruction) for name, instruction in computation.instructions.items() if name not in removed}
    dropped = {operand for name in replaced for operand in computation.instructions[name].operands[1:]}
    return Computation(computation.name, _without_unused(rows, dropped, computation.root.name), rows[computation.root.name])


def _only_users(instruction: Instruction, users: Mapping[str, list[Instruction]]) -> list[Instruction]:
    """The only user of an all-reduce, a dynamic slice, with the reshape before it, if there is one; [] if it is used in another way."""
    chain: list[Instruction] = []
    current = instruction
    while len(users.get(current.name, ())) == 1:
        current = users[current.name][0]
        chain.append(current)
        if current.opcode == "dynamic-slice":
            return chain if current.operands[0] == (chain[-2] if len(chain) > 1 else instruction).name else []
        if current.opcode != "reshape" or len(chain) > 1:
            return []
    return []


def _keeps_its_part(reduction: Instruction, sliced: Instruction, computation: Computation, module: Module) -> bool:
    """Whether the n-th device of each group keeps the n-th part of what is reduced."""
    whole = computation.instructions[sliced.operands[0]].shape.sizes
    split = [axis for axis, (before, after) in enumerate(zip(whole, sliced.shape.sizes, strict=True)) if before != after]
    groups = groups_of(reduction, module.replicas, module.partitions)
    if len(split) != 1 or len(groups[0]) < 2 or any(len(group) * sliced.shape.sizes[split[0]] != whole[split[0]] for group in groups):
        return False
    offset, part = sliced.operands[1 + split[0]], sliced.shape.sizes[split[0]]
    return all(_integer(offset, computation, module, device) == place * part for group in groups for place, device in enumerate(group))


def _integer(name: str, computation: Computation, module: Module, device: int) -> int | None:
    """The integer that a scalar is on a device; None if it depends on more than the number of the device."""
    instruction = computation.instructions[name]
    opcode = instruction.opcode
    if opcode == "partition-id":
        return device % module.partitions
    if opcode == "replica-id":
        return device // module.partitions
    if opcode == "constant":
        numbers = _literal(instruction)
        return numbers[0] if numbers is not None and len(numbers) == 1 else None
    if opcode in (*_VIEWS, "convert"):
        return _integer(instruction.operands[0], computation, module, device)
    if opcode == "dynamic-slice" and len(instruction.operands) == 2:
        table, place = computation.instructions[instruction.operands[0]], _integer(instruction.operands[1], computation, module, device)
        if place is None or instruction.shape.elements != 1:
            return None
        numbers = list(range(table.shape.elements)) if table.opcode == "iota" else _literal(table)
        return numbers[max(0, min(place, len(numbers) - 1))] if numbers else None
    values = [_integer(each, computation, module, device) for each in instruction.operands] if opcode in _ARITHMETIC else [None]
    known = [value for value in values if value is not None]
    return _ARITHMETIC[opcode](*known) if len(known) == len(values) else None


def _divided(numerator: int, denominator: int) -> int | None:
    return numerator // denominator if denominator > 0 <= numerator else None


def _remainder(numerator: int, denominator: int) -> int | None:
    return numerator % denominator if denominator > 0 <= numerator else None


_ARITHMETIC: Mapping[str, Callable[..., int | None]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _divided,
    "remainder": _remainder,
    "clamp": lambda low, value, high: max(low, min(value, high)),
}


def _literal(instruction: Instruction) -> list[int] | None:
    """The integers of a constant; None if it has others, or its text leaves them out."""
    if instruction.opcode != "constant" or not re.fullmatch(r"[\s\d,{}\-]+", instruction.literal):
        return None
    return [int(number) for number in re.findall(r"-?\d+", instruction.literal)]


def _without_unused(rows: dict[str, Instruction], candidates: set[str], root: str) -> dict[str, Instruction]:
    """Instructions without those of the candidates, and of their operands, that nothing uses."""
    users = _users(rows.values())
    pending = [name for name in candidates if name in rows]
    while pending:
        name = pending.pop()
        if name in rows and name != root and not users.get(name) and rows[name].opcode != "parameter":
            instruction = rows.pop(name)
            for operand in set(instruction.operands):
                users[operand] = [each for each in users[operand] if each is not instruction]
                pending.append(operand)
    return rows


# -- Combined collectives


def _combined(computation: Computation, module: Module, thresholds: Mapping[str, int]) -> Computation:
    """The computation with collectives combined, of one opcode after the other, as XLA does."""
    for opcode in _COMBINED:
        if thresholds.get(opcode, 0) > 0:
            computation = _combined_of(opcode, computation, module, thresholds[opcode])
    return computation


def _combined_of(opcode: str, computation: Computation, module: Module, threshold: int) -> Computation:
    """The computation with collectives of an opcode combined, in the order in which they are written."""
    waiting: dict[object, list[Instruction]] = {}
    for instruction in computation.instructions.values():
        if instruction.opcode == opcode and len(instruction.operands) == 1 and instruction.shape.bytes <= threshold:
            waiting.setdefault(_key(instruction, module), []).append(instruction)
    for alike in waiting.values():
        while len(alike) > 1:
            chosen, alike = _first_set(alike, computation, threshold)
            if len(chosen) > 1:
                computation = _merged(chosen, computation)
    return computation


def _key(instruction: Instruction, module: Module) -> tuple[object, ...]:
    """What collectives must have in common: their groups, and of a reduction its operation and the type of its elements."""
    reduction = instruction.attribute("to_apply")
    operation = module.computation(reduction.lstrip("%"), instruction).root.opcode if reduction else ""
    groups: Groups = groups_of(instruction, module.replicas, module.partitions)
    is_global = instruction.attribute("use_global_device_ids")
    element_type = instruction.shape.element_type if reduction else ""  # bytes of any type can be gathered
    return groups, element_type, operation, instruction.attribute("channel_id") is not None, is_global


def _first_set(alike: list[Instruction], computation: Computation, threshold: int) -> tuple[list[Instruction], list[Instruction]]:
    """The first collectives that become one, and those that are left: it ends at one that is too much, or depends on one of them."""
    chosen: list[Instruction] = []
    total, dependent = 0, set[str]()
    first = 0
    for number, instruction in enumerate(alike):
        size = instruction.shape.bytes
        if chosen:
            dependent = _dependents(chosen, computation)
        if total + size > threshold or len(chosen) == MOST_COMBINED or instruction.name in dependent:
            break
        chosen.append(instruction)
        total, first = total + size, number + 1
    return chosen, alike[first:]


def _dependents(roots: Iterable[Instruction], computation: Computation) -> set[str]:
    """The names of all that depends on some instructions."""
    reached = {each.name for each in roots}
    for instruction in computation.instructions.values():
        if not reached.isdisjoint(instruction.operands):
            reached.add(instruction.name)
    return reached


def _merged(parts: list[Instruction], computation: Computation) -> Computation:
    """The computation with one collective for some, whose results are its elements."""
    first = parts[0]
    name = f"{first.name}.combined"
    shape = Shape(parts=tuple(each.shape for each in parts))
    one = attrs.evolve(first, name=name, shape=shape, operands=tuple(each.operands[0] for each in parts), literal="")
    elements = {
        each.name: Instruction(each.name, each.shape, "get-tuple-element", (name,), "", f"index={number}", each.line)
        for number, each in enumerate(parts)
    }
    last = parts[-1].name
    rows: dict[str, Instruction] = {}
    for instruction in computation.instructions.values():
        if instruction.name == last:
            rows[name] = one
        rows[instruction.name] = elements.get(instruction.name, instruction)
    return Computation(computation.name, _in_order(rows), rows[computation.root.name])


def _in_order(rows: dict[str, Instruction]) -> dict[str, Instruction]:
    """Instructions behind their operands, otherwise in the order given."""
    place = {name: number for number, name in enumerate(rows)}
    missing = {name: len(set(each.operands)) for name, each in rows.items()}
    users = _users(rows.values())
    ready = [place[name] for name, count in missing.items() if not count]
    heapq.heapify(ready)
    names, result = list(rows), dict[str, Instruction]()
    while ready:
        name = names[heapq.heappop(ready)]
        result[name] = rows[name]
        for user in users.get(name, ()):
            missing[user.name] -= 1
            if not missing[user.name]:
                heapq.heappush(ready, place[user.name])
    return result


def _users(instructions: Iterable[Instruction]) -> dict[str, list[Instruction]]:
    """The users of each instruction, each once, in order."""
    result: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        for name in dict.fromkeys(instruction.operands):
            result.setdefault(name, []).append(instruction)
    return result
