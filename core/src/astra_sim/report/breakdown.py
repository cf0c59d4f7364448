"""Tables of the time of all NPUs: by operation, by NPU, and by the group over which they communicate; and the load of links.

Rows are plain Python with units in the names of their columns. The tables have all rows, or few enough to print and to write always: names
that differ in numbers alone share a row, as NPUs do that spend their time alike, and rows with the least exposed time are summed up.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import attrs

from astra_sim.files import is_whole
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Operation, Send, operation_rows
from astra_sim.network import LinkLoad
from astra_sim.report.amounts import to_ns
from astra_sim.report.attribution import MOST_OPERATIONS
from astra_sim.report.labels import computes, exposed_rank, group_of, kind_name
from astra_sim.report.npu_shares import NpuShares, shares_of
from astra_sim.run.npu_times import NpuTimes

Row = dict[str, Any]
_Key = tuple[str, ...]

MOST_ROWS = 100
"""Rows of a table that does not have all."""
RECORDED = "recorded"
"""The group of communication whose time comes from its trace, without a name."""
_OTHERS = "others"
_LISTED = 8
_DIGITS = re.compile(r"\d+")


@attrs.frozen(eq=False, slots=False)
class Breakdown:
    """The tables of a run: the time of the NPUs by use, and the loads of the links of its network.

    `group_names` are those of communicator groups by their members.
    """

    times: Sequence[NpuTimes]
    platform_npus: int
    links: Sequence[LinkLoad]
    graph: ExecutionGraph
    group_names: Mapping[tuple[int, ...], str]

    @cached_property
    def shares(self) -> Sequence[NpuShares]:
        """The time of NPUs by use."""
        return shares_of(self.times, self.platform_npus, exposed_rank(self.graph, self.group_names))

    def tables(self, every: bool = True) -> dict[str, list[Row]]:
        """The tables `operations`, `npu_times`, `groups` and `links`; those that have no rows are left out.

        If NPUs that were simulated have done more than MOST_OPERATIONS, those of links alone, unless `every` row is wanted.
        """
        links = {"links": self.link_loads(every)} if self.links else {}
        if not every and sum(len(times.operations) for times in self.times) > MOST_OPERATIONS:
            return links
        result = {
            "operations": self.operations(every),
            "npu_times": self.npu_times(every),
            "groups": self.groups(every),
        }
        return {name: rows for name, rows in result.items() if rows} | links

    def operations(self, every: bool = True) -> list[Row]:
        """Operations by name, kind and group, those that expose most first: on how many NPUs, how often, how long in all and exposed."""
        return _table(self._executions, ("operation", "kind", "group"), every)

    def groups(self, every: bool = True) -> list[Row]:
        """The same for communication, by its group, with the bytes of collectives and those that are sent."""
        rows = ((keys[2:], share, used) for keys, share, used in self._executions if keys[2])
        return _table(rows, ("group",), every, with_bytes=True)

    def npu_times(self, every: bool = True) -> list[Row]:
        """When NPUs had finished and how they spent their time; of those that spent it alike one row, the last to finish first."""
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for share in self.shares:
            spent = share.finish_ps, share.compute_ps, share.communication_ps, share.exposed_ps, share.memory_ps, share.idle_ps
            alike[spent].extend(share.members)
        rows = [
            {"npus": _numbers(members, every), "count": len(members), **dict(zip(_NPU_TIMES, map(to_ns, spent), strict=True))}
            for spent, members in sorted(alike.items(), key=lambda item: (-item[0][0], min(item[1])))
        ]
        return rows if every or len(rows) <= MOST_ROWS else [*rows[: MOST_ROWS - 1], _mean(rows[MOST_ROWS - 1 :])]

    def link_loads(self, every: bool = True) -> list[Row]:
        """The links of the network with a load, the busiest first, with the network's figures of them."""
        links = sorted(self.links, key=lambda link: -link.utilisation)
        rows = [LinkLoad(*link)._asdict() for link in (links if every else links[:MOST_ROWS])]
        known = [name for name in LinkLoad._fields if any(row[name] is not None for row in rows)]
        return [{name: row[name] for name in known} for row in rows]

    @cached_property
    def _executions(self) -> list[tuple[_Key, NpuShares, _Used]]:
        """The time of similar operations on each NPU: (name, kind, group), the NPU, and the time."""
        known: dict[int, list[_Key]] = {}
        result: list[tuple[_Key, NpuShares, _Used]] = []
        for share in self.shares:
            if id(share.operations) not in known:
                known[id(share.operations)] = list(self._keys(share.operations))
            keys, rows = known[id(share.operations)], operation_rows(share.operations)
            sizes = [kind.bytes if isinstance(kind, (Communicate, Send)) else 0 for kind in rows.kinds]
            used: dict[_Key, _Used] = defaultdict(_Used)
            for begin, end, operation in chain(*share.spans):
                one = used[keys[operation]]
                one.count += 1
                one.ps += end - begin
                one.exposed_ps += share.exposed_by.get(operation, 0)
                one.bytes += sizes[rows.kind_of[operation]]
            result += ((key, share, each) for key, each in used.items())
        return result

    def _keys(self, operations: Sequence[Operation]) -> Iterator[_Key]:
        """The name, kind and group of each operation of a program."""
        rows = operation_rows(operations)
        words = [(kind_name(kind), self._group(kind)) for kind in rows.kinds]
        known: dict[_Key, _Key] = {}  # one object for all that are equal
        for name, kind in zip(self.graph.layers_of(operations), rows.kind_of, strict=True):
            key = name, *words[kind]
            yield known.setdefault(key, key)

    def _group(self, operation: Operation) -> str:
        group = group_of(operation, self.graph, self.group_names)
        if not group and isinstance(operation, Communicate):
            return _over(operation, self.graph)
        if isinstance(operation, Compute) and not operation.idle and not computes(operation):
            return RECORDED
        return group


_NPU_TIMES = ("finish_ns", "compute_ns", "communication_ns", "exposed_ns", "memory_ns", "idle_ns")


@attrs.define
class _Used:
    """Totals of operations on an NPU: their number, picoseconds in all and exposed, and bytes."""

    count: int = 0
    ps: int = 0
    exposed_ps: int = 0
    bytes: int = 0

    def add(self, other: _Used, times: int = 1) -> None:
        """Those of as many others as well."""
        self.count += times * other.count
        self.ps += times * other.ps
        self.exposed_ps += times * other.exposed_ps
        self.bytes += times * other.bytes


@attrs.define
class _Sum(_Used):
    """The same of all NPUs, with the keys that share it and how many NPUs there are."""

    keys: set[tuple[str, ...]] = attrs.field(factory=set)
    npus: Counter[int] = attrs.field(factory=Counter)


def _table(executions: Iterable[tuple[_Key, NpuShares, _Used]], names: Sequence[str], every: bool, with_bytes: bool = False) -> list[Row]:
    """A row for each key, or with not `every` one for keys that differ in numbers alone, and at most MOST_ROWS."""
    sums: dict[tuple[str, ...], _Sum] = defaultdict(_Sum)
    for key, share, used in executions:
        one = sums[key if every else tuple(_DIGITS.sub("*", each) for each in key)]
        one.keys.add(key)
        one.npus[share.members[0]] = len(share.members)
        one.add(used, len(share.members))
    ordered = sorted(sums.items(), key=lambda item: (-item[1].exposed_ps, -item[1].ps, item[0]))
    if not every and len(ordered) > MOST_ROWS:
        rest = _Sum()
        for _, one in ordered[MOST_ROWS - 1 :]:
            rest.keys |= one.keys
            rest.npus |= one.npus
            rest.add(one)
        ordered = [*ordered[: MOST_ROWS - 1], ((_OTHERS, *[""] * (len(names) - 1)), rest)]
    rows = []
    for key, one in ordered:
        words = [_common([each[place] for each in one.keys], key[place]) for place in range(len(names))]
        row: Row = dict(zip(names, words, strict=True))
        row |= {"alike": len(one.keys), "npus": one.npus.total(), "count": one.count}
        row |= {"total_ns": to_ns(one.ps), "exposed_ns": to_ns(one.exposed_ps)}
        rows.append(row | ({"bytes": one.bytes} if with_bytes else {}))
    return rows


def _common(names: Sequence[str], folded: str) -> str:
    """One name for several that share a row."""
    if len(set(names)) == 1:
        return names[0]
    return _numbers([int(name) for name in set(names)], every=False) if all(map(is_whole, names)) else folded


def _over(operation: Communicate, graph: ExecutionGraph) -> str:
    """The name of the NPUs of a collective, if the workload has no name for them."""
    if operation.group is not None:
        return f"NPUs {_numbers(operation.group, every=False)}"
    numbers = [str(number) for number in operation.dimensions if graph.dimensions[number].size > 1]
    if operation.algorithm or len(numbers) == sum(dimension.size > 1 for dimension in graph.dimensions):
        return "all NPUs"
    return f"dimension{'s' if len(numbers) > 1 else ''} {' and '.join(numbers)}"


def _numbers(npus: Sequence[int], every: bool) -> str:
    """Numbers of NPUs, those that follow one another as a range; without `every` the first ones only."""
    runs: list[list[int]] = []
    for npu in sorted(npus):
        if runs and npu == runs[-1][1] + 1:
            runs[-1][1] = npu
        else:
            runs.append([npu, npu])
    shown = runs if every or len(runs) <= _LISTED else runs[:_LISTED]
    words = [str(first) if first == last else f"{first}-{last}" for first, last in shown]
    return ", ".join(words) + (", ..." if len(shown) < len(runs) else "")


def _mean(rows: Sequence[Row]) -> Row:
    """Rows of NPUs as one, with the means of their times."""
    count = sum(row["count"] for row in rows)
    times = {name: sum(row[name] * row["count"] for row in rows) / count for name in _NPU_TIMES}
    return {"npus": f"{_OTHERS} (mean)", "count": count, **times}
