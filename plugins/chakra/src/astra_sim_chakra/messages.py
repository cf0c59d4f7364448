"""The messages of Chakra's schema, for protobuf's runtime.

Their descriptors are built here, in a pool of their own: there is no generated code that asks for one version of protobuf, and the
classes of mlc-chakra may be loaded beside these. Bad bytes raise `Broken`; a caller that knows the file raises an InputError instead.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessages
from google.protobuf.unknown_fields import UnknownFieldSet

from astra_sim_chakra.schema import MEMBERS, NodeType
from astra_sim_chakra.wire import Attribute, Broken

_MESSAGES = {
    "IOInfo": "string values, string shapes, string types",
    "Node": (
        "uint64 id, string name, NodeType type, repeated uint64 ctrl_deps, repeated uint64 data_deps, uint64 start_time_micros, "
        "uint64 duration_micros, IOInfo inputs, IOInfo outputs, repeated AttributeProto attr"
    ),
    "GlobalMetadata": "string version, repeated AttributeProto attr",
    "AttributeProto": "string name, string doc_string",  # and the members of the oneof
}
"""The fields of each message, numbered from 1 on."""

_PACKAGE = "astra.chakra"
_WIRE_TYPES = {0: "a varint", 1: "64 bits", 2: "bytes with a length", 5: "32 bits"}


# -- The schema --------------------------------------------------------------------------------------------------------


def _file() -> FileDescriptorProto:
    """The descriptor of Chakra's schema, as protobuf's compiler would make it."""
    file = FileDescriptorProto(name="astra/chakra.proto", package=_PACKAGE, syntax="proto3")
    file.enum_type.add(name="NodeType", value=[{"name": kind.name, "number": kind.value} for kind in NodeType])
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(", "), 1):
            message.field.append(_field(number, *field.split()))
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
            message.field.extend(_member(file, number, member) for number, member in MEMBERS.items())
    return file


def _member(file: FileDescriptorProto, number: int, member: str) -> FieldDescriptorProto:
    """A member of AttributeProto's oneof. If it is a list, the message of that list is added to the file."""
    kind = member.rpartition("_")[0]
    if member.endswith("_list"):
        values, kind = _field(1, "repeated", kind, "values"), f"{kind.capitalize()}List"
        file.message_type.add(name=kind, field=[values])
    field = _field(number, kind, member)
    field.oneof_index = 0
    return field


def _field(number: int, *words: str) -> FieldDescriptorProto:
    """A field as the schema writes it, such as `repeated uint64 ctrl_deps`. Messages and enumerations begin with a capital."""
    *repeated, kind, name = words
    field = FieldDescriptorProto(name=name, number=number)
    field.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    if kind[0].isupper():
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    return field


_CLASSES = GetMessages([_file()], pool=DescriptorPool())
AttributeProto, GlobalMetadata, NodeMessage = (_CLASSES[f"{_PACKAGE}.{name}"] for name in ("AttributeProto", "GlobalMetadata", "Node"))


# -- Messages ----------------------------------------------------------------------------------------------------------


def parsed(kind: Any, data: bytes) -> Any:
    """A message of that class, with its attributes. Raises Broken."""
    try:
        message = kind.FromString(data)
    except DecodeError as error:
        raise Broken(f"protobuf cannot read it: {error}") from None
    check_fields(message)
    for attribute in message.attr:
        check_fields(attribute)
    return message


def check_fields(message: Any) -> None:
    """Raise Broken for a field of the wrong type, which protobuf would keep as an unknown field."""
    for unknown in UnknownFieldSet(message):
        number, wire_type = unknown.field_number, unknown.wire_type
        if wire_type not in _WIRE_TYPES:
            raise Broken(f"field {number} has wire type {wire_type}; expected 0, 1, 2 and 5")
        field = message.DESCRIPTOR.fields_by_number.get(number)
        if field is not None:
            raise Broken(f"{field.name} is {_WIRE_TYPES[wire_type]}; expected {_WIRE_TYPES[_wire_type(field)]}")


def _wire_type(field: Any) -> int:
    kind = field.type
    if field.message_type is not None or field.is_repeated or kind in (field.TYPE_STRING, field.TYPE_BYTES):
        return 2
    if kind in (field.TYPE_DOUBLE, field.TYPE_FIXED64, field.TYPE_SFIXED64):
        return 1
    return 5 if kind in (field.TYPE_FLOAT, field.TYPE_FIXED32, field.TYPE_SFIXED32) else 0


def attribute_of(message: Any) -> Attribute:
    """An AttributeProto as plain values. Raises Broken."""
    member = message.WhichOneof("value")
    if member is None:
        return Attribute(message.name, None, None)
    value = getattr(message, member)
    if member.endswith("_list"):
        check_fields(value)
        value = tuple(value.values)
    return Attribute(message.name, member, value)


def attribute_message(name: str, member: str | None, value: Any) -> Any:
    """An AttributeProto. Raises ValueError if the value does not fit the member."""
    member_value = {} if member is None else {member: {"values": value} if member.endswith("_list") else value}
    try:
        return AttributeProto(name=name, **member_value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {member} cannot hold {value!r}: {error}") from None
