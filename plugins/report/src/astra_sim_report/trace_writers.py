"""Writes traces, event by event, so that memory does not grow with them: Perfetto's own format, and Chrome's JSON."""

from __future__ import annotations

import json
from typing import IO, Any, Protocol

from astra_sim_report.perfetto import CHILD_ORDERING_EXPLICIT, EventType, SequenceFlags, Trace

_SEQUENCE = 1
_BATCH = 4096


class TraceWriter(Protocol):
    """Writes a trace. Tracks come before what happens on them; slices of a track do not overlap, and come in order. Times are in ns."""

    def group(self, name: str) -> int:
        """Begin a group of tracks; returns its number."""

    def track(self, group: int, name: str) -> int:
        """A track of slices of a group, behind those that came before; returns its number."""

    def counter(self, group: int, name: str, unit: str) -> int:
        """A track of values in time; returns its number."""

    def slice(self, track: int, name: str, category: str, begin_ns: float, end_ns: float) -> None:
        """Something on a track that begins and ends."""

    def value(self, track: int, at_ns: float, value: float) -> None:
        """The value of a counter from a moment on."""

    def close(self) -> None:
        """Write what is left."""


class PerfettoWriter:
    """Perfetto's own format: packets of a `Trace`. Times are cut to whole nanoseconds, the format's unit."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._batch = Trace()
        self._count = 0
        self._tracks = 0
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        packet = self._packet()
        packet.sequence_flags = SequenceFlags.INCREMENTAL_STATE_CLEARED

    def _packet(self) -> Any:
        if self._count == _BATCH:
            self.close()
        self._count += 1
        packet = self._batch.packet.add()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _descriptor(self, name: str, parent: int | None) -> Any:
        self._tracks += 1
        descriptor = self._packet().track_descriptor
        descriptor.uuid = self._tracks
        if parent is not None:
            descriptor.name = name
            descriptor.parent_uuid = parent
            descriptor.sibling_order_rank = self._tracks
        return descriptor

    def group(self, name: str) -> int:
        """A process, which is what Perfetto shows as a group."""
        descriptor = self._descriptor(name, None)
        descriptor.process.pid = self._tracks
        descriptor.process.process_name = name
        descriptor.child_ordering = CHILD_ORDERING_EXPLICIT
        return self._tracks

    def track(self, group: int, name: str) -> int:
        """A track. Perfetto shows tracks of one name as rows of one."""
        self._descriptor(name, group)
        return self._tracks

    def counter(self, group: int, name: str, unit: str) -> int:
        """A counter."""
        self._descriptor(name, group).counter.unit_name = unit
        return self._tracks

    def _number(self, text: str, known: dict[str, int], field: str) -> int:
        """The number of a name, which is written when it first comes."""
        number = known.get(text)
        if number is None:
            number = known[text] = len(known) + 1
            packet = self._packet()
            packet.sequence_flags = SequenceFlags.NEEDS_INCREMENTAL_STATE
            getattr(packet.interned_data, field).add(iid=number, name=text)
        return number

    def _event(self, kind: EventType, track: int, at_ns: float) -> Any:
        packet = self._packet()
        packet.timestamp = int(at_ns)
        packet.sequence_flags = SequenceFlags.NEEDS_INCREMENTAL_STATE
        event = packet.track_event
        event.type = kind
        event.track_uuid = track
        return event

    def slice(self, track: int, name: str, category: str, begin_ns: float, end_ns: float) -> None:
        """Two events: begin and end."""
        name_iid = self._number(name, self._names, "event_names")
        category_iid = self._number(category, self._categories, "event_categories")
        event = self._event(EventType.SLICE_BEGIN, track, begin_ns)
        event.name_iid = name_iid
        event.category_iids.append(category_iid)
        self._event(EventType.SLICE_END, track, end_ns)

    def value(self, track: int, at_ns: float, value: float) -> None:
        """An event."""
        self._event(EventType.COUNTER, track, at_ns).double_counter_value = value

    def close(self) -> None:
        """Write the packets that are waiting."""
        self._file.write(self._batch.SerializeToString())
        self._batch = Trace()
        self._count = 0


class ChromeWriter:
    """The JSON of Chrome's about:tracing, with an event in each line. Times are microseconds there, with all their digits."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._tracks: list[tuple[int, str]] = []  # group and name, by number of the track
        self._separator = '{"displayTimeUnit":"ns","traceEvents":[\n'

    def _event(self, phase: str, group: int, **fields: Any) -> None:
        self._file.write((self._separator + json.dumps({"ph": phase, "pid": group, **fields}, separators=(",", ":"))).encode())
        self._separator = ",\n"

    def _number(self, group: int, name: str) -> int:
        self._tracks.append((group, name))
        return len(self._tracks) - 1

    def group(self, name: str) -> int:
        """A process."""
        number = self._number(-1, name)
        self._event("M", number, name="process_name", args={"name": name})
        self._event("M", number, name="process_sort_index", args={"sort_index": number})
        return number

    def track(self, group: int, name: str) -> int:
        """A thread of the process."""
        number = self._number(group, name)
        self._event("M", group, tid=number, name="thread_name", args={"name": name})
        self._event("M", group, tid=number, name="thread_sort_index", args={"sort_index": number})
        return number

    def counter(self, group: int, name: str, unit: str) -> int:
        """A counter, which has its unit in its name."""
        return self._number(group, f"{name} ({unit})")

    def slice(self, track: int, name: str, category: str, begin_ns: float, end_ns: float) -> None:
        """A complete event."""
        group, _ = self._tracks[track]
        times = {"ts": begin_ns / 1000, "dur": round(end_ns - begin_ns, 3) / 1000}
        self._event("X", group, tid=track, name=name, cat=category, **times)

    def value(self, track: int, at_ns: float, value: float) -> None:
        """A counter event."""
        group, name = self._tracks[track]
        self._event("C", group, name=name, ts=at_ns / 1000, args={"value": value})

    def close(self) -> None:
        """Write the end."""
        self._file.write((b"" if self._tracks else self._separator.encode()) + b"\n]}\n")
