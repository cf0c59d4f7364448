"""Plans in which all GPUs exchange with all others: by storing to them (put), or by loading from them (get)."""

from __future__ import annotations

from astra_sim.schedule import Collective

from astra_sim_collectives.mscclpp_plan import BufferSpan, ChannelEnd, ExecutionPlan, Operation

PAIRS = ("all_gather", "reduce_scatter")
"""The collectives that have such plans."""


def all_pairs(collective: str, transfer: str, gpus: int, workgroups: int) -> ExecutionPlan:
    """The plan for a number of GPUs, each with a number of workgroups, which share its chunks.

    With put, a GPU signals when its data are stored, and those that wait for it go on. With get, data are there when the kernels begin.
    """
    blocks = [[_block(collective, transfer, gpu, gpus, number, workgroups) for number in range(workgroups)] for gpu in range(gpus)]
    path = f"{transfer} of all pairs"
    return ExecutionPlan(path, Collective(collective), gpus * workgroups, True, blocks, [()] * gpus)


def _block(collective: str, transfer: str, gpu: int, gpus: int, number: int, workgroups: int) -> list[Operation]:
    """A workgroup's operations on its part of every rank's chunk; its peers from the next one on, so that no GPU is the first of all."""
    peers = [(gpu + step) % gpus for step in range(1, gpus)]
    channels = tuple(ChannelEnd(peer, "memory", number) for peer in peers)

    def span(rank: int, buffer: str, chunk: int) -> BufferSpan:
        return BufferSpan(rank, buffer, chunk * workgroups + number, 1)

    def operation(
        name: str, sources: tuple[BufferSpan, ...] = (), targets: tuple[BufferSpan, ...] = (), ends: tuple[ChannelEnd, ...] = ()
    ) -> Operation:
        where = f"gpus[{gpu}].threadblocks[{number}]"
        return Operation(name=name, sources=sources, targets=targets, channels=ends, barrier=0, semaphores=(), where=where)

    if collective == "all_gather" and transfer == "put":
        targets = tuple(span(peer, "o", gpu) for peer in peers)
        data = [operation("put", (span(gpu, "o", gpu),), targets)]
        return [*data, operation("signal", ends=channels), operation("wait", ends=channels)]
    if collective == "all_gather":
        return [operation("get", tuple(span(peer, "o", peer) for peer in peers), tuple(span(gpu, "o", peer) for peer in peers))]
    if transfer == "get":
        return [operation("rre", (span(gpu, "i", gpu), *(span(peer, "i", gpu) for peer in peers)), (span(gpu, "i", gpu),))]
    data = [operation("put", tuple(span(gpu, "i", peer) for peer in peers), tuple(span(peer, "s", gpu) for peer in peers))]
    total = operation("re", (span(gpu, "i", gpu), *(span(gpu, "s", peer) for peer in peers)), (span(gpu, "i", gpu),))
    return [*data, operation("signal", ends=channels), operation("wait", ends=channels), total]
