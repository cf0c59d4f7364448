"""Traces as JSON for people: protobuf's JSON names, numbers as numbers, one node per line.

{"metadata": {"version": "0.0.4", "attr": [...]},
 "nodes": [
  {"id": 0, "name": "conv1", "type": "COMP_NODE", "durationMicros": 12, "attr": [{"name": "num_ops", "int64Val": 1000}]},
  ...
]}

Two forms of MLCommons are read as well: the output of `chakra_jsonizer` (the metadata and then each node as an object of its own, one after
the other), and the JSON that Chakra's feeder takes (a table with `workload_graph`, a list of nodes with `Id`, `NodeType` and `runtime`).
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from astra_sim import InputError
from astra_sim.files import parse_json
from google.protobuf.json_format import ParseDict, ParseError

from astra_sim_chakra.messages import GlobalMetadata, NodeMessage, parsed
from astra_sim_chakra.reader import parse_trace
from astra_sim_chakra.schema import ATTRIBUTES
from astra_sim_chakra.trace import Trace
from astra_sim_chakra.wire import Broken, delimited
from astra_sim_chakra.writer import encode_metadata, encode_node

# -- To JSON -----------------------------------------------------------------------------------------------------------


def to_json(trace: Trace) -> Iterator[str]:
    """The pieces of a trace's JSON text. Raises InputError if a field kept from the file is broken."""
    metadata = {"version": "", "attr": [], **_table(GlobalMetadata.FromString(encode_metadata(trace.metadata)))}
    yield f'{{"metadata": {_dumps(metadata)},\n"nodes": ['
    for row in range(len(trace)):
        try:
            node = {"id": 0, **_table(parsed(NodeMessage, encode_node(trace.node(row))))}
        except Broken as broken:
            raise InputError(f"{trace.path}: {trace.label(row)}: {broken}") from None
        yield f"{',' if row else ''}\n {_dumps(node)}"
    yield "\n]}\n"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _table(message: Any) -> dict[str, Any]:
    """The fields of a message that are set. (Protobuf's own JSON writes 64-bit numbers as text.)"""
    return {
        field.json_name: [_plain(item, field) for item in value] if field.is_repeated else _plain(value, field)
        for field, value in message.ListFields()
    }


def _plain(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _table(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


# -- From JSON ---------------------------------------------------------------------------------------------------------


def parse_document(text: str, where: str) -> Any:
    """The value of a JSON file; the consecutive objects of `chakra_jsonizer` become one table. Raises InputError."""
    if _FOLLOWED.search(text) is None:
        return parse_json(text, where)
    objects: list[Any] = []
    decoder, at = json.JSONDecoder(), 0
    while match := _OBJECT.match(text, at):
        try:
            value, at = decoder.raw_decode(text, match.end() - 1)
        except json.JSONDecodeError as error:
            raise InputError(f"{where}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: object number {len(objects)}: {error}") from None
        objects.append(value)
    if text[at:].strip():
        line = text.count("\n", 0, at) + 1
        raise InputError(
            f"{where}:{line}: {text[at:].strip()[:40]!r} follows an object; expected another object, as chakra_jsonizer prints"
        )
    return {"metadata": objects[0], "nodes": objects[1:]}


_FOLLOWED = re.compile(r"^\}\s*\{", re.MULTILINE)
"""The end of an object at the beginning of a line, and the next one: protobuf's JSON indents everything in between."""
_OBJECT = re.compile(r"\s*\{")


def from_json(document: Any, where: str, *, keep: bool = True, dependencies: str = "both", compiled: bool | None = None) -> Trace:
    """The trace of a JSON document. Names may also be those of the schema (`data_deps`), numbers may be text. Raises InputError.

    `keep`, `dependencies` and `compiled` as for `load_trace`.
    """
    metadata, nodes = encoded_messages(document, where)
    return parse_trace(b"".join(map(delimited, [metadata, *nodes])), where, keep=keep, dependencies=dependencies, compiled=compiled)


def is_trace(document: Any) -> bool:
    """Whether a JSON document is a trace."""
    return isinstance(document, dict) and bool({"nodes", _FEEDER} & document.keys())


def encoded_messages(document: Any, where: str) -> tuple[bytes, list[bytes]]:
    """The metadata and the nodes of a JSON document in protobuf. Raises InputError."""
    if isinstance(document, dict) and isinstance(document.get(_FEEDER), list):
        document = {"nodes": [_of_feeder(node, f"{where}: {_FEEDER}: node number {n}") for n, node in enumerate(document[_FEEDER])]}
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise InputError(f"{where}: expected a table with nodes, a list")
    if "schema" in document:
        raise InputError(
            f"{where}: this is an execution trace of PyTorch; expected one of Chakra (astra trace link and astra convert --from pytorch)"
        )
    nodes = [_message(node, NodeMessage, f"{where}: node number {number}") for number, node in enumerate(document["nodes"])]
    return _message(document.get("metadata", {}), GlobalMetadata, f"{where}: metadata"), nodes


_FEEDER = "workload_graph"
_FIELDS = {"Id": "id", "Name": "name", "NodeType": "type", "data_deps": "dataDeps", "ctrlDeps": "ctrlDeps", "runtime": "durationMicros"}
_IS_ATTRIBUTE = ATTRIBUTES.keys() - {"astra_duration_rest_ns", "pg_name", "involved_dim"}


def _of_feeder(node: Any, where: str) -> dict[str, Any]:
    """A node of the feeder's JSON under protobuf's names. Raises InputError for fields that it lacks."""
    if not isinstance(node, dict):
        raise InputError(f"{where} is {node!r}; expected a table")
    for key in node:
        if key not in _FIELDS and key not in _IS_ATTRIBUTE:
            raise InputError(f"{where}: unknown key {key!r}; known: {', '.join([*_FIELDS, *sorted(_IS_ATTRIBUTE)])}")
    attributes = [{"name": name, ATTRIBUTES[name]: node[name]} for name in ATTRIBUTES if name in _IS_ATTRIBUTE and name in node]
    return {**{_FIELDS[key]: value for key, value in node.items() if key in _FIELDS}, "attr": attributes}


def _message(table: Any, kind: Any, where: str) -> bytes:
    if not isinstance(table, dict):
        raise InputError(f"{where} is {table!r}; expected a table")
    try:
        return bytes(ParseDict(table, kind()).SerializeToString())
    except (ParseError, TypeError, ValueError) as error:
        raise InputError(f"{where}: {' '.join(str(error).split())}") from None
