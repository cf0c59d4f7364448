"""Writes a plan in the JSON format of MSCCL++, as its executor and the collective `mscclpp` read it.

A rank has one thread block, which does the steps of its program in order: before it puts data it waits for the signals of the messages that
it needs, and adds up the data put into its scratch buffer. Each message is a put for each run of chunks, and a signal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from astra_sim.schedule import Collective, Request, Schedule, Step
from astra_sim.schedule_bytes import cut_of

from astra_sim_synthesis.msccl_file import NAMES, buffers_of, inputs_of, outputs_of, runs_of, sent_in_order, target_of

_CHANNEL = {"channel_type": "memory"}


def mscclpp_json(schedule: Schedule, request: Request, name: str) -> str:
    """The text of the file of a schedule that has a program for each rank, whose messages carry named pieces."""
    kind, pieces, n = request.collective, cut_of(schedule), request.ranks
    messages = _messages(schedule, kind, pieces)
    table = {
        "name": name,
        "collective": NAMES[kind],
        "protocol": "Simple",
        "inplace": kind is not Collective.ALL_TO_ALL,
        "reuse_resources": False,
        "gpus": [_gpu(schedule, rank, messages, kind, pieces) for rank in range(n)],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": request.bytes,
        "max_message_size": request.bytes,
    }
    return json.dumps(table, indent=1) + "\n"


class _PlanMessage:
    """A message: its runs of chunks at the source and at the destination, and their place in the scratch buffer until they are added."""

    def __init__(self, sources: Sequence[tuple[int, int]], targets: Sequence[tuple[int, int]]) -> None:
        self.sources, self.targets = sources, targets
        self.scratch: int | None = None

    @property
    def length(self) -> int:
        """Its chunks."""
        return sum(count for _, count in self.sources)

    def places(self, buffer: str) -> list[tuple[str, int, int]]:
        """The positions of its runs."""
        if self.scratch is None:
            return [(buffer, first, count) for first, count in self.targets]
        before = [sum(count for _, count in self.targets[:number]) for number in range(len(self.targets))]
        return [("s", self.scratch + offset, count) for offset, (_, count) in zip(before, self.targets, strict=True)]


def _messages(schedule: Schedule, kind: Collective, pieces: int) -> dict[tuple[int, int], list[_PlanMessage]]:
    """The messages from each rank to each other one, in order."""

    def message_of(names: Sequence[object], sender: int) -> _PlanMessage:
        sources = runs_of(names, kind, pieces, "source")
        return _PlanMessage(sources, [(target_of(kind, first, sender, pieces), count) for first, count in sources])

    result = {ends: [message_of(names, ends[0]) for names in sent] for ends, sent in sent_in_order(schedule).items()}
    for rank in range(schedule.ranks):
        scratch, seen = 0, dict[int, int]()
        for step in schedule.program(rank).steps:
            if step.receive_from is not None:
                source = step.receive_from.of(rank, schedule.ranks)
                message = result[source, rank][seen.get(source, 0)]
                seen[source] = seen.get(source, 0) + 1
                if step.reduce:
                    message.scratch = scratch
                    scratch += message.length
    return result


class _MscclppBlock:
    """The operations of a rank, which has a channel to each peer, and two buffers of each: the one with results, and scratch."""

    def __init__(self, rank: int, peers: Sequence[int], buffer: str) -> None:
        self.rank, self.peers, self.buffer = rank, peers, buffer
        self.ops: list[dict[str, Any]] = []
        self._received: dict[int, int] = {}

    def put(self, message: _PlanMessage, peer: int, buffer: str) -> None:
        """A put for each run of a message, and a signal."""
        number = self.peers.index(peer)
        for (first, count), (there, at, _) in zip(message.sources, message.places(self.buffer), strict=True):
            source = {"type": buffer, "index": first, "size": count}
            target = {"buffer_id": 2 * number + (there == "s"), "index": at, "size": count}
            self.ops.append({"name": "put", "src_buff": [source], "dst_buff": [target], "channel_ids": [number], **_CHANNEL})
        self.ops.append({"name": "signal", "channel_ids": [number], **_CHANNEL})

    def take(self, step: Step, messages: dict[tuple[int, int], list[_PlanMessage]], ranks: int) -> None:
        """Wait for the next message of a rank; add its data, if it is in the scratch buffer."""
        assert step.receive_from is not None
        source = step.receive_from.of(self.rank, ranks)
        message = messages[source, self.rank][self._received.get(source, 0)]
        self._received[source] = self._received.get(source, 0) + 1
        self.ops.append({"name": "wait", "channel_ids": [self.peers.index(source)], **_CHANNEL})
        for (first, count), (_, at, _) in zip(message.targets, message.places(self.buffer), strict=True):
            if message.scratch is not None:
                here = {"type": self.buffer, "index": first, "size": count}
                added = {"type": "s", "index": at, "size": count}
                self.ops.append({"name": "re", "src_buff": [here, added], "dst_buff": [here], "reduce_op": "sum"})


def _gpu(
    schedule: Schedule, rank: int, messages: dict[tuple[int, int], list[_PlanMessage]], kind: Collective, pieces: int
) -> dict[str, Any]:
    """The table of a GPU."""
    n, (source_buffer, target_buffer) = schedule.ranks, buffers_of(kind)
    peers = [peer for peer in range(n) if peer != rank]
    block = _MscclppBlock(rank, peers, target_buffer)
    if kind is Collective.ALL_TO_ALL:
        source, target = ({"type": buffer, "index": rank * pieces, "size": pieces} for buffer in ("i", "o"))
        block.ops.append({"name": "copy", "src_buff": [source], "dst_buff": [target]})
    pending: list[Step] = []
    taken, sent = 0, dict[int, int]()
    for step in schedule.program(rank).steps:
        if step.receive_from is not None:
            pending.append(step)
            continue
        assert step.send_to is not None
        needed = max(taken, min(len(pending), (step.after or 0) - 1))
        for each in pending[taken:needed]:
            block.take(each, messages, n)
        taken, peer = needed, step.send_to.of(rank, n)
        block.put(messages[rank, peer][sent.get(peer, 0)], peer, source_buffer)
        sent[peer] = sent.get(peer, 0) + 1
    for each in pending[taken:]:
        block.take(each, messages, n)
    scratch = sum(each.length for (_, to), of_pair in messages.items() if to == rank for each in of_pair if each.scratch is not None)
    every = list(range(len(peers)))
    return {
        "id": rank,
        "input_chunks": inputs_of(kind, n, pieces),
        "output_chunks": outputs_of(kind, n, pieces),
        "scratch_chunks": scratch,
        "threadblocks": [
            {
                "id": 0,
                "ops": block.ops,
                "channels": [{**_CHANNEL, "channel_ids": every}],
                "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": list(range(2 * len(peers)))}],
            }
        ],
        "channels": [{**_CHANNEL, "connected_to": peers}],
        "remote_buffers": [
            {"rank": peer, "type": buffer, "access_channel_types": ["memory"]} for peer in peers for buffer in (target_buffer, "s")
        ],
        "semaphores": [],
    }
