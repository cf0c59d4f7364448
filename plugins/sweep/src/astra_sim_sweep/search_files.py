"""A search file: a plan as of a sweep, and goals."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.commands import shared_plugins
from astra_sim.errors import suggestion
from astra_sim.files import parse_toml, read_text
from astra_sim.options import option, structure

from astra_sim_sweep.axes import with_axes
from astra_sim_sweep.checks import check_plan
from astra_sim_sweep.contents import forget
from astra_sim_sweep.expressions import Expression
from astra_sim_sweep.goals import MEMORY, Constraint, Goal, Objective
from astra_sim_sweep.plan import RESERVED, RESULT, TABLES, PlanReader, SweepPlan, is_setting

SAMPLERS = ("tpe", "random", "nsga2", "nsga3", "cmaes", "qmc")
FEASIBLE, BROKEN, BEST = "feasible", "infeasible_by", "best"
"""Columns of a table of a search, beside its objectives."""

_MOST_COUNTED = 100
"""Grids of more than this many times `exhaustive_up_to` points are not counted."""


@attrs.frozen
class SearchOptions:
    """The table `[search]`."""

    minimize: str | tuple[str, ...] = option((), help="an expression over the columns of a row, or two: less is better")
    maximize: str | tuple[str, ...] = option((), help="the same: more is better. One or two objectives in all")
    constraints: dict[str, Any] = option(factory=dict, help="conditions over the columns of a row, by name, that a design has to keep")
    method: str = option("auto", choices=("auto", "exhaustive", "optuna"), help="every point, or those that a sampler of Optuna proposes;"
                         " auto: every point where that are few")  # fmt: skip
    exhaustive_up_to: int = option(
        1000,
        minimum=1,
        help="with method auto: the largest number of points that is searched exhaustively, without skipped ones",
        unit="points",
    )
    sampler: str = option("tpe", choices=SAMPLERS, help="how Optuna chooses points")
    trials: int = option(200, minimum=1, help="with Optuna: how many different points are run, by all machines together", unit="points")
    seed: int = option(0, minimum=0, help="with Optuna: another seed gives other points; the same seed gives the same")
    storage: str | None = option(None, help="with Optuna: place of its study, for all machines that search: a file, or the URL of a"
                                 " database as Optuna has it; none: RESULTS.study.log")  # fmt: skip


@attrs.frozen
class SearchPlan:
    """The content of a search file: the points, the goals, and the way to choose points."""

    plan: SweepPlan
    goal: Goal
    options: SearchOptions
    is_exhaustive: bool


def read_search(source: str | os.PathLike[str] | Mapping[str, Any], axes: Sequence[str] = (), keeps_results: bool = False) -> SearchPlan:
    """The search in a file, or in tables as a file has them, with other values for some `axes` (NAME=VALUES).

    Raises InputError, naming file and key.
    """
    forget()
    if isinstance(source, Mapping):
        read = _search(with_axes(source, axes, is_setting, "search"), "search", "")
        read.plan.keeps_results = keeps_results
        return read
    if not isinstance(source, (str, os.PathLike)):
        raise InputError(f"{source!r} is not a search: expected the path of its file, or its tables")
    path = os.fspath(source)
    read = _search(with_axes(parse_toml(read_text(path), path), axes, is_setting, path), path, os.path.dirname(path))
    read.plan.keeps_results = keeps_results
    return read


def _search(tables: Mapping[str, Any], where: str, folder: str) -> SearchPlan:
    """The search in tables: its goal, the plan of its points, and whether all of them are run. Raises InputError."""
    known = [*(name for name in TABLES if name != "sample"), "search"]
    for name in tables:
        if name == "sample":
            raise InputError(f"{where}: sample is a table of sweeps; a search chooses its points itself")
        if name not in known:
            raise InputError(f"{where}: unknown key {name!r}; {suggestion(name, known)}")
    at = f"{where}: search"
    if "search" not in tables:
        raise InputError(f"{where}: the table search is missing; expected minimize or maximize in it")
    options: SearchOptions = structure(SearchOptions, tables["search"], at)
    goal = _goal(options, at)
    reserved = (*RESERVED, RESULT, FEASIBLE, BROKEN, BEST)
    reader = PlanReader(where, folder, shared_plugins(), reserved, spans=True)
    plan = reader.plan({name: table for name, table in tables.items() if name != "search"})
    if not plan.axes:
        raise InputError(f"{where}: axes is missing; expected the parameters that a search may change")
    wanted = [*(each.expression for each in goal.objectives), *(each.condition for each in goal.constraints)]
    check_plan(plan, {name for each in wanted for name in each.names})
    spans = [axis.key for axis in plan.axes if axis.span is not None]
    if options.method == "exhaustive" and spans:
        raise InputError(f"{at}: method is 'exhaustive', and {spans[0]} is a span of numbers; expected a list, or method = 'optuna'")
    _check_method(options.method, tables["search"], at)
    is_exhaustive = options.method == "exhaustive" or (options.method == "auto" and not spans and _are_few(plan, options.exhaustive_up_to))
    return SearchPlan(plan, goal, options, is_exhaustive)


def _check_method(method: str, keys: Mapping[str, Any], at: str) -> None:
    """Raise InputError for an option that has no effect on a method."""
    for name in ("sampler", "trials", "seed", "storage"):
        if method == "exhaustive" and name in keys:
            raise InputError(f"{at}: {name} is for method optuna, and has no effect on 'exhaustive'")
    if "exhaustive_up_to" in keys and method != "auto":
        raise InputError(f"{at}: exhaustive_up_to is for method auto, and has no effect on {method!r}")


def _goal(options: SearchOptions, at: str) -> Goal:
    """The objectives and constraints of a search. Raises InputError."""
    objectives = [
        Objective(_expression(text, f"{at}: {key}"), key == "maximize")
        for key, texts in (("minimize", options.minimize), ("maximize", options.maximize))
        for text in ([texts] if isinstance(texts, str) else texts)
    ]
    if not 1 <= len(objectives) <= 2:
        raise InputError(f"{at}: minimize and maximize have {len(objectives)} objectives; expected one or two")
    texts = [objective.text for objective in objectives]
    if len(set(texts)) < len(texts):
        raise InputError(f"{at}: {texts[0]!r} is an objective twice; expected two different ones")
    for text in texts:
        if text in (FEASIBLE, BROKEN, BEST, *RESERVED[:2]):
            raise InputError(f"{at}: {text!r} is no figure; expected an expression over parameters and figures")
    for name in options.constraints:
        if name == MEMORY:
            raise InputError(f"{at}: constraints: {name!r} is the constraint of runs that do not fit in memory; expected another name")
    constraints = [Constraint(name, _expression(text, f"{at}: constraints: {name}")) for name, text in options.constraints.items()]
    return Goal(objectives, constraints)


def _expression(text: Any, where: str) -> Expression:
    if not isinstance(text, str):
        raise InputError(f"{where} is {text!r}; expected an expression, as text")
    return Expression(text.strip(), where)


def _are_few(plan: SweepPlan, most: int) -> bool:
    """Whether at most `most` points are not skipped."""
    if plan.points.count > _MOST_COUNTED * most:
        return False
    result = (point for point in plan if point.skipped_by is None)
    return sum(1 for _ in itertools.islice(result, most + 1)) <= most
