"""Defaults of a workload that the compute model's software implies: options that the experiment leaves out come from the stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from astra_sim.compute import Compute
from astra_sim.context import Context
from astra_sim.files import Table
from astra_sim.providers import Provider


def with_defaults(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> Table:
    """A table with the defaults that it does not give itself, in tables within it, too."""
    result = dict(table)
    for key, value in defaults.items():
        existing = result.get(key)
        if isinstance(value, Mapping) and isinstance(existing, Mapping):
            result[key] = with_defaults(existing, value)
        elif key not in result:
            result[key] = dict(value) if isinstance(value, Mapping) else value
    return result


def without(defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> Table:
    """The defaults whose keys are not given."""
    left: Table = {}
    for key, value in defaults.items():
        override = overrides.get(key)
        if isinstance(value, Mapping) and isinstance(override, Mapping):
            if inner := without(value, override):
                left[key] = inner
        elif key not in overrides:
            left[key] = value
    return left


def dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a table, and of tables in it, under names such as `overlap.dp`."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def taken_defaults(provider: Provider, table: Mapping[str, Any], compute: Compute, context: Context) -> Table:
    """The options that a workload takes from the compute model, if its table does not give them: those that have an effect."""
    offered = without(compute.workload_defaults.get(provider.name, {}), table)
    return dict(provider.taken(table, offered, context)) if offered else {}
