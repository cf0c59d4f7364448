"""The wire format of traces without the protobuf runtime, whose import takes longer than a short run: lengths, attributes, errors."""

from __future__ import annotations

from typing import Any, NamedTuple


class Broken(ValueError):
    """An error in a file, without the file's name."""


class Attribute(NamedTuple):
    """An AttributeProto: its name, the member that holds the value (None: it has none), and the value; a tuple in a list member."""

    name: str
    member: str | None
    value: Any


def delimited(message: bytes) -> bytes:
    """A message behind its length, as it is in a file."""
    size, head = len(message), bytearray()
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + message


def read_varint(data: bytes, at: int) -> tuple[int, int] | None:
    """The varint that begins at `at`, and its end; None if the data end before it does. Raises Broken if it is too long.

    Like protobuf it ignores bits beyond the 64th.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return None
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value % 2**64, at
    raise Broken("a varint of more than 64 bits")
