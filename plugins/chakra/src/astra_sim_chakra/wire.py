"""The protobuf wire format, as far as Chakra needs it: reading fields, writing fields, attributes.

What is wrong with bytes is a `Broken`; who knows the file makes an InputError of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from astra_sim_chakra.schema import MEMBER_NUMBERS, MEMBERS

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_NAMES = {VARINT: "a varint", FIXED64: "64 bits", LENGTH: "bytes with a length", FIXED32: "32 bits"}


class Broken(ValueError):
    """What is wrong with a file, without the file's name."""


class Field(NamedTuple):
    """A field of a message: number, wire type, value (a number or bytes), and where it begins and ends in the message."""

    number: int
    type: int
    value: Any
    begin: int
    end: int


class Attribute(NamedTuple):
    """An AttributeProto: its name, the member that holds the value (None: it has none), and the value."""

    name: str
    member: str | None
    value: Any


# -- Reading -----------------------------------------------------------------------------------------------------------


def read_varint(data: bytes, at: int) -> tuple[int, int] | None:
    """The varint that begins at `at`, and where it ends. None where it goes on beyond the data. Raises Broken."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return None
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            break
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Broken("a varint of more than 64 bits")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    found = read_varint(data, at)
    if found is None:
        raise Broken("a varint that goes on beyond the end of its message")
    return found


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message. Raises Broken."""
    at = 0
    while at < len(data):
        begin = at
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0 or key >> 32:
            raise Broken(f"a field of number {number}")
        value: Any
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind == LENGTH:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise Broken(f"a field of {size} bytes where its message has {len(data) - at} left")
            value = data[at : at + size]
            at += size
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            if size > len(data) - at:
                raise Broken("a number that goes on beyond the end of its message")
            value = int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise Broken(f"field {number} has wire type {kind}; 0, 1, 2 and 5 are right")
        yield Field(number, kind, value, begin, at)


def expect(field: Field, kind: int, name: str) -> None:
    """Raise Broken unless a field has that wire type."""
    if field.type != kind:
        raise Broken(f"{name} is {_NAMES[field.type]}; {_NAMES[kind]} is right")


def text(field: Field, name: str) -> str:
    """The text of a field. Raises Broken."""
    expect(field, LENGTH, name)
    return utf8(field.value, name)


def utf8(value: bytes, name: str) -> str:
    """Bytes as text. Raises Broken."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Broken(f"{name} is not text in UTF-8") from None


def packed_varints(value: bytes, name: str) -> list[int]:
    """The varints that fill some bytes. Raises Broken."""
    found, at = [], 0
    while at < len(value):
        read = read_varint(value, at)
        if read is None:
            raise Broken(f"{name} in the middle of a varint")
        found.append(read[0])
        at = read[1]
    return found


def raw_attribute(data: bytes) -> tuple[str, Field | None]:
    """The name and the value field of an AttributeProto. Raises Broken."""
    name, value = "", None
    for field in fields(data):
        if field.number == 1:
            name = text(field, "the name of an attribute")
        elif field.number in MEMBERS:
            member = MEMBERS[field.number]
            expect(field, _member_wire_type(member), member)
            value = field
    return name, value


def whole_number(field: Field) -> int | None:
    """The value of an integer member of AttributeProto, None where it is another member."""
    return _integer(MEMBERS[field.number], field.value) if MEMBERS[field.number] in _INTEGERS else None


def read_attribute(data: bytes) -> Attribute:
    """An AttributeProto. Raises Broken."""
    name, field = raw_attribute(data)
    if field is None:
        return Attribute(name, None, None)
    member = MEMBERS[field.number]
    return Attribute(name, member, _list(member, field.value) if member.endswith("_list") else _scalar(member, field.value))


_INTEGERS = {f"{kind}_val" for kind in "int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64".split()}


def _member_wire_type(member: str) -> int:
    kind, _, form = member.rpartition("_")
    if form == "list" or kind in ("string", "bytes"):
        return LENGTH
    if kind in ("double", "fixed64", "sfixed64"):
        return FIXED64
    return FIXED32 if kind in ("float", "fixed32", "sfixed32") else VARINT


def _integer(member: str, raw: int) -> int:
    kind = member.rpartition("_")[0]
    bits = 32 if kind.endswith("32") else 64
    raw &= (1 << bits) - 1
    if kind.startswith("sint"):
        return (raw >> 1) ^ -(raw & 1)
    if kind.startswith(("uint", "fixed")):
        return raw
    return raw - (1 << bits) if raw >> (bits - 1) else raw


def _scalar(member: str, raw: Any) -> Any:
    if member in _INTEGERS:
        return _integer(member, raw)
    kind = member.rpartition("_")[0]
    if kind == "bool":
        return bool(raw)
    if kind == "double":
        return struct.unpack("<d", raw.to_bytes(8, "little"))[0]
    if kind == "float":
        return struct.unpack("<f", raw.to_bytes(4, "little"))[0]
    return utf8(raw, member) if kind == "string" else raw


def _list(member: str, data: bytes) -> tuple[Any, ...]:
    kind = member.rpartition("_")[0]
    scalar = f"{kind}_val"
    wire_type = _member_wire_type(scalar)
    values: list[Any] = []
    for field in fields(data):
        if field.number != 1:
            continue
        if field.type == wire_type:
            values.append(_scalar(scalar, field.value))
            continue
        expect(field, LENGTH, f"the values of a {member}")
        values.extend(_scalar(scalar, raw) for raw in _packed(member, wire_type, field.value))
    return tuple(values)


def _packed(member: str, wire_type: int, data: bytes) -> list[int]:
    if wire_type == VARINT:
        return packed_varints(data, f"the values of a {member} end")
    size = 8 if wire_type == FIXED64 else 4
    if len(data) % size:
        raise Broken(f"the values of a {member} are {len(data)} bytes; a multiple of {size} is right")
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


# -- Writing -----------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A number of 0 to 2^64 - 1 as varint."""
    if value < 0x80:
        return bytes((value,))
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def number_field(number: int, value: int) -> bytes:
    """A varint field."""
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """A field of text, bytes or a message."""
    return varint(number << 3 | LENGTH) + varint(len(value)) + value


def attribute(name: str, member: str, value: Any) -> bytes:
    """An AttributeProto. Raises ValueError where the value does not fit the member."""
    made = bytes_field(1, name.encode())
    number = MEMBER_NUMBERS[member]
    if member.endswith("_list"):
        scalar = member.replace("_list", "_val")
        if scalar in ("string_val", "bytes_val"):
            inner = b"".join(bytes_field(1, _encoded(scalar, item)) for item in value)
        else:
            inner = bytes_field(1, b"".join(_encoded(scalar, item) for item in value)) if value else b""
        return made + bytes_field(number, inner)
    wire_type = _member_wire_type(member)
    encoded = _encoded(member, value)
    return made + varint(number << 3 | wire_type) + (varint(len(encoded)) if wire_type == LENGTH else b"") + encoded


def _encoded(member: str, value: Any) -> bytes:
    """The value of a scalar member, without its key."""
    kind = member.rpartition("_")[0]
    if kind in ("string", "bytes"):
        return str(value).encode() if kind == "string" else bytes(value)
    if kind == "bool":
        return varint(int(bool(value)))
    if kind in ("double", "float"):
        return struct.pack("<d" if kind == "double" else "<f", value)
    bits = 32 if kind.endswith("32") else 64
    least, most = (0, 2**bits - 1) if kind.startswith(("uint", "fixed")) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{member} cannot hold {value!r}; {least} to {most} are right")
    if kind.startswith("sint"):
        return varint((value << 1) ^ (value >> (bits - 1)) if value >= 0 else ((-value) << 1) - 1)
    if "fixed" in kind:
        return int(value % 2**bits).to_bytes(bits // 8, "little")
    return varint(value % 2**64)
