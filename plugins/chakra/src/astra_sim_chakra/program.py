"""The nodes of a trace as a program: in an order in which each comes after what it waits for, and by what they are like.

Two nodes are alike if nothing but their names, ids and dependencies differ. `native/program.cpp` does the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim.rows import Column, Dependencies, column

from astra_sim_chakra.reader import compiled_part
from astra_sim_chakra.trace import Trace

_ALIKE = (
    "type",
    "is_cpu_op",
    "duration_ns",
    "num_ops",
    "tensor_size",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "group",
    "involved",
)


@attrs.frozen(eq=False)
class ProgramColumns:
    """Places in the program: `rows` are the rows of the trace, `kind_of` says which of `kinds` each is like, `after` what it waits for.

    `kinds` are rows, for each kind the first of the program that is like it. Columns have 32 bits (code I).
    """

    rows: Sequence[int]
    kinds: Sequence[int]
    kind_of: Column
    after: Dependencies


def program_columns(trace: Trace, *, compiled: bool | None = None) -> ProgramColumns:
    """The columns of a program. `compiled`: use the compiled part (None: where it is installed)."""
    core = compiled_part() if compiled is not False else None
    if core is None:
        return _in_python(trace)
    order = b"" if isinstance(trace.order, range) else memoryview(trace.order).tobytes()  # type: ignore[arg-type]
    dependencies = (trace.control.end, trace.control.rows, trace.data.end, trace.data.rows)
    alike = [getattr(trace, name).tobytes() for name in _ALIKE]
    rows, kinds, kind_of, after_end, after = core.program(trace.id.tobytes(), *(each.tobytes() for each in dependencies), order, alike)
    return ProgramColumns(
        _view(rows, "I") if rows else range(len(trace)),
        _view(kinds, "I"),
        _view(kind_of, "I"),
        Dependencies(_view(after_end, "Q"), _view(after, "I")),
    )


def _view(data: bytes, code: Any) -> Column:
    return memoryview(data).cast(code)


def _in_python(trace: Trace) -> ProgramColumns:
    waits = trace.all_dependencies()
    ids = trace.id.tolist()
    rows: Sequence[int] = range(len(ids))
    if any(first > second for first, second in itertools.pairwise(ids)):
        rows = sorted(rows, key=ids.__getitem__)
    place = _places(rows)
    if any(place[other] >= place[row] for row in rows for other in waits[row]):
        rows = list(trace.order)
        place = _places(rows)
    kinds: list[int] = []
    numbers: dict[tuple[int, ...], int] = {}
    alike = list(zip(*(getattr(trace, name) for name in _ALIKE), strict=True))
    kind_of = []
    for row in rows:
        number = numbers.setdefault(alike[row], len(kinds))
        if number == len(kinds):
            kinds.append(row)
        kind_of.append(number)
    after = Dependencies.of([[place[other] for other in waits[row]] for row in rows])
    return ProgramColumns(rows, kinds, column(kind_of, "I"), after)


def _places(rows: Sequence[int]) -> Sequence[int]:
    """Where each row stands among `rows`."""
    if isinstance(rows, range):
        return rows
    place = [0] * len(rows)
    for number, row in enumerate(rows):
        place[row] = number
    return place
