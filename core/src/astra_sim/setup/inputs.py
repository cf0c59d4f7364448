"""The files that options of an experiment name: their paths, their content, and whether they are relative to a result."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from astra_sim.files import Table, note_input
from astra_sim.memo import cached

LISTED = 64
"""Inputs of more files have one digest for all of them, so that a result of thousands of traces stays small."""


class FileState(NamedTuple):
    """A file as it was at an instant. Its digest is computed when it is asked for."""

    path: str
    size: int
    modified_ns: int
    inode: int

    @property
    def digest(self) -> str | None:
        """SHA-256 of its content in hexadecimal. None: it has changed since, or cannot be read."""
        return _digest_of(self) if _state(self.path) == self else None


class InputFiles(NamedTuple):
    """The files of an option: `option` is its section and name, `path` an absolute path, or how the names of the files begin."""

    option: str
    path: str
    files: Sequence[FileState]

    def table(self) -> Table:
        """The digests of the inputs of a result: `sha256` for each file by name, or one of all files if these are many; None: unknown."""
        digests = {os.path.basename(file.path): file.digest for file in self.files}
        table: Table = {"option": self.option, "path": self.path, "files": len(digests), "bytes": sum(file.size for file in self.files)}
        if len(digests) <= LISTED:
            return table | {"sha256": digests}
        import hashlib

        lines = "".join(f"{name} {digest}\n" for name, digest in sorted(digests.items()))
        return table | {"sha256": None if None in digests.values() else hashlib.sha256(lines.encode()).hexdigest()}


def input_files(option: str, path: str) -> InputFiles | None:
    """The files of a path as they are now: the file itself, or those whose names begin so; None: there are none."""
    note_input(path)
    state = _state(path)
    if state is not None:
        return InputFiles(option, path, (state,))
    if os.path.isdir(path):
        return None
    names = glob.glob(f"{glob.escape(path)}.*") or glob.glob(f"{glob.escape(path)}*")
    result = tuple(state for state in map(_state, sorted(names)) if state is not None)
    return InputFiles(option, path, result) if result else None


def changed_inputs(recorded: Sequence[Any], current: Iterable[Table]) -> list[str]:
    """The differences between the inputs of two results, a line for each option that names the same path in both."""
    now = {(each["option"], each["path"]): each for each in current}
    lines = []
    for before in recorded:
        if not isinstance(before, Mapping):
            continue
        option, path = str(before.get("option")), str(before.get("path"))
        value = now.get((option, path))
        if value is not None and before.get("sha256") is not None and before["sha256"] != value["sha256"]:
            lines.append(f"{option}: {path}: {_difference(before, value)}")
    return lines


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    old, new = before["sha256"], now["sha256"]
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return f"the contents of its {now['files']} files are not those of the result ({before.get('files')} files)"
    parts = [
        ("changed", [name for name in old if name in new and old[name] is not None and old[name] != new[name]]),
        ("missing", [name for name in old if name not in new]),
        ("new", [name for name in new if name not in old]),
    ]
    result = [f"{word}: {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}" for word, names in parts if names]
    return f"files are not those of the result ({'; '.join(result)})"


def relative_to(folder: str, document: Table) -> Table:
    """A result as JSON whose absolute input paths are made relative to a folder."""
    return _with_paths(document, lambda path: _relative(path, os.path.abspath(folder)) if os.path.isabs(path) else path)


def absolute_in(folder: str, document: Table) -> Table:
    """A result as JSON whose input paths, relative to a folder, are made absolute."""
    return _with_paths(document, lambda path: os.path.normpath(os.path.join(os.path.abspath(folder), path)))


def _relative(path: str, folder: str) -> str:
    path = os.path.relpath(path, folder)
    return path if path.startswith(os.pardir + os.sep) else os.path.join(os.curdir, path)


def _with_paths(document: Table, convert: Any) -> Table:
    """A copy of a result in which the paths of its inputs are converted, in the options and in the list of inputs."""
    inputs, experiment = document.get("inputs"), document.get("experiment")
    if not isinstance(inputs, list) or not isinstance(experiment, Mapping):
        return document
    known = [each for each in inputs if isinstance(each, Mapping) and isinstance(each.get("path"), str)]
    sections: dict[str, dict[str, str]] = {}
    for each in known:
        sections.setdefault(str(each.get("option")).partition(".")[0], {})[each["path"]] = convert(each["path"])
    changed = {
        section: each_text(experiment[section], partial(_replaced, paths)) for section, paths in sections.items() if section in experiment
    }
    converted = [{**each, "path": convert(each["path"])} for each in known]
    return {**document, "experiment": {**experiment, **changed}, "inputs": converted}


def _replaced(paths: Mapping[str, str], text: str) -> str:
    """The text, with others for paths: that of a path, or of those in `name?key=path`."""
    if text in paths:
        return paths[text]
    name, mark, query = text.partition("?")
    if not mark:
        return text
    parts = [part.partition("=") for part in query.split("&")]
    return name + mark + "&".join(key + equals + paths.get(path, path) for key, equals, path in parts)


def each_text(value: Any, change: Callable[[str], Any]) -> Any:
    """A value with each text in it changed: of a list, or under the keys of a table."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: each_text(each, change) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [each_text(each, change) for each in value]
    return value


def _state(path: str) -> FileState | None:
    """A regular file as it is now, or None."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    return FileState(path, stat.st_size, stat.st_mtime_ns, stat.st_ino) if os.path.isfile(path) else None


@cached("digests", 1 << 14)
def _digest_of(file: FileState) -> str | None:
    import hashlib

    try:
        with open(file.path, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None
