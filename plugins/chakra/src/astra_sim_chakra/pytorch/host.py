"""PyTorch's execution trace: the operators of the host, as ExecutionTraceObserver writes them.

Schema 1.0.2-chakra.0.0.4 to 1.1.1-chakra.1.0.0: `nodes`, each with `id`, `name`, `ctrl_deps` (the node that called it), `inputs`,
`outputs`, and `attrs`, among them `rf_id` (the number of the call of RecordFunction) and `tid` (a number of the thread, not that of the
system).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from astra_sim import InputError

from astra_sim_chakra.pytorch.json_files import read_json
from astra_sim_chakra.pytorch.steps import step_of

GROUPS_NODE = "## process_group:init ##"
COMMS_NODE = "record_param_comms"


@attrs.frozen(eq=False)
class HostNode:
    """A node of an execution trace. `rf_id` is None if it has none; `fields` is the node as it is in the file."""

    id: int
    name: str
    parent: int
    rf_id: int | None
    tid: int
    attributes: Mapping[str, Any]
    fields: dict[str, Any]


@attrs.frozen(eq=False)
class HostTrace:
    """An execution trace: its table without nodes, and its nodes by id."""

    path: str
    head: dict[str, Any]
    nodes: dict[int, HostNode]

    @property
    def steps(self) -> dict[int, int]:
        """The steps of the profiler, and the ids of their nodes."""
        return {step: node.id for node in self.nodes.values() if (step := step_of(node.name)) is not None}

    def of_step(self, number: int) -> HostTrace:
        """The operators that began in a step of the profiler, by ids, which PyTorch counts up over all threads as operators begin; a node
        that represents processes, threads and process groups stays. A trace without steps is as it is. Raises InputError if there is no
        such step."""
        steps = self.steps
        if not steps:
            return self
        if number not in steps:
            known = ", ".join(map(str, sorted(steps)))
            raise InputError(f"{self.path}: there is no ProfilerStep#{number}; steps: {known}")
        first = steps[number]
        last = min((id_ for id_ in steps.values() if id_ > first), default=max(self.nodes) + 1)
        nodes = {id_: node for id_, node in self.nodes.items() if first <= id_ < last or (is_frame(node) and step_of(node.name) is None)}
        return attrs.evolve(self, nodes=nodes)

    def groups(self) -> dict[str, list[int]]:
        """The ranks of process groups by name, as PyTorch recorded them; an empty list is all ranks."""
        result: dict[str, list[int]] = {}
        for node in self.nodes.values():
            if node.name == GROUPS_NODE:
                result |= dict(_groups(node.fields.get("inputs")))
        return result

    def record_above(self, id_: int | None) -> HostNode | None:
        """The `record_param_comms` at or above a node; callers that call each other end the search."""
        seen: set[int | None] = set()
        while id_ not in seen and (node := self.nodes.get(id_)) is not None:  # type: ignore[arg-type]
            if node.name == COMMS_NODE:
                return node
            seen.add(id_)
            id_ = node.parent
        return None


def is_frame(node: HostNode) -> bool:
    """Whether a node represents a process, a thread, process groups or a step of the profiler, and is no operator."""
    return node.name.startswith(("[pytorch|profiler|", "## process_group:init")) or step_of(node.name) is not None


def read_host(path: str) -> HostTrace:
    """The execution trace in a file. Raises InputError."""
    return host_of(read_json(path), path)


def host_of(table: dict[str, Any], path: str) -> HostTrace:
    """The execution trace in a table. Raises InputError naming the node."""
    if not isinstance(table.get("nodes"), list):
        kineto = "; this is a trace of Kineto" if "traceEvents" in table else ""
        raise InputError(f"{path}: expected an execution trace of PyTorch, a table with nodes{kineto}")
    nodes: dict[int, HostNode] = {}
    for number, fields in enumerate(table["nodes"]):
        node = _node(fields, f"{path}: node number {number}")
        if node.id in nodes:
            raise InputError(f"{path}: node number {number}: its id {node.id} is that of an earlier node")
        nodes[node.id] = node
    if not nodes:
        raise InputError(f"{path}: the execution trace has no nodes; it was begun and never recorded")
    return HostTrace(path, {key: value for key, value in table.items() if key != "nodes"}, nodes)


def _node(fields: Any, where: str) -> HostNode:
    """A node of an execution trace. Raises InputError."""
    if not isinstance(fields, dict) or type(fields.get("id")) is not int or not isinstance(fields.get("name"), str):
        raise InputError(f"{where}: expected a table with id, a whole number, and name")
    listed = fields.get("attrs", [])
    if not isinstance(listed, list) or not all(map(_is_attribute, listed)):
        raise InputError(f"{where}: attrs is {str(listed)[:80]!r}; expected a list of tables with name and value")
    attributes = {each["name"]: each["value"] for each in listed}
    parent = fields.get("ctrl_deps", fields.get("parent", 0))  # the name before schema 1.0.2
    if type(parent) is not int:
        raise InputError(f"{where}: ctrl_deps is {str(parent)[:80]!r}; expected the id of the node that called this one")
    rf_id = attributes.get("rf_id", fields.get("rf_id")) or None
    tid = attributes.get("tid", fields.get("tid")) or 0
    if type(tid) is not int or not isinstance(rf_id, (int, type(None))):
        raise InputError(f"{where}: rf_id is {rf_id!r} and tid is {tid!r}; expected whole numbers")
    return HostNode(id=fields["id"], name=fields["name"], parent=parent, rf_id=rf_id, tid=tid, attributes=attributes, fields=fields)


def _is_attribute(table: Any) -> bool:
    return isinstance(table, dict) and isinstance(table.get("name"), str) and "value" in table


def _groups(inputs: Any) -> Iterator[tuple[str, list[int]]]:
    """The process groups that a node lists, each with its ranks; damaged ones are left out."""
    values = inputs.get("values") if isinstance(inputs, dict) else inputs
    text = values[0] if isinstance(values, list) and values and isinstance(values[0], str) else "[]"
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = []
    for group in listed if isinstance(listed, list) else ():
        name, ranks = (group.get("pg_name"), group.get("ranks", [])) if isinstance(group, dict) else (None, None)
        if isinstance(ranks, dict):  # rank by rank of the group, before PyTorch 2.2
            ranks = [int(rank) for rank in ranks if rank.isdecimal() and len(rank) < 10]
        if isinstance(name, str) and isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
            yield name, ranks
