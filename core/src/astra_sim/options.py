"""Options classes: attrs classes that define validation, defaults, documentation and `--set`.

Example:

    >>> import attrs
    >>> from astra_sim.options import option, structure
    >>> @attrs.frozen
    ... class BusOptions:
    ...     bandwidth_gb_per_s: float = option(100.0, above=0, help="bandwidth of the bus", unit="10^9 bytes/s")
    ...     kind: str = option("fair", choices=("fair", "fifo"), help="which message goes first")
    >>> structure(BusOptions, {"bandwidth_gb_per_s": 50}, "network")
    BusOptions(bandwidth_gb_per_s=50, kind='fair')
    >>> structure(BusOptions, {"bandwidth": 50}, "network")
    Traceback (most recent call last):
        ...
    astra_sim.errors.InputError: network: unknown key 'bandwidth'; did you mean 'bandwidth_gb_per_s'?
"""

from __future__ import annotations

import enum
import functools
import marshal
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import attrs

from astra_sim._deprecation import deprecated
from astra_sim.errors import InputError, in_figures, suggestion
from astra_sim.memo import Cache, is_hashable

__all__ = [
    "option",
    "structure",
]

REQUIRED = attrs.NOTHING
_Number = typing.TypeVar("_Number", int, float)
MAX_NUMBER, MIN_NUMBER = 2.0**62, 1e-12
MAX_FIGURE = 1e250
"""Limit of a figure of a result, of which products are floats, too."""
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
_MOST_DIGITS = 300
"""Limit on the digits of a number as typed; no number in range needs more."""


def option(
    default: Any = REQUIRED,
    *,
    help: str,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    choices: Sequence[str] | None = None,
    factory: Callable[[], Any] | None = None,
    path: Literal["path", "name or path"] | None = None,
    specs: str | None = None,
    names: str | None = None,
) -> Any:
    """A field of an options class.

    `help` describes it in one line, `unit` is its unit. Values below `minimum`, over `maximum`, not `above`, or not among `choices`
    are errors; in a list, for every item. `path` means that the value is a path, relative to the working directory, or how names of files
    begin, or that it is such a path if it has a slash or an ending. `specs` is the kind of component that it names, as
    `NAME?key=value`. A result keeps paths as absolute ones. `names` is a function, "module:function", that lists names which the value may
    be: shells ask it when they complete one.
    """
    known = None if choices is None else tuple(str(choice) for choice in choices)
    metadata = {"help": help, "unit": unit, "minimum": minimum, "maximum": maximum, "above": above, "choices": known}
    metadata |= {"path": path, "specs": specs, "names": names}

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None:
            return
        for item in value if isinstance(value, (tuple, list)) else (value,):
            _check_value(attribute.name, item, metadata)

    if factory is not None:
        return attrs.field(factory=factory, validator=check, metadata=metadata, kw_only=True)
    return attrs.field(default=default, validator=check, metadata=metadata, kw_only=True)


def _check_value(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Raise ValueError for a value outside the choices or limits of its option."""
    if value is None:
        return
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{name} is not a number")
    if metadata["choices"] is not None and value not in metadata["choices"]:
        raise ValueError(f"{name} is {value!r}; {suggestion(str(value), metadata['choices'])}")
    if metadata["minimum"] is not None and value < metadata["minimum"]:
        raise ValueError(f"{name} is {value!r}; expected at least {metadata['minimum']}")
    if metadata["maximum"] is not None and value > metadata["maximum"]:
        raise ValueError(f"{name} is {value!r}; expected at most {metadata['maximum']}")
    if metadata["above"] is not None and not value > metadata["above"]:
        raise ValueError(f"{name} is {value!r}; expected more than {metadata['above']}")


class OptionInfo(NamedTuple):
    """An option as `astra plugins show` prints it."""

    name: str
    type: str
    default: str
    unit: str
    help: str


def describe_options(cls: type | None, prefix: str = "") -> list[OptionInfo]:
    """The options of a class. Those of tables in it follow, with the names that `--set` takes: `layers.N.name`."""
    option_infos: list[OptionInfo] = []
    for field in attrs.fields(cls) if cls is not None else ():
        kind = typing.get_type_hints(cls)[field.name]
        choices = field.metadata.get("choices")
        help_, unit = field.metadata.get("help", ""), field.metadata.get("unit", "")
        words = " | ".join(choices) if choices else _type_words(kind)
        option_infos.append(OptionInfo(prefix + field.name, words, _default_words(field), unit, help_))
        item = typing.get_args(kind)[0] if _is_tuple(kind) else given_kind(kind)
        if attrs.has(item):
            option_infos += describe_options(item, f"{prefix}{field.name}." + ("N." if _is_tuple(kind) else ""))
    return option_infos


def _default_words(field: Any) -> str:
    default = field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
    if default is REQUIRED:
        return "required"
    if default is None or default in ((), [], {}) or (attrs.has(type(default)) and default == type(default)()):
        return "none"
    return str(default.value if isinstance(default, enum.Enum) else default)


def _type_words(kind: Any) -> str:
    if _is_tuple(kind):
        return f"list of {_type_words(typing.get_args(kind)[0])}"
    if _is_free_table(kind) or attrs.has(kind):
        return "table"
    if typing.get_args(kind):
        return " or ".join(_type_words(part) for part in typing.get_args(kind) if part is not type(None))
    return str(getattr(kind, "__name__", kind))


class Typed(str):
    """A value as typed on the command line; it is converted to the type of its field."""

    __slots__ = ()


def structure(cls: type, table: Mapping[str, Any], where: str, others: bool = False) -> Any:
    """An instance of an attrs class from a table, strictly: unknown keys, wrong types and bad values are errors.

    `where` names the place in error messages. `others`: the table is no table of options but of figures, which may be as large as a
    float, and has other keys, too. Raises InputError.
    """
    if not isinstance(table, Mapping):
        raise InputError(f"{where}: {table!r} is not a table of options")
    try:
        return _converter(others).structure(table, cls)
    except Exception as error:
        raise InputError(_explain(error, where)) from None


def converter() -> Any:
    """The strict cattrs converter: no silent conversion between types, no unknown keys."""
    return _converter(False)


def _figure(value: _Number) -> _Number:
    if not abs(value) < MAX_FIGURE:
        raise ValueError(f"{in_figures(value)} is out of range; expected numbers below {MAX_FIGURE:g}")
    return value


@functools.cache
def _converter(of_figures: bool) -> Any:
    """The converter of tables of options, or of figures."""
    import cattrs

    result, limited = cattrs.Converter(), _figure if of_figures else _bounded
    result.register_structure_hook(int, lambda value, _: limited(_integer(value)))
    result.register_structure_hook(float, lambda value, _: limited(_number(value)))
    result.register_structure_hook(bool, lambda value, _: _boolean(value))
    result.register_structure_hook(str, lambda value, _: _text(value))
    result.register_structure_hook_func(_is_choice, lambda value, kind: _choice(value, kind, result))
    result.register_structure_hook_func(_is_tuple, lambda value, kind: _tuple(value, kind, result))
    result.register_structure_hook_func(_is_text_or_tuple, lambda value, kind: _text_or_tuple(value, result))
    result.register_structure_hook_func(_is_free_table, lambda value, _: _free_table(value))
    result.register_structure_hook_func(attrs.has, lambda value, kind: _table(value, kind, of_figures))
    return result


def _boolean(value: Any) -> bool:
    if isinstance(value, Typed) and value.lower() in ("true", "1", "yes", "on", "false", "0", "no", "off"):
        return value.lower() in ("true", "1", "yes", "on")
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not true or false")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, Typed):
        value = _typed(value, _whole, "a whole number")
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _number(value: Any) -> float:
    if isinstance(value, Typed):
        value = _typed(value, int if value.lstrip("+-").isdecimal() else float, "a number")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{value!r} is not a finite number")
    return value  # integers stay integers, which are exact beyond 2^53


def _whole(text: str) -> int:
    """A whole number as typed; bytes may be in KiB, MiB, GiB or TiB. Raises ValueError."""
    if text[-2:] == "iB" and text[-3:-2] in _UNITS and text[:-3].strip().isdecimal():
        return int(text[:-3]) << _UNITS[text[-3]]
    return int(text)


def _typed(text: str, convert: Callable[[str], _Number], what: str) -> _Number:
    if sum(map(str.isdigit, text)) > _MOST_DIGITS:
        raise ValueError(f"{text[:20]!r}... has {len(text)} digits; expected at most {_MOST_DIGITS}")
    try:
        return convert(text)
    except ValueError:
        raise ValueError(f"{str(text)!r} is not {what}") from None


def _bounded(value: _Number) -> _Number:
    """The number. Raises ValueError if its magnitude does not suit 64-bit arithmetic."""
    if abs(value) >= MAX_NUMBER or (value and abs(value) < MIN_NUMBER):
        raise ValueError(f"{in_figures(value)} is out of range; expected numbers from {MIN_NUMBER:g} to below 2^62")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return str(value)


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _tuple(value: Any, kind: Any, structured: Any) -> tuple[Any, ...]:
    """The items of a list, or of its text between brackets. An error names the position of the item."""
    if isinstance(value, Typed):
        value = [Typed(part.strip()) for part in value.strip("[]").split(",") if part.strip()]
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{value!r} is not a list")
    item = typing.get_args(kind)[0]
    parts = []
    for position, part in enumerate(value):
        try:
            parts.append(structured.structure(part, item))
        except Exception as error:
            raise _ItemError(position, error) from None
    return tuple(parts)


class _ItemError(Exception):
    """An error in an item of a list."""

    def __init__(self, position: int, error: Exception) -> None:
        super().__init__(str(error))
        self.position = position
        self.error = error


def _is_free_table(kind: Any) -> bool:
    return typing.get_origin(kind) is dict


def _free_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a table")
    return dict(value)


def _alternatives(kind: Any) -> list[Any]:
    """The kinds of which a value may be one, but None."""
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return [part for part in typing.get_args(kind) if part is not type(None)] if union else []


def given_kind(kind: Any) -> Any:
    """The kind of a value that is given, where an option may also be none."""
    alternatives = _alternatives(kind)
    return alternatives[0] if len(alternatives) == 1 else kind


def _is_choice(kind: Any) -> bool:
    return len(_alternatives(kind)) > 1


def _choice(value: Any, kind: Any, structured: Any) -> Any:
    """A value of one of several kinds: tables, lists, whole numbers and text are distinguished by their type."""
    if value is None and type(None) in typing.get_args(kind):
        return None
    fitting = [part for part in _alternatives(kind) if _may_be(value, part)]
    if not fitting:
        raise ValueError(f"{value!r} is not {_type_words(kind)}")
    return structured.structure(value, fitting[0])


def _may_be(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind by its form. Typed input is text unless all of it is a number, or it is a list in brackets."""
    if isinstance(value, Typed):
        if _is_tuple(kind):
            return value.startswith("[")
        return bool(kind is str and not value.startswith("[")) if not value.isdecimal() else kind is int
    if _is_tuple(kind):
        return isinstance(value, (list, tuple))
    if attrs.has(kind):
        return isinstance(value, (Mapping, kind))
    if _is_free_table(kind):
        return isinstance(value, Mapping)
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)


def _is_text_or_tuple(kind: Any) -> bool:
    return set(typing.get_args(kind)) == {str, tuple[str, ...]}


def _text_or_tuple(value: Any, structured: Any) -> str | tuple[str, ...]:
    if (isinstance(value, Typed) and "," in value) or not isinstance(value, str):
        return structured.structure(value, tuple[str, ...])  # type: ignore[no-any-return]
    return str(value)


@functools.cache
def _table_hook(kind: type, of_figures: bool = False) -> Any:
    from cattrs.gen import make_dict_structure_fn

    return make_dict_structure_fn(kind, _converter(of_figures), _cattrs_forbid_extra_keys=not of_figures)


def _table(value: Any, kind: type, of_figures: bool) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a table")
    if of_figures:
        return _table_hook(kind, of_figures)(value, kind)
    renamed = getattr(kind, "renamed_options", None)
    return _shared_options(_with_new_names(value, renamed) if renamed else value, kind)


def _with_new_names(table: Mapping[str, Any], renamed: Mapping[str, str]) -> Mapping[str, Any]:
    """A table in which options have the names of today, by those of the series before. Raises ValueError if both are there."""
    for old, new in renamed.items():
        if old in table:
            if new in table:
                raise ValueError(f"{old} and {new} are one option; expected {new} alone")
            deprecated(f"the option {old}", new, "0.3")
            table = {new if key == old else key: value for key, value in table.items()}
    return table


_WITHOUT_REFERENCES = 2
"""The version of `marshal` in which equal content is equal bytes, however often a part of it is referred to."""
_LONGEST_CONTENT = 4096

_structured: Cache[tuple[type, bytes], Any] = Cache("options", 4096)
"""Options by their class and the content of their table; only of options that can be hashed, which cannot change."""
_unhashable: set[type] = set()
"""Classes of options that cannot be hashed, so that no content is looked up for them."""


def _shared_options(table: Mapping[str, Any], kind: type) -> Any:
    """The options in a table, which is structured unless one like it was. Raises the errors of cattrs."""
    key = None if kind in _unhashable else _content_key(table, kind)
    value = None if key is None else _structured.get(key)
    if value is None:
        value = _table_hook(kind)(table, kind)
        if key is not None:
            if is_hashable(value):
                _structured.add(key, value)
            else:
                _unhashable.add(kind)
    return value


def _content_key(table: Mapping[str, Any], kind: type) -> tuple[type, bytes] | None:
    """A key that separates 1, 1.0 and True, as structuring does; None for values without content or a long one."""
    try:
        content = marshal.dumps(typing.cast(Any, table), _WITHOUT_REFERENCES)
    except ValueError:  # some of it cannot be stored in a file
        import pickle

        try:
            content = pickle.dumps(table, pickle.HIGHEST_PROTOCOL)
        except Exception:  # an object of a user
            return None
    return (kind, content) if len(content) <= _LONGEST_CONTENT else None


def _explain(error: BaseException, where: str) -> str:
    """The first error, with the path of keys that leads to it.

    A key in `removed_options` of a class, a table of replacements, had a meaning in an earlier version.
    """
    from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError

    absent: list[str] = []
    while isinstance(error, (ClassValidationError, _ItemError)):
        if isinstance(error, _ItemError):
            where, error = f"{where} {error.position}", error.error
            continue
        absent = [str(each.args[0]) for each in error.exceptions if isinstance(each, KeyError)]
        # A misspelt key explains a missing one, so it is reported first.
        inner = min(error.exceptions, key=lambda e: not isinstance(e, ForbiddenExtraKeysError))
        notes = () if isinstance(inner, KeyError) else getattr(inner, "__notes__", ())
        names = [note.name for note in notes if hasattr(note, "name")]
        where, error = ": ".join([where, *names]), inner
    if isinstance(error, ForbiddenExtraKeysError):
        known = [field.name for field in attrs.fields(error.cl)]
        key = min(error.extra_fields)
        instead = getattr(error.cl, "removed_options", {}).get(key)
        if instead is not None:
            return f"{where}: the option {key} is gone: {instead}"
        return f"{where}: unknown key {key!r}; {suggestion(key, known)}"
    if isinstance(error, KeyError):
        several = f"{', '.join(absent[:-1])} and {absent[-1]} are" if len(absent) > 1 else f"{error.args[0]} is"
        return f"{where}: {several} missing"
    return f"{where}: {error}"
