"""Digests of options, including the contents of the files that they name.

A text counts as the name of a file if one is called so, or begins so, whatever the option's type: a run too many is better
than figures of another file.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from astra_sim.files import note_input
from astra_sim.memo import Cache

_LOOKS_LIKE_A_FILE = re.compile(r"[./]")
_BLOCK = 1 << 20
_contents: Cache[str, str] = Cache("sweep: contents of files", 1 << 14)
"""Contents of files by name, from one `forget` to the next: all points of a plan have those that it was read with."""

_encode = json.JSONEncoder(sort_keys=True, default=repr).encode


def canonical(value: Any) -> bytes:
    """The same bytes for the same tables, lists and numbers, and for texts that name files of the same contents."""
    text = _encode(value)
    files = [_contents.value(each, partial(_files, each)) for each in _texts(value)]
    return "\n".join([text, *(state for state in files if state)]).encode()


def _texts(value: Any) -> Iterator[str]:
    """All texts in tables and lists that may name a file, those within `name?key=value&...`, too."""
    if isinstance(value, str):
        yield from (part for part in re.split(r"[?&=,]", value) if _LOOKS_LIKE_A_FILE.search(part))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def _files(name: str) -> str:
    """The names and contents, hashed, of a file and of those whose names begin so; "" if there is none."""
    if not os.path.basename(name):
        return ""
    return " ".join(
        f"{os.path.basename(path)}:{_hash(path)}" for path in sorted(glob.glob(f"{glob.escape(name)}*")) if os.path.isfile(path)
    )


def forget() -> None:
    """Read files again from now on."""
    _contents.clear()


def _hash(path: str) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb") as file:
            note_input(file.fileno())
            while block := file.read(_BLOCK):
                hashed.update(block)
    except OSError as error:
        return str(error.strerror)
    return hashed.hexdigest()
