"""The label of an operation in terms of its workload: its layer, its action, and the group of NPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from astra_sim.graph import Communicate, Compute, ExecutionGraph, MemoryAccess, Operation, Receive, Send, Unit
from astra_sim.platform import Group, LogicalDimension
from astra_sim.setup.components import Components

POINT_TO_POINT = "point-to-point"
"""The group of messages between two NPUs for which the workload names no other."""


def computes(operation: Compute) -> bool:
    """Whether an operation is computing that belongs to a layer, not communication that takes a recorded time."""
    return not operation.idle and operation.unit in (Unit.ACCELERATOR, Unit.CPU)


def kind_name(operation: Operation) -> str:
    """The action of an operation; the algorithm's name for a collective."""
    match operation:
        case Communicate():
            return operation.collective.value
        case Compute() if operation.idle:
            return "idle"
        case Compute() if operation.unit not in (Unit.ACCELERATOR, Unit.CPU):
            return "recorded communication"
        case MemoryAccess():
            return f"{'write' if operation.write else 'read'}{' of remote memory' if operation.remote else ''}"
    return type(operation).__name__.lower()


def group_names(components: Components) -> dict[tuple[int, ...], str]:
    """The names of communicator groups, by their members."""
    return {tuple(members): name for name, members in components.run.groups.items() if isinstance(members, (list, tuple))}


def group_of(
    operation: Operation,
    graph: ExecutionGraph,
    groups: Mapping[tuple[int, ...], str],
    ranks: LogicalDimension | Group | None = None,
) -> str:
    """The parallelism or communicator group over whose NPUs an operation communicates; "": the workload names none.

    Of a collective over dimensions of several names all of them, or that of the `ranks` of one of its phases. `groups` are the names of
    communicator groups by their members.
    """
    if isinstance(operation, (Send, Receive)):
        return operation.group or POINT_TO_POINT
    if not isinstance(operation, Communicate):
        return ""
    if operation.parallelism:
        return operation.parallelism
    if isinstance(ranks, Group) or operation.group is not None:
        return groups.get(operation.group or (), "")
    if isinstance(ranks, LogicalDimension) and ranks.name:
        return ranks.name
    return "+".join(dict.fromkeys(graph.dimensions[number].name for number in operation.dimensions if graph.dimensions[number].name))


def place_of(operation: Operation, graph: ExecutionGraph) -> tuple[str, str]:
    """The layer and the training pass of an operation; "" if it has none."""
    layer = graph.layers[operation.layer] if 0 <= operation.layer < len(graph.layers) else ""
    has_pass = isinstance(operation, Communicate) or operation.layer >= 0
    return layer, str(getattr(operation, "training_pass", "")) if has_pass else ""


def exposed_rank(graph: ExecutionGraph, groups: Mapping[tuple[int, ...], str]) -> Callable[[Operation], int]:
    """The place of an operation's parallelism among those that the graph wants exposed time to belong to first."""
    order = {name: number for number, name in enumerate(graph.exposed_first)}
    return lambda operation: order.get(group_of(operation, graph, groups), len(order))
