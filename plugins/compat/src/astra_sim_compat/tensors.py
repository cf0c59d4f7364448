"""The output of `track-local-mem` of ASTRA-sim 2.x: the peak memory of an NPU's tensors, and its course as a trace of Chrome.

A node has attributes `inputs` and `outputs`, lists of names of tensors, each followed by its bytes. A tensor is there from when the node
that writes it begins until the last that reads it has ended; one that none writes from the start on, and one that none reads to the end.
Formats: `LocalMemUsageTracker` of ASTRA-sim 2.x at 518bd51.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.errors import warn

from astra_sim_compat.operators import Operator

_MIB = 1 << 20
_UNDEFINED = (0, 10, "UNDEFINED", 2**64 - 1)
"""The writer reported for a tensor that no node writes."""
_LIFETIMES, _USAGE, _HEATMAP = 1_000_000, 2_000_000, 3_000_000
"""The offset added to the NPU's number to form the process id of these events."""


class _Access(NamedTuple):
    begin: int
    end: int
    name: str
    id: int


@attrs.define
class _Tensor:
    number: int
    bytes: int
    written: _Access
    reads: list[_Access]


@attrs.frozen
class TensorMemory:
    """The memory of an NPU's tensors over time."""

    npu: int
    tensors: Mapping[str, _Tensor]
    usage: Mapping[int, int]

    @property
    def peak(self) -> int:
        """The most bytes that are taken at once."""
        return max(self.usage.values(), default=0)

    def peak_line(self) -> str:
        """The line about it, in the largest unit of which it has at least one; numbers as single precision has them."""
        power = min(4, max(0, self.peak.bit_length() - 1) // 10)
        (number,) = struct.unpack("f", struct.pack("f", self.peak))
        return f"sys[{self.npu}] peak memory usage: {number / 1024**power:.2f} {('B', 'KB', 'MB', 'GB', 'TB')[power]}"

    def text(self) -> str:
        """The course as JSON."""
        events = [*self._accesses(), *self._lifetimes(), *self._course(), *self._heatmap()]
        return json.dumps({"traceEvents": events}, indent=2, sort_keys=True, ensure_ascii=False)

    def _accesses(self) -> Iterator[dict[str, Any]]:
        for kind in ("Read", "Write"):
            for name, tensor in self.tensors.items():
                for access in tensor.reads if kind == "Read" else (tensor.written,):
                    args = {"size": tensor.bytes, "node_name": access.name, "node_id": access.id}
                    for phase, time in (("B", access.begin), ("E", access.end)):
                        yield self._event(name, f"tensor{kind}", phase, time, 0, tid=tensor.number, args=args)

    def _lifetimes(self) -> Iterator[dict[str, Any]]:
        for name, tensor in self.tensors.items():
            yield self._event(name, _LIFETIME, "B", tensor.written.begin, _LIFETIMES, tid=tensor.number, args={"size": tensor.bytes})
        for name, tensor in self.tensors.items():
            if tensor.reads:
                end = tensor.reads[-1].end
                yield self._event(name, _LIFETIME, "E", end, _LIFETIMES, tid=tensor.number, args={"size": tensor.bytes})

    def _course(self) -> Iterator[dict[str, Any]]:
        for time, size in self.usage.items():
            yield self._event("GPU Memory Usage (MB)", "GPU Memory", "C", time, _USAGE, args={"Memory_MB": size / _MIB})

    def _heatmap(self) -> Iterator[dict[str, Any]]:
        """The tensors by how long they are there, the longest first."""
        process = self.npu + _HEATMAP
        yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": "Tensor Lifetime Heap"}}
        legend = {"name": "Longest Lifetime → Shortest Lifetime"}
        yield {"name": "thread_name", "ph": "M", "pid": process, "tid": 0, "args": legend}
        last = max(self.usage, default=0)
        lasting = {name: (tensor.reads[-1].end if tensor.reads else last) - tensor.written.begin for name, tensor in self.tensors.items()}
        least, most = min(lasting.values(), default=0), max(lasting.values(), default=0)
        largest = max((tensor.bytes for tensor in self.tensors.values()), default=1)
        for name, time in sorted(lasting.items(), key=lambda each: -each[1]):
            tensor = self.tensors[name]
            place = int((time - least) / (most - least) * (len(lasting) - 1)) if most > least else 0
            shade = min(255, int(tensor.bytes / largest * 255))
            size = tensor.bytes / _MIB
            shown = f"{name if len(name) <= 20 else f'{name[:17]}...'} ({f'{size:.6f}'[:5]} MB)"
            args = {"tensor_name": name, "size_bytes": tensor.bytes, "size_mb": size, "lifetime_ns": time, "position": place}
            more = {"dur": 1e-3 * time, "tid": place, "cname": f"#{shade:02X}64{255 - shade:02X}", "args": args}
            yield self._event(shown, "tensorHeatmap", "X", tensor.written.begin, _HEATMAP, **more)
        words = "Tensors arranged by lifetime duration (longest at bottom)"
        args = {"description": words, "total_tensors": len(lasting), "displayed_tensors": len(lasting)}
        yield self._event("Tensor Lifetime Heatmap", "tensorHeatmap", "i", 0, _HEATMAP, s="p", args=args)

    def _event(self, name: str, category: str, phase: str, time: int, process: int, **more: Any) -> dict[str, Any]:
        return {"name": name, "cat": category, "ph": phase, "ts": 1e-3 * time, "pid": self.npu + process, **more}


_LIFETIME = "tensorLifetime"


def memory_of(npu: int, operators: Sequence[Operator]) -> TensorMemory:
    """The memory of an NPU's tensors. Raises InputError if a node does not name its tensors."""
    tensors: dict[str, _Tensor] = {}
    for begin, end, node in sorted(operators, key=lambda each: (each.end, each.begin)):
        access = _Access(begin, end, str(node["name"]), int(node["id"]))
        for name, size in _tensors(npu, node, "inputs"):
            tensor = tensors.setdefault(name, _Tensor(len(tensors), size, _Access(*_UNDEFINED), []))
            tensor.reads.append(access)
        for name, size in _tensors(npu, node, "outputs"):
            if name in tensors:
                warn(f"rank {npu}: node {access.id} {access.name!r} writes tensor {name!r} again, or after it was read: the first counts")
            tensors.setdefault(name, _Tensor(len(tensors), size, access, []))
    changes: dict[int, int] = {}
    for tensor in tensors.values():
        changes[tensor.written.begin] = changes.get(tensor.written.begin, 0) + tensor.bytes
        if tensor.reads:
            changes[tensor.reads[-1].end] = changes.get(tensor.reads[-1].end, 0) - tensor.bytes
    usage, taken = {}, 0
    for time, change in sorted(changes.items()):
        taken += change
        usage[time] = taken
    return TensorMemory(npu, tensors, usage)


def _tensors(npu: int, node: Mapping[str, Any], key: str) -> Iterator[tuple[str, int]]:
    """The tensors that an attribute names, with their bytes; those without bytes are left out. Raises InputError."""
    where = f"track-local-mem: rank {npu}: node {node['id']} {str(node['name'])!r}"
    listed = node.get(key)
    if listed is None:
        raise InputError(f"{where} has no attribute {key!r}; expected a list of names of tensors, each followed by its bytes")
    if not isinstance(listed, tuple):  # no list of texts, which counts as empty there
        return
    if len(listed) % 2:
        raise InputError(f"{where}: {key} has {len(listed)} values; expected names of tensors, each followed by its bytes")
    for name, size in zip(listed[::2], listed[1::2], strict=True):
        if not str(size).isdecimal():
            raise InputError(f"{where}: {key}: tensor {name!r} has {str(size)!r} bytes; expected a whole number")
        if int(size):
            yield str(name), int(size)
