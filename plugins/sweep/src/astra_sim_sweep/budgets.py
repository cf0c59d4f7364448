"""Budgets: expectations of the figures of experiments, and whether they are met."""

from __future__ import annotations

import math
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from xml.etree import ElementTree

import attrs
from astra_sim import AstraError, Experiment, InputError, simulate
from astra_sim.commands import Plugins, shared_plugins
from astra_sim.errors import printable, suggestion
from astra_sim.files import parse_toml, read_text

from astra_sim_sweep.base import EXPERIMENT, read_base
from astra_sim_sweep.contents import canonical
from astra_sim_sweep.expressions import Expression, shown

_OWN = ("name", "check", "figure", "value", "tolerance")
_TOLERANCE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*%\s*")

State = Literal["passed", "failed", "error"]


@attrs.frozen
class Expectation:
    """An expectation: that `condition` holds, or that `figure` is `value`, plus or minus `margin`."""

    name: str
    experiment: Experiment
    expected: str
    condition: Expression | None = None
    figure: Expression | None = None
    value: float = 0.0
    margin: float = 0.0

    def judge(self, figures: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether the figures of a result in JSON are as expected, and their values. Raises InputError if there is no such figure."""
        if self.condition is not None:
            parts = self.condition.parts(figures)
            return self.condition.holds(figures), ", ".join(f"{name} = {shown(value)}" for name, value in parts.items())
        assert self.figure is not None
        result = self.figure.value(figures)
        if isinstance(result, bool) or not isinstance(result, (int, float)):
            raise InputError(f"{self.figure.where}: {self.figure.text} is {result!r}; expected a number")
        return abs(result - self.value) <= self.margin, f"{self.figure.text} = {shown(result)}"


@attrs.frozen
class Verdict:
    """The outcome of an expectation: `found` describes the figures, or the error.

    `wall_s` are the seconds of its run; 0 if another expectation had it run.
    """

    name: str
    state: State
    expected: str
    found: str
    wall_s: float


def read_budgets(path: str | os.PathLike[str], plugins: Plugins | None = None) -> list[Expectation]:
    """The expectations in a file, with the experiments that it names. Raises InputError."""
    plugins = plugins or shared_plugins()
    file = os.fspath(path)
    table = parse_toml(read_text(file), file)
    for key in table:
        if key != "expect":
            raise InputError(f"{file}: unknown key {key!r}; {suggestion(key, ['expect'])}")
    entries = table.get("expect")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise InputError(f"{file}: expect is {entries!r}; expected at least one table [[expect]]")
    return [_expectation(entry, f"{file}: expect {number}", file, plugins) for number, entry in enumerate(entries, 1)]


def _expectation(entry: Mapping[str, Any], where: str, file: str, plugins: Plugins) -> Expectation:
    """The expectation of an entry: a condition, or a figure with its value and tolerance. Raises InputError."""
    options = {key: value for key, value in entry.items() if key in _OWN}
    rest = {key: value for key, value in entry.items() if key not in _OWN}
    experiment = read_base(rest, where, os.path.dirname(file), plugins, _OWN)
    name = options.get("name")
    if name is not None and not isinstance(name, str):
        raise InputError(f"{where}: name is {name!r}; expected text")
    title = name or str(rest.get(EXPERIMENT, where.rpartition(": ")[2]))
    if ("check" in options) == ("figure" in options):
        raise InputError(f"{where}: expected one of check and figure, and there {'are both' if 'check' in options else 'is none'}")
    for key in ("check", "figure"):
        if key in options and not isinstance(options[key], str):
            raise InputError(f"{where}: {key} is {options[key]!r}; expected an expression, as text")
    if "check" in options:
        for key in ("value", "tolerance"):
            if key in options:
                raise InputError(f"{where}: {key} is for figure, and has no effect on check")
        text = options["check"].strip()
        return Expectation(title, experiment, text, condition=Expression(text, f"{where}: check"))
    if not _is_number(options.get("value")):
        raise InputError(f"{where}: value is {options.get('value', 'missing')!r}; expected the number that {options['figure']} should be")
    value, tolerance, figure = options["value"], options.get("tolerance", 0), options["figure"].strip()
    margin = _margin(value, tolerance, f"{where}: tolerance")
    expected = f"{figure} = {shown(value)}" + (f" ± {tolerance}" if tolerance else "")
    return Expectation(
        name=title,
        experiment=experiment,
        expected=expected,
        condition=None,
        figure=Expression(figure, f"{where}: figure"),
        value=value,
        margin=margin,
    )


def _margin(value: float, tolerance: Any, where: str) -> float:
    """The tolerance of a figure: a number in its unit, or a share of it."""
    if isinstance(tolerance, str) and (match := _TOLERANCE.fullmatch(tolerance)):
        return abs(value) * float(match[1]) / 100
    if not _is_number(tolerance) or tolerance < 0:
        raise InputError(f"{where} is {tolerance!r}; expected a share such as '2 %', or a number of at least 0 in the unit of the figure")
    return float(tolerance)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def judge(expectations: Sequence[Expectation]) -> Iterator[Verdict]:
    """Run the experiments, each of them once, and report the outcome of each expectation."""
    results: dict[bytes, dict[str, Any] | AstraError] = {}
    for expectation in expectations:
        key = canonical([expectation.experiment.sections, expectation.experiment.run])
        if key not in results:
            began = time.perf_counter()
            outcome: dict[str, Any] | AstraError
            try:
                outcome = simulate(expectation.experiment).to_dict()
            except AstraError as error:
                outcome = error
            results[key] = outcome
            seconds = time.perf_counter() - began
        else:
            seconds = 0.0
        yield _verdict(expectation, results[key], seconds)


def _verdict(expectation: Expectation, figures: dict[str, Any] | AstraError, seconds: float) -> Verdict:
    try:
        if isinstance(figures, AstraError):
            raise figures
        holds, result = expectation.judge(figures)
    except AstraError as error:
        return Verdict(expectation.name, "error", expectation.expected, str(error), seconds)
    return Verdict(expectation.name, "passed" if holds else "failed", expectation.expected, result, seconds)


def junit(verdicts: Sequence[Verdict], suite: str) -> str:
    """The verdicts as XML, as JUnit writes it and services of continuous integration read it.

    These tell cases apart by name, so the expectation is behind a name that several have.
    """
    names = Counter(verdict.name for verdict in verdicts)
    states = [verdict.state for verdict in verdicts]
    counts = {"tests": len(states), "failures": states.count("failed"), "errors": states.count("error")}
    attributes = {
        "name": printable(suite),
        **{name: str(count) for name, count in counts.items()},
        "time": f"{sum(v.wall_s for v in verdicts):.3f}",
    }
    root = ElementTree.Element("testsuites")
    element = ElementTree.SubElement(root, "testsuite", attributes)
    for verdict in verdicts:
        name = verdict.name if names[verdict.name] == 1 else f"{verdict.name}: {verdict.expected}"
        case = ElementTree.SubElement(
            element, "testcase", {"classname": printable(suite), "name": printable(name), "time": f"{verdict.wall_s:.3f}"}
        )
        if verdict.state != "passed":
            what = ElementTree.SubElement(case, "failure" if verdict.state == "failed" else "error", {"message": printable(verdict.found)})
            what.text = printable(f"expected {verdict.expected}; {verdict.found}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
