"""Kineto's trace: when operators, calls of the CUDA runtime and kernels ran, as `export_chrome_trace` of PyTorch's profiler writes it.

Events of phase X have `cat`, `name`, `pid`, `tid`, `ts` and `dur` in microseconds, and `args`: `Record function id` of operators,
`correlation` of a call and its kernels, `External id` of an operator and its kernels, `stream` and `device` of work on a
GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from astra_sim import InputError

from astra_sim_chakra.pytorch.json_files import read_json
from astra_sim_chakra.pytorch.steps import PROFILER_STEP, step_of

OPERATORS = ("cpu_op", "user_annotation")
CALLS = ("cuda_runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver")
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
SYNC = "cuda_sync"


@attrs.frozen(eq=False)
class TraceEvent:
    """Something that took some time: begin and end in ns."""

    category: str
    name: str
    tid: int | str
    begin: int
    end: int
    args: Mapping[str, Any]

    def number(self, *names: str) -> int | None:
        """The first of these arguments that is a whole number of at least 0."""
        return next((value for value in map(self.args.get, names) if type(value) is int and value >= 0), None)

    @property
    def external_id(self) -> int | None:
        """The id of the operator that it belongs to; None if it only repeats the correlation, as in 2023."""
        result = self.number("External id", "external id")
        return None if result == self.number("correlation") else result

    @property
    def stream(self) -> tuple[int, int]:
        """Device and stream of an event on a GPU."""
        tid = self.tid if type(self.tid) is int else 0
        stream = self.number("stream")
        return self.number("device") or 0, tid if stream is None else stream


@attrs.frozen(eq=False)
class Kineto:
    """The events of a trace, each kind by its begin, and PyTorch's facts about its processes.

    `processes` are those of the operators, and `steps` the spans of the profiler's steps, in ns.
    """

    path: str
    operators: list[TraceEvent]
    calls: list[TraceEvent]
    kernels: list[TraceEvent]
    syncs: list[TraceEvent]
    distributed: Mapping[str, Any]
    processes: frozenset[int] = frozenset()
    steps: Mapping[int, tuple[int, int]] = attrs.field(factory=dict)

    def of_step(self, number: int) -> Kineto:
        """The operators that began in a step of the profiler, and the kernels launched then. Raises InputError if there is no such step."""
        if number not in self.steps:
            known = ", ".join(map(str, sorted(self.steps))) or "none"
            raise InputError(f"{self.path}: there is no ProfilerStep#{number}; steps: {known}")
        begin, end = self.steps[number]
        operators, calls = ([each for each in events if begin <= each.begin < end] for events in (self.operators, self.calls))
        launched = {each.number("correlation") for each in calls} - {None, 0}
        kernels, syncs = ([each for each in events if each.number("correlation") in launched] for events in (self.kernels, self.syncs))
        return attrs.evolve(self, operators=operators, calls=calls, kernels=kernels, syncs=syncs, steps={number: (begin, end)})

    def groups(self) -> dict[str, list[int]]:
        """The ranks of process groups by name; an empty list is all ranks."""
        configured = self.distributed.get("pg_config", [])
        listed: Iterable[Any] = configured.values() if isinstance(configured, dict) else configured if isinstance(configured, list) else ()
        result = {}
        for group in listed:
            name, ranks = (group.get("pg_name"), group.get("ranks")) if isinstance(group, dict) else (None, None)
            if isinstance(name, str) and isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
                result[name] = ranks
        return result


def read_kineto(path: str) -> Kineto:
    """The trace in a file. Raises InputError naming the event."""
    return kineto_of(read_json(path), path)


def kineto_of(table: Mapping[str, Any], path: str) -> Kineto:
    """The trace in a table. Raises InputError naming the event."""
    if not isinstance(table.get("traceEvents"), list):
        host = "; this is an execution trace" if "nodes" in table else ""
        raise InputError(f"{path}: expected a trace of Kineto, a table with traceEvents{host}")
    kinds: dict[str, list[TraceEvent]] = {}
    steps: dict[int, tuple[int, int]] = {}
    processes: set[int] = set()
    for number, event in enumerate(table["traceEvents"]):
        if isinstance(event, dict) and event.get("ph") == "X" and _NAMES.get(str(event.get("cat", "")).lower()):
            interval = _event(event, f"{path}: event number {number}")
            if (step := step_of(interval.name)) is not None:
                steps.setdefault(step, (interval.begin, interval.end))
            elif not interval.name.startswith(PROFILER_STEP):
                if interval.category == OPERATORS[0] and type(event.get("pid")) is int:
                    processes.add(event["pid"])
                kinds.setdefault(_NAMES[interval.category], []).append(interval)
    for events in kinds.values():
        events.sort(key=lambda event: (event.begin, -event.end))
    distributed = table.get("distributedInfo", {})
    operators, calls, kernels, syncs = (kinds.get(kind, []) for kind in ("operators", "calls", "kernels", "syncs"))
    about = distributed if isinstance(distributed, dict) else {}
    return Kineto(
        path=path,
        operators=operators,
        calls=calls,
        kernels=kernels,
        syncs=syncs,
        distributed=about,
        processes=frozenset(processes),
        steps=steps,
    )


_NAMES = {
    **dict.fromkeys(OPERATORS, "operators"),
    **dict.fromkeys(CALLS, "calls"),
    **dict.fromkeys(ON_GPU, "kernels"),
    SYNC: "syncs",
}


def _event(event: dict[str, Any], where: str) -> TraceEvent:
    """An event with its times. Raises InputError."""
    begin, length = event.get("ts"), event.get("dur", 0)
    for name, value in (("ts", begin), ("dur", length)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e18 < value < 1e18:
            raise InputError(f"{where}: {name} is {value!r}; expected microseconds")
    args = event.get("args", {})
    if not isinstance(args, dict) or not isinstance(event.get("tid"), (int, str)):
        raise InputError(f"{where}: tid is {event.get('tid')!r} and args {str(args)[:40]!r}; expected a thread and a table")
    name = event.get("name", "")
    if not isinstance(name, str):
        raise InputError(f"{where}: name is {str(name)[:40]!r}; expected text")
    first = round(begin * 1000)  # type: ignore[operator]
    return TraceEvent(str(event["cat"]).lower(), name, event["tid"], first, first + max(0, round(length * 1000)), args)
