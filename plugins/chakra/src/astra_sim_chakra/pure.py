"""Reads the nodes of a trace into columns, with protobuf's runtime: used if the package was installed without its compiled part.

`native/reader.cpp` does the same, some thirty times faster and without protobuf. For damage inside a message it names the
field, if protobuf reports only that the message is damaged; and it skips damage in fields that have no column.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Sequence
from operator import lt
from typing import Any

from astra_sim.limits import MAX_TRACE_NODES

from astra_sim_chakra.schema import ATTRIBUTES, LIMITS, MAX_64, MAX_MESSAGE_BYTES, MAX_MICROSECONDS, NodeType
from astra_sim_chakra.wire import Broken, read_varint

COLUMNS = {
    "id": "Q",
    "name_end": "Q",
    "type": "b",
    "duration_ns": "q",
    "control": "I",
    "control_end": "Q",
    "data": "I",
    "data_end": "Q",
    "is_cpu_op": "b",
    "num_ops": "q",
    "tensor_size": "q",
    "comm_type": "b",
    "comm_priority": "i",
    "comm_size": "q",
    "comm_src": "i",
    "comm_dst": "i",
    "comm_tag": "i",
    "group": "i",
    "involved": "i",
    "other_end": "Q",
    "order": "I",
}
"""Columns of numbers and their `array` type codes. `names` and `others` are bytes."""

_UNSET = {"is_cpu_op": -1, "num_ops": -1, "tensor_size": -1, "comm_type": -1, "comm_priority": 0, "comm_size": -1, "comm_src": -1}
_UNSET |= {"comm_dst": -1, "comm_tag": 0, "group": -1, "involved": -1}
_FIELDS_WITH_COLUMNS = ("id", "name", "type", "ctrl_deps", "data_deps", "duration_micros")
_NO_VALUE = "attribute without a value"
_CYCLE_SHOWN = 10
_KINDS = ("control", "data")


class Reader:
    """Takes the bytes of a file, from `offset` on, piece by piece. Everything it raises is a Broken.

    `keep`: keep the fields for which there is no column. `lenient`: drop control dependencies on nodes that are not in the file;
    `left_out` counts them. `control`: follow control dependencies; else nodes have none.
    """

    def __init__(self, offset: int, keep: bool, lenient: bool, control: bool) -> None:
        from astra_sim_chakra import messages

        self._messages = messages
        self._offset = offset
        self._keep = keep
        self._lenient = lenient
        self._control = control
        self.left_out = 0
        self._pending = b""
        self._columns = {name: array(code) for name, code in COLUMNS.items()}
        self._names = bytearray()
        self._others = bytearray()
        self._control_ids = array("Q")
        self._data_ids = array("Q")
        self._group_index: dict[str, int] = {}
        self._involved_index: dict[tuple[bool, ...], int] = {}

    def feed(self, data: bytes) -> None:
        """The next bytes of the file."""
        data = self._pending + data
        begin = 0
        while True:
            try:
                length = read_varint(data, begin)
            except Broken:
                raise Broken(f"byte {self._offset}: the length of a message is a varint of more than 64 bits") from None
            if length is None:
                break
            size, at = length
            if size > MAX_MESSAGE_BYTES:
                raise Broken(f"byte {self._offset}: a message of {size} bytes; expected at most {MAX_MESSAGE_BYTES}")
            if len(data) - at < size:
                break
            self._node(data[at : at + size])
            self._offset += at + size - begin
            begin = at + size
        self._pending = data[begin:]

    def finish(self) -> None:
        """The file has ended: check ids and dependencies, and find an order."""
        if self._pending:
            size = len(self._pending)
            raise Broken(f"byte {self._offset}: the file ends in the middle of a message, of which it has {size} bytes")
        rows = self._rows()
        if not self._control:
            self._control_ids = array("Q")
            self._columns["control_end"] = array("Q", bytes(8 * len(rows)))
        for name, ids in (("control", self._control_ids), ("data", self._data_ids)):
            self._columns[name] = self._resolved(name, ids, rows)
        self._columns["order"] = self._order()

    @property
    def groups(self) -> list[str]:
        """The names of process groups."""
        return list(self._group_index)

    @property
    def involved_dims(self) -> list[tuple[bool, ...]]:
        """The different values of `involved_dim`."""
        return list(self._involved_index)

    def columns(self) -> dict[str, bytes]:
        """The columns as bytes."""
        arrays = {name: column.tobytes() for name, column in self._columns.items()}
        return {**arrays, "names": bytes(self._names), "others": bytes(self._others)}

    def _node(self, data: bytes) -> None:
        """Add the node in some bytes as a row. Raises Broken."""
        try:
            node = self._messages.parsed(self._messages.NodeMessage, data)
        except Broken as broken:
            raise Broken(f"byte {self._offset}: node of {len(data)} bytes: {broken}") from None
        columns = self._columns
        row = len(columns["id"])
        if row == MAX_TRACE_NODES:
            raise Broken(f"more than {MAX_TRACE_NODES} nodes; expected at most that")
        columns["id"].append(node.id)
        self._names += node.name.encode()
        columns["name_end"].append(len(self._names))
        try:
            if not 0 <= node.type <= max(NodeType):
                raise Broken(f"type is {node.type}; expected 0 to {max(NodeType):d}")
            if node.duration_micros > MAX_MICROSECONDS:
                raise Broken(f"duration_micros is {node.duration_micros}; expected at most {MAX_MICROSECONDS}")
            columns["type"].append(node.type)
            columns["duration_ns"].append(node.duration_micros * 1000)
            self._control_ids.extend(node.ctrl_deps)
            columns["control_end"].append(len(self._control_ids))
            self._data_ids.extend(node.data_deps)
            columns["data_end"].append(len(self._data_ids))
            for column, unset in _UNSET.items():
                columns[column].append(unset)
            seen = set()
            for attribute in node.attr:
                name = attribute.name
                if name not in ATTRIBUTES:
                    continue
                if name in seen:
                    raise Broken(f"{name} is given twice")
                seen.add(name)
                self._attribute(row, name, attribute)
        except Broken as broken:
            raise Broken(f"{self._label(row)}: {broken}") from None
        if self._keep:
            self._others += other_fields(node)
            columns["other_end"].append(len(self._others))

    def _attribute(self, row: int, name: str, attribute: Any) -> None:
        """Put the value of an attribute into its column. Raises Broken for a member or value that it cannot have."""
        member = attribute.WhichOneof("value")
        value: Any = getattr(attribute, member) if member else None
        if name in ("pg_name", "involved_dim"):
            if member != ATTRIBUTES[name]:
                raise Broken(f"{name} is a {member or _NO_VALUE}; expected a {ATTRIBUTES[name]}")
            if name == "pg_name":
                self._columns["group"][row] = self._group_index.setdefault(value, len(self._group_index))
            else:
                self._messages.check_fields(value)
                self._columns["involved"][row] = self._involved_index.setdefault(tuple(value.values), len(self._involved_index))
            return
        if name == "is_cpu_op" and member == "bool_val":
            self._columns[name][row] = value
            return
        least, most = LIMITS[name]
        if type(value) is not int:  # a bool is not an integer here
            raise Broken(f"{name} is a {member or _NO_VALUE}; expected a whole number")
        if not least <= value <= most:
            raise Broken(f"{name} is {value}; expected {least} to {most:d}")
        if name != "astra_duration_rest_ns":
            self._columns[name][row] = value
            return
        duration = self._columns["duration_ns"][row]
        if not 0 <= duration + value <= MAX_64:
            raise Broken(f"{name} is {value}, which makes the duration negative or too long")
        self._columns["duration_ns"][row] = duration + value

    def _rows(self) -> dict[int, int]:
        """The row of each id. Raises Broken for the smallest id that is there twice."""
        rows: dict[int, int] = {}
        first: tuple[int, int] | None = None
        for row, id_ in enumerate(self._columns["id"]):
            earlier = rows.setdefault(id_, row)
            if earlier != row and (first is None or id_ < self._columns["id"][first[0]]):
                first = row, earlier
        if first is not None:
            row, earlier = first
            raise Broken(f"{self._label(row)}: its id is that of an earlier node, {self._label(earlier)}; expected ids that differ")
        return rows

    def _resolved(self, name: str, ids: array[int], rows: dict[int, int]) -> array[int]:
        """Dependencies as rows. Raises Broken for one on no node; of control they are left out if that is allowed."""
        resolved = array("I")
        ends = self._columns[f"{name}_end"]
        begin = 0
        for row, end in enumerate(ends):
            for id_ in ids[begin:end]:
                if id_ in rows:
                    resolved.append(rows[id_])
                elif self._lenient and name == "control":
                    self.left_out += 1
                else:
                    raise Broken(f"{self._label(row)}: {name} dependency {id_} is no node of the file")
            begin, ends[row] = end, len(resolved)
        return resolved

    def _dependencies_of(self, row: int, kinds: Sequence[str] = _KINDS) -> Iterator[int]:
        for name in kinds:
            ends = self._columns[f"{name}_end"]
            yield from self._columns[name][ends[row - 1] if row else 0 : ends[row]]

    def _order(self) -> array[int]:
        """The order in which nodes come after their dependencies and the lowest ids come first; empty if the file has it."""
        ids = self._columns["id"]
        if all(map(lt, ids, ids[1:])) and all(other < row for row in range(len(ids)) for other in self._dependencies_of(row)):
            return array("I")
        order, waits = self._sorted(_KINDS)
        if len(order) < len(ids):
            raise Broken(self._circle(waits))
        return order

    def _sorted(self, kinds: Sequence[str]) -> tuple[array[int], list[int]]:
        """Rows in an order that respects these types of dependencies, as far as possible, and how many each row then still waits for."""
        ids = self._columns["id"]
        children: list[list[int]] = [[] for _ in ids]
        waits = [0] * len(ids)
        for row in range(len(ids)):
            for other in self._dependencies_of(row, kinds):
                children[other].append(row)
                waits[row] += 1
        ready = [(ids[row], row) for row in range(len(ids)) if not waits[row]]
        heapq.heapify(ready)
        order = array("I")
        while ready:
            _, row = heapq.heappop(ready)
            order.append(row)
            for child in children[row]:
                waits[child] -= 1
                if not waits[child]:
                    heapq.heappush(ready, (ids[child], child))
        return order, waits

    def _circle(self, waits: list[int]) -> str:
        """A circle among the rows that still wait: follow their remaining dependencies from the first of them until one repeats."""
        row = next(row for row, count in enumerate(waits) if count)
        path: list[int] = []
        seen: dict[int, int] = {}
        while row not in seen:
            seen[row] = len(path)
            path.append(row)
            row = next(other for other in self._dependencies_of(row) if waits[other])
        path = path[seen[row] :]
        message = "dependencies in a circle: " + ", which waits for ".join(self._label(row) for row in path[:_CYCLE_SHOWN])
        more = f", and {len(path) - _CYCLE_SHOWN} more" if len(path) > _CYCLE_SHOWN else ""
        by_data, _ = self._sorted(("data",))
        hint = "" if len(by_data) < len(waits) else "; data dependencies alone have none (dependencies=data follows only those)"
        return f"{message}{more}, which waits for the first{hint}"

    def _label(self, row: int) -> str:
        ends = self._columns["name_end"]
        return node_label(self._columns["id"][row], bytes(self._names[ends[row - 1] if row else 0 : ends[row]]).decode())


def node_label(id_: int, name: str) -> str:
    """The name of a node in messages: its id, and the beginning of its name in one line."""
    encoded = name.encode()
    if len(encoded) > 60:
        name = encoded[:60].decode(errors="ignore") + "..."
    return f"node {id_} '{''.join(max(letter, ' ') for letter in name)}'"


def other_fields(node: Any) -> bytes:
    """The fields of a node without a column, encoded. Removes the other fields from the message."""
    for name in _FIELDS_WITH_COLUMNS:
        node.ClearField(name)
    for place in reversed(range(len(node.attr))):
        if node.attr[place].name in ATTRIBUTES:
            del node.attr[place]
    return bytes(node.SerializeToString())
