"""Goals of a search: objectives and constraints over the columns of a row, and the score of a row."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError

from astra_sim_sweep.expressions import Expression
from astra_sim_sweep.outcomes import CAPACITY, NEEDED

MEMORY = "memory"
"""The constraint that every run has: that it fits the memory of an NPU."""

_LEAST_EXCESS = 1e-9


@attrs.frozen
class Objective:
    """An expression of which less is better, or more."""

    expression: Expression
    maximize: bool

    @property
    def text(self) -> str:
        """The expression, which is the name of its column, too."""
        return self.expression.text

    def value(self, row: Mapping[str, Any]) -> float:
        """Its value for a row. Raises InputError if that is no finite number."""
        value: float = self.expression.value(row)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InputError(f"{self.expression.where}: {self.text!r} is {value!r}; expected a finite number")
        return value

    def cost(self, value: float) -> float:
        """A number of which less is better."""
        return -value if self.maximize else value


class Constraint:
    """A condition that a design has to keep."""

    def __init__(self, name: str, condition: Expression) -> None:
        self.name = name
        self.condition = condition
        self._sides = _sides(condition)

    def excess(self, row: Mapping[str, Any]) -> float:
        """0 if it holds; else the relative violation, by the larger side of a comparison with < <= > >=, or 1 for others.

        Raises InputError if the condition has no value.
        """
        if self.condition.holds(row):
            return 0.0
        if self._sides is None:
            return 1.0
        left, right = (side.value(row) for side in self._sides)
        share: float = abs(left - right) / (max(abs(left), abs(right)) or 1.0)
        return max(_LEAST_EXCESS, share)


def _sides(condition: Expression) -> tuple[Expression, Expression] | None:
    """The two sides of a condition, if it is a single comparison by size."""
    match ast.parse(condition.text.strip(), mode="eval").body:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], comparators=[right]):
            return Expression(ast.unparse(left), condition.where), Expression(ast.unparse(right), condition.where)
    return None


@attrs.frozen
class Judgement:
    """The score of a row: the values of objectives, None if it has none; its violation of constraints, or 0; its error."""

    values: tuple[float, ...] | None
    excess: Mapping[str, float]
    error: str | None = None

    @property
    def broken(self) -> list[str]:
        """The names of constraints that it breaks."""
        return [name for name, excess in self.excess.items() if excess]

    @property
    def is_feasible(self) -> bool:
        """Whether it has run, and breaks no constraint."""
        return self.values is not None and not self.broken


@attrs.frozen
class Goal:
    """One or two objectives, and constraints."""

    objectives: Sequence[Objective]
    constraints: Sequence[Constraint]

    @property
    def texts(self) -> list[str]:
        """The objectives as text."""
        return [objective.text for objective in self.objectives]

    def judge(self, row: Mapping[str, Any]) -> Judgement:
        """The score of a run's row. Raises InputError if an expression has a name that a row without an error has not."""
        if row["error"] is not None:
            if row.get(NEEDED) is not None and row.get(CAPACITY):
                return Judgement(None, {MEMORY: max(_LEAST_EXCESS, row[NEEDED] / row[CAPACITY] - 1)}, row["error"])
            return Judgement(None, {}, row["error"])
        for expression in (*(each.expression for each in self.objectives), *(each.condition for each in self.constraints)):
            expression.check_names(list(row))
        try:
            excess = {constraint.name: constraint.excess(row) for constraint in self.constraints}
            return Judgement(tuple(objective.value(row) for objective in self.objectives), excess)
        except InputError as error:
            return Judgement(None, {}, str(error))


class Front:
    """The designs that no other is better than: in the objective, or in one of two while it is as good in the other."""

    def __init__(self, goal: Goal) -> None:
        self._objectives = goal.objectives
        self._best: list[tuple[tuple[float, ...], int]] = []

    def add(self, number: int, values: Sequence[float]) -> None:
        """Add a design by its number, and leave out those that it is better than."""
        costs = tuple(objective.cost(value) for objective, value in zip(self._objectives, values, strict=True))
        if any(_is_better(other, costs) for other, _ in self._best):
            return
        self._best = [(other, at) for other, at in self._best if not _is_better(costs, other)]
        self._best.append((costs, number))

    @property
    def numbers(self) -> list[int]:
        """The numbers of its designs, by the first objective, the best first."""
        return [number for _, number in sorted(self._best)]


def _is_better(costs: Sequence[float], others: Sequence[float]) -> bool:
    return costs != others and all(one <= other for one, other in zip(costs, others, strict=True))
