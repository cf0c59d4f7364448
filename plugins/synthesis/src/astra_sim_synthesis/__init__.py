"""Collectives designed for a fabric, with a proof, a lower bound and the gap to it: `synthesize` makes a `Plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_sim_synthesis.bounds import Bound, lower_bound
    from astra_sim_synthesis.msccl_file import msccl_xml
    from astra_sim_synthesis.synthesis import Plan, synthesize

__all__ = ["Bound", "Plan", "lower_bound", "msccl_xml", "synthesize"]

_MODULES = {"Bound": "bounds", "lower_bound": "bounds", "msccl_xml": "msccl_file", "Plan": "synthesis", "synthesize": "synthesis"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
