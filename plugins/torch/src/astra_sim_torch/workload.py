"""The workload `torch_capture`: a step of a script on all NPUs of a platform."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.compute import MissingWork, Work
from astra_sim.context import Context
from astra_sim.errors import warn
from astra_sim.graph import ExecutionGraph, Figure, NpuProgram, ProgramTimes
from astra_sim.shapes import Attention, Elementwise, Gemm

from astra_sim_torch.capture_command import CaptureSettings, capture_ranks
from astra_sim_torch.capture_file import RankCapture, load_captures, parse_capture
from astra_sim_torch.memory import MOST_ROWS, DeviceMemory, MemoryFigures, over_time, peak_of
from astra_sim_torch.program import TorchLayers, TorchRankProgram
from astra_sim_torch.ranks import TorchRanks


@attrs.frozen
class CaptureOptions:
    """Options of a captured step."""

    path: str | None = option(
        None, help="folder that astra capture torch has written, or the file of one rank, which then represents all", path="path"
    )
    script: str | None = option(None, help="without path: script that is captured for the NPUs of the platform", path="path")
    arguments: str = option("", help="arguments of the script, as in a shell")
    python: str | None = option(None, help="Python that has torch, if it is not the one of astra")
    step: int = option(2, minimum=1, help="step of the script that is captured")
    item: float | None = option(None, help="value that .item() of a tensor of the script returns; none: an error")
    data: str | None = option(None, help="data of the script: fake, or the tensors of a batch, as --data of astra capture torch")
    stub: tuple[str, ...] = option((), help="modules, classes and functions that are replaced, as --stub of astra capture torch")


def _captures(options: CaptureOptions, npus: int) -> list[RankCapture]:
    """The captures of a path, or those of a script, which is run for them. Raises InputError, and RunError if the script fails."""
    if (options.path is None) == (options.script is None):
        raise InputError("path and script are " + ("missing" if options.path is None else "both given") + "; expected one of them")
    if options.path is not None:
        return load_captures(options.path)
    settings = CaptureSettings(
        world=npus, step=options.step, item=options.item, data=options.data, stub=options.stub, python=options.python or sys.executable
    )
    texts = capture_ranks([str(options.script), *shlex.split(options.arguments)], None, settings)
    captures = [parse_capture(text, f"{options.script}, rank {rank}") for rank, text in texts.items()]
    for note in dict.fromkeys(note for each in captures for note in each.notes):
        warn(note)
    return sorted(captures, key=lambda each: each.rank)


def torch_capture(options: CaptureOptions, context: Context) -> ExecutionGraph:
    """The graph of a capture. Raises InputError that names the file and the error."""
    npus = context.platform.npus
    captures = _captures(options, npus)
    world = captures[0].world
    if world != npus:
        raise InputError(f"{options.path}: captured for {world} ranks, the platform has {npus} NPUs; expected as many")
    ranks, layers, duration = TorchRanks(captures, context.platform), TorchLayers(), _TorchDurations(context)
    programs: list[tuple[TorchRankProgram, list[int]]] = []
    for capture, stands_for in ranks.classes():
        program = TorchRankProgram(capture, layers, lambda name, c=capture, s=stands_for: ranks.members(c, name, s), duration)  # type: ignore[misc]
        for iteration in range(context.run.passes):
            program.write(iteration)
        program.put_side_streams_first()
        programs.append((program, stands_for))
    programs.sort(key=lambda each: each[1][0])
    first, *others = programs
    return ExecutionGraph(
        tuple(first[0].operations),
        tuple(ranks.dimensions) or context.platform.logical_dimensions(),
        tuple(layers.names),
        footprint_bytes=max((sum(capture.peak_bytes.values()) for capture in captures), default=0) or None,
        others=tuple(NpuProgram(tuple(program.operations), members) for program, members in others),
        figures=_TorchFigures([program for program, _ in programs], captures[0], _memory_of(programs, context), context.run.passes),
    )


def _memory_of(programs: Sequence[tuple[TorchRankProgram, list[int]]], context: Context) -> MemoryFigures | None:
    """The memory of all programs, with a warning if it is more than the device has; None if a capture does not have it."""
    peaks = [peak for program, _ in programs if (peak := peak_of(program.capture)) is not None]
    if len(peaks) < len(programs):
        return None
    memory = MemoryFigures(peaks, DeviceMemory.of(context.compute))
    memory.warn(programs[0][0].capture.path)
    return memory


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


def _shape(event: Mapping[str, Any]) -> Gemm | Attention | Elementwise | None:
    """The shape of a product or of attention, and the bytes of a kernel without operations; None for other kernels with operations."""
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
    return None if event["flops"] else Elementwise(read_bytes=event["read"], write_bytes=event["write"])


class _TorchFigures:
    """The compute and communication of NPU 0 in one step, and the memory of all programs."""

    def __init__(self, programs: Sequence[TorchRankProgram], capture: RankCapture, memory: MemoryFigures | None, passes: int) -> None:
        self._programs, self._capture, self._memory, self._passes = programs, capture, memory, max(1, passes)

    def __call__(self, times: Sequence[ProgramTimes], finish_ps: int) -> Mapping[str, Any]:
        program, passes = self._programs[0], self._passes
        peak, note = self._capture.peak_bytes, "" if self._memory is None else self._memory.note
        return {
            "flops": Figure(program.flops // passes, "operations of NPU 0 a step", note="a multiply-add is two"),
            "kernels": Figure(program.kernels // passes, "kernels of NPU 0 a step"),
            "kernel_bytes": Figure(program.kernel_bytes // passes, "memory traffic of NPU 0 a step", "bytes"),
            "memory_bytes": Figure(sum(peak.values()), "memory", "bytes", f"tensors of NPU 0 at the peak{note}"),
            "memory_allocated_in": dict(peak),
            "collective_input_bytes": {name: size // passes for name, size in sorted(program.communicated.items())},
            **self._of_memory(times, finish_ps),
        }

    def _of_memory(self, times: Sequence[ProgramTimes], finish_ps: int) -> dict[str, Any]:
        """The tables of memory, of the first NPU of each program."""
        if self._memory is None:
            return {}
        npus, most = [each.program.npus[0] for each in times], max(1, MOST_ROWS // len(times))
        in_time = [
            row for each, program in zip(times, self._programs, strict=True) for row in over_time(each, program.memory, finish_ps, most)
        ]
        return {"memory_peak": self._memory.by_kind(npus), "memory_holders": self._memory.by_holder(npus), "memory_over_time": in_time}
