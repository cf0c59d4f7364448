"""A Chakra execution trace in memory: columns, a row for each node, and nodes one at a time."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

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


@attrs.frozen(eq=False)
class PackedTexts:
    """Texts of rows in one, each up to its `end`; without `end` all are empty."""

    text: bytes
    end: Column

    def __getitem__(self, row: int) -> bytes:
        return self.text[self.end[row - 1] if row else 0 : self.end[row]] if len(self.end) else b""

    def __iter__(self) -> Iterator[bytes]:
        first = 0
        for end in self.end.tolist():
            yield self.text[first:end]
            first = end


@attrs.frozen(eq=False, kw_only=True)
class CommColumns:
    """The columns of a trace about communication: how much nodes communicate, with whom and over which dimensions.

    `size` is in bytes, `type` a CollectiveType, `src` and `dst` are ranks, `group` is an index into `groups`, the names of process groups,
    and `involved` one into `involved_dims`; -1 if the trace has no value. `priority` and `tag` are 0 there. `relative`: `src` and `dst` are
    distances, (peer - rank) modulo the number of ranks.
    """

    type: Column
    priority: Column
    size: Column
    src: Column
    dst: Column
    tag: Column
    group: Column
    groups: tuple[str, ...]
    involved: Column
    involved_dims: tuple[tuple[bool, ...], ...]
    relative: bool = False


_COMM_NAMES = {f"comm_{name}": name for name in ("type", "priority", "size", "src", "dst", "tag")}
_COMM_NAMES |= {name: name for name in ("group", "groups", "involved", "involved_dims")} | {"relative_peers": "relative"}


@attrs.frozen(eq=False, kw_only=True)
class Trace:
    """The trace of one rank, checked: ids are unique, dependencies exist and have no cycle.

    A column holds a number for each row, in the order of the file: `id`, `type` (a NodeType), `duration_ns` (nanoseconds), `is_cpu_op`
    (0, 1), `num_ops` and `tensor_size` (bytes); -1 if the trace has no value. Those of communication are in `comm`; most can be read from
    the trace itself, too, by the names that a node has for them (`comm_size`, `group`).

    `order` lists the rows so that each comes after its dependencies; of all such orders it is the one in which the lowest ids come
    first, whatever the order of the file. `left_out` counts control dependencies on nodes that are not in
    the file; these are allowed only in traces converted from PyTorch.
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
    comm: CommColumns
    order: Sequence[int]
    left_out: int
    _names: PackedTexts
    _others: PackedTexts

    def __len__(self) -> int:
        return len(self.id)

    if not TYPE_CHECKING:  # it would hide misspelt attributes

        def __getattr__(self, name: str) -> Any:
            if name not in _COMM_NAMES:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(self.comm, _COMM_NAMES[name])

    def name(self, row: int) -> str:
        """The name of a node."""
        return self._names[row].decode()

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
        return [name.decode() for name in self._names]

    def others(self, row: int) -> bytes:
        """The fields of a node for which there is no column, in wire format; empty unless the trace was loaded with `keep`."""
        return self._others[row]

    def node(self, row: int) -> Node:
        """A node by its row."""
        comm = self.comm
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
            comm_type=stated(comm.type[row]),
            comm_priority=comm.priority[row],
            comm_size=stated(comm.size[row]),
            comm_src=stated(comm.src[row]),
            comm_dst=stated(comm.dst[row]),
            comm_tag=comm.tag[row],
            pg_name=None if comm.group[row] < 0 else comm.groups[comm.group[row]],
            involved_dim=None if comm.involved[row] < 0 else comm.involved_dims[comm.involved[row]],
            others=self.others(row),
        )

    def nodes(self) -> Iterator[Node]:
        """All nodes, in the order of the file."""
        return (self.node(row) for row in range(len(self)))

    def with_peers(self, src: Column, dst: Column, relative: bool) -> Trace:
        """The same trace with other peers; everything else is shared."""
        return attrs.evolve(self, comm=attrs.evolve(self.comm, src=src, dst=dst, relative=relative))

    @functools.cached_property
    def has_peers(self) -> bool:
        """Whether a node names a rank."""
        return any(len(column) and max(column) >= 0 for column in (self.comm.src, self.comm.dst))

    @functools.cached_property
    def digest(self) -> bytes:
        """A hash of all nodes but for their peers and the names of process groups."""
        comm = self.comm
        state = hashlib.sha256(repr(comm.involved_dims).encode())
        for dependencies in (self.control, self.data):
            state.update(dependencies.end)
            state.update(dependencies.rows)
        columns: list[Any] = [self.id, self.type, self.duration_ns, self.is_cpu_op, self.num_ops, self.tensor_size]
        columns += [comm.type, comm.priority, comm.size, comm.tag, comm.group, comm.involved]
        columns += [self._names.text, self._names.end, self._others.text, self._others.end]
        for column in columns:
            state.update(len(column).to_bytes(8, "little"))
            state.update(column)
        return state.digest()


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
    comm: dict[str, Any] = {name.removeprefix(_COMM): views.pop(name) for name in COLUMNS if name.startswith(_COMM)}
    control = Dependencies(views.pop("control_end"), views.pop("control"))
    data = Dependencies(views.pop("data_end"), views.pop("data"))
    order = views.pop("order")
    return Trace(
        path=path,
        metadata=metadata,
        control=control,
        data=data,
        comm=CommColumns(
            **comm,
            group=views.pop("group"),
            groups=tuple(groups),
            involved=views.pop("involved"),
            involved_dims=tuple(tuple(dims) for dims in involved),
        ),
        left_out=left_out,
        order=order if len(order) else range(len(views["id"])),
        names=PackedTexts(columns["names"], views.pop("name_end")),
        others=PackedTexts(columns["others"], views.pop("other_end")),
        **views,
    )


_COMM = "comm_"
"""The beginning of the names of columns about communication."""


def stated(value: int) -> int | None:
    """A number of a column; None if the trace has no value."""
    return None if value < 0 else value
