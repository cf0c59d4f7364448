"""Functions that an input file may name: those of the entry-point group `astra_sim.setup.functions`, and no others.

So a file cannot call whatever can be imported; what it may call is what somebody has installed for this purpose.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

from astra_sim._boundary import call
from astra_sim.errors import InputError, PluginError, suggestion

GROUP = "astra_sim.setup.functions"


def named_function(name: str, where: str) -> Callable[..., Any]:
    """The function registered as `NAME`, or as `NAME@DISTRIBUTION` where several distributions have one of that name.

    `where` is the option that names it. Raises InputError where there is none, PluginError where several are or it cannot be loaded.
    """
    entries = call("the entry points of installed packages", importlib.metadata.entry_points).select(group=GROUP)
    plain, _, distribution = name.partition("@")
    found = [entry for entry in entries if entry.name == plain and distribution in ("", _distribution(entry))]
    if not found:
        known = suggestion(name, {entry.name for entry in entries})
        raise InputError(f"{where} is {name!r}; the name of a function of the entry-point group {GROUP} is right ({known})")
    if len(found) > 1:
        choice = " or ".join(sorted(f"{plain}@{_distribution(entry)}" for entry in found))
        raise PluginError(f"{where} is {name!r}, which several packages register; choose {choice}")
    function = call(f"{where} {name!r}", found[0].load)
    if not callable(function):
        raise PluginError(f"{where} {name!r} is {function!r}, which cannot be called")
    return function  # type: ignore[no-any-return]


def _distribution(entry: importlib.metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else ""
