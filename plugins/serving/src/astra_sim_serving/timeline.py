"""The work of instances over time: a CSV table, or a trace in the JSON format of Chrome, which Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import attrs

from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.request import Sequence as RequestSequence

COLUMNS = "time_s,instance,running,waiting,kv_blocks,iterations,tokens"
_INSTANCES, _REQUESTS = 1, 2
_TRACKS = 64
"""Tracks of an instance, of which each batch of a pipeline has one."""


class ServingTimeline(Protocol):
    """Collects events."""

    def __call__(self, instance: ServingInstance, now: float) -> None:
        """Take a moment at which an instance has planned its iterations, and begun some if it has work."""

    def text(self, sequences: Sequence[RequestSequence]) -> str:
        """The whole file, with the requests of the run."""


def timeline_for(path: str) -> ServingTimeline:
    """The writer of a file: a trace for *.json, else a table."""
    return TraceTimeline() if path.endswith(".json") else TableTimeline()


@attrs.define
class TableTimeline:
    """A row whenever an instance has begun iterations: requests, blocks, and the iterations and their tokens."""

    rows: list[str] = attrs.field(factory=list)

    def __call__(self, instance: ServingInstance, now: float) -> None:
        """Take a row."""
        scheduler, under_way = instance.scheduler, instance.under_way
        count = under_way[-1].count if under_way else 0
        tokens = sum(each for _, each in under_way[-1].batch) if under_way else 0
        self.rows.append(
            f"{now:.9g},{instance.number},{len(scheduler.running)},{len(scheduler.waiting)},{scheduler.cache.used_blocks},{count},{tokens}"
        )

    def text(self, sequences: Sequence[RequestSequence]) -> str:
        """The whole table."""
        return "\n".join([COLUMNS, *self.rows]) + "\n"


@attrs.define
class _Slice:
    """Iterations on the track of an instance, until they end or others begin."""

    track: int
    begin: float
    end: float
    name: str
    arguments: dict[str, int]


@attrs.define
class TraceTimeline:
    """A track for each instance, with its iterations and how many requests wait and run, and one for each request.

    The arrows of a request lead from the iterations with its first prompt tokens through those of its first token to those of its last.
    """

    slices: list[_Slice] = attrs.field(factory=list)
    counters: list[dict[str, Any]] = attrs.field(factory=list)
    names: dict[int, str] = attrs.field(factory=dict)
    _last: dict[int, _Slice] = attrs.field(factory=dict)

    def __call__(self, instance: ServingInstance, now: float) -> None:
        """Take iterations. A batch of a pipeline has a track of its own while others are under way."""
        scheduler, under_way = instance.scheduler, instance.under_way
        self.names.setdefault(instance.number, f"instance {instance.number} ({instance.role})")
        values = {"running": len(scheduler.running), "waiting": len(scheduler.waiting)}
        self.counters.append(
            {"ph": "C", "pid": _INSTANCES, "name": f"requests of instance {instance.number}", "ts": now * 1e6, "args": values}
        )
        if not under_way or under_way[-1].start != now:
            return
        current = under_way[-1]
        track = _TRACKS * instance.number + len(under_way) - 1
        before = self._last.get(track)
        if before is not None:
            before.end = min(before.end, now)  # a jump that was cut
        decodes = sum(tokens == 1 for _, tokens in current.batch)
        prompt = sum(tokens for _, tokens in current.batch if tokens > 1)
        parts = (
            [f"{current.count} iterations"] * (current.count > 1)
            + [f"{decodes} decode"] * (decodes > 0)
            + [f"{prompt} prompt"] * (prompt > 0)
        )
        arguments = {"iterations": current.count, "decodes": decodes, "prompt_tokens": prompt, "kv_blocks": scheduler.cache.used_blocks}
        interval = _Slice(track, now, now + current.elapsed(current.count), ", ".join(parts) or "for others", arguments)
        self.slices.append(interval)
        self._last[track] = interval

    def text(self, sequences: Sequence[RequestSequence]) -> str:
        """The whole trace. Times are in microseconds."""
        events = [_named(_INSTANCES, "process_name", "instances"), _named(_REQUESTS, "process_name", "requests")]
        for number, name in sorted(self.names.items()):
            events.append(_named(_INSTANCES, "thread_name", name, _TRACKS * number))
        for each in self.slices:
            times = {"ts": each.begin * 1e6, "dur": (each.end - each.begin) * 1e6}
            events.append({"ph": "X", "pid": _INSTANCES, "tid": each.track, "name": each.name, **times, "args": each.arguments})
        events += self.counters
        for sequence in sequences:
            events += _phases(sequence)
            events += _arrows(sequence)
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":")) + "\n"


def _named(process: int, kind: str, name: str, thread: int = 0) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": name}}


def _phases(sequence: RequestSequence) -> Iterable[dict[str, Any]]:
    """A request and its phases: queue, prompt and answer, as far as it came."""
    request = sequence.request
    moments = [("queue", request.arrival, sequence.scheduled), ("prompt", sequence.scheduled, sequence.first_token)]
    moments.append(("answer", sequence.first_token, sequence.last_token))
    known = [(name, begin, end) for name, begin, end in moments if begin >= 0 and end >= 0]
    if not known:
        return
    common = {"cat": "request", "id": request.index, "pid": _REQUESTS, "tid": 0}
    arguments = {"input": request.input, "output": sequence.generated, "cached": sequence.cached, "preemptions": sequence.preemptions}
    whole = [(f"request {request.index}", known[0][1], known[-1][2]), *known]
    for name, begin, end in whole:
        yield {**common, "ph": "b", "name": name, "ts": begin * 1e6, **({"args": arguments} if name.startswith("request") else {})}
        yield {**common, "ph": "e", "name": name, "ts": end * 1e6}


def _arrows(sequence: RequestSequence) -> Iterable[dict[str, Any]]:
    """The arrows of a request, which point into the iterations that end with its tokens."""
    if sequence.scheduled < 0 or sequence.first_token < 0:
        return
    first = _TRACKS * (sequence.prefill_instance if sequence.prefill_instance >= 0 else sequence.instance)
    inside = 1e-3  # of a microsecond before an end, so that the iterations that end there are meant
    common = {"cat": "request", "name": "request", "id": sequence.request.index, "pid": _INSTANCES}
    yield {**common, "ph": "s", "tid": first, "ts": sequence.scheduled * 1e6}
    yield {**common, "ph": "t", "tid": first, "ts": sequence.first_token * 1e6 - inside}
    if sequence.last_token > sequence.first_token:
        yield {**common, "ph": "f", "bp": "e", "tid": _TRACKS * sequence.instance, "ts": sequence.last_token * 1e6 - inside}
