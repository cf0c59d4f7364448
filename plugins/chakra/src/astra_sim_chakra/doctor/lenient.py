"""Reads a trace despite errors: input that the strict reader refuses becomes a finding, and the rest is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.limits import MAX_CHECKED_NODES
from google.protobuf.message import DecodeError

from astra_sim_chakra.doctor.findings import TraceFinding
from astra_sim_chakra.messages import NodeMessage, check_fields
from astra_sim_chakra.pure import node_label, other_fields
from astra_sim_chakra.reader import metadata_of, open_trace, read_metadata
from astra_sim_chakra.schema import ATTRIBUTES, LIMITS, MAX_64, MAX_MESSAGE_BYTES, MAX_MICROSECONDS, NodeType
from astra_sim_chakra.trace import Metadata, Node
from astra_sim_chakra.trace_files import is_json, load_trace, read_document
from astra_sim_chakra.trace_json import encoded_messages
from astra_sim_chakra.wire import Broken, read_varint


@attrs.frozen(eq=False)
class LenientTrace:
    """The nodes of a file in its order. Ids may occur twice, dependencies may lead nowhere; `findings` list the unreadable parts.

    `refused`: the strict reader's error, "" if it reads the file.
    """

    path: str
    metadata: Metadata
    nodes: Sequence[Node]
    findings: tuple[TraceFinding, ...] = ()
    refused: str = ""

    @property
    def keeps_order(self) -> bool:
        """Whether a run lets an NPU do several nodes of a sort at a time, as the trace requests."""
        return self.metadata.keeps_order

    @property
    def is_from_pytorch(self) -> bool:
        """Whether MLCommons' converter made it, which leaves ids of nodes behind that it drops."""
        return self.metadata.get("schema") is not None and self.metadata.get("pid") is not None


def read_loosely(path: str) -> LenientTrace:
    """The trace in a file. A file that cannot be read at all has no nodes and a finding."""
    refused = ""
    try:
        trace = load_trace(path, keep=True)
    except InputError as error:
        refused = str(error).removeprefix(f"{path}: ")
    else:
        if len(trace) > MAX_CHECKED_NODES:
            raise _too_many(path)
        if not trace.left_out:
            return LenientTrace(path, trace.metadata, list(trace.nodes()))
    findings: list[TraceFinding] = []
    nodes: list[Node] = []
    metadata = Metadata()
    try:
        metadata, messages = _messages(path)
        for number, data in enumerate(messages):
            if number == MAX_CHECKED_NODES:
                raise _too_many(path)
            _read(data, nodes, findings)
    except (InputError, Broken) as error:
        findings.append(TraceFinding("unreadable", str(error).removeprefix(f"{path}: ")))
    return LenientTrace(path, metadata, nodes, tuple(findings), refused)


def _too_many(path: str) -> InputError:
    return InputError(f"{path}: more than {MAX_CHECKED_NODES} nodes are too many to check one by one; expected at most that")


def label_of(node: Node) -> str:
    """The name of a node in messages."""
    return node_label(node.id, node.name)


def _messages(path: str) -> tuple[Metadata, Iterator[bytes]]:
    if is_json(path):
        first, nodes = encoded_messages(read_document(path), path)
        return metadata_of(first), iter(nodes)
    with open_trace(path) as stream:
        metadata, _ = read_metadata(stream)
    return metadata, _messages_of_file(path)


def _messages_of_file(path: str) -> Iterator[bytes]:
    """The messages after the metadata; those before a cut are there, and then Broken or InputError is raised."""
    with open_trace(path) as stream:
        _, offset = read_metadata(stream)
        pending = b""
        while piece := stream.read(1 << 20):
            pending += piece
            begin = 0
            while (size := read_varint(pending, begin)) is not None and len(pending) - size[1] >= size[0] <= MAX_MESSAGE_BYTES:
                yield pending[size[1] : size[1] + size[0]]
                begin = size[1] + size[0]
            if size is not None and size[0] > MAX_MESSAGE_BYTES:
                raise Broken(f"byte {offset + begin}: a message of {size[0]} bytes; expected at most {MAX_MESSAGE_BYTES}")
            offset, pending = offset + begin, pending[begin:]
        if pending:
            raise Broken(f"byte {offset}: the file ends in the middle of a message, of which it has {len(pending)} bytes")


def _read(data: bytes, nodes: list[Node], findings: list[TraceFinding]) -> None:
    """Add the node of a message, with its errors."""
    try:
        message = NodeMessage.FromString(data)
        check_fields(message)
    except (DecodeError, Broken) as error:
        findings.append(TraceFinding("damaged_node", f"message {len(nodes)} of the file: {error}"))
        return
    label = node_label(message.id, message.name)

    def wrong(text: str) -> None:
        findings.append(TraceFinding("bad_value", f"{label}: {text}", (message.id,)))

    fields: dict[str, Any] = {"type": NodeType.INVALID_NODE, "duration_ns": message.duration_micros * 1000}
    if 0 <= message.type <= max(NodeType):
        fields["type"] = NodeType(message.type)
    else:
        wrong(f"type is {message.type}; expected 0 to {max(NodeType):d}")
    if message.duration_micros > MAX_MICROSECONDS:
        signed = message.duration_micros - (1 << 64) * (message.duration_micros > MAX_64)
        wrong(f"duration_micros is {signed}; expected 0 to {MAX_MICROSECONDS}")
        fields["duration_ns"] = 0
    for name, value in _attributes(message, wrong):
        if name == "astra_duration_rest_ns":
            fields["duration_ns"] += value
        else:
            fields[name] = value
    if fields["duration_ns"] < 0:
        wrong(f"the duration is {fields['duration_ns']} ns; expected at least 0")
        fields["duration_ns"] = 0
    control, data_ids = tuple(message.ctrl_deps), tuple(message.data_deps)
    nodes.append(Node(id=message.id, name=message.name, control=control, data=data_ids, others=other_fields(message), **fields))


def _attributes(message: Any, wrong: Any) -> Iterator[tuple[str, Any]]:
    """The attributes with a column, each once; an invalid one is reported and counts as missing."""
    result: set[str] = set()
    for attribute in message.attr:
        name, member = attribute.name, attribute.WhichOneof("value")
        if name not in ATTRIBUTES:
            continue
        value: Any = getattr(attribute, member) if member else None
        if name in result:
            wrong(f"{name} is given twice")
        elif name in ("pg_name", "involved_dim"):
            if member == ATTRIBUTES[name]:
                yield name, value if name == "pg_name" else tuple(value.values)
            else:
                wrong(f"{name} is a {member or 'attribute without a value'}; expected a {ATTRIBUTES[name]}")
        elif name == "is_cpu_op" and member == "bool_val":
            yield name, value
        elif type(value) is not int:
            wrong(f"{name} is a {member or 'attribute without a value'}; expected a whole number")
        elif not LIMITS[name][0] <= value <= LIMITS[name][1]:
            wrong(f"{name} is {value}; expected {LIMITS[name][0]} to {LIMITS[name][1]:d}")
        else:
            yield name, bool(value) if name == "is_cpu_op" else value
        result.add(name)
