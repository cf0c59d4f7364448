"""Logs of ASTRA-sim 2.x about the nodes of traces, if the system file requests them: begin and end of each, and rooflines.

Keys of the system file: `trace-enabled`, `roofline-enabled` with `peak-perf` and `local-mem-bw`, `track-local-mem`
(`astra_sim_compat.tensors`). Formats and formulas: `Workload`, `Statistics` and `Roofline` of ASTRA-sim 2.x at 518bd51.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

_COMPUTE = 4
"""COMP_NODE of Chakra's schema."""


class Operator(NamedTuple):
    """A node that has run: when it was issued and when it ended (ns), and its fields in the trace."""

    begin: int
    end: int
    node: Mapping[str, Any]


@attrs.frozen
class Wanted:
    """Further output that a system file requests; nodes of a replay have no roofline. Rates are those of the file, in its units."""

    issues: bool
    roofline: bool
    memory: bool
    memory_file: str
    replays: bool
    peak: float
    bandwidth: float

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Wanted:
        """The output that the table of a system file requests."""
        issues, roofline, memory, replays = (bool(table.get(key)) for key in _SWITCHES)
        rates = (float(table.get(key) or 0) for key in ("peak-perf", "local-mem-bw"))
        return cls(issues, roofline, memory, str(table.get("local-mem-trace-filename", "local_mem_trace")), replays, *rates)

    @property
    def anything(self) -> bool:
        """Whether single nodes are asked for."""
        return self.issues or self.roofline or self.memory


_SWITCHES = ("trace-enabled", "roofline-enabled", "track-local-mem", "replay-only")


def operators_of(result: Any) -> dict[int, list[Operator]]:
    """The nodes of each NPU that have run, in the order of its program. Raises InputError if a trace cannot be read again."""
    results = {}
    for times in result.operation_times():
        for npu in times.npus:
            nodes = [] if times.source is None else list(times.source(npu))
            moments = zip(times.operations, times.begin_ns, times.end_ns, strict=True)
            results[npu] = [Operator(int(begin), int(end), nodes[place]) for place, begin, end in moments] if nodes else []
    return results


def issues(npu: int, operators: Sequence[Operator]) -> Iterator[tuple[int, int, str]]:
    """The lines of `trace-enabled`, each with its time and its place among the lines of that time."""
    for begin, end, node in operators:
        what = f"node->id={node['id']}, node->name={node['name']}, node->type={node['type']}"
        yield begin, 1, f"issue,sys->id={npu}, tick={begin}, {what}"
        yield end, 2 if end == begin else 0, f"callback,sys->id={npu}, tick={end}, {what}"


def roofline(npu: int, operators: Sequence[Operator], wanted: Wanted) -> list[str]:
    """The four lines of an NPU: means over the time that its nodes compute, to which 1 ns is added, as there."""
    peak, bandwidth = wanted.peak * 1e12, wanted.bandwidth * 1e9
    total, bound, computing, moving, intensity = 1, 0, 0.0, 0.0, 0.0
    for begin, end, node in operators:
        if node["type"] != _COMPUTE:
            continue
        time, work, size = end - begin, node["num_ops"], node["tensor_size"]
        total += time
        if node["is_cpu_op"] or wanted.replays or not work or not size:
            continue
        ratio = work / size
        rate = min(bandwidth * ratio, peak)
        bound += time if rate >= peak else 0
        computing += rate / peak * time
        moving += rate / ratio / bandwidth * time
        intensity += ratio * time
    return [
        f"sys[{npu}], Compute bound percentage: {bound / total * 100:.3f}%",
        f"sys[{npu}], Average compute utilization: {computing / total * 100:.3f}%",
        f"sys[{npu}], Average memory utilization: {moving / total * 100:.3f}%",
        f"sys[{npu}], Average operation intensity: {intensity / total:.3f}",
    ]
