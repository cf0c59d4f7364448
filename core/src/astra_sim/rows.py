"""Sequences with many equal members, in columns: each of a million members takes only a few numbers of memory.

Examples:

A chain of a million operations, each after the one before it, in two columns of 32 bits:

    >>> import attrs
    >>> from astra_sim.graph import Compute
    >>> from astra_sim.rows import Dependencies, Rows, column
    >>> count = 1_000_000
    >>> after = Dependencies(end=column(range(count), "Q"), rows=column(range(count - 1), "I"))
    >>> kinds = [Compute((), 500), Compute((), 700)]
    >>> kind_of = column((row % 2 for row in range(count)), "I")
    >>> operations = Rows(kinds, kind_of, after, lambda kind, row, rows: attrs.evolve(kind, after=rows))
    >>> len(operations), operations[3].duration_ps, operations[3].after
    (1000000, 700, (2,))
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Generic, TypeAlias, TypeVar, overload

import attrs

__all__ = [
    "Dependencies",
    "Rows",
    "column",
]

T = TypeVar("T")

Column: TypeAlias = "memoryview[int]"
"""Numbers, one for each row; read-only."""


def column(numbers: Iterable[int], code: str) -> Column:
    """Numbers as a column; `code` is that of the module `array`: I for 32 bits, Q and q for 64."""
    return memoryview(array(code, numbers)).toreadonly()


def view(data: bytes, code: str) -> Column:
    """The column that bytes hold; the opposite of `packed`."""
    return memoryview(data).cast(code)  # type: ignore[call-overload, no-any-return]


def packed(numbers: Iterable[int], code: str) -> bytes:
    """Numbers as the bytes of a column."""
    return (numbers if isinstance(numbers, memoryview) and numbers.format == code else column(numbers, code)).tobytes()


@attrs.frozen(eq=False)
class Dependencies:
    """Rows that each row depends on: compressed sparse rows. Those of row r are `rows[end[r - 1] : end[r]]`, from 0 for r = 0.

    `end` has 64 bits (code Q), `rows` 32 (code I).
    """

    end: Column
    rows: Column

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Dependencies:
        """The dependencies in a list for each row. Raises OverflowError for a negative row."""
        return cls(column(accumulate(map(len, lists)), "Q"), column(chain.from_iterable(lists), "I"))

    def __getitem__(self, row: int) -> Column:
        return self.rows[self.end[row - 1] if row else 0 : self.end[row]]


@attrs.frozen(eq=False)
class Rows(Sequence[T], Generic[T]):
    """A sequence whose member r equals `kinds[kind_of[r]]`, but for the members it waits for (`after`), and perhaps a time and a name.

    `kind_of` has 32 bits (code I), `times` 64 (code q): picoseconds that member r takes instead of the time of its kind, or -1. `make`
    builds member r of (its kind, r, the rows it waits for). `name` is that of member r alone; without it members have the names of their
    kinds. `priorities` has 32 bits (code I): of members that are ready at once, the one with the lowest priority starts first, of equal
    ones the first. Without it members start in the order of rows. `source` gives for an NPU the record of each
    member in its file, one table for each row: of the node of a trace its id, its type, its attributes.
    """

    kinds: Sequence[T]
    kind_of: Column
    after: Dependencies
    make: Callable[[T, int, tuple[int, ...]], T]
    times: Column | None = None
    name: Callable[[int], str] | None = None
    priorities: Column | None = None
    source: Callable[[int], Iterable[Mapping[str, Any]]] | None = None

    def __len__(self) -> int:
        return len(self.kind_of)

    @overload
    def __getitem__(self, row: int) -> T: ...
    @overload
    def __getitem__(self, row: slice) -> list[T]: ...
    def __getitem__(self, row: int | slice) -> T | list[T]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        return self.make(self.kinds[self.kind_of[row]], row, tuple(self.after[row]))


def kinds_of(members: Sequence[T]) -> Sequence[T]:
    """The kinds of members: each kind once for `Rows`, else all members."""
    return members.kinds if isinstance(members, Rows) else members


def first_like(members: Sequence[T], kind: int) -> int:
    """The index of the first member of a kind, which is numbered as in `kinds_of`."""
    return members.kind_of.tolist().index(kind) if isinstance(members, Rows) else kind
