"""The time of NPU 0 up to the end of the run: the shares of `npu_shares`, with exposed communication by layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from astra_sim.graph import ExecutionGraph, Receive, operation_rows
from astra_sim.report.labels import exposed_rank
from astra_sim.report.npu_shares import NpuShares, shares_of
from astra_sim.run.npu_times import NpuTimes
from astra_sim.run.record import NpuRecord

MOST_OPERATIONS = 50_000
"""Operations of which shares are computed unasked: some tenths of a second."""

LayerPass = tuple[int, str]
"""A layer by number (-1: none), and a pass of it ("": none)."""


class Attribution(NamedTuple):
    """The time of NPU 0 in the run by use (picoseconds): compute, exposed communication, memory; the rest is idle.

    The exposed time of each layer and pass is in `exposed_by`, whose sum is `exposed_ps`.
    """

    run_ps: int
    compute_ps: int
    exposed_ps: int
    memory_ps: int
    exposed_by: Mapping[LayerPass, int]

    @property
    def idle_ps(self) -> int:
        """In which NPU 0 does nothing, or has finished before others."""
        return self.run_ps - self.compute_ps - self.exposed_ps - self.memory_ps


def attribution_of(share: NpuShares, graph: ExecutionGraph, run_ps: int) -> Attribution:
    """The attribution of an NPU of a run that takes `run_ps`."""
    rows = operation_rows(share.operations)
    places = []
    for kind in rows.kinds:
        layer = kind.layer if 0 <= kind.layer < len(graph.layers) else -1
        training_pass = getattr(kind, "training_pass", None)
        places.append((layer, training_pass.value if layer >= 0 and training_pass is not None else ""))
    exposed: dict[LayerPass, int] = defaultdict(int)
    for operation, time in share.exposed_by.items():
        exposed[places[rows.kind_of[operation]]] += time
    return Attribution(run_ps, share.compute_ps, share.exposed_ps, share.memory_ps, dict(exposed))


def share_of_first(
    graph: ExecutionGraph, first: NpuRecord, npu_times: Sequence[NpuTimes] | None, npus: int, groups: Mapping[tuple[int, ...], str]
) -> NpuShares | None:
    """The time of NPU 0 by use, from its record; None if it receives messages and the times of their senders are not kept."""
    rank = exposed_rank(graph, groups)
    if npu_times is not None:
        return shares_of(npu_times, npus, rank, only_first=True)[0]
    if any(isinstance(kind, Receive) for kind in operation_rows(first.operations).kinds):
        return None
    of_npu = NpuTimes(
        members=(0,),
        operations=first.operations,
        ready_ps=first.begin_ps,
        ended_ps=first.end_ps,
        sends=first.sends.operation,
        sent_ps=first.sends.begun_ps,
    )
    return shares_of([of_npu], npus, rank)[0]
