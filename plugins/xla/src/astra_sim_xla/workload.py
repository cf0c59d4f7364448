"""The workload `hlo`: a partitioned module of XLA on all NPUs of a platform."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.compute import MissingWork, Work
from astra_sim.context import Context
from astra_sim.errors import located
from astra_sim.files import read_packed_text
from astra_sim.graph import ExecutionGraph, Figure, NpuProgram, ProgramTimes
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Peer

from astra_sim_xla.costs import Cost, Costs
from astra_sim_xla.hlo_text import MESSAGES, Instruction, Module, base_opcode, is_communication, parse_module
from astra_sim_xla.program import DeviceProgram, HloGroup, HloLayers, HloRules, Peers, Role
from astra_sim_xla.replica_groups import groups_of, pairs_of
from astra_sim_xla.rewrites import COMBINE_BYTES, rewritten


@attrs.frozen
class HloOptions:
    """Options of a program of XLA."""

    path: str = option(help="HLO text after SPMD partitioning, or of an optimised module", path="path")
    overlap: str = option(
        "as_written",
        choices=("as_written", "dataflow"),
        help="when computing waits for collectives: as the module is written (only pairs of start and done overlap), or at their first use",
    )
    fuse: str = option(
        "auto",
        choices=("auto", "yes", "no"),
        help="element-wise instructions are fused with their only user; auto: where the module has no fusion yet",
    )
    branch: str = option("costliest", choices=("costliest", "cheapest", "first"), help="branch of conditionals that runs")
    rewrites: str = option(
        "none",
        choices=("none", "gpu"),
        help="gpu: reduce-scatters and combined collectives as XLA makes them for GPUs; for modules after SPMD partitioning",
    )
    all_gather_combine_threshold_bytes: int = option(
        COMBINE_BYTES, minimum=0, help="with rewrites=gpu: bytes of results up to which all-gathers are one; 0: none are"
    )
    all_reduce_combine_threshold_bytes: int = option(COMBINE_BYTES, minimum=0, help="the same for all-reduces")
    reduce_scatter_combine_threshold_bytes: int = option(COMBINE_BYTES, minimum=0, help="the same for reduce-scatters")
    trip_count: int | None = option(None, minimum=0, help="iterations of loops that depend on data; none: an error names the loop")


def recognises(text: str) -> bool:
    """Whether a text is HLO."""
    return text.lstrip().startswith("HloModule ")


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The workload of a file of HLO text."""
    try:
        parse_module(text)
    except InputError as error:
        raise located(error, path) from None
    return {"workload": {"plugin": "hlo", "path": os.path.abspath(path)}}


def hlo(options: HloOptions, context: Context) -> ExecutionGraph:
    """The graph of a module. Raises InputError that names file and line."""
    try:
        module = parse_module(read_packed_text(options.path))
        return _graph(_rewritten(module, options), options, context)
    except InputError as error:
        raise located(error, options.path) from None


def _rewritten(module: Module, options: HloOptions) -> Module:
    """The module with the rewrites that are asked for. Raises InputError if XLA has made its own."""
    if options.rewrites == "none":
        return module
    if module.is_scheduled:
        raise InputError(
            "line 1: the module is scheduled, so XLA has made its rewrites; expected one after SPMD partitioning, or rewrites=none"
        )
    return rewritten(
        module,
        {
            "all-gather": options.all_gather_combine_threshold_bytes,
            "all-reduce": options.all_reduce_combine_threshold_bytes,
            "reduce-scatter": options.reduce_scatter_combine_threshold_bytes,
        },
    )


def _graph(module: Module, options: HloOptions, context: Context) -> ExecutionGraph:
    """The graph of a module on the platform. Raises InputError if their sizes differ."""
    npus = context.platform.npus
    if module.devices != npus:
        raise InputError(f"the module is partitioned for {module.devices} devices, the platform has {npus} NPUs; expected as many")
    has_fusions = any(each.opcode == "fusion" for one in module.computations.values() for each in one.instructions.values())
    rules = HloRules(
        overlap=options.overlap == "dataflow",
        fuse=options.fuse == "yes" or (options.fuse == "auto" and not has_fusions),
        branch=options.branch,
        trip_count=options.trip_count,
    )
    dimensions = context.platform.logical_dimensions()
    roles = _roles(module, dimensions)
    classes: dict[tuple[Role, ...], list[int]] = {}
    for npu in range(npus):
        classes.setdefault(tuple(one[npu] for one in roles.values()), []).append(npu)
    layers, costs, duration = HloLayers(), Costs(module), _HloDurations(context)
    programs: list[tuple[DeviceProgram, list[int]]] = []
    for members in classes.values():
        program = DeviceProgram(module, costs, rules, layers, _role_of(roles, members[0]), duration)
        for iteration in range(context.run.passes):
            program.write(iteration)
        programs.append((program, members))
    first, *others = programs
    return ExecutionGraph(
        tuple(first[0].operations),
        dimensions,
        tuple(layers.names),
        others=tuple(NpuProgram(tuple(program.operations), members) for program, members in others),
        figures=_HloFigures(first[0], context.run.passes),
    )


def _role_of(roles: Mapping[Instruction, Sequence[Role]], npu: int) -> Callable[[Instruction], Role]:
    return lambda instruction: roles[instruction][npu]


def _roles(module: Module, dimensions: tuple[LogicalDimension, ...]) -> dict[Instruction, list[Role]]:
    """The bytes of each NPU in each collective and message."""
    result: dict[Instruction, list[Role]] = {}
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            if is_communication(instruction.opcode):
                messages = base_opcode(instruction.opcode) in MESSAGES
                result[instruction] = (_peers if messages else _groups)(instruction, module, dimensions)
    return result


def _groups(instruction: Instruction, module: Module, dimensions: tuple[LogicalDimension, ...]) -> list[Role]:
    groups = groups_of(instruction, module.replicas, module.partitions)
    spanned = _spanned(groups, dimensions)
    roles: list[Role] = [None] * module.devices
    for group in groups:
        for npu in group:
            roles[npu] = HloGroup(spanned) if spanned else HloGroup(members=group)
    return roles


def _spanned(groups: Sequence[Sequence[int]], dimensions: tuple[LogicalDimension, ...]) -> tuple[int, ...]:
    """The dimensions in which the members of each group differ, if a group are all NPUs that differ in these alone; else ()."""
    first = groups[0]
    spanned = tuple(n for n, one in enumerate(dimensions) if len({one.index(npu) for npu in first}) > 1)

    def place(npu: int) -> tuple[int, ...]:
        return tuple(one.index(npu) for n, one in enumerate(dimensions) if n not in spanned)

    size = 1
    for n in spanned:
        size *= dimensions[n].size
    alike = all(len(group) == size and len(set(map(place, group))) == 1 and sorted(group) == list(group) for group in groups)
    return spanned if alike else ()


def _peers(instruction: Instruction, module: Module, dimensions: tuple[LogicalDimension, ...]) -> list[Role]:
    pairs = pairs_of(instruction, module.replicas, module.partitions)
    npus = module.devices
    shifts = {(target - source) % npus for source, target in pairs}
    if len(shifts) == 1 and len(pairs) == npus:
        shift = Peer("shift", shifts.pop())
        return [Peers(shift, shift.inverse().normal(npus)) if shift.value else None] * npus
    targets = {source: Peer("rank", target) for source, target in pairs if source != target}
    sources = {target: Peer("rank", source) for source, target in pairs if source != target}
    return [Peers(targets.get(npu), sources.get(npu)) if npu in targets or npu in sources else None for npu in range(npus)]


class _HloDurations:
    """The times of kernels from the compute model, in picoseconds; each is computed once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[Cost, int] = {}

    def __call__(self, cost: Cost, instruction: Instruction) -> int:
        if cost not in self._known:
            work = Work(operations=cost.flops, bytes=cost.read_bytes + cost.write_bytes, shape=cost.shape)
            if not work.operations and not work.bytes:
                return 0
            try:
                nanoseconds = self._context.compute.duration_ns(work)
            except MissingWork as error:
                raise InputError(f"line {instruction.line}: {instruction.opcode} {instruction.name}: {error}") from None
            self._known[cost] = self._context.scaled_ps(nanoseconds)
        return self._known[cost]


class _HloFigures:
    """The compute and communication of a device in one pass."""

    def __init__(self, program: DeviceProgram, passes: int) -> None:
        self._program, self._passes = program, max(1, passes)

    def __call__(self, times: Sequence[ProgramTimes], finish_ps: int) -> Mapping[str, Any]:
        bytes_of = {name: size // self._passes for name, size in sorted(self._program.communicated.items())}
        return {
            "flops": Figure(self._program.flops // self._passes, "operations of NPU 0 a pass", note="a multiply-add is two"),
            "kernel_bytes": Figure(self._program.bytes // self._passes, "memory traffic of NPU 0 a pass", "bytes"),
            "collective_input_bytes": bytes_of,
        }
