"""Which engine runs an experiment: the readable one of the kernel, or one that a package offers (hook `astra_engines`)."""

from __future__ import annotations

import functools
from typing import Any, cast

from astra_sim._version import VERSION
from astra_sim.engine.interface import EngineType
from astra_sim.errors import InputError, PluginError, warn
from astra_sim.providers import Provider
from astra_sim.setup.plugins import Plugins, shared_plugins

AUTO, PYTHON, COMPILED = "auto", "python", "compiled"
_COMPILED_PACKAGE = "astra-sim-engine"
_FUNCTIONS = "computing", "uses_of", "repeated"


def find_engine(name: str = AUTO, plugins: Plugins | None = None, where: str = "engine") -> EngineType:
    """The engine of a name: `auto` is the compiled one if its package matches this kernel, else the one in Python.

    Engines of other packages run only if they are named. Raises InputError for a name that no package offers, PluginError if the
    engine of that name cannot be used.
    """
    plugins = plugins or shared_plugins()
    if name == PYTHON:
        return _python()
    if name == AUTO:
        return compiled_engine(plugins) or _python()
    offered = plugins.components("engine")
    if name not in offered:
        if name == COMPILED:
            raise InputError(f"{where} is 'compiled', which is not installed; 'python' is (pip install {_COMPILED_PACKAGE} to have both)")
        *known, last = engine_names(plugins)
        raise InputError(f"{where} is {name!r}; expected {', '.join(known)} or {last}")
    if name == COMPILED and (problem := _mismatch(plugins)):
        raise PluginError(problem)
    return engine_of(plugins.get("engine", name))


def compiled_engine(plugins: Plugins | None = None) -> EngineType | None:
    """The compiled engine; None if its package is absent, broken, or of another version than the kernel: of these it warns once."""
    plugins = plugins or shared_plugins()
    if COMPILED not in plugins.components("engine"):
        for info in plugins.infos():
            if info.distribution == _COMPILED_PACKAGE and info.error is not None:  # it is installed, and cannot be imported
                _warn_once(f"{_COMPILED_PACKAGE} cannot be used ({info.error}); the engine in Python runs instead")
        return None
    problem = _mismatch(plugins)
    if problem is None:
        try:
            return engine_of(plugins.get("engine", COMPILED))
        except PluginError as error:
            problem = str(error)
    _warn_once(f"{problem}; the engine in Python runs instead, with the same results, slower")
    return None


def engine_names(plugins: Plugins | None = None) -> list[str]:
    """The names that may be asked for."""
    return [AUTO, PYTHON, *sorted({COMPILED, *(plugins or shared_plugins()).components("engine")})]


def engine_name(name: str, plugins: Plugins) -> str:
    """The name of the engine that runs if one is asked for: that of `auto` is `compiled` or `python`."""
    if name != AUTO:
        return name
    return PYTHON if compiled_engine(plugins) is None else COMPILED


def engine_of(provider: Provider) -> EngineType:
    """The engine that a package offers. Raises PluginError if it cannot be imported, or lacks a function of `EngineType`."""
    engine: Any = provider.load_factory()
    missing = [function for function in _FUNCTIONS if not callable(getattr(engine, function, None))]
    if missing:
        expected = "expected a class as astra_sim.engines.EngineType"
        raise PluginError(f"engine {provider.name!r}: {engine!r} has no function {missing[0]}; {expected}")
    return cast(EngineType, engine)


def _python() -> EngineType:
    from astra_sim.engine.reference import ReferenceEngine

    return ReferenceEngine


def _mismatch(plugins: Plugins) -> str | None:
    """Describe the mismatch of versions between the compiled engine and the kernel, whose tasks and queues it follows step by step."""
    owner = plugins.owner("engine", COMPILED)
    info = next((info for info in plugins.infos() if info.name == owner), None)
    if info is None or info.distribution != _COMPILED_PACKAGE or info.version == VERSION:
        return None
    return f"{_COMPILED_PACKAGE} has version {info.version}, and astra-sim-core {VERSION}; expected the same"


@functools.cache
def _warn_once(message: str) -> None:
    warn(message)
