"""Files that one process leaves for the next, in the user's folder for caches.

`ASTRA_CACHE_DIR` names another folder; where it is empty, nothing is kept. A folder that cannot be written, and a file that is not as it
was written, are as if there were none.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import sys

CACHE_VARIABLE = "ASTRA_CACHE_DIR"
_CHECK_BYTES = 4


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


class CacheFile:
    """A file of this environment of Python, by the word for what it holds. Nobody but the user who reads it may have written it."""

    def __init__(self, holds: str) -> None:
        folder = cache_folder()
        environment = binascii.crc32(os.fsencode(f"{sys.prefix}\n{sys.version}\n{sys.flags.optimize}"))
        self._path = os.path.join(folder, f"{holds}-{environment:08x}") if folder else ""

    def read(self) -> bytes | None:
        """What was written last; None: nothing, or something else stands there now."""
        try:
            with open(self._path, "rb") as file:
                if hasattr(os, "geteuid") and os.fstat(file.fileno()).st_uid != os.geteuid():
                    return None
                check, data = file.read(_CHECK_BYTES), file.read()
        except (OSError, ValueError):
            return None
        return data if check == _check(data) else None

    def write(self, data: bytes) -> None:
        """Write it under a name of its own, then give it that of the file, so that who reads at the same time sees the old or the new."""
        if not self._path:
            return
        temporary = f"{self._path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(_check(data) + data)
            os.replace(temporary, self._path)
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.unlink(temporary)


def _check(data: bytes) -> bytes:
    """Tells data from others."""
    return binascii.crc32(data).to_bytes(_CHECK_BYTES, "little")
