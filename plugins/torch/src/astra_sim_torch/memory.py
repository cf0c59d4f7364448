"""The memory of a captured step: its peak by kind, who holds it, and how it changes over simulated time.

Storages are allocated and freed in the order in which the host issued work, as PyTorch's allocator sees it; the peak is that of this order.
In simulated time a storage is allocated or freed when the kernel of the default stream ends that was issued last before, so that the order
stays the same, and with it the peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim.compute import Compute
from astra_sim.errors import warn
from astra_sim.graph import ProgramTimes
from astra_sim.units import GIB

from astra_sim_torch.capture_file import HELD, RankCapture

MOST_ROWS = 500
"""Rows of the table of memory over time, of all programs: of each window of a run the moment with most memory."""

_MOST_HOLDERS = 100


@attrs.frozen
class Holder:
    """A module, or a line of the script outside of modules, that holds memory of a kind."""

    kind: str
    module: str
    line: str


@attrs.frozen
class MemoryPeak:
    """The bytes at the peak of a step, by kind in the order of `HELD`, and by holder, the largest first."""

    kinds: Mapping[str, int]
    holders: Mapping[Holder, int]

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.kinds.values())


class LiveMemory:
    """The storages that are allocated."""

    def __init__(self) -> None:
        self._live: dict[int, Mapping[str, Any]] = {}

    def change(self, event: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        """The bytes by which memory grows with an event of memory, and the event of the allocation."""
        if event["kind"] == "allocate":
            self._live[event["storage"]] = event
            return event["bytes"], event
        allocation = self._live.pop(event["storage"], _NOTHING)
        return -allocation["bytes"], allocation


_NOTHING = {"bytes": 0, "holds": HELD[0]}
MEMORY_EVENTS = ("allocate", "free")


def peak_of(capture: RankCapture) -> MemoryPeak | None:
    """The peak of a step; None if the capture has no memory events, as those of version 1."""
    live = LiveMemory()
    steps = [live.change(event) for event in capture.events if event["kind"] in MEMORY_EVENTS]
    if not steps:
        return None
    total = highest = end = 0
    for number, (size, _) in enumerate(steps, 1):
        total += size
        if total > highest:
            highest, end = total, number
    holders: Counter[Holder] = Counter()
    for size, event in steps[:end]:
        holders[Holder(event["holds"], event.get("module", ""), event.get("line", ""))] += size
    kinds: Counter[str] = Counter()
    for holder, size in holders.items():
        kinds[holder.kind] += size
    largest = dict(sorted(((holder, size) for holder, size in holders.items() if size), key=lambda item: -item[1]))
    return MemoryPeak({kind: kinds[kind] for kind in HELD if kinds[kind]}, largest)


@attrs.frozen
class DeviceMemory:
    """The memory of a device that tensors can have (bytes): without the margin for the driver, communicators and the allocator."""

    usable: int

    @classmethod
    def of(cls, compute: Compute) -> DeviceMemory | None:
        """That of a compute model; None if it does not know it."""
        return None if compute.memory_bytes is None else cls(int(compute.memory_bytes - compute.memory_margin_bytes))

    def verdict(self, size: int) -> str:
        """Whether bytes fit, and by how much not."""
        of_device = f"in {self.usable / GIB:.2f} GiB of the device"
        return f"fits {of_device}" if size <= self.usable else f"does not fit {of_device} by {(size - self.usable) / GIB:.2f} GiB"


class MemoryFigures:
    """The tables of memory of all programs: at their peaks, and over time."""

    def __init__(self, peaks: Sequence[MemoryPeak], device: DeviceMemory | None) -> None:
        self._peaks, self._device = peaks, device

    def warn(self, path: str) -> None:
        """Warn if a rank needs more memory than the device has."""
        most = max(peak.total for peak in self._peaks)
        if self._device is not None and most > self._device.usable:
            warn(f"{path}: the memory of tensors {self._device.verdict(most)}")

    @property
    def note(self) -> str:
        """Whether the tensors of NPU 0 fit."""
        return "" if self._device is None else f"; {self._device.verdict(self._peaks[0].total)}"

    def by_kind(self, npus: Sequence[int]) -> list[dict[str, Any]]:
        """A row for each kind on the first NPU of each program at its peak, with its largest holder."""
        rows = []
        for npu, peak in zip(npus, self._peaks, strict=True):
            for kind, size in peak.kinds.items():
                holder, held = next((each, held) for each, held in peak.holders.items() if each.kind == kind)
                row = {"npu": npu, "kind": kind, "bytes": size, "module": holder.module, "line": holder.line, "module_bytes": held}
                rows.append(row | ({} if self._device is None else {"device_bytes": self._device.usable}))
        return rows

    def by_holder(self, npus: Sequence[int]) -> list[dict[str, Any]]:
        """A row for each holder at the peak, the largest first."""
        return [
            {"npu": npu, **attrs.asdict(holder), "bytes": size}
            for npu, peak in zip(npus, self._peaks, strict=True)
            for holder, size in list(peak.holders.items())[:_MOST_HOLDERS]
        ]


def over_time(times: ProgramTimes, points: Sequence[tuple[int, int, str]], finish_ps: int, most: int) -> list[dict[str, Any]]:
    """Rows of bytes by kind over time (ns): at most `most`, for each window of time with changes its moment with most memory.

    `points` are changes in order: the operation after which memory changes (-1: the start), the bytes, and the kind.
    """
    live = dict.fromkeys((kind for kind in HELD if any(kind == each for _, _, each in points)), 0)
    windows: dict[int, dict[str, Any]] = {}
    last = len(points) - 1
    for number, (operation, size, kind) in enumerate(points):
        live[kind] += size
        if number < last and points[number + 1][0] == operation and (points[number + 1][1] > 0) is (size > 0):
            continue  # more that is allocated, or freed, at the same moment
        at = times.ended_ps[operation] if operation >= 0 else 0
        total = sum(live.values())
        window = min(most - 1, at * most // finish_ps) if finish_ps else 0
        if window not in windows or total > windows[window]["total_bytes"]:
            windows[window] = {"npu": times.program.npus[0], "at_ns": at / 1000, **{f"{each}_bytes": live[each] for each in live}}
            windows[window]["total_bytes"] = total
    return [windows[window] for window in sorted(windows)]
