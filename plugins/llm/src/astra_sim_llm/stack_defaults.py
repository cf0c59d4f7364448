"""Options that come from the stack of the compute model: those that have an effect beside the experiment's."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from astra_sim import InputError
from astra_sim.context import Context
from astra_sim.options import structure

from astra_sim_llm.options import LlmOptions
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.plan import make_plan, parallelism_of, read_model

_Path = tuple[str, ...]
"""The keys that lead to a value: ("overlap", "dp")."""


def traits(table: Mapping[str, Any]) -> frozenset[str]:
    """The properties of a workload with this table: its precision, training or not, and whether its model has experts."""
    try:
        with warnings.catch_warnings(action="ignore"):  # reported when the workload is made, as errors are
            options: LlmOptions = structure(LlmOptions, dict(table), "workload")
            model = read_model(options.model)
    except InputError:
        return frozenset()
    result = {"training": options.mode == "train", "experts": bool(model.experts)}
    return frozenset({options.precision, *(word for word, holds in result.items() if holds)})


def taken(table: Mapping[str, Any], offered: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The offered options that fit the given ones: none that would be refused, such as contention if nothing runs beside compute, and
    none that nothing reads. None in inference, for stacks are fitted to training, and no scatter where a variation draws times.
    """
    npus = context.platform.npus
    try:
        options: LlmOptions = structure(LlmOptions, dict(table), "workload")
        unread = {*_unread(parallelism_of(options, npus)), *([("scatter",)] if context.varies else [])}
    except InputError:  # reported when the workload is made
        return {}
    if options.mode != "train":
        return {}
    wanted = {path: value for path, value in _paths(offered) if path not in unread}
    if _fits(table, wanted, npus):
        return _table(wanted)
    chosen: dict[_Path, Any] = {}
    before = -1
    while before < len(chosen):  # one may need another that comes after it
        before = len(chosen)
        for path, value in wanted.items():
            if path not in chosen and _fits(table, {**chosen, path: value}, npus):
                chosen[path] = value
    return _table({path: value for path, value in wanted.items() if path in chosen})


def _fits(table: Mapping[str, Any], defaults: Mapping[_Path, Any], npus: int) -> bool:
    """Whether there is a plan of a table with some defaults."""
    filled: dict[str, Any] = {key: dict(value) if isinstance(value, Mapping) else value for key, value in table.items()}
    for path, value in defaults.items():
        _put(filled, path, value)
    try:
        with warnings.catch_warnings(action="ignore"):
            make_plan(structure(LlmOptions, filled, "workload"), npus)
    except InputError:
        return False
    return True


def _unread(parallel: Parallelism) -> Iterator[_Path]:
    """Options that may be given with such groups and change nothing."""
    if parallel.tensor == 1:
        yield from (("overlap", "tp"), ("sequence_parallel",))
    if parallel.pipeline == 1:
        yield ("overlap", "p2p")
    if parallel.data == parallel.context == 1:
        yield from (("overlap", "dp"), ("overlap", "gathers"))


def _paths(table: Mapping[str, Any], before: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """The values of a table and of tables in it, by their keys."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _paths(value, (*before, key))
        else:
            yield (*before, key), value


def _table(values: Mapping[_Path, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path, value in values.items():
        _put(result, path, value)
    return result


def _put(table: dict[str, Any], path: _Path, value: Any) -> None:
    *outer, last = path
    for key in outer:
        table = table.setdefault(key, {})
    table[last] = value
