"""The identity of the code of packages that may change without a new version: editable installations, and others from a folder.

A package from an index is identified by its version. One whose metadata has a `direct_url.json` (`pip install -e FOLDER`, `pip install
FOLDER`), or no RECORD of installed files (a folder on PYTHONPATH), is identified by a digest of its files.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

_BINARIES = (".so", ".pyd", ".dylib", ".dll")
_IGNORED = (*_BINARIES, ".pyc", ".pyo")
_NATIVE = (".c", ".cc", ".cpp", ".cu", ".cxx", ".h", ".hpp", ".inc")
_NATIVE_NAMES = ("CMakeLists.txt",)
_FOLDERS_IGNORED = ("__pycache__", "build", "dist", "node_modules", "site-packages")
_DIGEST_BYTES = 8


def source_digests(modules: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The digest of the source of each distribution that its version does not identify, by name, in hexadecimal.

    `modules` has the modules of each distribution. The source is all files of their top-level packages but binaries, and the files in C and
    C++ of an editable installation. The digest does not depend on the folder in which they are.
    """
    result = {}
    for distribution, names in sorted(modules.items()):
        project = _project(distribution)
        if project is None:
            continue
        paths = {f"{top}/{relative}": path for top in _tops(names) for relative, path in _files(_locations(top), _is_source)}
        paths |= {f":{relative}": path for relative, path in _files([project] if project else [], _is_native)}
        result[distribution] = _digest(paths)
    return result


def binary_digests(modules: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The same of their compiled modules, which differ between machines that have compiled the same source."""
    result = {}
    for distribution, names in sorted(modules.items()):
        if _project(distribution) is not None:
            paths = {f"{top}/{relative}": path for top in _tops(names) for relative, path in _files(_locations(top), _is_binary)}
            if paths:
                result[distribution] = _digest(paths)
    return result


@functools.cache
def _project(distribution: str) -> str | None:
    """The folder that a distribution is an editable installation of, "" for another one that its version does not identify, or None."""
    import importlib.metadata  # which takes longer to import than a short run
    import urllib.parse

    try:
        metadata = importlib.metadata.distribution(distribution)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""
    text = metadata.read_text("direct_url.json")
    if text is None:
        return None if metadata.read_text("RECORD") is not None else ""
    try:
        document = json.loads(text)
        is_editable = document.get("dir_info", {}).get("editable", False)
        return urllib.parse.unquote(urllib.parse.urlsplit(document["url"]).path) if is_editable else ""
    except (ValueError, KeyError, AttributeError):
        return ""


def _tops(modules: Iterable[str]) -> list[str]:
    """The top-level packages of modules."""
    return sorted({module.partition(":")[0].partition(".")[0].strip() for module in modules})


def _locations(top: str) -> list[str]:
    """The folders of a package, or the file of a module."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    return [spec.origin] if spec.origin is not None else []


def _files(locations: Iterable[str], is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """The files in folders whose names are wanted: of each its path relative to its folder, and its path."""
    for location in locations:
        if os.path.isfile(location):
            if is_wanted(os.path.basename(location)):
                yield os.path.basename(location), location
            continue
        for folder, folders, names in os.walk(location):
            folders[:] = [name for name in folders if name not in _FOLDERS_IGNORED and not name.startswith(".")]
            for name in names:
                if is_wanted(name):
                    path = os.path.join(folder, name)
                    yield os.path.relpath(path, location), path


def _is_source(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(_IGNORED)


def _is_native(name: str) -> bool:
    return name.endswith(_NATIVE) or name in _NATIVE_NAMES


def _is_binary(name: str) -> bool:
    return name.endswith(_BINARIES)


def _digest(paths: Mapping[str, str]) -> str:
    """A digest of the names and contents of files. One that cannot be read counts by its name alone."""
    import hashlib

    hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name, path in sorted(paths.items()):
        hashed.update(f"{name}\0".encode(errors="surrogateescape"))
        try:
            with open(path, "rb") as file:
                hashed.update(hashlib.file_digest(file, "blake2b").digest())
        except OSError:
            continue
    return hashed.hexdigest()
