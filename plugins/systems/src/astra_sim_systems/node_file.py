"""The YAML file of ASTRA-sim 2.x that names a collective algorithm for single nodes of a trace: `id: path prefix`."""

from __future__ import annotations

import re

import yaml  # type: ignore[import-untyped]
from astra_sim import InputError
from astra_sim.yaml_text import yaml_root

_WHAT = "the ids of nodes, each with the path prefix of an algorithm's traces"


def read_text_mapping(text: str, path: str) -> dict[str, str]:
    """The path prefixes by the ids of nodes, in digits. Raises InputError with the line."""
    with yaml_root(text, path, _WHAT, yaml.BaseLoader) as (_, root):
        return _pairs(root, path)


def _pairs(root: yaml.Node, path: str) -> dict[str, str]:
    """The entries of the mapping by hand, so that an error names its line and a repeated id is found."""
    result: dict[str, str] = {}
    for key, value in root.value:
        where = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode) or not re.fullmatch(r"[0-9]{1,20}", key.value):
            raise InputError(f"{where}: {getattr(key, 'value', '')!r:.80} is not the id of a node; expected {_WHAT}")
        if not isinstance(value, yaml.ScalarNode) or not value.value:
            raise InputError(f"{where}: node {key.value} has no path prefix; expected {_WHAT}")
        id_ = str(int(key.value))
        if id_ in result:
            raise InputError(f"{where}: node {id_} is given twice")
        result[id_] = value.value
    return result
