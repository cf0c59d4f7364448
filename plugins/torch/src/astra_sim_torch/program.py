"""The operations of a rank: its kernels stream by stream, its communication, and their dependencies.

Kernels of a stream run one after another, and a device runs those of all streams one at a time: that of another stream than the default
one, such as a copy of FSDP, next when it may begin, as such streams have a higher priority. A collective begins when the work its
stream has waited for has ended, and when the collective before it in the same group has: NCCL has one stream for each group. Kernels of
the default stream that wait for communication do so in a `Wait`, which is exposed time; kernels of other streams, such as FSDP's copies,
wait on their own stream.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.graph import Communicate, Compute, Operation, Pass, Receive, Send, Wait
from astra_sim.schedule import Collective, Peer

from astra_sim_torch.capture_file import RankCapture
from astra_sim_torch.memory import MEMORY_EVENTS, LiveMemory
from astra_sim_torch.ranks import Members, targets

_COLLECTIVES = {
    "all_reduce": Collective.ALL_REDUCE,
    "all_gather": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "all_to_all": Collective.ALL_TO_ALL,
    "broadcast": Collective.ALL_GATHER,
    "gather": Collective.ALL_GATHER,
    "reduce": Collective.REDUCE_SCATTER,
    "scatter": Collective.REDUCE_SCATTER,
}
"""The collective of each call. Those with a root become the collective in which every link carries as much."""

_DIVIDED = ("broadcast",)
"""Calls whose operand is that of all ranks: each has its part of it."""

_PASSES = {"forward": Pass.FORWARD, "backward": Pass.INPUT_GRADIENT, "optimizer": Pass.WEIGHT_GRADIENT}
DEFAULT_STREAM = 0


class TorchLayers:
    """Layers by the module of the model, in the order in which they are first met."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def of(self, event: Mapping[str, Any]) -> tuple[int, Pass]:
        """The layer of an event, and the pass."""
        phase = event.get("phase", "forward")
        name = event.get("module") or ("optimizer" if phase == "optimizer" else "script")
        return self.names.setdefault(name, len(self.names)), _PASSES.get(phase, Pass.FORWARD)


@attrs.define
class _Stream:
    """The dependencies of the next operation of a stream: kernels, and communication."""

    kernels: frozenset[int] = frozenset()
    pending: frozenset[int] = frozenset()

    def join(self, other: _Stream) -> None:
        """Take over the dependencies of another stream, too."""
        self.kernels |= other.kernels
        self.pending |= other.pending


def _renumbered(operation: Operation, place: list[int]) -> Operation:
    """An operation whose dependencies have other numbers."""
    after = tuple(sorted(place[each] for each in operation.after))
    if isinstance(operation, Wait):
        return attrs.evolve(operation, after=after, pending=tuple(sorted(place[each] for each in operation.pending)))
    return attrs.evolve(operation, after=after)


class TorchRankProgram:
    """Writes the operations of a rank. `members` is the scope of a group's collectives, `duration` the time of a kernel (ps)."""

    def __init__(
        self, capture: RankCapture, layers: TorchLayers, members: Callable[[str], Members], duration: Callable[[Mapping[str, Any]], int]
    ) -> None:
        self.operations: list[Operation] = []
        self.flops = 0
        self.kernel_bytes = 0
        self.kernels = 0
        self.communicated: dict[str, int] = {}
        self.memory: list[tuple[int, int, str]] = []
        """Changes of memory: the operation after which it changes (-1: the start), the bytes, and their kind."""
        self._held: Counter[str] = Counter()
        self._last_kernel = -1
        self._aside: set[int] = set()
        self.capture, self._layers, self._duration = capture, layers, duration
        self._members = {name: members(name) for name in {each["group"] for each in capture.events if each["kind"] == "collective"}}
        self._start: frozenset[int] = frozenset()

    def write(self, iteration: int) -> None:
        """Write one step, which begins when the operations of the one before have ended."""
        self._iteration = iteration
        self._streams: dict[int, _Stream] = {}
        self._marks: dict[int, _Stream] = {}
        self._works: dict[int, int | None] = {}
        self._last_in_group: dict[str, int] = {}
        self.memory += [(self._last_kernel, -size, kind) for kind, size in self._held.items()]  # a step says what it finds
        self._held.clear()
        live = LiveMemory()
        for event in self.capture.events:
            if event["kind"] in MEMORY_EVENTS:
                size, allocation = live.change(event)
                self._held[allocation["holds"]] += size
                self.memory.append((self._last_kernel, size, allocation["holds"]))
            else:
                self._event(event, self._streams.setdefault(event["stream"], _Stream(self._start)))
        end = _Stream()
        for stream in self._streams.values():
            end.join(stream)
        self._start = end.kernels | end.pending

    def put_side_streams_first(self) -> None:
        """Number the operations anew: of those that may begin, an NPU starts the first, which are to be the kernels of other streams.

        Everything else stays in its order, so that all ranks of a group call its collectives alike.
        """
        if not self._aside:
            return
        users: list[list[int]] = [[] for _ in self.operations]
        missing = []
        for number, operation in enumerate(self.operations):
            waited = (*operation.after, *(operation.pending if isinstance(operation, Wait) else ()))
            missing.append(len(waited))
            for before in waited:
                users[before].append(number)
        ready = [(number not in self._aside, number) for number, count in enumerate(missing) if not count]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            number = heapq.heappop(ready)[1]
            order.append(number)
            for user in users[number]:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, (user not in self._aside, user))
        place = [0] * len(order)
        for new, old in enumerate(order):
            place[old] = new
        self.operations = [_renumbered(self.operations[old], place) for old in order]
        self.memory = [(place[after] if after >= 0 else after, size, kind) for after, size, kind in self.memory]

    def _event(self, event: Mapping[str, Any], stream: _Stream) -> None:
        """Write the operation of an event, or change the dependencies of its stream."""
        match event["kind"]:
            case "kernel":
                self._kernel(event, stream)
            case "collective":
                self._collective(event, stream)
            case "send" | "receive":
                self._message(event, stream)
            case "wait":
                work = self._works.get(event["work"])  # None: it belongs to a step before, or to a group of one rank
                if work is not None:
                    stream.pending |= {work}
            case "mark":
                self._marks[event["mark"]] = _Stream(stream.kernels, stream.pending)
            case "wait_mark":
                stream.join(self._marks.get(event["mark"], _Stream()))

    def _kernel(self, event: Mapping[str, Any], stream: _Stream) -> None:
        """Write a kernel, after a wait for communication on the default stream."""
        layer, training_pass = self._layers.of(event)
        self.flops += event["flops"]
        self.kernel_bytes += event["read"] + event["write"]
        self.kernels += 1
        if stream.pending and event["stream"] == DEFAULT_STREAM:
            waited = tuple(sorted(stream.pending))
            stream.kernels = frozenset({self._add(Wait(tuple(sorted(stream.kernels)), waited, layer, training_pass, self._iteration))})
            stream.pending = frozenset()
        after = tuple(sorted(stream.kernels | stream.pending))
        name = f"{event.get('op', 'kernel')} {event.get('line', '')}".rstrip()
        number = self._add(Compute(after, self._duration(event), layer, training_pass, self._iteration, name=name))
        stream.kernels, stream.pending = frozenset({number}), frozenset()
        if event["stream"] == DEFAULT_STREAM:
            self._last_kernel = number
        else:
            self._aside.add(number)

    def _collective(self, event: Mapping[str, Any], stream: _Stream) -> None:
        """Write a collective; one of a group of one rank is none."""
        op, group = event["op"], event["group"]
        if op not in _COLLECTIVES:
            raise InputError(f"{self.capture.path}: the collective {op!r} is not known; expected one of {', '.join(_COLLECTIVES)}")
        members = self._members[group]
        self._works[event["work"]] = None
        size = event["bytes"] // (len(self.capture.groups[group]) if op in _DIVIDED else 1)
        if not size or (not members.dimensions and members.group is None):
            return
        self.communicated[op] = self.communicated.get(op, 0) + size
        layer, training_pass = self._layers.of(event)
        before = {self._last_in_group[group]} if group in self._last_in_group else set()
        number = self._add(
            Communicate(
                tuple(sorted(stream.kernels | stream.pending | before)),
                _COLLECTIVES[op],
                size,
                members.dimensions,
                layer,
                training_pass,
                self._iteration,
                group=members.group,
                name=op,
            )
        )
        self._works[event["work"]] = self._last_in_group[group] = number

    def _message(self, event: Mapping[str, Any], stream: _Stream) -> None:
        other = targets(self.capture, event["group"], event["peer"])
        peer = Peer("shift", other - self.capture.rank).normal(self.capture.world)
        layer, _ = self._layers.of(event)
        after = tuple(sorted(stream.kernels | stream.pending))
        kind = Send if event["kind"] == "send" else Receive
        self.communicated["send"] = self.communicated.get("send", 0) + (event["bytes"] if kind is Send else 0)
        self._works[event["work"]] = self._add(kind(after, peer, event["bytes"], event["tag"], layer, event["kind"]))

    def _add(self, operation: Operation) -> int:
        self.operations.append(operation)
        return len(self.operations) - 1
