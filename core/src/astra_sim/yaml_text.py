"""YAML from a file, for the packages that have formats in it, which need PyYAML: too large a file is refused before it is constructed.

Example:

    >>> from astra_sim.yaml_text import parse_yaml
    >>> parse_yaml("topology: [Ring, Switch]\\nnpus_count: [4, 8]\\n", "network.yml", "a network")
    {'topology': ['Ring', 'Switch'], 'npus_count': [4, 8]}
    >>> parse_yaml("- 4\\n- 8\\n", "network.yml", "a network")
    Traceback (most recent call last):
        ...
    astra_sim.errors.InputError: network.yml: not a YAML mapping; expected a network
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import yaml  # type: ignore[import-untyped]

from astra_sim.errors import InputError
from astra_sim.limits import MAX_YAML_CHARACTERS, MAX_YAML_SCALAR, MAX_YAML_VALUES

__all__ = ["parse_yaml"]


def parse_yaml(text: str, path: str, what: str, most: int = MAX_YAML_VALUES) -> dict[Any, Any]:
    """The mapping in a YAML text, of at most `most` values.

    Raises InputError naming file and line if a key occurs twice in any mapping, and if the text holds something else than a mapping,
    which is to be `what`.
    """
    with yaml_root(text, path, what, yaml.SafeLoader) as (loader, node):
        values = _count(node, {}, path)
        if values > most:
            raise InputError(f"{path}: {values} values, aliases written out, are too many; expected at most {most}")
        return dict(loader.construct_document(node))


@contextlib.contextmanager
def yaml_root(text: str, path: str, what: str, loader_class: Any) -> Iterator[tuple[Any, Any]]:
    """The loader of a YAML text, of a class of PyYAML, and the node of the mapping in it.

    Raises InputError naming file and line if the text is too long, no YAML, or holds something else than a mapping, which is to be
    `what`; also for errors of YAML within the block.
    """
    if len(text) > MAX_YAML_CHARACTERS:
        raise InputError(f"{path}: {len(text)} characters are too many for {what}; expected at most {MAX_YAML_CHARACTERS}")
    loader = None
    try:
        loader = loader_class(text)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise InputError(f"{path}: not a YAML mapping; expected {what}")
        yield loader, node
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError(f"{path}:{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: not YAML: {str(error).partition(';')[0]:.200}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    finally:
        if loader is not None:
            loader.dispose()


def _count(node: Any, known: dict[int, int | None], path: str) -> int:
    """The number of values that a YAML node expands to. Those behind aliases and merge keys count wherever they are used.

    `known`: numbers of nodes by identity, None for nodes being counted. Raises InputError if a node contains itself or a key twice, and
    for a scalar that is too long.
    """
    if isinstance(node, yaml.ScalarNode):
        if len(node.value) > MAX_YAML_SCALAR:
            where = f"{path}:{node.start_mark.line + 1}"
            raise InputError(f"{where}: a value of {len(node.value)} characters; expected at most {MAX_YAML_SCALAR}")
        return 1
    if id(node) not in known:
        known[id(node)] = None
        children = node.value
        if isinstance(node, yaml.MappingNode):
            _check_keys(node, path)
            children = [child for pair in node.value for child in pair]
        known[id(node)] = 1 + sum(_count(child, known, path) for child in children)
    count = known[id(node)]
    if count is None:
        raise InputError(f"{path}:{node.start_mark.line + 1}: a value that contains itself")
    return count


def _check_keys(mapping: Any, path: str) -> None:
    seen = set()
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                raise InputError(f"{path}:{key.start_mark.line + 1}: the key {key.value!r:.80} is given twice")
            seen.add(key.value)
