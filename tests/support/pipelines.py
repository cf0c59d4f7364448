"""Training steps of pipelines as graphs: stages with tensor ranks and replicas."""

from __future__ import annotations

from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, shift


def pipeline(
    npus: int, tensor: int, stages: int, batches: int, layers: int, compute_ps: int, message: int, reduced: int, gradients: int
) -> ExecutionGraph:
    """A pipeline in the order of GPipe, with as many replicas as fit `npus`; tensor ranks are next to each other, stages farthest apart.

    Each layer of a stage computes (`compute_ps`, backwards twice that), then its tensor ranks exchange `reduced` bytes: an all-reduce if
    that is odd, else an all-gather. Stages send each other `message` bytes for a micro-batch. Beside the last backward pass the replicas
    reduce `gradients` bytes for each layer.
    """
    replicas = npus // tensor // stages
    dimensions = (LogicalDimension(tensor, 1, None, "tp"), LogicalDimension(replicas, tensor, None, "dp"))
    stride = tensor * replicas
    what = Collective.ALL_REDUCE if reduced % 2 else Collective.ALL_GATHER
    programs = []
    for stage in range(stages):
        operations: list[Operation] = []
        last: tuple[int, ...] = ()
        for forward in (True, False):
            begins, ends = (0, stages - 1) if forward else (stages - 1, 0)
            towards = stride if forward else -stride
            for batch in range(batches):
                if stage != begins:
                    operations.append(Receive((), shift(-towards), message, tag=int(forward)))
                    last = (*last, len(operations) - 1)
                for _ in range(layers):
                    operations.append(Compute(last, compute_ps if forward else 2 * compute_ps))
                    last = (len(operations) - 1,)
                    if tensor > 1:
                        operations.append(Communicate(last, what, reduced, (0,), 0, Pass.FORWARD))
                        last = (len(operations) - 1,)
                    if not forward and batch == batches - 1 and replicas > 1:
                        operations.append(Communicate(last, Collective.ALL_REDUCE, gradients, (1,), 0, Pass.FORWARD))
                if stage != ends:
                    operations.append(Send(last, shift(towards), message, tag=int(forward)))
        programs.append(operations)
    others = tuple(
        NpuProgram(operations, range(stage * stride, (stage + 1) * stride)) for stage, operations in enumerate(programs) if stage
    )
    return ExecutionGraph(programs[0], dimensions, ("l",), others=others)
