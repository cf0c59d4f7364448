"""Execution plans in the JSON format of MSCCL++."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Op = dict[str, Any]
Local = tuple[str, int, int]
"""Buffer, first chunk and number of chunks."""

Remote = tuple[int, str, int, int]
"""Rank, buffer, first chunk and number of chunks."""


class GpuPlan:
    """Writes the operations of a GPU: channels to all others, one for each thread block, and their buffers i, o and s."""

    def __init__(self, rank: int, ranks: int, chunks: tuple[int, int], blocks: int = 1) -> None:
        self.rank, self.peers, self.chunks = rank, [peer for peer in range(ranks) if peer != rank], chunks
        self.blocks: list[list[Op]] = [[] for _ in range(blocks)]
        self.semaphores: list[int] = []

    def add(self, block: int, name: str, *buffers: Sequence[Local | Remote], to: Sequence[int] = (), **more: Any) -> None:
        """Append an operation with sources and targets, and channels to some ranks."""
        op: Op = {"name": name, **more}
        for key, own in zip(("src_buff", "dst_buff"), buffers, strict=False):
            op[key] = [self._buffer(*each) for each in own]
        if to or any(len(each) == 4 for own in buffers for each in own):
            op["channel_type"] = "memory"
        if to:
            op["channel_ids"] = [self.peers.index(peer) for peer in to]
        self.blocks[block].append(op)

    def _buffer(self, *place: Any) -> dict[str, Any]:
        if len(place) == 3:
            return {"type": place[0], "index": place[1], "size": place[2]}
        rank, kind, index, size = place
        return {"buffer_id": 3 * self.peers.index(rank) + "ios".index(kind), "index": index, "size": size}

    def table(self, number: int) -> dict[str, Any]:
        """The GPU as the file has it; thread block k has the k-th channel to each peer."""
        every = range(3 * len(self.peers))
        blocks = [
            {
                "id": block,
                "ops": ops,
                "channels": [
                    {"channel_type": "memory", "channel_ids": [block + len(self.blocks) * peer for peer in range(len(self.peers))]}
                ],
                "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": list(every)}],
            }
            for block, ops in enumerate(self.blocks)
        ]
        return {
            "id": number,
            "input_chunks": self.chunks[0],
            "output_chunks": self.chunks[1],
            "scratch_chunks": 64,
            "threadblocks": blocks,
            "channels": [{"channel_type": "memory", "connected_to": [peer for peer in self.peers for _ in self.blocks]}],
            "remote_buffers": [{"rank": peer, "type": kind, "access_channel_types": ["memory"]} for peer in self.peers for kind in "ios"],
            "semaphores": [{"init_value": value} for value in self.semaphores],
        }


def plan(collective: str, gpus: Sequence[GpuPlan], in_place: bool = True, protocol: str = "Simple") -> str:
    """The text of a file."""
    table = {
        "name": "test",
        "collective": collective,
        "protocol": protocol,
        "inplace": in_place,
        "gpus": [gpu.table(number) for number, gpu in enumerate(gpus)],
        "num_threads_per_block": 1024,
        "buffer_alignment": 16,
    }
    return json.dumps(table, indent=1)


def ring_all_reduce(n: int, how: str = "put") -> str:
    """Around a ring: sums, then what all have; data is put into scratch and added there, or read and added (`how` = get)."""
    gpus = [GpuPlan(rank, n, (n, n)) for rank in range(n)]
    for rank, gpu in enumerate(gpus):
        after, before = (rank + 1) % n, (rank - 1) % n
        for step in range(n - 1):
            own, coming = (rank - step) % n, (rank - step - 1) % n
            if how == "put":
                gpu.add(0, "put", [("i", own, 1)], [(after, "s", step, 1)], to=[after])
                gpu.add(0, "signal", to=[after])
                gpu.add(0, "wait", to=[before])
                gpu.add(0, "re", [("i", coming, 1), ("s", step, 1)], [("i", coming, 1)], reduce_op="sum")
            else:
                gpu.add(0, "signal", to=[after])
                gpu.add(0, "wait", to=[before])
                gpu.add(0, "rre", [("i", coming, 1), (before, "i", coming, 1)], [("i", coming, 1)], reduce_op="sum")
        for step in range(n - 1):
            own = (rank - step + 1) % n
            gpu.add(0, "pws", [("i", own, 1)], [(after, "i", own, 1)], to=[after])
            gpu.add(0, "wait", to=[before])
    return plan("allreduce", gpus)


def all_pairs_all_gather(n: int, how: str = "put") -> str:
    """Everybody puts its chunk to all others at once, or gets theirs."""
    gpus = [GpuPlan(rank, n, (1, n)) for rank in range(n)]
    for rank, gpu in enumerate(gpus):
        if how == "put":
            gpu.add(0, "put", [("o", rank, 1)], [(peer, "o", rank, 1) for peer in gpu.peers], to=gpu.peers)
            gpu.add(0, "signal", to=gpu.peers)
            gpu.add(0, "wait", to=gpu.peers)
        else:
            gpu.add(0, "signal", to=gpu.peers)
            gpu.add(0, "wait", to=gpu.peers)
            gpu.add(0, "get", [(peer, "o", peer, 1) for peer in gpu.peers], [("o", peer, 1) for peer in gpu.peers], to=gpu.peers)
    return plan("allgather", gpus)


def packet_all_reduce(n: int) -> str:
    """All ranks put packets of all data to all others, which add them up: one exchange, without signals."""
    gpus = [GpuPlan(rank, n, (1, 1)) for rank in range(n)]
    for rank, gpu in enumerate(gpus):
        gpu.add(0, "ppkt", [("i", 0, 1)], [(peer, "s", rank, 1) for peer in gpu.peers], to=gpu.peers)
        gpu.add(0, "repkt", [("i", 0, 1), *(("s", peer, 1) for peer in gpu.peers)], [("i", 0, 1)], reduce_op="sum")
    return plan("allreduce", gpus, protocol="LL")


def direct_reduce_scatter(n: int) -> str:
    """Each reads its chunk of all others, and adds them up."""
    gpus = [GpuPlan(rank, n, (n, 1)) for rank in range(n)]
    for rank, gpu in enumerate(gpus):
        gpu.add(0, "signal", to=gpu.peers)
        gpu.add(0, "wait", to=gpu.peers)
        gpu.add(0, "rre", [("i", rank, 1), *((peer, "i", rank, 1) for peer in gpu.peers)], [("i", rank, 1)], reduce_op="sum")
    return plan("reducescatter", gpus)
