"""The YAML file of ASTRA-sim 2.x that names a collective algorithm for single nodes of a trace: `id: path prefix`."""

from __future__ import annotations

import re

import yaml  # type: ignore[import-untyped]
from astra_sim import InputError
from astra_sim.limits import MAX_YAML_CHARACTERS

_RIGHT = "expected the ids of nodes, each with the path prefix of an algorithm's traces"


def read_text_mapping(text: str, path: str) -> dict[str, str]:
    """The path prefixes by the ids of nodes, in digits. Raises InputError with the line."""
    if len(text) > MAX_YAML_CHARACTERS:
        raise InputError(f"{path}: {len(text)} characters are too many for ids of nodes; expected at most {MAX_YAML_CHARACTERS}")
    loader = None
    try:
        loader = yaml.BaseLoader(text)
        return _pairs(loader.get_single_node(), path)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError(f"{path}:{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    finally:
        if loader is not None:
            loader.dispose()


def _pairs(root: yaml.Node | None, path: str) -> dict[str, str]:
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path}: not a YAML mapping; {_RIGHT}")
    found: dict[str, str] = {}
    for key, value in root.value:
        where = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode) or not re.fullmatch(r"[0-9]{1,20}", key.value):
            raise InputError(f"{where}: {getattr(key, 'value', '')!r:.80} is not the id of a node; {_RIGHT}")
        if not isinstance(value, yaml.ScalarNode) or not value.value:
            raise InputError(f"{where}: node {key.value} has no path prefix; {_RIGHT}")
        id_ = str(int(key.value))
        if id_ in found:
            raise InputError(f"{where}: node {id_} is given twice")
        found[id_] = value.value
    return found
