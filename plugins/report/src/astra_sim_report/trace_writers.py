"""Writes traces, event by event, so that memory does not grow with them: Perfetto's own format, and Chrome's JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import IO, Any, NamedTuple, Protocol

from astra_sim_report.perfetto import CHILD_ORDERING_EXPLICIT, EventType, SequenceFlags, Trace, TrackEvent

_SEQUENCE = 1
_BATCH = 4096


Arguments = dict[str, int | float | str]
"""The details of a slice besides its name, by name."""


class SliceLabel(NamedTuple):
    """The name of similar slices, their kind (their category), and further details."""

    name: str
    kind: str
    arguments: tuple[tuple[str, int | str], ...] = ()


class TraceWriter(Protocol):
    """Writes a trace. Tracks come before their events; slices of a track do not overlap, and come in order. Times are in ns."""

    def group(self, name: str) -> int:
        """Begin a group of tracks; returns its number."""

    def track(self, group: int, name: str) -> int:
        """A track of slices of a group, behind those that came before; returns its number."""

    def counter(self, group: int, name: str, unit: str) -> int:
        """A track of values in time; returns its number."""

    def slice(
        self,
        track: int,
        label: SliceLabel,
        begin_ns: float,
        end_ns: float,
        more: Arguments,
        through: Sequence[int] = (),
        ending: Sequence[int] = (),
        category: str = "",
    ) -> None:
        """Something on a track that begins and ends, with `more` arguments, and a category beside its kind.

        Arrows lead `through` it, or begin there, and `ending` ones end there, each with a number of its own. Slices of an arrow must begin
        in its order; of those that begin at one time the earlier ones are written first.
        """

    def value(self, track: int, at_ns: float, value: float) -> None:
        """The value of a counter from a moment on."""

    def close(self) -> None:
        """Write the rest."""


class PerfettoWriter:
    """Perfetto's own format: packets of a `Trace`. Times are cut to whole nanoseconds, the format's unit."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._batch = Trace()
        self._count = 0
        self._tracks = 0
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        self._arguments: dict[str, int] = {}
        self._templates: dict[SliceLabel, Any] = {}
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
        """A process, which Perfetto shows as a group."""
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

    def slice(
        self,
        track: int,
        label: SliceLabel,
        begin_ns: float,
        end_ns: float,
        more: Arguments,
        through: Sequence[int] = (),
        ending: Sequence[int] = (),
        category: str = "",
    ) -> None:
        """Two events: begin and end."""
        template = self._templates.get(label)
        if template is None:
            template = self._templates[label] = self._template(label)
        if category:
            extra = self._number(category, self._categories, "event_categories")
        numbers = [self._number(name, self._arguments, "debug_annotation_names") for name in more]
        packet = self._packet()
        packet.timestamp = int(begin_ns)
        packet.sequence_flags = SequenceFlags.NEEDS_INCREMENTAL_STATE
        event = packet.track_event
        event.CopyFrom(template)
        event.track_uuid = track
        if category:
            event.category_iids.append(extra)
        for number, value in zip(numbers, more.values(), strict=True):
            _annotate(event, number, value)
        event.flow_ids.extend(through)
        event.terminating_flow_ids.extend(ending)
        self._event(EventType.SLICE_END, track, end_ns)

    def _template(self, label: SliceLabel) -> Any:
        """The common fields of the events of a label."""
        event = TrackEvent(type=EventType.SLICE_BEGIN, name_iid=self._number(label.name, self._names, "event_names"))
        event.category_iids.append(self._number(label.kind, self._categories, "event_categories"))
        for name, value in label.arguments:
            _annotate(event, self._number(name, self._arguments, "debug_annotation_names"), value)
        return event

    def value(self, track: int, at_ns: float, value: float) -> None:
        """An event."""
        self._event(EventType.COUNTER, track, at_ns).double_counter_value = value

    def close(self) -> None:
        """Write the packets that are waiting."""
        self._file.write(self._batch.SerializeToString())
        self._batch = Trace()
        self._count = 0


def _annotate(event: Any, name: int, value: float | str) -> None:
    """Give an event an argument."""
    annotation = event.debug_annotations.add(name_iid=name)
    if isinstance(value, str):
        annotation.string_value = value
    elif isinstance(value, int):
        annotation.int_value = value
    else:
        annotation.double_value = value


class ChromeWriter:
    """The JSON of Chrome's about:tracing, with an event in each line. Times are microseconds there, with all their digits."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._tracks: list[tuple[int, str]] = []  # group and name, by number of the track
        self._arrows: set[int] = set()
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

    def slice(
        self,
        track: int,
        label: SliceLabel,
        begin_ns: float,
        end_ns: float,
        more: Arguments,
        through: Sequence[int] = (),
        ending: Sequence[int] = (),
        category: str = "",
    ) -> None:
        """A complete event, and one for each arrow."""
        group, _ = self._tracks[track]
        times = {"ts": begin_ns / 1000, "dur": round(end_ns - begin_ns, 3) / 1000}
        kinds = f"{label.kind},{category}" if category else label.kind
        self._event("X", group, tid=track, name=label.name, cat=kinds, **times, args={**dict(label.arguments), **more})
        for numbers, ends in ((through, False), (ending, True)):
            for number in numbers:
                phase = "f" if ends else "t" if number in self._arrows else "s"
                if ends:
                    self._arrows.discard(number)
                else:
                    self._arrows.add(number)
                binding = {"bp": "e"} if ends else {}
                self._event(phase, group, tid=track, name="arrow", cat="arrow", id=number, ts=begin_ns / 1000, **binding)

    def value(self, track: int, at_ns: float, value: float) -> None:
        """A counter event."""
        group, name = self._tracks[track]
        self._event("C", group, name=name, ts=at_ns / 1000, args={"value": value})

    def close(self) -> None:
        """Write the end."""
        self._file.write((b"" if self._tracks else self._separator.encode()) + b"\n]}\n")
