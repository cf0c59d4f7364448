"""Traces as JSON for people: protobuf's JSON names, numbers as numbers, a node in a line.

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

from astra_sim_chakra.reader import parse_trace
from astra_sim_chakra.schema import MEMBER_NUMBERS, NodeType
from astra_sim_chakra.trace import Metadata, Trace
from astra_sim_chakra.wire import (
    Attribute,
    Broken,
    attribute,
    bytes_field,
    fields,
    number_field,
    packed_varints,
    read_attribute,
    text,
    varint,
)
from astra_sim_chakra.writer import encode_metadata, encode_node

_NUMBERS = {1: "id", 3: "type", 6: "startTimeMicros", 7: "durationMicros"}
_DEPENDENCIES = {4: "ctrlDeps", 5: "dataDeps"}
_SOCKETS = {8: "inputs", 9: "outputs"}
_SOCKET = {1: "values", 2: "shapes", 3: "types"}


# -- To JSON -----------------------------------------------------------------------------------------------------------


def to_json(trace: Trace) -> Iterator[str]:
    """The pieces of a trace's JSON text. Raises InputError where a field kept from the file is broken."""
    metadata = {"version": trace.metadata.version, "attr": [_attribute_json(a) for a in trace.metadata.attributes]}
    yield f'{{"metadata": {_dumps(metadata)},\n"nodes": ['
    for row in range(len(trace)):
        try:
            node = _node_json(encode_node(trace.node(row)))
        except Broken as broken:
            raise InputError(f"{trace.path}: {trace.label(row)}: {broken}") from None
        yield f"{',' if row else ''}\n {_dumps(node)}"
    yield "\n]}\n"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _node_json(message: bytes) -> dict[str, Any]:
    node: dict[str, Any] = {"id": 0}
    for field in fields(message):
        if field.number in _NUMBERS:
            node[_NUMBERS[field.number]] = NodeType(field.value).name if field.number == 3 else field.value
        elif field.number == 2:
            node["name"] = text(field, "name")
        elif field.number in _DEPENDENCIES:
            name = _DEPENDENCIES[field.number]
            node.setdefault(name, []).extend(packed_varints(field.value, name) if isinstance(field.value, bytes) else [field.value])
        elif field.number in _SOCKETS:
            what = _SOCKETS[field.number]
            node[what] = {_SOCKET[part.number]: text(part, what) for part in fields(field.value) if part.number in _SOCKET}
        elif field.number == 10:
            node.setdefault("attr", []).append(_attribute_json(read_attribute(field.value)))
    return node


def _attribute_json(found: Attribute) -> dict[str, Any]:
    name, member, value = found
    if member is None:
        return {"name": name}
    if member.endswith("_list"):
        values = [_scalar_json(item) for item in value]
        return {"name": name, _camel(member): {"values": values}}
    return {"name": name, _camel(member): _scalar_json(value)}


def _scalar_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _camel(member: str) -> str:
    kind, _, form = member.rpartition("_")
    return kind + form.capitalize()


_MEMBERS = {key: name for name in MEMBER_NUMBERS for key in (name, _camel(name))}


# -- From JSON ---------------------------------------------------------------------------------------------------------


def from_json(document: Any, where: str) -> Trace:
    """The trace of a JSON document. Names may also be those of the schema (`data_deps`), numbers may be text. Raises InputError."""
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise InputError(f"{where}: a table with nodes, a list, is right")
    metadata = document.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InputError(f"{where}: metadata is {metadata!r}; a table is right")
    attributes = tuple(_attribute(item, f"{where}: metadata") for item in _list(metadata, "attr", f"{where}: metadata"))
    messages = [encode_metadata(Metadata(_string(metadata.get("version", ""), f"{where}: metadata: version"), attributes))]
    messages += [_node(node, f"{where}: node number {number}") for number, node in enumerate(document["nodes"])]
    return parse_trace(b"".join(varint(len(message)) + message for message in messages), where, keep=True)


def _node(node: Any, where: str) -> bytes:
    if not isinstance(node, dict):
        raise InputError(f"{where} is {node!r}; a table is right")
    keys = {_snake(key): key for key in node}
    known = [_snake(name) for name in ("id", "name", "type", "attr", *_NUMBERS.values(), *_DEPENDENCIES.values(), *_SOCKETS.values())]
    for snake, key in keys.items():
        if snake not in known:
            raise InputError(f"{where}: unknown key {key!r}; {', '.join(known)} are right")
    values = {snake: node[key] for snake, key in keys.items()}
    name = _string(values.get("name", ""), f"{where}: name")
    parts = [bytes_field(2, name.encode())] if name else []
    for number, name in _NUMBERS.items():
        value = values.get(_snake(name), 0)
        if number == 3 and isinstance(value, str):
            if value not in NodeType.__members__:
                raise InputError(f"{where}: type is {value!r}; {', '.join(NodeType.__members__)} are right")
            value = NodeType[value].value
        if _number(value, f"{where}: {name}"):
            parts.append(number_field(number, _number(value, f"{where}: {name}")))
    for number, name in _DEPENDENCIES.items():
        ids = [_number(value, f"{where}: {name}") for value in _list(values, _snake(name), where)]
        parts.append(bytes_field(number, b"".join(map(varint, ids))))
    for number, name in _SOCKETS.items():
        socket = values.get(name)
        if socket is not None:
            if not isinstance(socket, dict) or not set(socket) <= set(_SOCKET.values()):
                raise InputError(f"{where}: {name} is {socket!r}; a table of {', '.join(_SOCKET.values())} is right")
            inner = [bytes_field(n, _string(socket[key], f"{where}: {name}").encode()) for n, key in _SOCKET.items() if key in socket]
            parts.append(bytes_field(number, b"".join(inner)))
    for item in _list(values, "attr", where):
        name, member, value = _attribute(item, where)
        parts.append(bytes_field(10, _encoded(name, member, value, where)))
    return b"".join(parts)


def _attribute(item: Any, where: str) -> Attribute:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise InputError(f"{where}: the attribute {item!r} has no name")
    name = item["name"]
    members = [key for key in item if key in _MEMBERS]
    for key in item:
        if key not in ("name", "docString", "doc_string", *members):
            raise InputError(f"{where}: attribute {name}: unknown key {key!r}; a member such as int64Val is right")
    if len(members) > 1:
        raise InputError(f"{where}: attribute {name} has {' and '.join(members)}; one of them is right")
    if not members:
        return Attribute(name, None, None)
    member, value = _MEMBERS[members[0]], item[members[0]]
    what = f"{where}: attribute {name}"
    if member.endswith("_list"):
        scalar = member.replace("_list", "_val")
        values = value.get("values", []) if isinstance(value, dict) else value
        if not isinstance(values, list):
            raise InputError(f"{what} is {value!r}; a table with values, a list, is right")
        made = Attribute(name, member, tuple(_scalar(part, scalar, what) for part in values))
    else:
        made = Attribute(name, member, _scalar(value, member, what))
    _encoded(*made, where)
    return made


def _encoded(name: str, member: str | None, value: Any, where: str) -> bytes:
    if member is None:
        return bytes_field(1, name.encode())
    try:
        return attribute(name, member, value)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{where}: attribute {name}: {error}") from None


def _scalar(value: Any, member: str, where: str) -> Any:
    kind = member.rpartition("_")[0]
    try:
        if kind == "bytes":
            return base64.b64decode(value, validate=True)
        if kind in ("double", "float") and not isinstance(value, bool):
            return float(value)
        if kind == "bool" and isinstance(value, bool):
            return value
        if kind == "string":
            return _string(value, where)
        if kind not in ("double", "float", "bool") and not isinstance(value, (bool, float)):
            return int(value)
    except (TypeError, ValueError):
        pass
    raise InputError(f"{where} is {value!r}, which is no {member}")


def _list(table: dict[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise InputError(f"{where}: {key} is {value!r}; a list is right")
    return value


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} is {value!r}; text is right")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where} is {value!r}, which is not text in UTF-8") from None
    return value


def _number(value: Any, where: str) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) <= 20 else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**64:
        raise InputError(f"{where} is {value!r}; a whole number from 0 to {2**64 - 1} is right")
    return number


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
