"""Dependencies on the GPU: kernels of other streams, and calls of the host that return only when kernels have ended.

Kernels of a stream run in the order in which they are launched. A stream waits for another one by an event: the profiler records which if
it recorded `cuda_sync` events (`enable_cuda_sync_events`). If it did not, a `cudaStreamWaitEvent` is taken to let the next kernel that
its thread launches wait for that kernel of another stream, launched before the call, which ended last before it began.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence

import attrs

from astra_sim_chakra.pytorch.kineto import Kineto, TraceEvent

_WAITS = ("cudaStreamWaitEvent", "hipStreamWaitEvent", "cuStreamWaitEvent")
_BLOCKS = ("cudaMemcpy", "hipMemcpy")


@attrs.frozen(eq=False)
class _TraceLine:
    """Kernels in the order of their launches."""

    kernels: Sequence[TraceEvent]
    launched: Sequence[int]

    def before(self, moment: int) -> Iterator[TraceEvent]:
        """Those launched before a moment, latest first."""
        for place in range(bisect.bisect_left(self.launched, moment) - 1, -1, -1):
            yield self.kernels[place]

    def next(self, moment: int) -> TraceEvent | None:
        """The first one launched from a moment on."""
        place = bisect.bisect_left(self.launched, moment)
        return self.kernels[place] if place < len(self.kernels) else None


@attrs.define(eq=False)
class Waits:
    """For each event, by identity, the kernels that it waits for; and how many waits there are, by how they were found."""

    of: dict[int, list[TraceEvent]] = attrs.field(factory=dict)
    by_event: int = 0
    by_time: int = 0
    of_host: int = 0

    def add(self, waiting: TraceEvent, kernel: TraceEvent) -> None:
        """An event waits for a kernel."""
        of = self.of.setdefault(id(waiting), [])
        if not any(each is kernel for each in of):
            of.append(kernel)


def waits_of(kineto: Kineto, calls: Mapping[int, TraceEvent]) -> Waits:
    """The waits of a trace whose calls have these correlations. None contradicts the times: the awaited work ended before."""
    waits = Waits()
    launch: dict[int, TraceEvent] = {}
    for kernel in kineto.kernels:
        correlation = kernel.number("correlation") or 0
        if correlation in calls:
            launch[id(kernel)] = calls[correlation]

    def launched(kernel: TraceEvent) -> int:
        return launch[id(kernel)].begin if id(kernel) in launch else kernel.begin

    streams: dict[tuple[int, int], list[TraceEvent]] = {}
    threads: dict[int | str, list[TraceEvent]] = {}
    for kernel in sorted(kineto.kernels, key=launched):
        streams.setdefault(kernel.stream, []).append(kernel)
        if id(kernel) in launch:
            threads.setdefault(launch[id(kernel)].tid, []).append(kernel)

    def line(kernels: Sequence[TraceEvent]) -> _TraceLine:
        return _TraceLine(kernels, [launched(kernel) for kernel in kernels])

    by_stream = {stream: line(kernels) for stream, kernels in streams.items()}
    by_thread = {tid: line(kernels) for tid, kernels in threads.items()}
    waiting_on_streams = {
        number for sync in kineto.syncs if (number := sync.number("correlation")) and sync.number("wait_on_stream") is not None
    }
    for sync in kineto.syncs:
        _recorded_waits(sync, calls, by_stream, waits)
    for number, call in calls.items():
        if call.name in _WAITS and number not in waiting_on_streams and call.tid in by_thread:
            _by_time(call, by_thread[call.tid], by_stream, waits)
        elif "Synchronize" in call.name or call.name in _BLOCKS:
            _blocked(call, by_stream, waits)
    return waits


def _recorded_waits(sync: TraceEvent, calls: Mapping[int, TraceEvent], streams: Mapping[tuple[int, int], _TraceLine], waits: Waits) -> None:
    """A wait of one stream for another that the profiler recorded."""
    call, source, own = calls.get(sync.number("correlation") or 0), sync.number("wait_on_stream"), sync.number("stream")
    if call is None or source is None or own is None or not sync.name.startswith("Stream Wait"):
        return
    device = sync.number("device") or 0
    recorded = calls.get(sync.number("wait_on_cuda_event_record_corr_id") or 0, call)
    if (device, source) not in streams or (device, own) not in streams:
        return
    producer = next(streams[device, source].before(recorded.begin), None)
    consumer = streams[device, own].next(call.begin)
    if producer is not None and consumer is not None and producer.end <= consumer.begin:
        waits.by_event += 1
        waits.add(consumer, producer)


def _by_time(call: TraceEvent, thread: _TraceLine, streams: Mapping[tuple[int, int], _TraceLine], waits: Waits) -> None:
    """A wait of which only the call was recorded."""
    consumer = thread.next(call.begin)
    if consumer is None:
        return
    others = [line for stream, line in streams.items() if stream != consumer.stream]
    ended = [next((kernel for kernel in line.before(call.begin) if kernel.end <= consumer.begin), None) for line in others]
    producer = max((kernel for kernel in ended if kernel is not None), key=lambda kernel: kernel.end, default=None)
    if producer is not None:
        waits.by_time += 1
        waits.add(consumer, producer)


def _blocked(call: TraceEvent, streams: Mapping[tuple[int, int], _TraceLine], waits: Waits) -> None:
    """A call that came back when kernels had ended: the last of them ended during the call."""
    ended = [next((kernel for kernel in line.before(call.end) if kernel.end <= call.end), None) for line in streams.values()]
    last = max((kernel for kernel in ended if kernel is not None), key=lambda kernel: kernel.end, default=None)
    if last is not None and last.end > call.begin:
        waits.of_host += 1
        waits.add(call, last)
