"""Tables as TOML text for people: keys and values as tomli-w writes them, and nested values in one line with their parent.

Example:

    >>> from astra_sim.toml_text import to_toml, write_toml
    >>> machine = {"name": "two rings", "platform": {"dimensions": [{"plugin": "ring", "size": 4}, {"plugin": "ring", "size": 8}]}}
    >>> print(to_toml(machine, "Made by hand"), end="")
    # Made by hand
    <BLANKLINE>
    name = "two rings"
    platform = { dimensions = [{ plugin = "ring", size = 4 }, { plugin = "ring", size = 8 }] }
    >>> write_toml(machine, "machine.toml")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli_w

from astra_sim.errors import InputError

__all__ = ["to_toml", "write_toml"]


def to_toml(table: Mapping[str, Any], comment: str = "") -> str:
    """A table as TOML, under a comment: lists of tables as blocks, all else in a line each.

    tomli-w by itself would write a table in a list, such as a pass of a layer, as a block of its own. Raises InputError if TOML has
    no word for a value.
    """
    blocks = {key: value for key, value in table.items() if _is_block(value)}
    parts = ["".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())]
    parts.append(_lines({key: value for key, value in table.items() if key not in blocks}))
    parts += [f"[[{_key(key)}]]\n{_lines(item)}" for key, items in blocks.items() for item in items]
    return "\n".join(part for part in parts if part)


def write_toml(table: Mapping[str, Any], path: str, comment: str = "") -> None:
    """Write a table to a file as `to_toml` has it.

    Raises InputError if TOML has no word for a value, RunError if the file cannot be written.
    """
    from astra_sim.files import FileSet

    text = to_toml(table, comment)
    with FileSet() as files, files.open(path) as file:
        file.write(text)


def _is_block(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value, key)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")


def _value(value: Any, key: str) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_value(item, key)}' for name, item in value.items())} }}" if value else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item, key) for item in value)}]"
    try:
        return tomli_w.dumps({"": value}).removeprefix('"" = ').removesuffix("\n")
    except TypeError:
        raise InputError(f"{key}: {value!r} cannot be written as TOML") from None
