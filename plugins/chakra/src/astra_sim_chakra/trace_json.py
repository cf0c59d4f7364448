"""Traces as JSON for people: protobuf's JSON names, numbers as numbers, one node per line.

{"metadata": {"version": "0.0.4", "attr": [...]},
 "nodes": [
  {"id": 0, "name": "conv1", "type": "COMP_NODE", "durationMicros": 12, "attr": [{"name": "num_ops", "int64Val": 1000}]},
  ...
]}
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

from astra_sim import InputError
from google.protobuf.json_format import ParseDict, ParseError

from astra_sim_chakra.messages import Broken, GlobalMetadata, NodeMessage, delimited, parsed
from astra_sim_chakra.reader import parse_trace
from astra_sim_chakra.trace import Trace
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


def from_json(document: Any, where: str) -> Trace:
    """The trace of a JSON document. Names may also be those of the schema (`data_deps`), numbers may be text. Raises InputError."""
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise InputError(f"{where}: expected a table with nodes, a list")
    messages = [_message(document.get("metadata", {}), GlobalMetadata, f"{where}: metadata")]
    messages += [_message(node, NodeMessage, f"{where}: node number {number}") for number, node in enumerate(document["nodes"])]
    return parse_trace(b"".join(map(delimited, messages)), where, keep=True)


def _message(table: Any, kind: Any, where: str) -> bytes:
    if not isinstance(table, dict):
        raise InputError(f"{where} is {table!r}; expected a table")
    try:
        return bytes(ParseDict(table, kind()).SerializeToString())
    except (ParseError, TypeError, ValueError) as error:
        raise InputError(f"{where}: {' '.join(str(error).split())}") from None
