"""Names of a module that are imported from other modules when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(module: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of `module`, whose names are in the modules `homes` of this package. It raises AttributeError for all others."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"astra_sim.{home_of[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    return get
