"""The messages of Perfetto's trace format that a timeline needs, for protobuf's runtime.

Their descriptors are built here, in a pool of their own: there is no generated code that asks for one version of protobuf, and the
classes of the package `perfetto` may be loaded beside these. Numbers of fields are those of perfetto's `protos/perfetto/trace`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import IO, Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessages

_MESSAGES = {
    "Trace": "1 repeated TracePacket packet",
    "TracePacket": (
        "8 uint64 timestamp, 10 uint32 trusted_packet_sequence_id, 11 TrackEvent track_event, 12 InternedData interned_data, "
        "13 uint32 sequence_flags, 60 TrackDescriptor track_descriptor"
    ),
    "TrackEvent": (
        "3 repeated uint64 category_iids, 4 repeated DebugAnnotation debug_annotations, 9 uint32 type, 10 uint64 name_iid, "
        "11 uint64 track_uuid, 44 double double_counter_value, 47 repeated fixed64 flow_ids, 48 repeated fixed64 terminating_flow_ids"
    ),
    "DebugAnnotation": "1 uint64 name_iid, 4 int64 int_value, 5 double double_value, 6 string string_value",
    "TrackDescriptor": (
        "1 uint64 uuid, 2 string name, 3 ProcessDescriptor process, 5 uint64 parent_uuid, 8 CounterDescriptor counter, "
        "11 uint32 child_ordering, 12 int32 sibling_order_rank"
    ),
    "ProcessDescriptor": "1 int32 pid, 6 string process_name",
    "CounterDescriptor": "6 string unit_name",
    "InternedData": (
        "1 repeated InternedText event_categories, 2 repeated InternedText event_names, 3 repeated InternedText debug_annotation_names"
    ),
    "InternedText": "1 uint64 iid, 2 string name",
}
"""The fields of each message. Enumerations are numbers here; EventCategory, EventName and DebugAnnotationName have the same fields, and are
InternedText."""

_PACKAGE = "astra.perfetto"


class EventType(enum.IntEnum):
    """TrackEvent.Type."""

    SLICE_BEGIN = 1
    SLICE_END = 2
    COUNTER = 4


class SequenceFlags(enum.IntFlag):
    """TracePacket.SequenceFlags: interned names are forgotten, or needed."""

    INCREMENTAL_STATE_CLEARED = 1
    NEEDS_INCREMENTAL_STATE = 2


CHILD_ORDERING_EXPLICIT = 3
"""TrackDescriptor.ChildTracksOrdering: by `sibling_order_rank`."""


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="astra/perfetto.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            message.field.append(_field(*field.split()))
    return file


def _field(number: str, *words: str) -> FieldDescriptorProto:
    """A field such as `1 repeated InternedText event_names`. Messages begin with a capital."""
    *repeated, kind, name = words
    field = FieldDescriptorProto(name=name, number=int(number))
    field.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    if kind[0].isupper():
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    return field


_CLASSES = GetMessages([_file()], pool=DescriptorPool())
Trace, TracePacket, TrackEvent = (_CLASSES[f"{_PACKAGE}.{name}"] for name in ("Trace", "TracePacket", "TrackEvent"))


def packets(file: IO[bytes]) -> Iterator[Any]:
    """The packets of a trace, one after another. Raises ValueError if the bytes are none."""
    while tag := file.read(1):
        if tag != b"\x0a":
            raise ValueError(f"byte {tag[0]:#04x} where a packet should begin")
        size = shift = 0
        while True:
            byte = file.read(1)
            if not byte or shift > 35:
                raise ValueError("a packet without its length")
            size |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                break
        data = file.read(size)
        if len(data) < size:
            raise ValueError("the last packet is not complete")
        yield TracePacket.FromString(data)
