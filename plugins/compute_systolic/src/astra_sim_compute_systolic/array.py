"""The cycles that a systolic array takes for a matrix product, in closed form.

Formulas: SCALE-Sim v2 (Samajdar et al., ISPASS 2020). Everything here works on whole numbers and on NumPy arrays of them alike.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import attrs

Count = Any
"""A whole number, or a NumPy array of them."""


def ceil_div(number: int, by: int) -> int:
    """Quotient, rounded up. Takes NumPy arrays as well."""
    return -(-number // by)


class Dataflow(enum.StrEnum):
    """Which operand stays in the array: output, weight (filter) or input (ifmap)."""

    OUTPUT_STATIONARY = "os"
    WEIGHT_STATIONARY = "ws"
    INPUT_STATIONARY = "is"


class Mapping(NamedTuple):
    """A matrix product mapped to an array: its dimensions along the rows, along the columns, and over time."""

    rows: Count
    columns: Count
    time: Count


class Folds(NamedTuple):
    """The number of tiles that cover a mapping, along the rows and along the columns of the array."""

    rows: Count
    columns: Count


class Accesses(NamedTuple):
    """Elements read from and written to the SRAMs."""

    ifmap: Count
    filter: Count
    ofmap: Count


@attrs.frozen
class SystolicArray:
    """An array of rows x columns multiply-accumulate units."""

    rows: int
    columns: int
    dataflow: Dataflow

    def mapping(self, m: Count, n: Count, k: Count) -> Mapping:
        """The mapping of a product's dimensions to rows, columns and time."""
        if self.dataflow is Dataflow.OUTPUT_STATIONARY:
            return Mapping(m, n, k)
        if self.dataflow is Dataflow.WEIGHT_STATIONARY:
            return Mapping(k, n, m)
        return Mapping(k, m, n)

    def folds(self, mapping: Mapping) -> Folds:
        """The fillings; a partial one counts like a full one."""
        return Folds(ceil_div(mapping.rows, self.rows), ceil_div(mapping.columns, self.columns))

    def fold_cycles(self, time: Count) -> Count:
        """Cycles of one filling: operands stream in and results drain before the next begins.

        Stationary weights or inputs take `rows` more, to be put in place.
        """
        loading = 0 if self.dataflow is Dataflow.OUTPUT_STATIONARY else self.rows
        return loading + self.rows + self.columns + time - 2

    def total_cycles(self, m: Count, n: Count, k: Count) -> Count:
        """Number of the last cycle, counted from 0, as SCALE-Sim reports it, without stalls."""
        mapping = self.mapping(m, n, k)
        folds = self.folds(mapping)
        return folds.rows * folds.columns * self.fold_cycles(mapping.time) - 1

    def mapping_efficiency(self, m: Count, n: Count, k: Count) -> Count:
        """Share of the units that are used, averaged over the fillings: 0 to 1."""
        mapping = self.mapping(m, n, k)
        folds = self.folds(mapping)
        return mapping.rows * mapping.columns / (folds.rows * folds.columns * self.rows * self.columns)

    def utilisation_cycles(self, time: Count) -> Count:
        """The cycles of one filling that SCALE-Sim divides by for its compute utilisation.

        With stationary weights or inputs it counts the columns twice; `fold_cycles` does not.
        """
        extra = 0 if self.dataflow is Dataflow.OUTPUT_STATIONARY else self.columns - 1
        return self.fold_cycles(time) + extra

    def sram_accesses(self, m: Count, n: Count, k: Count) -> Accesses:
        """Accesses to the SRAMs over all fillings.

        With stationary outputs SCALE-Sim counts rows + columns writes too many for each filling; this does the same.
        """
        folds = self.folds(self.mapping(m, n, k))
        if self.dataflow is Dataflow.OUTPUT_STATIONARY:
            drained = m * n + folds.rows * folds.columns * (self.rows + self.columns)
            return Accesses(m * k * folds.columns, n * k * folds.rows, drained)
        if self.dataflow is Dataflow.WEIGHT_STATIONARY:
            return Accesses(m * k * folds.columns, k * n, m * n * folds.rows)
        return Accesses(m * k, k * n * folds.columns, m * n * folds.rows)


@attrs.frozen
class Srams:
    """The sizes of the three SRAMs, in elements."""

    ifmap: int
    filter: int
    ofmap: int
