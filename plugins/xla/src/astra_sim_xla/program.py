"""The operations that a device does for a module: its kernels in order, its communication, and their dependencies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import attrs
from astra_sim import InputError
from astra_sim.graph import Communicate, Compute, Operation, Pass, Receive, Send, Wait
from astra_sim.schedule import Collective, Peer

from astra_sim_xla.costs import FIRE_AND_FORGET, FUSIBLE, Cost, Costs
from astra_sim_xla.hlo_text import Computation, Instruction, Module, base_opcode, is_communication
from astra_sim_xla.loops import trip_count

_COLLECTIVES = {
    "all-reduce": Collective.ALL_REDUCE,
    "all-gather": Collective.ALL_GATHER,
    "reduce-scatter": Collective.REDUCE_SCATTER,
    "all-to-all": Collective.ALL_TO_ALL,
    "ragged-all-to-all": Collective.ALL_TO_ALL,
    "collective-broadcast": Collective.ALL_GATHER,
}
MAX_OPERATIONS = 2_000_000


@attrs.frozen
class HloGroup:
    """The scope of a device's collective: dimensions of the platform, or the NPUs of a group."""

    dimensions: tuple[int, ...] = ()
    members: tuple[int, ...] | None = None


@attrs.frozen
class Peers:
    """The device that a device sends to, and the one it receives from, or None."""

    target: Peer | None = None
    source: Peer | None = None


Role = HloGroup | Peers | None


@attrs.frozen
class HloValue:
    """The dependencies of a value: the last kernel it depends on, and communication under way; a tuple has its `parts`."""

    kernel: int = -1
    pending: frozenset[int] = frozenset()
    parts: tuple[HloValue, ...] | None = None

    def element(self, index: int) -> HloValue:
        """An element of a tuple."""
        return self.parts[index] if self.parts is not None and index < len(self.parts) else self

    @property
    def flat(self) -> HloValue:
        """The tuple as one value."""
        return self if self.parts is None else merged(part.flat for part in self.parts)


def merged(values: Iterable[HloValue]) -> HloValue:
    """A value that waits for all that these wait for."""
    flat = [value.flat for value in values]
    return HloValue(max((value.kernel for value in flat), default=-1), frozenset().union(*(value.pending for value in flat)))


@attrs.frozen(kw_only=True)
class HloRules:
    """The facts that a module does not contain: see `HloOptions`."""

    overlap: bool
    fuse: bool
    branch: str
    trip_count: int | None


class HloLayers:
    """Layers by the path of the module of the user, in the order in which they are first met."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def of(self, instruction: Instruction) -> tuple[int, Pass]:
        """The layer of an instruction, and the pass: JAX names instructions of the backward pass `transpose(...)`."""
        path = instruction.op_name
        scopes = path.split("/")[:-1] or ["program"]
        layer = self.names.setdefault("/".join(scopes), len(self.names))
        return layer, Pass.INPUT_GRADIENT if "transpose(" in path else Pass.FORWARD


class DeviceProgram:
    """Writes the operations of a device. `role` is its part in a collective or message, `duration` the time of a kernel (ps)."""

    def __init__(
        self,
        module: Module,
        costs: Costs,
        rules: HloRules,
        layers: HloLayers,
        role: Callable[[Instruction], Role],
        duration: Callable[[Cost, Instruction], int],
    ) -> None:
        self.operations: list[Operation] = []
        self.flops = 0
        self.bytes = 0
        self.communicated: dict[str, int] = {}
        self._module, self._costs, self._rules, self._layers, self._role, self._duration = module, costs, rules, layers, role, duration
        self._control = -1
        self._waited: set[int] = set()
        self._fused: dict[str, frozenset[str]] = {}
        self._chains: dict[str, frozenset[int]] = {}

    def write(self, iteration: int) -> None:
        """Write one run of the entry computation, which begins when earlier operations have ended."""
        self._iteration = iteration
        start = HloValue(self._control)
        result = self._computation(self._module.entry, [start] * len(self._module.entry.parameters))
        self._wait(result.flat.pending, self._module.entry.root)

    def _computation(self, computation: Computation, arguments: list[HloValue]) -> HloValue:
        values: dict[str, HloValue] = {}
        carried: dict[str, Cost] = {}
        fused = self._fused_in(computation)
        for instruction in computation.instructions.values():
            operands = [values[name] for name in instruction.operands]
            values[instruction.name] = self._instruction(instruction, computation, operands, arguments, carried, fused)
        return values[computation.root.name]

    def _instruction(
        self,
        instruction: Instruction,
        computation: Computation,
        operands: list[HloValue],
        arguments: list[HloValue],
        carried: dict[str, Cost],
        fused: frozenset[str],
    ) -> HloValue:
        """Write an instruction. Returns the dependencies of its users."""
        opcode = instruction.opcode
        if opcode == "parameter":
            return arguments[int(instruction.literal)]
        if opcode == "tuple":
            return HloValue(parts=tuple(operands))
        if opcode == "get-tuple-element":
            return operands[0].element(int(instruction.attribute("index") or 0))
        if opcode == "while":
            return self._while(instruction, computation, operands[0])
        if opcode == "call":
            return self._computation(self._module.computation(instruction.callee("to_apply"), instruction), operands)
        if opcode == "conditional":
            return self._conditional(instruction, operands)
        if opcode in ("async-start", "async-update", "async-done"):
            return self._wrapped(instruction, operands)
        if opcode.endswith("-done"):
            if self._rules.overlap or opcode == "copy-done":
                return merged(operands)
            self._wait(merged(operands).pending, instruction)
            return HloValue(self._control)
        if is_communication(opcode):
            return self._communicate(instruction, computation, merged(operands))
        if opcode in FIRE_AND_FORGET or opcode == "copy-start":
            inherited = [carried.pop(name) for name in instruction.operands if name in carried]
            if inherited:
                carried[instruction.name] = _sum(inherited)
            return operands[0] if opcode in ("opt-barrier", "optimization-barrier") else merged(operands)
        if opcode == "fusion" and (inner := self._communication_in(instruction)) is not None:
            return self._fused_communication(instruction, inner, computation, operands)
        return self._kernel(instruction, computation, operands, carried, fused)

    def _communication_in(self, fusion: Instruction) -> Instruction | None:
        """The collective that a fusion consists of or runs beside, as those of TPUs do; None if there is none."""
        called = self._module.computation(fusion.callee("calls"), fusion)
        return next((each for each in called.instructions.values() if is_communication(each.opcode)), None)

    def _fused_communication(
        self, fusion: Instruction, collective: Instruction, computation: Computation, operands: list[HloValue]
    ) -> HloValue:
        """Write a fusion with a collective: one of those that begin, run beside and end it (a chain), or the collective itself."""
        inner = self._module.computation(fusion.callee("calls"), fusion)
        operand, chain = merged(operands), re.search(r'chain_id="(\d+)"', collective.attributes)
        target = inner.root.attribute("custom_call_target") or ""
        if chain is None:
            whole = self._kernel(fusion, computation, operands, {}, frozenset()) if self._costs.flops(fusion, computation) else operand
            slices = _is_sliced(collective, inner)
            return self._communicate(collective, inner, whole, "reduce-scatter" if slices else collective.opcode)
        if "AsyncCollectiveStart" in target:
            begun = self._communicate(collective, inner, operand, f"{collective.opcode}-start")
            self._chains[chain[1]] = begun.pending - operand.pending
            return HloValue(begun.kernel, operand.pending)
        if "AsyncCollectiveDone" not in target:
            return self._kernel(fusion, computation, operands, {}, frozenset())
        pending = self._chains.pop(chain[1], frozenset())
        if self._rules.overlap:
            return HloValue(operand.kernel, operand.pending | pending)
        self._wait(operand.pending | pending, collective)
        return HloValue(self._control)

    def _kernel(
        self, instruction: Instruction, computation: Computation, operands: list[HloValue], carried: dict[str, Cost], fused: frozenset[str]
    ) -> HloValue:
        """Write a kernel, with the element-wise instructions that are fused into it."""
        cost = self._costs.of(instruction, computation)
        inherited = [carried.pop(name) for name in instruction.operands if name in carried]
        inside = [computation.instructions[name].shape.bytes for name in instruction.operands if name in fused]
        if inside:
            cost = attrs.evolve(cost, read_bytes=max(0, cost.read_bytes - sum(inside)))
        if inherited:
            cost = cost.plus(_sum(inherited))
        if instruction.name in fused:
            carried[instruction.name] = attrs.evolve(cost, write_bytes=0)
            return merged(operands)
        scalars = instruction.shape.parts is None and not instruction.shape.sizes and cost.read_bytes <= 64
        if scalars:  # counters of loops and flags, which run beside a kernel or on the host
            self.flops += cost.flops
            return merged(operands)
        self._wait(merged(operands).pending, instruction)
        layer, training_pass = self._layers.of(instruction)
        self.flops += cost.flops
        self.bytes += cost.read_bytes + cost.write_bytes
        duration = self._duration(cost, instruction)
        name = f"{instruction.name} {self._module.source(instruction)}".rstrip()
        self._control = self._add(Compute(self._after(), duration, layer, training_pass, self._iteration, name=name))
        return HloValue(self._control)

    def _communicate(self, instruction: Instruction, computation: Computation, operand: HloValue, written: str = "") -> HloValue:
        """Write the collective or message of an instruction. Returns the dependencies of its users.

        `written`: the opcode, if it is not the one of the text.
        """
        written = written or instruction.opcode
        role, opcode = self._role(instruction), base_opcode(written)
        if role is None or (isinstance(role, HloGroup) and role.members is not None and len(role.members) == 1):
            return operand
        layer, training_pass = self._layers.of(instruction)
        is_async = self._rules.overlap or written.endswith("-start") or opcode in ("send", "recv")
        if not is_async:
            self._wait(operand.pending, instruction)
        after = tuple(sorted({operand.kernel if self._rules.overlap else self._control, *(operand.pending - self._waited)} - {-1}))
        size = sum(computation.instructions[name].shape.bytes for name in instruction.operands)
        if opcode == "recv" and instruction.shape.parts:  # its operand is a token, its result the data, a context and a token
            size = instruction.shape.parts[0].bytes
        if isinstance(role, Peers):
            numbers = self._messages(instruction, role, after, size, layer)
        elif not size:
            return operand
        else:
            self.communicated[opcode] = self.communicated.get(opcode, 0) + size
            numbers = [
                self._add(
                    Communicate(
                        after,
                        _COLLECTIVES[opcode],
                        size,
                        role.dimensions,
                        layer,
                        training_pass,
                        self._iteration,
                        blocking=not is_async,
                        group=role.members,
                        name=instruction.name,
                    )
                )
            ]
        if is_async:
            return HloValue(operand.kernel, operand.pending | frozenset(numbers))
        if isinstance(role, Peers):
            self._wait(frozenset(numbers), instruction)
        else:
            self._control = numbers[0]
        return HloValue(self._control)

    def _messages(self, instruction: Instruction, role: Peers, after: tuple[int, ...], size: int, layer: int) -> list[int]:
        opcode, numbers = base_opcode(instruction.opcode), []
        tag = int(instruction.attribute("channel_id") or 0)
        if role.target is not None and opcode != "recv":
            self.communicated[opcode] = self.communicated.get(opcode, 0) + size
            numbers.append(self._add(Send(after, role.target, size, tag, layer, instruction.name)))
        if role.source is not None and opcode != "send":
            numbers.append(self._add(Receive(after, role.source, size, tag, layer, instruction.name)))
        return numbers

    def _while(self, instruction: Instruction, computation: Computation, state: HloValue) -> HloValue:
        """Write a loop as often as it runs."""
        count = trip_count(instruction, computation, self._module)
        if count is None:
            count = self._rules.trip_count
        if count is None:
            raise InputError(
                f"line {instruction.line}: the iterations of loop {instruction.name} depend on data; give trip_count, which is used for it"
            )
        body = self._module.computation(instruction.callee("body"), instruction)
        for _ in range(count):
            state = self._computation(body, [state])
        return state

    def _conditional(self, instruction: Instruction, operands: list[HloValue]) -> HloValue:
        names = instruction.callees("branch_computations")
        names = names or [instruction.callee("true_computation"), instruction.callee("false_computation")]
        branches = [self._module.computation(name, instruction) for name in names]
        weights = [self._weight(branch) for branch in branches]
        chosen = {"first": 0, "costliest": weights.index(max(weights)), "cheapest": weights.index(min(weights))}[self._rules.branch]
        self._wait(operands[0].flat.pending, instruction)
        return self._computation(branches[chosen], [operands[1 + chosen]])

    def _weight(self, computation: Computation) -> tuple[int, int]:
        rows = computation.instructions.values()
        nested = [self._module.computation(each.callee("body"), each) for each in rows if each.opcode == "while"]
        inner = [self._weight(each) for each in nested]
        flops = sum(self._costs.flops(each, computation) for each in rows)
        return flops + sum(each[0] for each in inner), sum(each.shape.bytes for each in rows if each.opcode not in FIRE_AND_FORGET)

    def _wrapped(self, instruction: Instruction, operands: list[HloValue]) -> HloValue:
        """An async pair around a computation, which runs at its start; its communication is waited for at its end."""
        if instruction.opcode != "async-start":
            return merged(operands)
        inner = self._module.computation(instruction.callee("calls"), instruction)
        rules = self._rules
        self._rules = attrs.evolve(rules, overlap=True)
        try:
            return self._computation(inner, operands)
        finally:
            self._rules = rules

    def _wait(self, pending: frozenset[int], instruction: Instruction) -> None:
        waited = tuple(sorted(pending - self._waited))
        if waited:
            layer, training_pass = self._layers.of(instruction)
            self._control = self._add(Wait(self._after(), waited, layer, training_pass, self._iteration))
            self._waited.update(waited)

    def _after(self) -> tuple[int, ...]:
        return (self._control,) if self._control >= 0 else ()

    def _add(self, operation: Operation) -> int:
        if len(self.operations) >= MAX_OPERATIONS:
            raise InputError(f"the module does more than {MAX_OPERATIONS:,} operations with its loops unrolled; capture fewer iterations")
        self.operations.append(operation)
        return len(self.operations) - 1

    def _fused_in(self, computation: Computation) -> frozenset[str]:
        """Instructions whose result stays on chip: with one user, which is element-wise or a reduction, perhaps behind a reshape."""
        if not self._rules.fuse:
            return frozenset()
        if computation.name not in self._fused:
            users: dict[str, list[Instruction]] = {}
            for each in computation.instructions.values():
                for name in each.operands:
                    users.setdefault(name, []).append(each)
            self._fused[computation.name] = frozenset(
                name
                for name, each in computation.instructions.items()
                if each.opcode in FUSIBLE and len(users.get(name, ())) == 1 and users[name][0].opcode in (*FUSIBLE, "reduce")
            )
        return self._fused[computation.name]


def _is_sliced(collective: Instruction, computation: Computation) -> bool:
    """Whether of an all-reduce only a slice of each result is used."""
    names, users = {collective.name}, list[Instruction]()
    for each in computation.instructions.values():
        if not names.isdisjoint(each.operands):
            if each.opcode == "get-tuple-element":
                names.add(each.name)
            else:
                users.append(each)
    return collective.opcode == "all-reduce" and bool(users) and all(each.opcode == "dynamic-slice" for each in users)


def _sum(costs: list[Cost]) -> Cost:
    total = costs[0]
    for cost in costs[1:]:
        total = total.plus(cost)
    return total
