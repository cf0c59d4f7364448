"""Data files: devices and stacks, by the name of one in this package, or by path."""

from __future__ import annotations

from importlib import resources
from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import parse_toml, read_text

SUFFIX = ".toml"


def names(folder: str) -> list[str]:
    """Names of the files in a folder of this package."""
    entries = (resources.files(__package__) / folder).iterdir()
    return sorted(entry.name.removesuffix(SUFFIX) for entry in entries if entry.name.endswith(SUFFIX))


def read(folder: str, name: str, what: str) -> tuple[dict[str, Any], str]:
    """The table of a file, and its path: of this package, or if the name ends in .toml at that path. Raises InputError."""
    if name.endswith(SUFFIX):
        return parse_toml(read_text(name), name), name
    known = names(folder)
    if name not in known:
        raise InputError(f"{what} is {name!r}; {suggestion(name.lower(), known)} (or the path of a .toml file)")
    text = (resources.files(__package__) / folder / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    return parse_toml(text, f"{what} {name}"), f"{what} {name}"
