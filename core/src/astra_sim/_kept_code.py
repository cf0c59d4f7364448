"""The bytecode of what attrs and cattrs write, kept from one process to the next.

Both write methods as text, and compile it whenever a process makes a class. Python keeps the bytecode of modules only; here that of
such methods is kept in the folder for caches, with the text that it was compiled from. Where the text is another one, it is compiled
again.

The command `astra` asks for it: in the modules of attrs and cattrs that compile, the word `compile` then means `KeptCode.compile`. Where a
version of theirs has no such module, everything is compiled, as in processes of others, in which nothing is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import marshal
import re
from types import CodeType
from typing import Any

from astra_sim._cache_folder import CacheFile

_HASH_OF_NAME = re.compile(r"^ *-?\d+,$", re.MULTILINE)
"""A line of `__hash__` that tells objects of a class from those of others: a number that attrs draws from the name of the class, another in
each process. One of a process before will do."""


class KeptCode:
    """What was compiled, in this process or in one before, by the name of its file, which attrs and cattrs make of that of the class."""

    def __init__(self) -> None:
        self._file = CacheFile("methods")
        data = self._file.read()
        self._known = _known(data)
        self._is_new = False

    def compile(self, text: str, filename: str, mode: str, *further: Any, **named: Any) -> CodeType:
        """What the function `compile` returns."""
        if mode != "exec" or further or named or not filename.startswith("<"):
            return compile(text, filename, mode, *further, **named)  # type: ignore[no-any-return]
        content = _HASH_OF_NAME.sub("", text) if "def __hash__" in text else text
        known, code = self._known.get(filename, ("", b""))
        if known == content:
            with contextlib.suppress(ValueError, TypeError, EOFError):
                found = marshal.loads(code)
                if isinstance(found, CodeType):
                    return found
        compiled = compile(text, filename, mode)
        self._known[filename] = content, marshal.dumps(compiled)
        self._is_new = True
        return compiled

    def save(self) -> None:
        """Write what has come, for the processes to come."""
        if self._is_new:
            self._file.write(marshal.dumps(self._known))


def _known(data: bytes | None) -> dict[str, tuple[str, bytes]]:
    """What a file holds: a table of texts and their bytecode, by name; nothing where it is something else."""
    with contextlib.suppress(ValueError, TypeError, EOFError):
        found = marshal.loads(data or b"")
        if isinstance(found, dict) and all(map(_is_text_and_code, found, found.values())):
            return found
    return {}


def _is_text_and_code(name: object, each: object) -> bool:
    return isinstance(name, str) and isinstance(each, tuple) and [type(part) for part in each] == [str, bytes]


_kept: list[KeptCode] = []


def keep() -> KeptCode:
    """Keep what attrs compiles from now on, and cattrs where it is `covered`."""
    _kept.append(KeptCode())
    cover("attr._make")
    return _kept[-1]


def cover(module: str) -> None:
    """Where anything is kept, keep what that module compiles."""
    for kept in _kept:
        with contextlib.suppress(ImportError):
            importlib.import_module(module).compile = kept.compile  # type: ignore[attr-defined]
