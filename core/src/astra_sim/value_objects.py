"""Value objects: attrs classes that compare, hash and print by their fields, without methods that are compiled for each class.

attrs generates these methods as text, which Python compiles in every process: about 0.2 ms a class, which was a tenth of a short run.
Classes that every run imports inherit them instead:

    >>> import attrs
    >>> from astra_sim.value_objects import ValueObject
    >>> @attrs.frozen(eq=False, repr=False)
    ... class Point(ValueObject):
    ...     x: int
    ...     y: int = 0
    >>> Point(1) == Point(1, 0), len({Point(1), Point(1)}), Point(2)
    (True, 1, Point(x=2, y=0))
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import attrs


class ValueObject:
    """The base of an attrs class that is frozen.

    Fields can be left out of comparison (`eq=False`) and of the text (`repr=False`), or compare by a key (`eq=tuple`).
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _compared(_class_of(self))
        return bool(values(self) == values(other))

    def __hash__(self) -> int:
        return hash(_compared(_class_of(self))(self))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in _printed(_class_of(self)))
        return f"{self.__class__.__qualname__.rpartition('>.')[2]}({fields})"


def _class_of(value: ValueObject) -> Any:
    return value.__class__  # as Any: mypy takes the methods of the class for those of the object


@functools.cache
def _compared(cls: Any) -> Callable[[Any], Any]:
    """A function that returns the values by which objects of a class compare."""
    keys = {field.name: field.eq_key for field in attrs.fields(cls) if field.eq}
    if any(keys.values()):
        return lambda value: tuple(getattr(value, name) if key is None else key(getattr(value, name)) for name, key in keys.items())
    return operator.attrgetter(*keys) if keys else lambda _: ()


@functools.cache
def _printed(cls: Any) -> list[str]:
    """The names of the fields in the text of an object."""
    return [field.name for field in attrs.fields(cls) if field.repr]
