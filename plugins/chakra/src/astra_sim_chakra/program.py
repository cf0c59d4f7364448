"""The nodes of a trace as a program: in an order in which each comes after its dependencies, grouped into kinds of equal nodes.

Of nodes that are ready at once the one with the lowest id is issued first, as in ASTRA-sim 2.x; `priorities` are needed if a node waits for
one of a later id. The order of the file has no effect.

Nodes that compute are equal if they do it on the same device; their compute is their work. Others are equal if nothing but their names,
ids, dependencies and durations differ. `native/program.cpp` does the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import attrs
from astra_sim.rows import Column, Dependencies, column, view

from astra_sim_chakra.reader import compiled_part
from astra_sim_chakra.trace import Trace


@attrs.frozen(eq=False)
class ProgramColumns:
    """The program in columns: `rows` holds the row of each node in the trace, `kind_of` its kind, `after` the nodes it waits for.

    `priorities` holds for each node the place of its id among all ids; None if ids ascend with places. `work_of` holds the work that a node
    computes; the number of works if it computes none. `kinds` and `works` hold the row of the first node of each kind and of each work.
    Columns have 32 bits (code I).
    """

    rows: Sequence[int]
    kinds: Sequence[int]
    kind_of: Column
    works: Sequence[int]
    work_of: Column
    after: Dependencies
    priorities: Column | None


def program_columns(trace: Trace, computing: bytes, apart: Sequence[Column] = (), *, compiled: bool | None = None) -> ProgramColumns:
    """The columns of a program; `computing` has a byte for each row: whether the node computes.

    `apart`: further columns of the trace in which nodes of one kind are equal, unless they compute. `compiled`: use the
    compiled part (None: if it is installed).
    """
    core = compiled_part() if compiled is not False else None
    if core is None:
        return _in_python(trace, computing, apart)
    order = b"" if isinstance(trace.order, range) else memoryview(trace.order).tobytes()  # type: ignore[arg-type]
    dependencies = (trace.control.end, trace.control.rows, trace.data.end, trace.data.rows)
    alike = [[column.tobytes() for column in columns] for columns in _alike(trace, apart)]
    rows, kinds, kind_of, works, work_of, after_end, after, priorities = core.program(
        trace.id.tobytes(), *(each.tobytes() for each in dependencies), order, *alike, computing
    )
    return ProgramColumns(
        rows=view(rows, "I") if rows else range(len(trace)),
        kinds=view(kinds, "I"),
        kind_of=view(kind_of, "I"),
        works=view(works, "I"),
        work_of=view(work_of, "I"),
        after=Dependencies(view(after_end, "Q"), view(after, "I")),
        priorities=view(priorities, "I") if priorities else None,
    )


def _alike(trace: Trace, apart: Sequence[Column]) -> list[list[Column]]:
    """The columns in which nodes of one kind are equal: for nodes that compute, for the others, and for works."""
    device, comm = [trace.type, trace.is_cpu_op], trace.comm
    others = [*device, trace.tensor_size, comm.type, comm.size, comm.src, comm.dst, comm.tag, comm.group, comm.involved]
    return [device, [*others, *apart], [*device, trace.duration_ns, trace.num_ops, trace.tensor_size]]


def _in_python(trace: Trace, computing: bytes, apart: Sequence[Column]) -> ProgramColumns:
    """The columns of a program, if equal nodes share a kind. Ids count as priorities if the order is not theirs."""
    waits = trace.all_dependencies()
    rows, ids = trace.order, trace.id
    place = _places(rows)
    priorities = None
    if any(ids[first] > ids[second] for first, second in itertools.pairwise(rows)):
        rank_of = _places(sorted(rows, key=ids.__getitem__))
        priorities = column((rank_of[row] for row in rows), "I")
    device, others, work = (list(zip(*columns, strict=True)) for columns in _alike(trace, apart))
    kinds, works = _Numbers(), _Numbers()
    kind_of, work_of = [], []
    for row in rows:
        does = computing[row] != 0
        kind_of.append(kinds.of(device[row] if does else others[row], row))
        work_of.append(works.of(work[row], row) if does else -1)
    work_of = [len(works.firsts) if number < 0 else number for number in work_of]
    after = Dependencies.of([[place[other] for other in waits[row]] for row in rows])
    return ProgramColumns(
        rows=rows,
        kinds=kinds.firsts,
        kind_of=column(kind_of, "I"),
        works=works.firsts,
        work_of=column(work_of, "I"),
        after=after,
        priorities=priorities,
    )


class _Numbers:
    """Numbers values in the order in which they come, and keeps the first row of each."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self._numbers: dict[tuple[int, ...], int] = {}

    def of(self, what: tuple[int, ...], row: int) -> int:
        """The number of a row's value."""
        number = self._numbers.setdefault(what, len(self.firsts))
        if number == len(self.firsts):
            self.firsts.append(row)
        return number


def _places(rows: Sequence[int]) -> Sequence[int]:
    """The index of each row in `rows`."""
    if isinstance(rows, range):
        return rows
    place = [0] * len(rows)
    for number, row in enumerate(rows):
        place[row] = number
    return place
