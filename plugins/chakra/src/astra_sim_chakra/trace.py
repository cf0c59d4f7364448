"""A Chakra execution trace in memory: columns, a row for each node, and nodes one at a time."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from astra_sim.rows import Column, Dependencies, view

from astra_sim_chakra.pure import COLUMNS, node_label
from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.wire import Attribute


@attrs.frozen
class Metadata:
    """The GlobalMetadata of a trace: schema version ("" if it names none) and attributes."""

    version: str = ""
    attributes: tuple[Attribute, ...] = ()

    def get(self, name: str) -> Any:
        """The value of the attribute of that name; None if there is no such attribute."""
        return next((attribute.value for attribute in self.attributes if attribute.name == name), None)

    @property
    def keeps_order(self) -> bool:
        """Whether the dependencies of nodes hold all orders in which they ran, so that an NPU may do several of a sort at a time."""
        return self.get(ONE_AT_A_TIME) is False


ONE_AT_A_TIME = "astra_one_at_a_time"
"""The attribute of the metadata by which an NPU does one operation of each sort at a time."""


@attrs.define(kw_only=True)
class Node:
    """One node. None: not in the trace. Sizes in bytes; `control` and `data` are ids of nodes it depends on.

    `others` are further fields in protobuf's wire format, as they are in the file.
    """

    id: int
    name: str = ""
    type: NodeType
    duration_ns: int = 0
    control: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    is_cpu_op: bool | None = None
    num_ops: int | None = None
    tensor_size: int | None = None
    comm_type: int | None = None
    comm_priority: int = 0
    comm_size: int | None = None
    comm_src: int | None = None
    comm_dst: int | None = None
    comm_tag: int = 0
    pg_name: str | None = None
    involved_dim: tuple[bool, ...] | None = None
    others: bytes = b""


@attrs.frozen(eq=False, kw_only=True)
class Trace:
    """The trace of one rank, checked: ids are unique, dependencies exist and have no cycle.

    A column holds a number for each row, in the order of the file: `id`, `type` (a NodeType), `duration_ns` (nanoseconds), `is_cpu_op`
    (0, 1), `num_ops`, `tensor_size` and `comm_size` (bytes), `comm_type` (a CollectiveType), `comm_src` and `comm_dst` (ranks), `group`
    (index into `groups`, the names of process groups), `involved` (index into `involved_dims`); -1 if the trace has no value.
    `comm_priority` and `comm_tag` are 0 there.

    `order` lists the rows so that each comes after its dependencies; of all such orders it is the one in which the lowest ids come
    first, whatever the order of the file. `left_out` counts control dependencies on nodes that are not in
    the file; these are allowed only in traces converted from PyTorch. With `relative_peers`, `comm_src` and `comm_dst` are distances:
    (peer - rank) modulo the number of ranks.
    """

    path: str
    metadata: Metadata
    id: Column
    type: Column
    duration_ns: Column
    control: Dependencies
    data: Dependencies
    is_cpu_op: Column
    num_ops: Column
    tensor_size: Column
    comm_type: Column
    comm_priority: Column
    comm_size: Column
    comm_src: Column
    comm_dst: Column
    comm_tag: Column
    group: Column
    groups: tuple[str, ...]
    involved: Column
    involved_dims: tuple[tuple[bool, ...], ...]
    order: Sequence[int]
    left_out: int
    relative_peers: bool = False
    _names: bytes
    _name_end: Column
    _others: bytes
    _other_end: Column

    def __len__(self) -> int:
        return len(self.id)

    def name(self, row: int) -> str:
        """The name of a node."""
        return self._names[self._name_end[row - 1] if row else 0 : self._name_end[row]].decode()

    def label(self, row: int) -> str:
        """The name of a node in messages: `node 3 'conv1'`."""
        return node_label(self.id[row], self.name(row))

    def row(self, id: int) -> int:
        """The row of the node with this id. Raises KeyError if no node has it."""
        first = self.id[0] if len(self) else 0
        if 0 <= id - first < len(self) and self.id[id - first] == id:
            return id - first
        return self._rows[id]

    @functools.cached_property
    def _rows(self) -> dict[int, int]:
        return {id_: row for row, id_ in enumerate(self.id)}

    def dependencies(self, row: int) -> list[int]:
        """The rows that a node waits for, control and data, each once."""
        return list(dict.fromkeys([*self.control[row], *self.data[row]]))

    def all_dependencies(self) -> list[list[int]]:
        """`dependencies` of all rows."""
        result = []
        control, data = self.control.rows.tolist(), self.data.rows.tolist()
        first_control = first_data = 0
        for end_control, end_data in zip(self.control.end.tolist(), self.data.end.tolist(), strict=True):
            waits = control[first_control:end_control]
            waits += data[first_data:end_data]
            result.append(waits if len(waits) < 2 else list(dict.fromkeys(waits)))
            first_control, first_data = end_control, end_data
        return result

    def names(self) -> list[str]:
        """`name` of all rows."""
        result, first = [], 0
        for end in self._name_end.tolist():
            result.append(self._names[first:end].decode())
            first = end
        return result

    def others(self, row: int) -> bytes:
        """The fields of a node for which there is no column, in wire format; empty unless the trace was loaded with `keep`."""
        if not len(self._other_end):
            return b""
        return self._others[self._other_end[row - 1] if row else 0 : self._other_end[row]]

    def node(self, row: int) -> Node:
        """A node by its row."""
        return Node(
            id=self.id[row],
            name=self.name(row),
            type=NodeType(self.type[row]),
            duration_ns=self.duration_ns[row],
            control=tuple(self.id[other] for other in self.control[row]),
            data=tuple(self.id[other] for other in self.data[row]),
            is_cpu_op=None if self.is_cpu_op[row] < 0 else bool(self.is_cpu_op[row]),
            num_ops=stated(self.num_ops[row]),
            tensor_size=stated(self.tensor_size[row]),
            comm_type=stated(self.comm_type[row]),
            comm_priority=self.comm_priority[row],
            comm_size=stated(self.comm_size[row]),
            comm_src=stated(self.comm_src[row]),
            comm_dst=stated(self.comm_dst[row]),
            comm_tag=self.comm_tag[row],
            pg_name=None if self.group[row] < 0 else self.groups[self.group[row]],
            involved_dim=None if self.involved[row] < 0 else self.involved_dims[self.involved[row]],
            others=self.others(row),
        )

    def nodes(self) -> Iterator[Node]:
        """All nodes, in the order of the file."""
        return (self.node(row) for row in range(len(self)))

    def with_peers(self, comm_src: Column, comm_dst: Column, relative: bool) -> Trace:
        """The same trace with other peers; everything else is shared."""
        return attrs.evolve(self, comm_src=comm_src, comm_dst=comm_dst, relative_peers=relative)

    @functools.cached_property
    def has_peers(self) -> bool:
        """Whether a node names a rank."""
        return any(len(column) and max(column) >= 0 for column in (self.comm_src, self.comm_dst))

    @functools.cached_property
    def digest(self) -> bytes:
        """A hash of all nodes but for their peers and the names of process groups."""
        state = hashlib.sha256(repr(self.involved_dims).encode())
        columns: dict[str, Any] = {name: getattr(self, name) for name in COLUMNS if hasattr(self, name) and name not in _NOT_HASHED}
        columns |= {"names": self._names, "name_end": self._name_end, "others": self._others, "other_end": self._other_end}
        for dependencies in (self.control, self.data):
            state.update(dependencies.end)
            state.update(dependencies.rows)
        for column in columns.values():
            state.update(len(column).to_bytes(8, "little"))
            state.update(column)
        return state.digest()


_NOT_HASHED = ("comm_src", "comm_dst", "control", "data", "order")


def make_trace(
    path: str,
    metadata: Metadata,
    columns: dict[str, bytes],
    groups: Sequence[str],
    involved: Sequence[Sequence[bool]],
    left_out: int,
) -> Trace:
    """A trace from the columns of a reader."""
    views: dict[str, Any] = {name: view(columns.pop(name), code) for name, code in COLUMNS.items()}
    views["_name_end"], views["_other_end"] = views.pop("name_end"), views.pop("other_end")
    control = Dependencies(views.pop("control_end"), views.pop("control"))
    data = Dependencies(views.pop("data_end"), views.pop("data"))
    order = views.pop("order")
    return Trace(
        path=path,
        metadata=metadata,
        control=control,
        data=data,
        groups=tuple(groups),
        involved_dims=tuple(tuple(dims) for dims in involved),
        left_out=left_out,
        order=order if len(order) else range(len(views["id"])),
        names=columns["names"],
        others=columns["others"],
        name_end=views.pop("_name_end"),
        other_end=views.pop("_other_end"),
        **views,
    )


def stated(value: int) -> int | None:
    """A number of a column; None if the trace has no value."""
    return None if value < 0 else value
