"""The workload `load_store`: a plan of MSCCL++ run by compute units, as loads and stores of cache lines.

The rules are those that are known of ASTRA-sim 3.0 (arXiv 2606.10440): a workgroup (thread block) runs on a compute unit; its operations
are loads, stores, sums, and acquires and releases of semaphores; `unroll` lines of each wavefront are in flight, and no more than
`outstanding` of a compute unit. Left open there, and chosen here: an operation begins when all loads and stores of the one before have
completed (so a signal is a release after a fence), a line is added by its compute unit at `add_gib_per_s`, and requests and
acknowledgements have `control_bytes`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.context import Context
from astra_sim.graph import ExecutionGraph, Figure, NpuProgram, ProgramTimes
from astra_sim.platform import Platform, bytes_per_ns
from astra_sim.schedule import Collective

from astra_sim_collectives.load_store.pairs import PAIRS, all_pairs
from astra_sim_collectives.load_store.requests import Acquire, GpuParts, RequestLimits, Requests
from astra_sim_collectives.mscclpp_events import events_of, follow_data
from astra_sim_collectives.mscclpp_plan import (
    GETTING,
    PACKETS,
    REDUCING,
    SIGNALLING,
    WAITING,
    BufferSpan,
    ExecutionPlan,
    Operation,
    read_plan,
)

MOST_LINES = 1_000_000
"""Loads and stores of a run, at most: each is four operations."""


@attrs.frozen
class LoadStoreOptions:
    """Options of the workload. The plan is in a file, or all GPUs exchange with all others."""

    bytes: int = option(minimum=1, maximum=1 << 40, help="the larger of the input and the output buffer of a GPU", unit="bytes")
    file: str = option("", help="the plan, in the JSON format of MSCCL++; default: all pairs of GPUs (collective, transfer)", path="path")
    collective: str | None = option(None, choices=PAIRS, help="without a file: the collective; default: all_gather")
    transfer: str | None = option(
        None, choices=("put", "get"), help="without a file: a GPU stores to the others (default), or loads from them"
    )
    workgroups: int | None = option(None, minimum=1, maximum=1024, help="without a file: workgroups of a GPU; default: 4")
    line_bytes: int = option(128, minimum=16, maximum=1 << 20, help="a load or store: a cache line", unit="bytes")
    control_bytes: int = option(16, minimum=1, maximum=4096, help="a request, an acknowledgement, a semaphore's message", unit="bytes")
    wavefronts: int = option(4, minimum=1, maximum=64, help="wavefronts of a workgroup, which share its lines")
    unroll: int = option(4, minimum=1, maximum=256, help="loads of a wavefront in flight")
    outstanding: int = option(64, minimum=1, maximum=4096, help="loads, and stores, of a compute unit in flight at most")
    compute_units: int = option(
        0, minimum=0, maximum=1 << 20, help="compute units of a GPU, the first of its NPUs; 0: as the platform says"
    )
    channels: int = option(0, minimum=0, maximum=1 << 20, help="memory channels of a GPU, its other NPUs; 0: as the platform says")
    add_gib_per_s: float = option(256.0, above=0, help="data that a compute unit adds to others", unit="2^30 bytes/s")


def load_store(options: LoadStoreOptions, context: Context) -> ExecutionGraph:
    """The graph of a plan. Raises InputError if it does not fit the platform, or does not do the collective that it names."""
    parts = _parts(options, context.platform)
    gpus = context.platform.npus // parts.npus
    if gpus < 2:
        raise InputError("one GPU exchanges with no other; expected a platform of several")
    plan = _plan(options, gpus)
    if len(plan.blocks) != gpus:
        raise InputError(f"{plan.path} is for {len(plan.blocks)} GPUs, and the platform has {gpus}; expected as many")
    if options.bytes % plan.chunks:
        raise InputError(f"bytes is {options.bytes}; expected a multiple of {plan.chunks}, the chunks of {plan.path}")
    follow_data(plan, events_of(plan))  # the proof that it does its collective
    limits = RequestLimits(
        line_bytes=options.line_bytes,
        control_bytes=options.control_bytes,
        loads=min(options.outstanding, options.wavefronts * options.unroll),
        stores=options.outstanding,
        add_ps_per_byte=1000 / bytes_per_ns(options.add_gib_per_s),
    )
    requests = PlanRequests(plan, Requests(parts, limits), options.bytes // plan.chunks).written()
    logical = tuple(context.platform.logical_dimensions())
    idle = [npu for npu in range(context.platform.npus) if npu not in requests.programs and npu != 0]
    others = [NpuProgram(operations, (npu,)) for npu, operations in sorted(requests.programs.items()) if npu != 0]
    others += [NpuProgram((), idle)] if idle else []
    return ExecutionGraph(
        requests.programs.get(0, []),
        logical,
        (),
        others=tuple(others),
        figures=_Figures(plan, options.bytes, requests.lines),
        keeps_order=True,
    )


def _plan(options: LoadStoreOptions, gpus: int) -> ExecutionPlan:
    """The plan in a file, or that of all pairs. Raises InputError."""
    if not options.file:
        return all_pairs(options.collective or "all_gather", options.transfer or "put", gpus, options.workgroups or 4)
    for name in ("collective", "transfer", "workgroups"):
        if getattr(options, name) is not None:
            raise InputError(f"file has the plan, and {name} is {getattr(options, name)!r}; expected one of the two")
    return read_plan(options.file)


def _parts(options: LoadStoreOptions, platform: Platform) -> GpuParts:
    """The NPUs of a GPU: those of the options, or of the platform. Raises InputError."""
    named = platform.dimensions[0].topology.device_parts if len(platform.dimensions) == 1 else {}
    of_platform = {"compute_units": named.get("compute_units", 0), "channels": named.get("memory_channels", 0)}
    for name, count in of_platform.items():
        if count and getattr(options, name) not in (0, count):
            raise InputError(f"{name} is {getattr(options, name)}, and a GPU of this platform has {count}; expected to leave it out")
    units, channels = options.compute_units or of_platform["compute_units"], options.channels or of_platform["channels"]
    if not units or not channels:
        raise InputError(
            "the NPUs of this platform are whole devices; expected --platform plugin:gpu_mesh, or compute_units and channels of a GPU"
        )
    if platform.npus % (units + channels):
        raise InputError(f"{platform.npus} NPUs are no whole number of GPUs with {units} compute units and {channels} channels")
    return GpuParts(units, channels)


class PlanRequests:
    """Writes the requests of a plan whose chunks have `chunk_bytes` bytes."""

    def __init__(self, plan: ExecutionPlan, requests: Requests, chunk_bytes: int) -> None:
        self._plan = plan
        self._requests = requests
        self._chunk_bytes = chunk_bytes
        self._used: dict[tuple[int, Hashable], int] = defaultdict(int)  # acquires of each counter so far
        self._acquires: list[tuple[Acquire, int, Hashable, Operation]] = []

    def written(self) -> Requests:
        """The requests of all thread blocks, each on a compute unit of its own. Raises InputError."""
        operations = (operation for blocks in self._plan.blocks for block in blocks for operation in block if operation.sources)
        lines = sum(self._lines(operation) * (len(operation.sources) + len(operation.targets)) for operation in operations)
        if lines > MOST_LINES:
            raise InputError(f"{lines} loads and stores; expected at most {MOST_LINES}: fewer bytes, or a larger line_bytes")
        for gpu, blocks in enumerate(self._plan.blocks):
            if len(blocks) > self._requests.parts.units:
                raise self._error(
                    f"gpus[{gpu}]", f"has {len(blocks)} thread blocks, and a GPU of the platform {self._requests.parts.units} compute units"
                )
            barriers: dict[tuple[int, int], int] = defaultdict(int)
            for block in blocks:
                self._count_barriers(block, barriers)
            for number, block in enumerate(blocks):
                self._block(gpu, self._requests.parts.unit(gpu, number), block, barriers)
        for acquire, gpu, key, operation in self._acquires:
            if acquire.releases.stop > (count := self._requests.released(gpu, key)):
                raise self._error(operation.where, f"{operation.name} needs release {acquire.releases.stop}, and there are {count}")
        self._requests.finish(acquire for acquire, *_ in self._acquires)
        return self._requests

    @staticmethod
    def _count_barriers(block: Sequence[Operation], members: dict[tuple[int, int], int]) -> None:
        """Count the thread blocks at each barrier, for each time it is used."""
        times: dict[int, int] = defaultdict(int)
        for operation in block:
            if operation.name == "barrier":
                members[operation.barrier, times[operation.barrier]] += 1
                times[operation.barrier] += 1

    def _block(self, gpu: int, unit: int, block: Sequence[Operation], members: Mapping[tuple[int, int], int]) -> None:
        """The requests of a thread block, operation by operation."""
        before: list[int] = []
        times: dict[int, int] = defaultdict(int)
        for operation in block:
            if operation.name in PACKETS:
                raise self._error(operation.where, f"{operation.name} reads data by their flags; expected operations that signal and wait")
            if operation.name == "barrier":
                key = "barrier", operation.barrier, times[operation.barrier]
                times[operation.barrier] += 1
                self._requests.release(unit, gpu, key, before)
                before = [self._acquire(gpu, unit, key, range(members[key[1:]]), operation, before)]
                continue
            before = self._data(gpu, unit, operation, before)
            before = self._control(gpu, unit, operation, before)

    def _control(self, gpu: int, unit: int, operation: Operation, before: list[int]) -> list[int]:
        """Releases and acquires of an operation. Returns the operations that the next one waits for."""
        if operation.name in SIGNALLING:
            for end in operation.channels:
                self._requests.release(unit, end.peer, ("signal", gpu, end.type, end.number), before)
        waits = operation.channels if operation.name in WAITING else ()
        keys = [("signal", end.peer, end.type, end.number) for end in waits]
        replies = [self._next_acquire(gpu, unit, key, operation, before, 0) for key in keys]
        for semaphore in operation.semaphores:
            if operation.name == "sem_release":
                self._requests.release(unit, gpu, ("semaphore", semaphore), before)
            else:
                free = self._plan.semaphores[gpu][semaphore]
                replies.append(self._next_acquire(gpu, unit, ("semaphore", semaphore), operation, before, free))
        return [self._requests.join(unit, replies)] if replies else before

    def _next_acquire(self, gpu: int, unit: int, key: Hashable, operation: Operation, before: Sequence[int], free: int) -> int:
        """The next acquire of a counter, of which the first `free` need no release."""
        self._used[gpu, key] += 1
        number = self._used[gpu, key] - free
        return self._acquire(gpu, unit, key, range(number - 1, number) if number > 0 else range(0), operation, before)

    def _acquire(self, gpu: int, unit: int, key: Hashable, releases: range, operation: Operation, before: Sequence[int]) -> int:
        acquire = self._requests.acquire(unit, gpu, key, releases, before)
        self._acquires.append((acquire, gpu, key, operation))
        return acquire.reply

    # -- Data ----------------------------------------------------------------------------------------------------------

    def _data(self, gpu: int, unit: int, operation: Operation, before: list[int]) -> list[int]:
        """Loads, sums and stores of an operation. Returns the operations that the next one waits for."""
        sources, targets = operation.sources, operation.targets
        if not sources:
            return before
        lines = _LineWindow(self._requests, unit, before)
        length = sources[0].length * self._chunk_bytes
        if operation.name in REDUCING:
            rows = [(sources, targets)]
        elif operation.name in GETTING or operation.name == "copy":
            rows = [((source,), (target,)) for source, target in zip(sources, targets, strict=True)]
        elif len(sources) == 1:  # put: a line is loaded once, and stored at each target
            rows = [(sources, targets)]
        else:
            rows = [((source,), (target,)) for source, target in zip(sources, targets, strict=True)]
        step = self._requests.limits.line_bytes
        for offset in range(0, length, step):
            for terms, ends in rows:
                lines.move(
                    [(term.rank, self._address(term) + offset) for term in terms],
                    [(end.rank, self._address(end) + offset) for end in ends],
                    min(step, length - offset),
                )
        return [self._requests.join(unit, lines.last())]

    def _lines(self, operation: Operation) -> int:
        """Lines of each source and target of an operation."""
        return -(-operation.sources[0].length * self._chunk_bytes // self._requests.limits.line_bytes)

    def _address(self, span: BufferSpan) -> int:
        """The address of a span; buffers begin one behind the other, each as large as the plan's larger one."""
        whole = -(-self._plan.chunks * self._chunk_bytes // self._requests.limits.line_bytes) * self._requests.limits.line_bytes
        return "ios".index(span.buffer) * whole + span.first * self._chunk_bytes

    def _error(self, where: str, what: str) -> InputError:
        return InputError(f"{self._plan.path}: {where}: {what}")


class _LineWindow:
    """The lines of an operation: no more loads and stores are in flight than the limits allow."""

    def __init__(self, requests: Requests, unit: int, before: Sequence[int]) -> None:
        self._requests = requests
        self._unit = unit
        self._before = list(before)
        self._loads: list[int] = []
        self._stores: list[int] = []

    def move(self, terms: Sequence[tuple[int, int]], ends: Sequence[tuple[int, int]], size: int) -> None:
        """Load a line from each of `terms` (GPU, address), add them up if there are several, and store the result at `ends`."""
        loaded = []
        for gpu, address in terms:
            self._loads.append(self._requests.load(self._unit, gpu, address, size, self._after(self._loads, self._requests.limits.loads)))
            loaded.append(self._loads[-1])
        data = loaded[0] if len(loaded) == 1 else self._requests.add(self._unit, size, loaded)
        for gpu, address in ends:
            after = [data, *self._after(self._stores, self._requests.limits.stores)]
            self._stores.append(self._requests.store(self._unit, gpu, address, size, after))

    def _after(self, sent: Sequence[int], most: int) -> list[int]:
        """The operations that the next request waits for: the one `most` before it, or what precedes the operation."""
        return [sent[-most]] if len(sent) >= most else self._before

    def last(self) -> list[int]:
        """The operations with which the last loads and stores have completed."""
        return [*self._loads[-self._requests.limits.loads :], *self._stores[-self._requests.limits.stores :]]


@attrs.frozen
class _Figures:
    """Figures of a run: the time of the collective, its bandwidth and bus bandwidth as nccl-tests counts them, and its requests."""

    plan: ExecutionPlan
    bytes: int
    lines: int

    def __call__(self, times: Sequence[ProgramTimes], end_ps: int) -> Mapping[str, Figure]:
        n, seconds = len(self.plan.blocks), end_ps / 1e12
        factor = 2 * (n - 1) / n if self.plan.collective is Collective.ALL_REDUCE else (n - 1) / n
        algorithm = self.bytes / seconds / 1e9 if seconds else 0.0
        return {
            "collective_s": Figure(seconds, f"{self.plan.collective}", "s"),
            "algbw_gb_per_s": Figure(algorithm, "algorithm bandwidth", "GB/s"),
            "busbw_gb_per_s": Figure(algorithm * factor, "bus bandwidth", "GB/s"),
            "loads_and_stores": Figure(self.lines, "loads and stores"),
        }
