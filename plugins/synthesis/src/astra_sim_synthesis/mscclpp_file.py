"""Writes a plan in the JSON format of MSCCL++, as its executor and the collective `mscclpp` read it.

A rank has one thread block, which does the steps of its program in order: before it puts data it waits for the signals of the messages that
it needs, and adds up the data put into its scratch buffer. Each message is a put for each run of chunks, and a signal.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from astra_sim.schedule import Collective, Request, Schedule, Step
from astra_sim.schedule_bytes import cut_of

from astra_sim_synthesis.expanded import expanded
from astra_sim_synthesis.msccl_file import NAMES, inputs_of, outputs_of, sent_in_order
from astra_sim_synthesis.places import ChunkPlace, MessageRun, PiecePlaces, in_place_buffer

_CHANNEL = {"channel_type": "memory"}


def mscclpp_json(schedule: Schedule, request: Request, name: str) -> str:
    """The text of the file of a schedule whose messages carry named pieces."""
    schedule = expanded(schedule)
    kind, pieces, n = request.collective, cut_of(schedule), request.ranks
    places = PiecePlaces(schedule, kind)
    messages = _messages(schedule, places)
    table = {
        "name": name,
        "collective": NAMES[kind],
        "protocol": "Simple",
        "inplace": kind is not Collective.ALL_TO_ALL,
        "reuse_resources": False,
        "gpus": [_gpu(schedule, rank, messages, kind, pieces, places.scratch[rank]) for rank in range(n)],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": request.bytes,
        "max_message_size": request.bytes,
    }
    return json.dumps(table, indent=1) + "\n"


class _PlanMessage:
    """A message: its runs of chunks, and the first chunk in the scratch buffer of those that are to be added; None: they are not."""

    def __init__(self, runs: Sequence[MessageRun]) -> None:
        self.runs = runs
        self.scratch: int | None = None

    @property
    def length(self) -> int:
        """Its chunks."""
        return sum(run.chunks for run in self.runs)

    def landings(self) -> list[ChunkPlace]:
        """The place where each run is put."""
        if self.scratch is None:
            return [run.target for run in self.runs]
        before = itertools.accumulate((run.chunks for run in self.runs), initial=self.scratch)
        return [ChunkPlace("s", first) for first, _ in zip(before, self.runs, strict=False)]


def _messages(schedule: Schedule, places: PiecePlaces) -> dict[tuple[int, int], list[_PlanMessage]]:
    """The messages from each rank to each other one, in order."""
    sent = sent_in_order(schedule).items()
    result = {ends: [_PlanMessage(places.runs(names, *ends)) for names in messages] for ends, messages in sent}
    for rank in range(schedule.ranks):
        seen = dict[int, int]()
        for step in schedule.program(rank).steps:
            if step.receive_from is not None:
                source = step.receive_from.of(rank, schedule.ranks)
                message = result[source, rank][seen.get(source, 0)]
                seen[source] = seen.get(source, 0) + 1
                if step.reduce:
                    message.scratch = places.scratch[rank]
                    places.scratch[rank] += message.length
    return result


class _MscclppBlock:
    """The operations of a rank, which has a channel to each peer, and two buffers of each: the one with results, and scratch."""

    def __init__(self, rank: int, peers: Sequence[int]) -> None:
        self.rank, self.peers = rank, peers
        self.ops: list[dict[str, Any]] = []
        self._received: dict[int, int] = {}

    def put(self, message: _PlanMessage, peer: int) -> None:
        """A put for each run of a message, and a signal."""
        number = self.peers.index(peer)
        for run, there in zip(message.runs, message.landings(), strict=True):
            source = {"type": run.source.buffer, "index": run.source.chunk, "size": run.chunks}
            target = {"buffer_id": 2 * number + (there.buffer == "s"), "index": there.chunk, "size": run.chunks}
            self.ops.append({"name": "put", "src_buff": [source], "dst_buff": [target], "channel_ids": [number], **_CHANNEL})
        self.ops.append({"name": "signal", "channel_ids": [number], **_CHANNEL})

    def take(self, step: Step, messages: dict[tuple[int, int], list[_PlanMessage]], ranks: int) -> None:
        """Wait for the next message of a rank; add its data, if it is in the scratch buffer."""
        assert step.receive_from is not None
        source = step.receive_from.of(self.rank, ranks)
        message = messages[source, self.rank][self._received.get(source, 0)]
        self._received[source] = self._received.get(source, 0) + 1
        self.ops.append({"name": "wait", "channel_ids": [self.peers.index(source)], **_CHANNEL})
        for run, there in zip(message.runs, message.landings(), strict=True):
            if message.scratch is not None:
                here = {"type": run.target.buffer, "index": run.target.chunk, "size": run.chunks}
                added = {"type": there.buffer, "index": there.chunk, "size": run.chunks}
                self.ops.append({"name": "re", "src_buff": [here, added], "dst_buff": [here], "reduce_op": "sum"})


def _gpu(
    schedule: Schedule, rank: int, messages: dict[tuple[int, int], list[_PlanMessage]], kind: Collective, pieces: int, scratch: int
) -> dict[str, Any]:
    """The table of a GPU."""
    n, target_buffer = schedule.ranks, "o" if kind is Collective.ALL_TO_ALL else in_place_buffer(kind)
    peers = [peer for peer in range(n) if peer != rank]
    block = _MscclppBlock(rank, peers)
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
        block.put(messages[rank, peer][sent.get(peer, 0)], peer)
        sent[peer] = sent.get(peer, 0) + 1
    for each in pending[taken:]:
        block.take(each, messages, n)
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
