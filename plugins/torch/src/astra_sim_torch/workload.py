"""The workload `torch_capture`: a step of a script on all NPUs of a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.compute import MissingWork, Work
from astra_sim.context import Context
from astra_sim.graph import ExecutionGraph, Figure, NpuProgram, ProgramTimes
from astra_sim.shapes import Attention, Gemm

from astra_sim_torch.capture_file import load_captures
from astra_sim_torch.program import TorchLayers, TorchRankProgram
from astra_sim_torch.ranks import TorchRanks


@attrs.frozen
class CaptureOptions:
    """Options of a captured step."""

    path: str = option(help="folder that astra capture torch has written, or the file of one rank, which then represents all", path="path")


def torch_capture(options: CaptureOptions, context: Context) -> ExecutionGraph:
    """The graph of a capture. Raises InputError that names the file and the error."""
    captures = load_captures(options.path)
    world, npus = captures[0].world, context.platform.npus
    if world != npus:
        raise InputError(f"{options.path}: captured for {world} ranks, the platform has {npus} NPUs; expected as many")
    ranks, layers, duration = TorchRanks(captures, context.platform), TorchLayers(), _TorchDurations(context)
    programs: list[tuple[TorchRankProgram, list[int]]] = []
    for capture, stands_for in ranks.classes():
        program = TorchRankProgram(capture, layers, lambda name, c=capture, s=stands_for: ranks.members(c, name, s), duration)  # type: ignore[misc]
        for iteration in range(context.run.passes):
            program.write(iteration)
        programs.append((program, stands_for))
    first, *others = sorted(programs, key=lambda each: each[1][0])
    return ExecutionGraph(
        tuple(first[0].operations),
        tuple(ranks.dimensions) or context.platform.logical_dimensions(),
        tuple(layers.names),
        footprint_bytes=max((sum(capture.peak_bytes.values()) for capture in captures), default=0) or None,
        others=tuple(NpuProgram(tuple(program.operations), members) for program, members in others),
        figures=_TorchFigures(first[0], captures[0].peak_bytes, context.run.passes),
    )


class _TorchDurations:
    """The times of kernels from the compute model, in picoseconds; each is computed once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[tuple[Any, ...], int] = {}

    def __call__(self, event: Mapping[str, Any]) -> int:
        shape = _shape(event)
        work = Work(operations=event["flops"], bytes=event["read"] + event["write"]) if shape is None else Work(shape=shape)
        key = shape, work.operations, work.bytes
        if key not in self._known:
            try:
                nanoseconds = self._context.compute.duration_ns(work)
            except MissingWork as error:
                raise InputError(f"kernel {event.get('op')} of {event.get('line') or 'the script'}: {error}") from None
            self._known[key] = self._context.scaled_ps(nanoseconds)
        return self._known[key]


def _shape(event: Mapping[str, Any]) -> Gemm | Attention | None:
    """The shape of a product or of attention."""
    kind = event.get("type")
    if "gemm" in event:
        m, n, k, batch = event["gemm"]
        return Gemm(m=m, n=n, k=k, batch=batch, element_type=kind)
    if "attention" in event:
        heads, queries, keys, head_size, value_size, key_heads = event["attention"]
        return Attention(
            heads=heads,
            query_length=queries,
            key_length=keys,
            head_size=head_size,
            value_size=value_size,
            key_heads=key_heads,
            causal=bool(event.get("causal")),
            backward=bool(event.get("backward")),
            element_type=kind,
        )
    return None


class _TorchFigures:
    """The compute and communication of a rank in one step."""

    def __init__(self, program: TorchRankProgram, peak_bytes: Mapping[str, int], passes: int) -> None:
        self._program, self._peak_bytes, self._passes = program, peak_bytes, max(1, passes)

    def __call__(self, times: Sequence[ProgramTimes], finish_ps: int) -> Mapping[str, Any]:
        program, passes = self._program, self._passes
        return {
            "flops": Figure(program.flops // passes, "operations of NPU 0 a step", note="a multiply-add is two"),
            "kernels": Figure(program.kernels // passes, "kernels of NPU 0 a step"),
            "kernel_bytes": Figure(program.kernel_bytes // passes, "memory traffic of NPU 0 a step", "bytes"),
            "memory_bytes": Figure(sum(self._peak_bytes.values()), "memory", "bytes", "tensors of NPU 0 at the peak of the step"),
            "memory_allocated_in": dict(self._peak_bytes),
            "collective_input_bytes": {name: size // passes for name, size in sorted(program.communicated.items())},
        }
