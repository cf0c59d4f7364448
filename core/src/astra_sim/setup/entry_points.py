"""Which plugins the installed packages announce: their entry points, remembered from one process to the next.

Python reads the metadata of every installed package to list entry points, which takes longer than all else that `astra --help` does. So
the list is kept in a file of the user's cache folder, with what it was read from: the metadata folders on `sys.path`, and the time and
size of the file with the entry points in each. Where one has come, gone or changed, the list is read again.

`ASTRA_CACHE_DIR` names another folder for the file; where it is empty, nothing is kept. A folder that cannot be written, and a file that
is not as it was written, are as if there were none.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import sys
from importlib.machinery import PathFinder
from typing import NamedTuple

GROUP = "astra_sim"
CACHE_VARIABLE = "ASTRA_CACHE_DIR"
_METADATA = (".dist-info", ".egg-info")
_FIRST_LINE = "astra: entry points 1"


class EntryPoint(NamedTuple):
    """An entry point of the group `astra_sim`: its name, "module" or "module:object", and the distribution that has it ("?": unknown)."""

    name: str
    value: str
    distribution: str
    version: str


def entry_points() -> list[EntryPoint]:
    """Those of all installed packages, by name."""
    state = _installed()
    file = None if state is None else _cache_file()
    if state is None or file is None:
        return _read()
    found = _remembered(file, state)
    if found is None:
        found = _read()
        _remember(file, state, found)
    return found


def _read() -> list[EntryPoint]:
    """The entry points as the metadata of packages has them."""
    import importlib.metadata

    found = []
    for entry in importlib.metadata.entry_points().select(group=GROUP):
        distribution, version = (entry.dist.name, entry.dist.version) if entry.dist else ("?", "?")
        found.append(EntryPoint(entry.name, entry.value, distribution, version))
    return sorted(found, key=lambda entry: (entry.name, entry.value))


def _installed() -> str | None:
    """What the entry points depend on, as lines of text. None where packages lie where this function does not look: in archives."""
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


def _cache_file() -> str | None:
    """Where the list of this environment of Python is kept; None: nowhere."""
    folder = cache_folder()
    if not folder:
        return None
    environment = binascii.crc32(os.fsencode(f"{sys.prefix}\n{sys.version}"))
    return os.path.join(folder, f"entry-points-{environment:08x}.txt")


def cache_folder() -> str:
    """The folder for caches of `astra`: that of `ASTRA_CACHE_DIR`, else where the system has them; empty: there is none."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen is not None:
        return chosen
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    return os.path.join(base, "astra-sim") if os.path.isabs(base) else ""


def _remembered(file: str, state: str) -> list[EntryPoint] | None:
    """The list in a file, if it was read from what is installed now."""
    try:
        with open(file, encoding="utf-8", newline="\n") as opened:
            text = opened.read()
    except (OSError, ValueError):
        return None
    beginning = f"{_FIRST_LINE}\n{state}\n\n"
    if not text.startswith(beginning) or not text.endswith("\n."):
        return None
    rows = [line.split("\t") for line in text[len(beginning) : -2].split("\n") if line]
    return [EntryPoint(*row) for row in rows] if all(len(row) == len(EntryPoint._fields) for row in rows) else None


def _remember(file: str, state: str, found: list[EntryPoint]) -> None:
    """Write a list under a name of its own, then give it that of the file, so that who reads at the same time sees the old or the new."""
    if not all(field.isprintable() for entry in found for field in entry):
        return
    lines = ["\t".join(entry) for entry in found]
    temporary = f"{file}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(temporary, "w", encoding="utf-8", newline="\n") as opened:
            opened.write("\n".join([_FIRST_LINE, state, "", *lines, "."]))
        os.replace(temporary, file)
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            os.unlink(temporary)
