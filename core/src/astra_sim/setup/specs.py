"""From a user's input (a spec string, a file, a table) to the table of options of a component."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from astra_sim.errors import InputError, PluginError, locating
from astra_sim.files import ReadTexts, Table, is_whole, parse_json, parse_toml, read_text
from astra_sim.memo import Cache
from astra_sim.options import Typed
from astra_sim.providers import Provider, options_of
from astra_sim.setup.plugins import Plugins

PREFIX = "plugin:"


def parse_spec(spec: str) -> Table:
    """The table of `plugin:NAME` or `plugin:NAME?key=value&key=value`. Raises InputError."""
    name, _, query = spec.removeprefix(PREFIX).partition("?")
    if not name:
        raise InputError(f"{spec!r} names no plugin; expected plugin:NAME or plugin:NAME?key=value&key=value")
    table: Table = {"plugin": name}
    for part in query.split("&") if query else ():
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise InputError(f"{spec!r}: {part!r} is not key=value")
        if key in table:
            raise InputError(f"{spec!r}: {key!r} is given twice")
        set_value(table, key, Typed(value), spec)
    return table


def component_of(plugins: Plugins, kind: str, spec: str, where: str) -> tuple[Provider, Any]:
    """The provider and options of a component that `NAME` or `NAME?key=value` names. Raises InputError."""
    with locating(where):
        table = parse_spec(PREFIX + spec.removeprefix(PREFIX))
        provider: Provider = plugins.get(kind, table.pop("plugin"))
    return provider, options_of(provider, table, where)


def set_value(table: Table, key: str, value: Any, where: str) -> None:
    """Set `a.b.0.c` in nested tables and lists, copying tables on the path so that shared ones stay as they are."""
    *path, last = key.split(".")
    current: Any = table
    for step in path:
        current = _child(current, step, where, key)
    if isinstance(current, list):
        current[_position(current, last, where, key)] = value
    else:
        current[last] = value


def _child(current: Any, step: str, where: str, key: str) -> Any:
    if isinstance(current, list):
        position = _position(current, step, where, key)
        child = current[position]
    else:
        position = step  # type: ignore[assignment]
        child = current.get(step, {})
    if not isinstance(child, (dict, list)):
        raise InputError(f"{where}: {key!r}: {step!r} is {child!r}, which has no keys")
    current[position] = child.copy()
    return current[position]


def _position(current: list[Any], step: str, where: str, key: str) -> int:
    if not step.isdecimal() or int(step) >= len(current):
        raise InputError(f"{where}: {key!r}: {step!r} is not one of the positions 0 to {len(current) - 1}")
    return int(step)


def sizes_of(value: Any, where: str) -> list[int]:
    """Sizes of dimensions: a list of whole numbers, or of texts that are; or one text with commas. Raises InputError."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not parts:
        raise InputError(f"{where} is {value!r}; expected a list of whole numbers, such as [8, 2]")
    sizes: list[Any] = [int(part) if isinstance(part, str) and is_whole(part.strip()) else part for part in parts]
    if any(type(size) is not int for size in sizes):
        raise InputError(f"{where} is {value!r}; expected a list of whole numbers, such as [8, 2]")
    return sizes


def load_file(kind: str, path: str, plugins: Plugins, name: str = "", where: str = "") -> dict[str, Table]:
    """The sections that a component's file fills: at least `kind`, perhaps more (a network file may hold a platform).

    A file called *.toml is ours; others are recognised by their content. If there is no such file and `name`, the user's
    text, is that of a component, it represents `plugin:NAME`. Raises InputError, which states `where` a file that is missing was named,
    if not by an option of the command line.
    """
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        for file_format in plugins.components("format").values():
            if kind in file_format.kinds and file_format.first_file and os.path.exists(path + file_format.first_file):
                sections: dict[str, Table] = file_format.tables("", path)
                return sections
        if name.partition("?")[0] in plugins.components(kind):
            return {kind: parse_spec(PREFIX + name)}
        why = f"{path}: {getattr(error, 'strerror', None) or error}"
        if where in ("", kind):
            raise InputError(f"{why} (--{kind} takes a file, or plugin:NAME)") from None
        raise InputError(f"{where}: {why}; expected a file, or plugin:NAME") from None
    key = kind, path, plugins
    known = _read.get(key)
    if known is not None and known[1].are_the_same():
        return known[0]
    with ReadTexts() as texts:
        sections = _tables(kind, path, read_text(path), plugins)
    _read.replace(key, (sections, texts))
    return sections


_read: Cache[tuple[str, str, Plugins], tuple[dict[str, Table], ReadTexts]] = Cache("files of components", 256)
"""Cached files, by type and path, with their content and that of the other files that they name: a sweep reads each once.

If the file or one of the others has changed, all are read again.
"""


def _tables(kind: str, path: str, text: str, plugins: Plugins) -> dict[str, Table]:
    """The sections of a file by the first format that recognises it. Raises InputError if none does."""
    if path.endswith(".toml"):
        return {kind: parse_toml(text, path)}
    tried = []
    for file_format in plugins.components("format").values():
        if kind in file_format.kinds:
            if file_format.is_of(text):
                sections: dict[str, Table] = file_format.tables(text, path)
                if kind not in sections:
                    raise PluginError(f"file format {file_format.name!r} returned {sorted(sections)} for {path}, but no {kind}")
                return sections
            tried.append(file_format.name)
    if not text.strip():
        raise InputError(f"{path}: the file is empty")
    if text.lstrip().startswith("{"):
        parse_json(text, path)
    other = next((each for each in plugins.components("format").values() if kind not in each.kinds and each.is_of(text)), None)
    if other is not None:
        raise InputError(f"{path}: a {other.kinds[0]} file ({other.name}), not a {kind} file; expected --{other.kinds[0]} {path}")
    raise InputError(f"{path}: not a {kind} file of a known format (tried: {', '.join(['TOML (*.toml)', *tried])})")


def sections_of(kind: str, value: Any, base: str, plugins: Plugins, where: str) -> dict[str, Table]:
    """The sections meant by a value of an experiment: a spec string, a path (relative to `base`), or a table.

    A table may name a `file`, whose contents it then changes. Raises InputError, also for any other value.
    """
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if not isinstance(text, str):
            raise InputError(f"{where}: {value!r} is not a path of type str")
        if not text:
            raise InputError(f"{where} is empty; expected plugin:NAME or a path")
        if text.startswith(PREFIX):
            return {kind: parse_spec(text)}
        return load_file(kind, os.path.join(base, text), plugins, text, where)
    if not isinstance(value, Mapping):
        raise InputError(f"{where} is {value!r}; expected plugin:NAME, a path, or a table")
    table = dict(value)
    file = table.pop("file", None)
    if file is None:
        return {kind: table}
    if not isinstance(file, str) or not file:
        raise InputError(f"{where}: file is {file!r}, not a path")
    sections = dict(load_file(kind, os.path.join(base, file), plugins, where=where))
    of_file = sections.get(kind, {}).get("plugin")
    if "plugin" in table and of_file is not None and table["plugin"] != of_file:
        raise InputError(f"{where}: plugin is {table['plugin']!r}, but {file} is for {of_file!r}; give one of the two")
    sections[kind] = {**sections.get(kind, {}), **table}
    return sections
