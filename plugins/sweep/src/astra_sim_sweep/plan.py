"""A sweep file: the common experiment, the axes, derived values, and which points are left out."""

from __future__ import annotations

import graphlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import AstraError, Experiment, InputError
from astra_sim.commands import Plugins, shared_plugins
from astra_sim.errors import suggestion
from astra_sim.experiments import Change, binaries, changed, versions
from astra_sim.files import parse_toml, read_text

from astra_sim_sweep.axes import Axis, flatten, read_axes, with_axes
from astra_sim_sweep.base import EXPERIMENT, read_base
from astra_sim_sweep.contents import canonical, forget
from astra_sim_sweep.expressions import Expression
from astra_sim_sweep.points import Points, make_points

TABLES = ("base", "axes", "sample", "derive", "skip")
_GROUPS = "run.groups"
RESERVED = ("error", "audit", "wall_s")
"""Columns that every table of results has."""
RESULT = "result"
"""The column with the files of whole results, if they are kept."""


@attrs.frozen
class Point:
    """A point of a sweep. `parameters` are its columns.

    `skipped_by` is the name of the condition that leaves it out, `error` its error before it is run. Points whose resolved
    experiments are the same, on the same versions, have the same `key`.
    """

    number: int
    parameters: dict[str, Any]
    skipped_by: str | None = None
    error: str | None = None
    key: bytes = b""


@attrs.frozen
class _Loaded:
    """A component that is a value of an axis, as an experiment of its own, and its content."""

    experiment: Experiment
    content: bytes


@attrs.define
class SweepPlan:
    """The plan of a sweep file, with the contents of all files that it names. It can be pickled, and needs no file then."""

    where: str
    folder: str
    bases: Sequence[Experiment]
    axes: Sequence[Axis]
    points: Points
    derived: Mapping[str, Expression | int | float | bool]
    conditions: Mapping[str, Expression]
    loaded: Mapping[str, Sequence[_Loaded]]
    versions: Mapping[str, Any]
    _base_contents: list[bytes] = attrs.field(factory=list)
    keeps_results: bool = False
    """Whether whole results are kept beside figures."""

    @property
    def columns(self) -> list[str]:
        """The names of all parameters: axes, then derived values."""
        return [*(axis.name for axis in self.axes), *self.derived]

    def __iter__(self) -> Iterator[Point]:
        return map(self.point, range(self.points.count))

    def point(self, number: int) -> Point:
        """A point by its number, from 0 on."""
        choices = self.points.choices(number)
        parameters = self._columns_of_axes(choices)
        try:
            self._derive(parameters)
            for name, condition in self.conditions.items():
                if condition.holds(parameters):
                    return Point(number, parameters, skipped_by=name)
        except InputError as error:
            known = {name: parameters.get(name) for name in self.columns}
            return Point(number, known, error=str(error), key=self._key(self._base_contents[0], [canonical(known), str(error)]))
        base, changes = self._changes(choices, parameters)
        return Point(number, parameters, key=self._key(self._base_contents[base], [content for _, content in changes]))

    def experiment(self, number: int, plugins: Plugins) -> Experiment:
        """The experiment of a point that is not left out. Raises InputError if its changes do not fit."""
        choices = self.points.choices(number)
        parameters = self._columns_of_axes(choices)
        self._derive(parameters)
        base, changes = self._changes(choices, parameters)
        return changed(self.bases[base], [change for change, _ in changes], plugins)

    def content(self) -> bytes:
        """The digest: the same for plans whose points and experiments are the same."""
        hashed = hashlib.blake2b(digest_size=16)
        axes = [attrs.asdict(axis) for axis in self.axes]
        texts = [getattr(each, "text", each) for each in (*self.derived.values(), *self.conditions.values())]
        hashed.update(canonical([axes, list(self.derived), list(self.conditions), texts]))
        for part in (*self._base_contents, *(each.content for some in self.loaded.values() for each in some)):
            hashed.update(part)
        return hashed.digest()

    def _columns_of_axes(self, choices: Mapping[str, Any]) -> dict[str, Any]:
        return {axis.name: choices[axis.name] if axis.span is not None else axis.shown(choices[axis.name]) for axis in self.axes}

    def _derive(self, parameters: dict[str, Any]) -> None:
        """Add values derived from those of axes. Raises InputError."""
        for name, meaning in self.derived.items():
            parameters[name] = meaning.value(parameters) if isinstance(meaning, Expression) else meaning

    def _changes(self, choices: Mapping[str, Any], parameters: Mapping[str, Any]) -> tuple[int, list[tuple[Change, bytes]]]:
        """The number of the base, and the changes of a point, each with its value."""
        base = 0
        values: list[tuple[str, Any]] = []
        for axis in self.axes:
            position = choices[axis.name]
            if axis.key == EXPERIMENT:
                base = position
            elif axis.key in self.loaded:
                values.append((axis.key, self.loaded[axis.key][position]))
            elif is_setting(axis.key):
                values.append((axis.key, position if axis.span is not None else axis.values[position]))
        values += [(name, parameters[name]) for name in self.derived if is_setting(name)]
        return base, [self._change(key, value) for key, value in values]

    def _change(self, key: str, value: Any) -> tuple[Change, bytes]:
        where = f"axes: {key}"
        if isinstance(value, _Loaded):
            return Change(key, value.experiment, where), value.content
        located = self._located(key, value)
        return Change(key, located, where), canonical([key, located])

    def _located(self, key: str, value: Any) -> Any:
        """A value, whose path is relative to the file of the sweep if it is one of a component or of groups."""
        is_path = isinstance(value, str) and (key == _GROUPS or (key in Experiment.KINDS and not value.startswith("plugin:")))
        return os.path.join(self.folder, value) if is_path else value

    def _key(self, base: bytes, changes: Sequence[bytes | str]) -> bytes:
        hashed = hashlib.blake2b(digest_size=16)
        for part in (base, *changes):
            hashed.update(part if isinstance(part, bytes) else part.encode())
            hashed.update(b"\0")
        return hashed.digest()


def is_setting(key: str) -> bool:
    """Whether a key is that of a section or an option of an experiment, and no name of the sweep's own."""
    return key.partition(".")[0] in (*Experiment.KINDS, "run") or key == EXPERIMENT


def read_plan(
    source: str | os.PathLike[str] | Mapping[str, Any],
    plugins: Plugins | None = None,
    axes: Sequence[str] = (),
    keeps_results: bool = False,
) -> SweepPlan:
    """The plan in a file, or in tables as a file has them, with other values for some `axes` (NAME=VALUES).

    Raises InputError, naming file and key.
    """
    plugins = plugins or shared_plugins()
    forget()
    if isinstance(source, Mapping):
        plan = PlanReader("sweep", "", plugins).plan(with_axes(source, axes, is_setting, "sweep"))
    elif not isinstance(source, (str, os.PathLike)):
        raise InputError(f"{source!r} is not a sweep: expected the path of its file, or its tables")
    else:
        path = os.fspath(source)
        plan = PlanReader(path, os.path.dirname(path), plugins).plan(with_axes(parse_toml(read_text(path), path), axes, is_setting, path))
    plan.keeps_results = keeps_results
    if keeps_results and RESULT in plan.columns:
        raise InputError(f"{plan.where}: {RESULT!r} is the column of results that --keep writes; expected another name (name = ...)")
    return plan


@attrs.frozen
class PlanReader:
    """Reads the tables of a sweep. `where` is the name of the file, to which paths in `folder` are relative.

    No column may have one of the names `reserved`. `spans`: axes may be spans if no points are drawn.
    """

    where: str
    folder: str
    plugins: Plugins
    reserved: Sequence[str] = RESERVED
    spans: bool = False

    def plan(self, tables: Mapping[str, Any]) -> SweepPlan:
        """The plan."""
        for name, table in tables.items():
            if name not in TABLES:
                raise InputError(f"{self.where}: unknown key {name!r}; {suggestion(name, TABLES)}")
            if not isinstance(table, Mapping):
                raise InputError(f"{self.where}: {name} is {table!r}, not a table")
        axes = read_axes(tables.get("axes", {}), f"{self.where}: axes")
        names = [axis.name for axis in axes]
        for axis in axes:
            self._check_key(axis.key, "axes")
            self._check_column(axis.name, axis.key, "axes")
            if axis.span is not None and axis.key in (*Experiment.KINDS, EXPERIMENT):
                raise InputError(f"{self.where}: axes: {axis.key}: numbers are no {axis.key}; expected a list of values")
        derived = self._derived(tables.get("derive", {}), names)
        names += derived
        conditions = {name: self._expression(text, "skip", name) for name, text in tables.get("skip", {}).items()}
        for condition in conditions.values():
            condition.check_names(names)
        points = make_points(axes, tables.get("sample"), self.where, self.spans)
        bases = self._bases(tables.get("base", {}), next((axis for axis in axes if axis.key == EXPERIMENT), None))
        components = [axis for axis in axes if axis.key in Experiment.KINDS]
        loaded = {axis.key: [self._component(axis.key, value) for value in axis.values] for axis in components}
        # A run is known by the code that made it, as new processes have it now: an editable package may have changed under its version.
        result = versions(self.plugins, "auto", True)
        contents = [canonical([result, binaries(self.plugins), base.sections, base.run]) for base in bases]
        return SweepPlan(self.where, self.folder, bases, axes, points, derived, conditions, loaded, result, contents)

    def _check_key(self, key: str, table: str) -> None:
        """Raise InputError if a key names nothing that a sweep can change."""
        if key == "run":
            raise InputError(
                f"{self.where}: {table}: run is the section of all options of the run; expected one of them, such as run.passes"
            )
        if is_setting(key) or key.isidentifier():
            return
        first = key.partition(".")[0]
        sections = (*Experiment.KINDS, "run")
        raise InputError(
            f"{self.where}: {table}: {key!r} is neither an option (section.key; {suggestion(first, sections)})"
            " nor a name of letters, digits and _"
        )

    def _check_column(self, name: str, key: str, table: str) -> None:
        if name in self.reserved:
            raise InputError(
                f"{self.where}: {table}: {key}: the name {name!r} is that of a column of results; expected another (name = ...)"
            )

    def _derived(self, table: Mapping[str, Any], names: Sequence[str]) -> dict[str, Expression | int | float | bool]:
        """Values that follow, those first of which others are made."""
        result: dict[str, Expression | int | float | bool] = {}
        for key, value in flatten(table, lambda _: False, f"{self.where}: derive").items():
            self._check_key(key, "derive")
            self._check_column(key, key, "derive")
            if key in names:
                raise InputError(f"{self.where}: derive: {key} is the name of an axis, too; expected another name")
            if key == EXPERIMENT:
                raise InputError(f"{self.where}: derive: an experiment is an axis, or in the table base; expected another name")
            result[key] = value if isinstance(value, (int, float)) else self._expression(value, "derive", key)
        needed = {key: meaning.names if isinstance(meaning, Expression) else set() for key, meaning in result.items()}
        for meaning in result.values():
            if isinstance(meaning, Expression):
                meaning.check_names([*names, *result])
        try:
            order = list(graphlib.TopologicalSorter(needed).static_order())
        except graphlib.CycleError as error:
            raise InputError(f"{self.where}: derive: {' -> '.join(error.args[1])}: these values need each other") from None
        return {key: result[key] for key in order if key in result}

    def _expression(self, text: Any, table: str, key: str) -> Expression:
        where = f"{self.where}: {table}: {key}"
        if not isinstance(text, str):
            raise InputError(f"{where} is {text!r}; expected an expression, as text")
        return Expression(text, where)

    def _bases(self, table: Mapping[str, Any], axis: Axis | None) -> list[Experiment]:
        """The experiments of all points: one, or one for each value of the axis `experiment`."""
        where = f"{self.where}: base"
        if axis is None:
            return [read_base(table, where, self.folder, self.plugins)]
        if EXPERIMENT in table:
            raise InputError(f"{where}: experiment is an axis, too; expected one of the two")
        return [read_base({**table, EXPERIMENT: path}, where, self.folder, self.plugins) for path in axis.values]

    def _component(self, kind: str, value: Any) -> _Loaded:
        """A component that is a value of an axis, read now."""
        where = f"{self.where}: axes: {kind}"
        if not isinstance(value, (str, Mapping)):
            raise InputError(f"{where}: {value!r} is not plugin:NAME, a path, or a table")
        loaded = Experiment()
        try:
            loaded.use(kind, value, self.plugins, self.folder, where)
        except AstraError as error:
            raise InputError(f"{where}: {error}") from None
        return _Loaded(loaded, canonical(loaded.sections))
