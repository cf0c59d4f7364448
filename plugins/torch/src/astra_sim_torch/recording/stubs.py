"""Stubs: modules, classes and functions that do nothing, or functions of the user, in place of what cannot run here."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from .batches import parse_stub
from .events import TorchEvents


class StubError(Exception):
    """A stub that cannot be made; the text names it."""


class Nothing:
    """Does nothing: its attributes, calls and items are `Nothing`, too. It is false, and an empty sequence; a class may have it as base."""

    def __init__(self, name: str) -> None:
        self.__dict__["_stubbed"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Nothing(f"{self._stubbed}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Nothing, whatever the arguments are."""
        return Nothing(f"{self._stubbed}()")

    def __getitem__(self, key: Any) -> Any:
        return Nothing(f"{self._stubbed}[{key!r}]")

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (_Base,)

    def __instancecheck__(self, value: Any) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<stub of {self._stubbed}>"


class _Base:
    """The base of classes whose base is a stub."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Nothing(f"{type(self).__name__}.{name}")


class _StubModule(ModuleType):
    """A module in which every name is a stub."""

    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Nothing(f"{self.__name__}.{name}")


class _StubImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stubbed module, and all modules in it."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The stub, if the name is that of the module or of one in it."""
        if name != self._module and not name.startswith(f"{self._module}."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        """A stub."""
        return _StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs."""


def register(texts: Sequence[str], events: TorchEvents) -> None:
    """Put stubs in place. `texts`: `MODULE`, `MODULE.NAME`, or either with `=MODULE.FUNCTION`. Raises StubError."""
    for text in texts:
        name, other = parse_stub(text)
        try:
            _replace(name, _imported(other) if other else None)
        except (ImportError, AttributeError) as problem:
            raise StubError(f"--stub {text}: {problem}") from None
    if texts:
        events.notes.append(f"replaced, and what they would do is not recorded: {', '.join(texts)}")


def _imported(name: str) -> Any:
    """A function by its module and name. Raises ImportError and AttributeError."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _replace(name: str, other: Any) -> None:
    """Replace what has a name; `other`: by this, None by a stub. Raises ImportError and AttributeError."""
    top = name.partition(".")[0]
    if importlib.util.find_spec(top) is None:  # not installed: all of it is a stub
        sys.meta_path.insert(0, _StubImport(top))
    elif other is None and _is_module(name):
        for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[loaded]
        sys.meta_path.insert(0, _StubImport(name))
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(importlib.import_module(parent), last, importlib.import_module(name))
        return
    owner, last, old = _owner(name)
    if old is None:
        importlib.import_module(name)
    elif other is not None or not isinstance(old, (Nothing, _StubModule)):
        new = Nothing(name) if other is None else other
        setattr(owner, last, new)
        for module in list(sys.modules.values()):  # also where it was imported by name
            with contextlib.suppress(Exception):
                if vars(module).get(last) is old:
                    setattr(module, last, new)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _owner(name: str) -> tuple[Any, str, Any]:
    """The module or class that has a name, the last part of that, and what it is now; None for a module. Raises as `_replace`."""
    parts = name.split(".")
    owner: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:-1], 2):
        if not hasattr(owner, part):
            importlib.import_module(".".join(parts[:number]))
        owner = getattr(owner, part)
    return (owner, parts[-1], getattr(owner, parts[-1])) if len(parts) > 1 else (owner, "", None)
