"""Replays Chakra nodes without a simulator, and computes the error against the measured run."""

from __future__ import annotations

from typing import Any

import attrs

from astra_sim_chakra.doctor.graph import dependencies, graph_of
from astra_sim_chakra.pytorch.converting import LATENCY, OUTSIDE, Converted
from astra_sim_chakra.schema import NodeType


@attrs.frozen
class Replay:
    """A replay beside the measured run, in ns: their lengths, the mean shift of begins, and the time that nodes account for.

    `known_ns` is the replay without the time that no event accounts for: the run if hosts ran nothing between operators and
    launched kernels in no time.
    """

    measured_ns: int
    replayed_ns: int
    known_ns: int
    mean_off_ns: float
    most_off_ns: int
    host_ns: int
    kernel_ns: int
    communication_ns: int

    @property
    def error(self) -> float:
        """The relative error of the replay: its time over that of the measured run, minus 1."""
        return self.replayed_ns / self.measured_ns - 1 if self.measured_ns else 0.0

    def table(self) -> dict[str, Any]:
        """As plain values."""
        return {**attrs.asdict(self), "error": self.error}


def replay(converted: Converted) -> Replay:
    """Let each node begin when all that it waits for has ended, and take the time that it took."""
    nodes = converted.nodes
    graph = graph_of(dependencies(nodes), [node.id for node in nodes])
    begins = [0] * len(nodes)
    for place in graph.order:
        begins[place] = max((begins[other] + nodes[other].duration_ns for other in graph.after[place]), default=0)
    known = [0 if node.name in (OUTSIDE, LATENCY) else node.duration_ns for node in nodes]
    off = [abs(begins[place] - converted.measured[node.id][0]) for place, node in enumerate(nodes)]
    on_gpu = [node for node in nodes if not node.is_cpu_op]
    return Replay(
        measured_ns=max((end for _, end in converted.measured.values()), default=0),
        replayed_ns=max((begin + node.duration_ns for begin, node in zip(begins, nodes, strict=True)), default=0),
        known_ns=graph.longest(known)[0],
        mean_off_ns=sum(off) / len(off) if off else 0.0,
        most_off_ns=max(off, default=0),
        host_ns=sum(node.duration_ns for node in nodes if node.is_cpu_op and node.name not in (OUTSIDE, LATENCY)),
        kernel_ns=sum(node.duration_ns for node in on_gpu if node.type == NodeType.COMP_NODE),
        communication_ns=sum(node.duration_ns for node in on_gpu if node.type != NodeType.COMP_NODE),
    )
