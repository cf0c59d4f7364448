"""Experiments of serving: the table of a file."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.files import parse_toml, read_text

_PATHS = (("serving", "requests", "trace"), ("compute", "tables"))


@attrs.define(eq=False)
class ServingExperiment:
    """An experiment: the table of a file, with paths relative to the working directory. `where` names the file in messages."""

    table: dict[str, Any]
    where: str = "experiment"

    def with_values(self, values: Mapping[str, Any]) -> ServingExperiment:
        """The same with other values of keys such as `serving.requests.rate`. Raises InputError."""
        table = copy.deepcopy(self.table)
        for key, value in values.items():
            *path, last = key.split(".")
            current: Any = table
            for step in path:
                current = _child(current, step, key)
            if isinstance(current, list):
                current[_position(current, last, key)] = value
            else:
                current[last] = value
        return ServingExperiment(table, self.where)


def _child(current: Any, step: str, key: str) -> Any:
    child = current[_position(current, step, key)] if isinstance(current, list) else current.setdefault(step, {})
    if not isinstance(child, (dict, list)):
        raise InputError(f"{key}: {step!r} is {child!r}, which has no keys")
    return child


def _position(current: list[Any], step: str, key: str) -> int:
    if not step.isdecimal() or int(step) >= len(current):
        raise InputError(f"{key}: {step!r} is not one of the positions 0 to {len(current) - 1}")
    return int(step)


def read_experiment(path: str | os.PathLike[str]) -> ServingExperiment:
    """The experiment of a TOML file, whose paths are relative to it. Raises InputError."""
    file = os.fspath(path)
    table = parse_toml(read_text(file), file)
    folder = os.path.dirname(file)
    for keys in _PATHS:
        current: Any = table
        for key in keys[:-1]:
            current = current.get(key, {}) if isinstance(current, dict) else {}
        if isinstance(current, dict) and isinstance(current.get(keys[-1]), str):
            current[keys[-1]] = os.path.join(folder, current[keys[-1]])
    serving = table.get("serving")
    if isinstance(serving, dict):
        models = serving.get("models")
        for model in (serving.get("model"), *(models.values() if isinstance(models, dict) else ())):
            if (
                isinstance(model, dict)
                and isinstance(model.get("name"), str)
                and (os.sep in model["name"] or model["name"].endswith(".json"))
            ):
                model["name"] = os.path.join(folder, model["name"])
    return ServingExperiment(table, file)
