"""Axes of a sweep: the varied parameters, and their values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import parse_toml

MOST_VALUES = 10_000_000
STEPS = 1 << 20
"""Steps from one end of a span to the other, if a search counts its numbers."""
_LISTED = ("values", "range", "logspace")
_DRAWN = ("uniform", "loguniform")
_FORMS = (*_LISTED, *_DRAWN)
_BESIDE = ("name", "labels", "zip", "whole")


@attrs.frozen
class AxisSpan:
    """All numbers from `low` to `high`, of which a sweep draws some; by their logarithm, or as integers, on request."""

    low: float
    high: float
    logarithmic: bool
    whole: bool

    def at(self, share: float) -> float:
        """The number at a share of the way, of at least 0 and below 1."""
        if self.whole and not self.logarithmic:
            return int(self.low) + int(share * (int(self.high) - int(self.low) + 1))
        value = _between(self.low, self.high, share) if self.logarithmic else self.low + (self.high - self.low) * share
        if self.whole:
            return min(max(round(value), int(self.low)), int(self.high))
        return min(max(value, self.low), self.high)  # a power is rounded, and may be outside

    @property
    def steps(self) -> int:
        """The number of values that a search distinguishes: all integers, or equal steps, by their logarithm if the span is logarithmic."""
        return int(self.high) - int(self.low) + 1 if self.whole else STEPS + 1

    def step(self, position: int) -> float:
        """The number at a step from 0 on."""
        if self.whole:
            return int(self.low) + position
        return self.high if position == STEPS else self.at(position / STEPS)

    def nearest(self, value: float) -> int:
        """The step that is nearest to a number."""
        if self.whole:
            return int(value) - int(self.low)
        share = (value - self.low) / (self.high - self.low)
        if self.logarithmic:
            share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return min(max(round(share * STEPS), 0), STEPS)


@attrs.frozen
class Axis:
    """An axis: the option, section or name `key`, shown in the column `name`, with values, or a span to draw from.

    `labels` are in the column and in expressions in place of the values. `zip` is the name of the axis that it goes in step with.
    """

    key: str
    name: str
    values: Sequence[Any] = ()
    span: AxisSpan | None = None
    labels: Sequence[str] = ()
    zip: str | None = None

    def shown(self, position: int) -> Any:
        """The cell of the column for a value: its label, itself, or JSON of a list or table."""
        if self.labels:
            return self.labels[position]
        value = self.values[position]
        return value if isinstance(value, (str, int, float, bool)) else json.dumps(value, ensure_ascii=False)


def read_axes(table: Mapping[str, Any], where: str) -> list[Axis]:
    """The axes of a table: a list of values or a table for each key, if `a.b = ...` is the key `a.b`. Raises InputError."""
    axes = [_axis(key, value, f"{where}: {key}") for key, value in flatten(table, _is_axis, where).items()]
    names: set[str] = set()
    for axis in axes:
        if axis.name in names:
            raise InputError(f"{where}: {axis.key}: there are two axes with the name {axis.name!r}; expected different names (name = ...)")
        names.add(axis.name)
    return axes


def with_axes(tables: Mapping[str, Any], assignments: Sequence[str], is_setting: Callable[[str], bool], where: str) -> Mapping[str, Any]:
    """The tables of a sweep in which axes have other values: NAME=VALUES, with values as in the file, or one value.

    NAME is the name or the key of an axis, or an option that has none yet. Of an axis with labels the values may be some of them.
    Raises InputError.
    """
    if not assignments:
        return tables
    axes = flatten(_table_of(tables.get("axes", {}), f"{where}: axes"), _is_axis, f"{where}: axes")
    assigned: set[str] = set()
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        at = f"--axis {assignment}"
        if not name or not equals:
            raise InputError(f"{at}: expected NAME=VALUES, such as system.splits=[4, 8]")
        names = {(spec.get("name", key) if isinstance(spec, Mapping) else key): key for key, spec in axes.items()}
        key = names.get(name, name)
        if key not in axes and not is_setting(key):
            raise InputError(f"{at}: there is no axis {name!r}; {suggestion(name, names)}")
        if key in assigned:
            raise InputError(f"{at}: the axis {name!r} is given twice; expected once, with all its values")
        assigned.add(key)
        axes[key] = _overridden(axes.get(key), _parsed(text, at))
    return {**tables, "axes": axes}


def _table_of(table: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise InputError(f"{where} is {table!r}, not a table")
    return table


def _parsed(text: str, where: str) -> Any:
    """The value of an axis: TOML, or else the text itself. Raises InputError for text that begins like a list or table but is none."""
    try:
        return parse_toml(f"values = {text}", where)["values"]
    except InputError:
        if not text or text[0] in "[{\"'":
            raise InputError(f"{where}: {text!r} is no value of TOML; expected such as [4, 8], {{range = [1, 9, 2]}} or ring") from None
        return text


def _overridden(spec: Any, value: Any) -> Any:
    """The table of an axis with other values; it keeps its name, and the axis that it goes in step with."""
    values = value if isinstance(value, list) else [value]
    if not isinstance(spec, Mapping):
        return value if isinstance(value, Mapping) else values
    result = {key: spec[key] for key in ("name", "zip") if key in spec}
    if isinstance(value, Mapping):
        return {**result, **value}
    labels = spec.get("labels")
    if isinstance(labels, list) and isinstance(spec.get("values"), list) and values and all(each in labels for each in values):
        of_label = dict(zip(labels, spec["values"], strict=False))
        return {**result, "values": [of_label[each] for each in values if each in of_label], "labels": values}
    return {**result, "values": values}


def flatten(table: Mapping[str, Any], is_leaf: Callable[[Mapping[str, Any]], bool], where: str) -> dict[str, Any]:
    """The values of nested tables by keys with dots. Raises InputError if two keys come to the same."""
    flat: dict[str, Any] = {}
    for key, value in _leaves(table, is_leaf, ""):
        if key in flat:
            raise InputError(f"{where}: {key} is there twice: in quotes, and as keys of tables; expected one of the two")
        flat[key] = value
    return flat


def _leaves(table: Mapping[str, Any], is_leaf: Callable[[Mapping[str, Any]], bool], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and not is_leaf(value):
            yield from _leaves(value, is_leaf, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _is_axis(table: Mapping[str, Any]) -> bool:
    """Whether a table describes an axis, and does not hold others."""
    is_described = any(key in _FORMS for key in table)
    return is_described or not table or any(key in _BESIDE and not isinstance(value, (list, Mapping)) for key, value in table.items())


def _axis(key: str, value: Any, where: str) -> Axis:
    """The axis of a key, from a list of values or a table that has them in one of the forms. Raises InputError."""
    table, form, result = _described_form(value, where)
    name, zipped, whole, labels = table.get("name", key), table.get("zip"), table.get("whole", False), table.get("labels", [])
    if not isinstance(name, str) or not name:
        raise InputError(f"{where}: name is {name!r}; expected text")
    if zipped is not None and not isinstance(zipped, str):
        raise InputError(f"{where}: zip is {zipped!r}; expected the name of another axis")
    if not isinstance(whole, bool):
        raise InputError(f"{where}: whole is {whole!r}; expected true or false")
    if whole and form in ("values", "range"):
        raise InputError(f"{where}: whole = true has no effect on {form}, whose values are as they are given")
    if form in _DRAWN:
        return Axis(key, name, span=_span(form, result, whole, table, where))
    for each in result:
        _check_value(each, where)
    values = result if form == "values" else _range(result, where) if form == "range" else _logspace(result, whole, where)
    if labels and (not isinstance(labels, list) or len(labels) != len(values) or not all(isinstance(label, str) for label in labels)):
        raise InputError(f"{where}: labels is {labels!r}; expected a list of text, one for each of the {len(values)} values")
    return Axis(key=key, name=name, values=values, span=None, labels=labels, zip=zipped)


def _described_form(value: Any, where: str) -> tuple[Mapping[str, Any], str, list[Any]]:
    """The table of an axis, the one of the forms that it has, and its value. Raises InputError."""
    if isinstance(value, list):
        value = {"values": value}
    if not isinstance(value, Mapping):
        raise InputError(f"{where} is {value!r}; expected a list of values, or a table with one of {', '.join(_FORMS)}")
    for each in value:
        if each not in (*_FORMS, *_BESIDE):
            raise InputError(f"{where}: unknown key {each!r}; {suggestion(each, (*_FORMS, *_BESIDE))}")
    forms = [form for form in _FORMS if form in value]
    if len(forms) != 1:
        raise InputError(f"{where} has {' and '.join(forms) or 'no values'}; expected one of {', '.join(_FORMS)}")
    form, result = forms[0], value[forms[0]]
    if not isinstance(result, list) or not result:
        raise InputError(f"{where}: {form} is {result!r}; expected a list of at least one value")
    return value, form, result


def _check_value(value: Any, where: str) -> None:
    """Raise InputError for values that no option takes, such as a date of TOML."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_value(each, where)
    elif not isinstance(value, (str, int, float, bool)):
        raise InputError(f"{where}: {value} is a {type(value).__name__}; expected text, numbers, true, false, lists and tables")


def _numbers(form: str, bounds: Sequence[Any], names: str, where: str) -> list[float]:
    if len(bounds) != len(names.split(", ")) or not all(_is_number(each) for each in bounds):
        raise InputError(f"{where}: {form} is {bounds!r}; expected [{names}], all of them numbers")
    return list(bounds)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _range(bounds: Sequence[Any], where: str) -> list[float]:
    """first, first + step, ... up to and with last. It counts in decimals, so that 0.1 + 0.2 is 0.3."""
    first, last, step = _numbers("range", bounds, "first, last, step", where)
    if step == 0 or (last - first) * step < 0:
        raise InputError(f"{where}: range is {bounds!r}; expected a step that leads from {first} to {last}")
    begin, stride = Decimal(repr(first)), Decimal(repr(step))
    count = int((Decimal(repr(last)) - begin) / stride) + 1
    if count > MOST_VALUES:
        raise InputError(f"{where}: range is {bounds!r}, which has {count} values; expected at most {MOST_VALUES}")
    number = int if all(isinstance(each, int) for each in bounds) else float
    return [number(begin + index * stride) for index in range(count)]


def _logspace(bounds: Sequence[Any], whole: bool, where: str) -> list[float]:
    """`count` numbers from first to last, each the same multiple of the one before; whole ones of whole ends if they are that."""
    first, last, count = _numbers("logspace", bounds, "first, last, count", where)
    if first <= 0 or last <= 0:
        raise InputError(f"{where}: logspace is {bounds!r}; expected first and last above 0")
    if not isinstance(count, int) or not 2 <= count <= MOST_VALUES:
        raise InputError(f"{where}: logspace is {bounds!r}; expected a count from 2 to {MOST_VALUES}")
    values: list[float] = [_between(first, last, index / (count - 1)) for index in range(count)]
    values[0], values[-1] = first, last
    if whole:
        return list(dict.fromkeys(map(round, values)))
    if isinstance(first, int) and isinstance(last, int):
        return [round(value) if math.isclose(value, round(value), rel_tol=1e-9) else value for value in values]
    return values


def _between(first: float, last: float, share: float) -> float:
    """The number at a share of the way from one to another, by the logarithm."""
    ratio = last / first
    if 0 < ratio < math.inf:
        return float(first * ratio**share)
    return math.exp(math.log(first) * (1 - share) + math.log(last) * share)  # the ratio is beyond all numbers


def _span(form: str, bounds: Sequence[Any], whole: bool, table: Mapping[str, Any], where: str) -> AxisSpan:
    """The span of numbers that an axis is drawn from. Raises InputError."""
    for key in ("labels", "zip"):
        if key in table:
            raise InputError(f"{where}: {key} and {form} are given; {key} is for axes with a list of values")
    low, high = _numbers(form, bounds, "low, high", where)
    if low >= high or (form == "loguniform" and low <= 0):
        raise InputError(f"{where}: {form} is {bounds!r}; expected low below high{', both above 0' if form == 'loguniform' else ''}")
    if not math.isfinite(high - low):
        raise InputError(f"{where}: {form} is {bounds!r}; expected ends whose difference is a number")
    if whole and not (isinstance(low, int) and isinstance(high, int)):
        raise InputError(f"{where}: {form} is {bounds!r}; expected whole numbers, for whole is true")
    return AxisSpan(low, high, form == "loguniform", whole)
