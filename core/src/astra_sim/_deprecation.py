"""Warnings to authors of plugins about features that will be removed (docs/plugins.md#what-stays-compatible)."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def deprecated(old: str, new: str, ends: str) -> None:
    """Warn about an old feature, with its replacement, and the series (X.Y) in which it ends, at the line outside of the kernel."""
    level = 2
    while sys._getframe(level - 1).f_globals.get("__name__", "").partition(".")[0] in ("astra_sim", "abc"):
        level += 1
    warnings.warn(f"{old} is deprecated, and gone in astra {ends}; use {new}", DeprecationWarning, stacklevel=level)


class FormerName:
    """An attribute or method of a class under its former name: reading and writing it reach the one of today (`new`), and warn."""

    def __init__(self, new: str, of: str, ends: str) -> None:
        self.new = new
        self._of = of
        self._ends = ends

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = f"{name} of {self._of}"

    def __get__(self, instance: Any, owner: type) -> Any:
        deprecated(self._old, self.new, self._ends)
        return getattr(owner if instance is None else instance, self.new)

    def __set__(self, instance: Any, value: Any) -> None:
        deprecated(self._old, self.new, self._ends)
        setattr(instance, self.new, value)

    def move(self, cls: type, name: str) -> None:
        """Give an attribute that a subclass defines under the former name the one of today."""
        deprecated(self._old, self.new, self._ends)
        setattr(cls, self.new, vars(cls)[name])
        delattr(cls, name)


def adopt_former_names(cls: type) -> None:
    """Rename what a new class defines under former names of its bases, and warn. For `__init_subclass__`."""
    for name in list(vars(cls)):
        former = next((vars(base)[name] for base in cls.__mro__[1:] if name in vars(base)), None)
        if isinstance(former, FormerName):
            former.move(cls, name)


def former_names(module: str, names: Mapping[str, str], ends: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module with former names (of each: the one of today). It raises AttributeError for all others."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        deprecated(f"{module}.{name}", names[name], ends)
        return getattr(sys.modules[module], names[name])

    get.former_names = tuple(names)  # type: ignore[attr-defined]
    return get
