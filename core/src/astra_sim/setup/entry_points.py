"""Which plugins the installed packages announce: their entry points, remembered from one process to the next.

Python reads the metadata of every installed package to list entry points, which takes longer than all else that `astra --help` does. So
the list is kept in a file of the user's cache folder, with its inputs: the metadata folders on `sys.path`, and the time and
size of the file with the entry points in each. If one has come, gone or changed, the list is read again.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from typing import NamedTuple

from astra_sim._cache_folder import CacheFile

GROUP = "astra_sim"
_METADATA = (".dist-info", ".egg-info")
_FIRST_LINE = "astra: entry points 2"


class EntryPoint(NamedTuple):
    """An entry point of the group `astra_sim`: its name, "module" or "module:object", and the distribution that has it ("?": unknown)."""

    name: str
    value: str
    distribution: str
    version: str


def entry_points() -> list[EntryPoint]:
    """Those of all installed packages, by name."""
    state, file = _installed(), CacheFile("entry-points")
    if state is None:
        return _read()
    result = _remembered(file, state)
    if result is None:
        result = _read()
        _remember(file, state, result)
    return result


def _read() -> list[EntryPoint]:
    """The entry points as the metadata of packages has them."""
    import importlib.metadata

    entries = sorted(importlib.metadata.entry_points().select(group=GROUP), key=lambda entry: (entry.name, entry.value))
    sources = ((entry.dist.name, entry.dist.version) if entry.dist else ("?", "?") for entry in entries)
    return [EntryPoint(entry.name, entry.value, *source) for entry, source in zip(entries, sources, strict=True)]


def _installed() -> str | None:
    """The state that the entry points depend on, as lines of text. None if packages are elsewhere, such as in archives."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return None
    lines = []
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except (FileNotFoundError, PermissionError):
            continue
        except (OSError, TypeError, ValueError):
            return None  # a file: an archive
        if str(folder).endswith(".egg"):
            return None
        packages = [name for name in names if name.endswith(_METADATA)]
        if packages:
            lines.append(os.path.abspath(folder))
            lines += [_state(folder, package) for package in sorted(packages)]
    return "\n".join(lines)


def _state(folder: str, package: str) -> str:
    """A package, and when its entry points were written."""
    try:
        stat = os.stat(os.path.join(folder, package, "entry_points.txt"))
    except OSError:
        return package
    return f"{package} {stat.st_mtime_ns} {stat.st_size}"


# -- The file ----------------------------------------------------------------------------------------------------------


def _remembered(file: CacheFile, state: str) -> list[EntryPoint] | None:
    """The list in a file, if it matches the packages installed now."""
    text = (file.read() or b"").decode("utf-8", "surrogateescape")
    beginning = f"{_FIRST_LINE}\n{state}\n\n"
    if not text.startswith(beginning):
        return None
    rows = [line.split("\t") for line in text[len(beginning) :].split("\n") if line]
    return [EntryPoint(*row) for row in rows] if all(len(row) == len(EntryPoint._fields) for row in rows) else None


def _remember(file: CacheFile, state: str, points: list[EntryPoint]) -> None:
    """Write a list, unless a word in it would end its line."""
    if all(field.isprintable() for entry in points for field in entry):
        text = f"{_FIRST_LINE}\n{state}\n\n" + "\n".join(map("\t".join, points))
        file.write(text.encode("utf-8", "surrogateescape"))
