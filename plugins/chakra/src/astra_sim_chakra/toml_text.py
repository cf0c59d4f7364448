"""Workloads as TOML."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from astra_sim import InputError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(table: dict[str, Any]) -> str:
    """A table as TOML: lists of tables as blocks, all else in a line each. Raises InputError where TOML has no word for a value."""
    blocks = {key: value for key, value in table.items() if _is_block(value)}
    parts = [_lines({key: value for key, value in table.items() if key not in blocks})]
    parts += [f"[[{_key(key)}]]\n{_lines(item)}" for key, items in blocks.items() for item in items]
    return "\n".join(part for part in parts if part)


def _is_block(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value, key)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any, key: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item, key) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(item, key)}" for name, item in value.items()) + " }" if value else "{}"
    raise InputError(f"{key}: {value!r} cannot be written as TOML")
