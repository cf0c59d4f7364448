"""Errors of a sweep as a whole, found before any point is run: axes that nothing reads, keys that no experiment has."""

from __future__ import annotations

from collections.abc import Collection

from astra_sim import AstraError, InputError
from astra_sim.commands import shared_plugins
from astra_sim.experiments import check_options

from astra_sim_sweep.expressions import Expression
from astra_sim_sweep.plan import Point, SweepPlan, is_setting
from astra_sim_sweep.points import shuffled

_LOOKED_AT = 32
"""So many points represent all, if these are many."""


def check_plan(plan: SweepPlan, read: Collection[str] = ()) -> None:
    """Raise InputError if nothing reads an axis, or no point has an experiment whose options exist.

    `read` are names that others read beside the sweep itself: the objectives and constraints of a search.
    """
    check_axes(plan, read)
    _check_keys(plan)


def check_axes(plan: SweepPlan, read: Collection[str] = ()) -> None:
    """Raise InputError for an axis that is no option, and that neither expressions nor axes in step with it use."""
    expressions = [each for each in (*plan.derived.values(), *plan.conditions.values()) if isinstance(each, Expression)]
    used = {name for each in expressions for name in each.names}.union(read)
    for group in (*plan.points.groups, *plan.points.drawn):
        names = [axis.name for axis in group.axes]
        if not any(is_setting(axis.key) or _is_used(axis.name, used) for axis in group.axes):
            raise InputError(
                f"{plan.where}: axes: {names[0]}: nothing reads it: it is no option of an experiment (section.key) and no expression has it"
                f", so that its {group.count:,} values give the same; expected its use in derive or skip, or no such axis"
            )


def _is_used(name: str, used: Collection[str]) -> bool:
    """Whether expressions with these names read a column: `a.b[0]` is `a.b.0` in them, and a prefix of it is the column `a.b`."""
    return any(each == name or each.startswith(f"{name}.") for each in used)


def _check_keys(plan: SweepPlan) -> None:
    """Raise the error of the first point, if all that are looked at have one."""
    first = None
    looked_at = 0
    count = plan.points.count
    for place in range(min(count, 100 * _LOOKED_AT)):
        point = plan.point(place if count <= _LOOKED_AT else shuffled(place, count, b"checks"))
        if point.skipped_by is not None:
            continue
        error = point_error(plan, point)
        if error is None:
            return
        first = first or error
        looked_at += 1
        if looked_at == _LOOKED_AT:
            break
    if first is not None:
        of = f"none of the {looked_at:,} points that were checked can be run: " if looked_at > 1 else ""
        raise InputError(f"{plan.where}: {of}{first}")


def point_error(plan: SweepPlan, point: Point) -> str | None:
    """The error of a point that is found without a run: an expression, an unknown component or option, a value; or None."""
    if point.error is not None or point.skipped_by is not None:
        return point.error
    plugins = shared_plugins()
    try:
        check_options(plan.experiment(point.number, plugins), plugins)
    except AstraError as error:
        return str(error)
    return None
