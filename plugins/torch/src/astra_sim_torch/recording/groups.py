"""A process group that records every call and communicates nothing, as a backend of torch.distributed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import utils

from .events import TorchEvents
from .replacing import replace

BACKEND = "astra_recording"


class RecordedWork(dist._Work):  # type: ignore[name-defined, misc]
    """The handle that a call returns: waiting for it is recorded, once for each stream that waits."""

    def __init__(self, events: TorchEvents, number: int, result: Any) -> None:
        super().__init__()
        self._events, self._number = events, number
        self._future: Any = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Let the current stream wait."""
        self._events.add("wait", work=self._number)
        return True

    def get_future(self) -> Any:
        """A future of the result, which is there; who uses it waits."""
        self._events.add("wait", work=self._number)
        return self._future

    def is_completed(self) -> bool:
        """Always: nothing is communicated."""
        return True


def _bytes(tensors: Any) -> int:
    """Bytes of a tensor, or of the tensors in lists of lists."""
    if isinstance(tensors, torch.Tensor):
        return int(tensors.numel() * tensors.element_size())
    return sum(map(_bytes, tensors))


class RecordingGroup(dist.ProcessGroup):
    """A group of ranks. Sizes are those of the operand of each rank, as `Communicate` of astra counts them."""

    def __init__(self, rank: int, size: int, events: TorchEvents) -> None:
        super().__init__(rank, size)
        self._events, self._rank, self._size = events, rank, size

    # -- Called by torch on a group

    def size(self) -> int:
        """Its ranks."""
        return self._size

    def rank(self) -> int:
        """The rank of this process in it."""
        return self._rank

    @property
    def group_name(self) -> str:
        """The name under which torch knows it."""
        name: str = dist.distributed_c10d._world.pg_names[self]
        return name

    @property
    def pg_name(self) -> str:
        """The same, as older releases call it."""
        return self.group_name

    def getBackendName(self) -> str:  # noqa: N802
        """The backend."""
        return BACKEND

    def _get_backend(self, device: Any) -> RecordingGroup:
        return self

    # -- Calls

    def _collective(self, name: str, size: int, result: Any) -> RecordedWork:
        number = self._events.next_work()
        self._events.add_described("collective", op=name, bytes=size, group=self.group_name, work=number)
        return RecordedWork(self._events, number, result)

    def allreduce(self, tensors: Sequence[Any], opts: Any = None) -> RecordedWork:
        """All-reduce."""
        return self._collective("all_reduce", _bytes(tensors), tensors)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: Sequence[Any], opts: Any = None) -> RecordedWork:
        """Broadcast."""
        return self._collective("broadcast", _bytes(tensors), tensors)

    def reduce(self, tensors: Sequence[Any], opts: Any = None) -> RecordedWork:
        """Reduce to one rank."""
        return self._collective("reduce", _bytes(tensors), tensors)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> RecordedWork:
        """All-gather of lists of tensors."""
        return self._collective("all_gather", _bytes(inputs), outputs)

    allgather_coalesced = allgather

    def all_gather_single(self, output: Any, tensor: Any, opts: Any = None) -> RecordedWork:
        """All-gather into one tensor."""
        return self._collective("all_gather", _bytes(tensor), [output])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> RecordedWork:
        """All-gathers into tensors, in one call."""
        return self._collective("all_gather", _bytes(inputs), outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> RecordedWork:
        """Reduce-scatter of lists of tensors."""
        return self._collective("reduce_scatter", _bytes(inputs), outputs)

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any = None) -> RecordedWork:
        """Reduce-scatter of one tensor."""
        return self._collective("reduce_scatter", _bytes(tensor), [output])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> RecordedWork:
        """Reduce-scatters of tensors, in one call."""
        return self._collective("reduce_scatter", _bytes(inputs), outputs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> RecordedWork:
        """All-to-all of lists of tensors."""
        return self._collective("all_to_all", _bytes(inputs), outputs)

    def all_to_all_single(
        self, output: Any, tensor: Any, output_sizes: Any = None, input_sizes: Any = None, opts: Any = None
    ) -> RecordedWork:
        """All-to-all of one tensor."""
        return self._collective("all_to_all", _bytes(tensor), [output])

    alltoall_base = all_to_all_single

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> RecordedWork:
        """Gather at one rank."""
        return self._collective("gather", _bytes(inputs), outputs)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> RecordedWork:
        """Scatter from one rank."""
        return self._collective("scatter", _bytes(outputs) * self._size, outputs)

    def barrier(self, opts: Any = None) -> RecordedWork:
        """Barrier: an all-reduce of one byte."""
        return self._collective("all_reduce", 1, [])

    def send(self, tensors: Sequence[Any], peer: int, tag: int = 0) -> RecordedWork:
        """Send to a rank of the group."""
        return self._message("send", tensors, peer, tag)

    def recv(self, tensors: Sequence[Any], peer: int, tag: int = 0) -> RecordedWork:
        """Receive from a rank of the group."""
        return self._message("receive", tensors, peer, tag)

    def _message(self, kind: str, tensors: Sequence[Any], peer: int, tag: int) -> RecordedWork:
        number = self._events.next_work()
        fields = {"bytes": _bytes(tensors), "peer": peer, "tag": tag, "group": self.group_name}
        self._events.add_described(kind, work=number, **fields)
        return RecordedWork(self._events, number, tensors)


_STORE_S = 2
"""How long a store waits for a key: no other rank will set it."""


def _store() -> Any:
    """A store of this process alone."""
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=_STORE_S))
    return store


_created: list[list[int]] = []
"""The ranks of each group in the order in which they were made, those that this rank is not in, too."""


def register(events: TorchEvents) -> None:
    """Make the backend known; every group that a script asks for is of it, whatever backend it names."""

    def create(store: Any, rank: int, size: int, timeout: Any) -> RecordingGroup:
        return RecordingGroup(rank, size, events)

    dist.Backend.register_backend(BACKEND, create, devices=["cpu", "cuda"])
    begin, make = dist.init_process_group, dist.new_group

    def init_process_group(backend: Any = None, *args: Any, **keywords: Any) -> None:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        options = {key: keywords[key] for key in ("timeout", "group_name") if keywords.get(key) is not None}
        begin(BACKEND, store=_store(), rank=rank, world_size=size, **options)

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **keywords: Any) -> Any:
        members = list(range(dist.get_world_size())) if ranks is None else [int(rank) for rank in ranks]
        _created.append(members)
        result = {key: value for key, value in keywords.items() if key == "group_desc"}
        return make(members, timeout, BACKEND, **result)

    def monitored_barrier(group: Any = None, *_: Any, **__: Any) -> None:
        dist.barrier(group)

    replace(begin, init_process_group)
    replace(dist.monitored_barrier, monitored_barrier)
    dist.TCPStore = dist.FileStore = lambda *_, **__: _store()  # type: ignore[assignment, misc]
    replace(make, new_group)
    replace(utils._verify_param_shape_across_processes, lambda *_, **__: None)


def tables() -> tuple[dict[str, list[int]], list[list[int]]]:
    """The ranks of each group of this rank, by name, and those of all groups that were made."""
    world = dist.distributed_c10d._world
    result = {}
    for group, name in world.pg_names.items():
        ranks = world.pg_group_ranks.get(group, {})
        result[name] = sorted(ranks, key=ranks.__getitem__)
    return result, _created
