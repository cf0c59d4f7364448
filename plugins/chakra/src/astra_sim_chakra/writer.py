"""Writes Chakra execution traces. Attributes are written in the members that ASTRA-sim 2.x reads."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from typing import IO, Any

from astra_sim_chakra.reader import parse_trace
from astra_sim_chakra.schema import ATTRIBUTES, VERSION, NodeType
from astra_sim_chakra.trace import Metadata, Node, Trace
from astra_sim_chakra.wire import attribute, bytes_field, number_field, varint

DEFAULT_METADATA = Metadata(VERSION)


def write_nodes(
    path: str | os.PathLike[str], nodes: Iterable[Node], metadata: Metadata = DEFAULT_METADATA, *, compress: bool = False
) -> None:
    """Write a trace, node by node; `compress` with gzip. Ids and dependencies are not checked.

    Raises ValueError where a number is out of the range of its attribute, and OSError.
    """
    with open(path, "wb") as file:
        if compress:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                _write(packed, nodes, metadata)
        else:
            _write(file, nodes, metadata)


def write_trace(path: str | os.PathLike[str], trace: Trace, *, compress: bool = False) -> None:
    """Write a trace that was loaded; fields without a column only if it was loaded with `keep`. Raises ValueError and OSError."""
    if trace.relative_peers:
        raise ValueError("a trace with relative peers is that of no rank; RankTraces.trace(rank) makes one")
    write_nodes(path, trace.nodes(), trace.metadata, compress=compress)


def trace_of(nodes: Iterable[Node], metadata: Metadata = DEFAULT_METADATA, name: str = "trace") -> Trace:
    """A trace made of nodes, checked like one from a file. Raises InputError and ValueError."""
    data = [encode_metadata(metadata), *(encode_node(node) for node in nodes)]
    return parse_trace(b"".join(varint(len(message)) + message for message in data), name, keep=True)


def encode_metadata(metadata: Metadata) -> bytes:
    """A GlobalMetadata message."""
    made = bytes_field(1, metadata.version.encode()) if metadata.version else b""
    return made + b"".join(
        bytes_field(2, attribute(name, member, value) if member else bytes_field(1, name.encode()))
        for name, member, value in metadata.attributes
    )


def encode_node(node: Node) -> bytes:
    """A Node message. Raises ValueError where a number is out of range."""
    if node.duration_ns < 0:
        raise ValueError(f"node {node.id}: duration_ns is {node.duration_ns}; at least 0 is right")
    micros = (node.duration_ns + 500) // 1000
    parts = [number_field(1, node.id)] if node.id else []
    if node.name:
        parts.append(bytes_field(2, node.name.encode()))
    if node.type is not NodeType.INVALID_NODE:
        parts.append(number_field(3, node.type))
    for number, ids in ((4, node.control), (5, node.data)):
        if ids:
            parts.append(bytes_field(number, b"".join(map(varint, ids))))
    if micros:
        parts.append(number_field(7, micros))
    rest = node.duration_ns - micros * 1000
    for name, member in ATTRIBUTES.items():
        value: Any = rest or None if name == "astra_duration_rest_ns" else getattr(node, name)
        if value is not None and (value or name not in ("comm_priority", "comm_tag")):
            parts.append(bytes_field(10, attribute(name, member, value)))
    return b"".join(parts) + node.others


def _write(file: IO[bytes] | gzip.GzipFile, nodes: Iterable[Node], metadata: Metadata) -> None:
    pieces, size = [], 0
    for message in _messages(nodes, metadata):
        piece = varint(len(message)) + message
        pieces.append(piece)
        size += len(piece)
        if size > 1 << 20:
            file.write(b"".join(pieces))
            pieces, size = [], 0
    file.write(b"".join(pieces))


def _messages(nodes: Iterable[Node], metadata: Metadata) -> Iterable[bytes]:
    yield encode_metadata(metadata)
    yield from map(encode_node, nodes)
