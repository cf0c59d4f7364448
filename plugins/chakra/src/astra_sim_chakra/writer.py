"""Writes Chakra execution traces. Attributes are written in the members that ASTRA-sim 2.x reads."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Iterable
from typing import IO, Any

from astra_sim.files import FileSet
from astra_sim.memo import Cache

from astra_sim_chakra.messages import GlobalMetadata, NodeMessage, attribute_message
from astra_sim_chakra.reader import parse_trace
from astra_sim_chakra.schema import ATTRIBUTES, VERSION, NodeType
from astra_sim_chakra.trace import Metadata, Node, Trace
from astra_sim_chakra.wire import delimited

DEFAULT_METADATA = Metadata(VERSION)
_BUFFER = 1 << 20


def write_nodes(
    path: str | os.PathLike[str], nodes: Iterable[Node], metadata: Metadata = DEFAULT_METADATA, *, compress: bool = False
) -> None:
    """Write a trace, node by node; `compress` with gzip. Ids and dependencies are not checked.

    An existing file stays until the trace is complete. Raises ValueError if a number is out of the range of its attribute, and RunError
    if the file cannot be written.
    """
    write_encoded(path, map(delimited, map(encode_node, nodes)), metadata, compress=compress)


def encode_nodes(nodes: Iterable[Node]) -> bytes:
    """The bytes of nodes in a file, after the metadata. Raises ValueError if a number is out of range."""
    return b"".join(map(delimited, map(encode_node, nodes)))


def write_encoded(
    path: str | os.PathLike[str], pieces: Iterable[bytes], metadata: Metadata, *, compress: bool = False, files: FileSet | None = None
) -> None:
    """Write a trace whose nodes are already encoded; with `files`, as one of those. Raises RunError if it cannot be written."""
    with FileSet() if files is None else contextlib.nullcontext(files) as chosen, chosen.open(path, "wb") as file:
        if compress:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                _write(packed, pieces, metadata)
        else:
            _write(file, pieces, metadata)


def write_trace(path: str | os.PathLike[str], trace: Trace, *, compress: bool = False, files: FileSet | None = None) -> None:
    """Write a trace that was loaded; fields without a column only if it was loaded with `keep`. With `files`, as one of those.

    Raises ValueError for a trace that cannot be written, and RunError if the file cannot be.
    """
    if trace.comm.relative:
        raise ValueError("a trace with relative peers belongs to no single rank; RankTraces.trace(rank) makes one that does")
    write_encoded(path, map(delimited, map(encode_node, trace.nodes())), trace.metadata, compress=compress, files=files)


def trace_of(nodes: Iterable[Node], metadata: Metadata = DEFAULT_METADATA, name: str = "trace") -> Trace:
    """A trace of these nodes, checked like one from a file. Raises InputError and ValueError."""
    return parse_trace(delimited(encode_metadata(metadata)) + encode_nodes(nodes), name, keep=True)


def encode_metadata(metadata: Metadata) -> bytes:
    """A GlobalMetadata message."""
    attributes = [attribute_message(*attribute) for attribute in metadata.attributes]
    return bytes(GlobalMetadata(version=metadata.version, attr=attributes).SerializeToString())


def encode_node(node: Node) -> bytes:
    """A Node message. Raises ValueError if a number is out of range."""
    if node.duration_ns < 0:
        raise ValueError(f"node {node.id}: duration_ns is {node.duration_ns}; expected at least 0")
    micros = (node.duration_ns + 500) // 1000
    try:
        message = NodeMessage(
            id=node.id, name=node.name, type=node.type, ctrl_deps=node.control, data_deps=node.data, duration_micros=micros
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"node {node.id}: {error}") from None
    rest = node.duration_ns - micros * 1000
    parts = [message.SerializeToString()]
    for name in ATTRIBUTES:
        value: Any = rest or None if name == "astra_duration_rest_ns" else getattr(node, name)
        # ASTRA-sim 2.x refuses a send or receive without a tag.
        left_out = name == "comm_priority" or (name == "comm_tag" and node.type not in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE))
        if value is not None and (value or not left_out):
            parts.append(_encoded_attribute(name, value))
    return b"".join(parts) + node.others


_attributes: Cache[tuple[str, type, Any], bytes] = Cache("Chakra: encoded attributes", 4096)


def _encoded_attribute(name: str, value: Any) -> bytes:
    """An encoded attribute of a node. Encodings can be concatenated field by field, and many nodes have equal attributes."""
    key = name, type(value), value  # 1 and 1.0 are equal, and encoded in different ways
    result = _attributes.get(key)
    if result is None:
        result = bytes(NodeMessage(attr=[attribute_message(name, ATTRIBUTES[name], value)]).SerializeToString())
        _attributes.add(key, result)
    return result


def _write(file: IO[bytes] | gzip.GzipFile, pieces: Iterable[bytes], metadata: Metadata) -> None:
    waiting, size = [delimited(encode_metadata(metadata))], 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size > _BUFFER:
            file.write(b"".join(waiting))
            waiting, size = [], 0
    file.write(b"".join(waiting))
