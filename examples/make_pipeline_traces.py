"""Writes the Chakra traces of a pipeline: 1F1B, stages x data-parallel replicas, send and receive between stages.

    python make_pipeline_traces.py traces/pipeline --stages 4 --replicas 2 --microbatches 8

Rank = stage * replicas + replica. A stage runs as many forward passes ahead as there are stages after it, then one backward and one
forward pass in turn (Narayanan et al., arXiv:2104.04473). Activations go to the next stage, gradients to the one before, each
microbatch with tags of its own. At the end the replicas of a stage all-reduce its weight gradients, in the process groups that
PREFIX.groups.json lists.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from astra_sim_chakra import CollectiveType, Node, NodeType, write_nodes

FORWARD_NS, BACKWARD_NS = 2_000_000, 4_000_000
ACTIVATION_BYTES = 16 << 20
WEIGHT_BYTES = 64 << 20


class Rank:
    """The nodes of one rank, written in the order in which it computes."""

    def __init__(self, stage: int, stages: int, replica: int, replicas: int) -> None:
        self.stage, self.stages, self.replicas = stage, stages, replicas
        self.rank = stage * replicas + replica
        self.nodes: list[Node] = []
        self.last_compute: tuple[int, ...] = ()

    def forward(self, microbatch: int) -> None:
        """Receive activations, compute, send activations."""
        received = self._receive(f"forward {microbatch}", -1, 2 * microbatch) if self.stage > 0 else ()
        self._compute(f"forward {microbatch}", FORWARD_NS, received)
        if self.stage < self.stages - 1:
            self._send(f"forward {microbatch}", +1, 2 * microbatch)

    def backward(self, microbatch: int) -> None:
        """Receive gradients, compute, send gradients."""
        received = self._receive(f"backward {microbatch}", +1, 2 * microbatch + 1) if self.stage < self.stages - 1 else ()
        self._compute(f"backward {microbatch}", BACKWARD_NS, received)
        if self.stage > 0:
            self._send(f"backward {microbatch}", -1, 2 * microbatch + 1)

    def reduce_gradients(self) -> None:
        """All-reduce the weight gradients among the replicas of the stage."""
        self._add(
            "weight gradients",
            NodeType.COMM_COLL_NODE,
            data=self.last_compute,
            comm_type=CollectiveType.ALL_REDUCE,
            comm_size=WEIGHT_BYTES,
            pg_name=str(1 + self.stage),
        )

    def _compute(self, name: str, duration_ns: int, received: tuple[int, ...]) -> None:
        self.last_compute = self._add(name, NodeType.COMP_NODE, data=self.last_compute + received, duration_ns=duration_ns)

    def _send(self, name: str, distance: int, tag: int) -> None:
        peer = self.rank + distance * self.replicas
        self._add(f"send {name}", NodeType.COMM_SEND_NODE, data=self.last_compute, comm_dst=peer, comm_tag=tag, comm_size=ACTIVATION_BYTES)

    def _receive(self, name: str, distance: int, tag: int) -> tuple[int, ...]:
        peer = self.rank + distance * self.replicas
        return self._add(f"receive {name}", NodeType.COMM_RECV_NODE, comm_src=peer, comm_tag=tag, comm_size=ACTIVATION_BYTES)

    def _add(self, name: str, type: NodeType, **values: object) -> tuple[int, ...]:
        self.nodes.append(Node(id=len(self.nodes), name=name, type=type, is_cpu_op=False, **values))  # type: ignore[arg-type]
        return (self.nodes[-1].id,)


def rank_nodes(stage: int, stages: int, replica: int, replicas: int, microbatches: int) -> list[Node]:
    """The nodes of a rank under 1F1B."""
    rank = Rank(stage, stages, replica, replicas)
    ahead = min(stages - 1 - stage, microbatches)
    for microbatch in range(ahead):
        rank.forward(microbatch)
    for microbatch in range(microbatches):
        if microbatch + ahead < microbatches:
            rank.forward(microbatch + ahead)
        rank.backward(microbatch)
    if replicas > 1:
        rank.reduce_gradients()
    return rank.nodes


def write_pipeline(prefix: str, stages: int, replicas: int, microbatches: int) -> None:
    """Write the traces of all ranks and the process groups."""
    for stage in range(stages):
        for replica in range(replicas):
            write_nodes(f"{prefix}.{stage * replicas + replica}.et", rank_nodes(stage, stages, replica, replicas, microbatches))
    groups = {str(1 + stage): list(range(stage * replicas, (stage + 1) * replicas)) for stage in range(stages)}
    Path(f"{prefix}.groups.json").write_text(json.dumps(groups) + "\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Write the Chakra traces of a 1F1B pipeline.")
    parser.add_argument("prefix", help="PREFIX.RANK.et are written, and PREFIX.groups.json")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8)
    arguments = parser.parse_args()
    if min(arguments.stages, arguments.replicas, arguments.microbatches) < 1:
        parser.error("stages, replicas and microbatches are at least 1")
    Path(arguments.prefix).parent.mkdir(parents=True, exist_ok=True)
    write_pipeline(arguments.prefix, arguments.stages, arguments.replicas, arguments.microbatches)


if __name__ == "__main__":
    main()
