"""Files that one process leaves for the next, in the user's folder for caches.

`ASTRA_CACHE_DIR` names another folder; if it is empty, nothing is kept. A folder that cannot be written, and a file that is not as it
was written, count as absent. Files name the modules to import: so they are read only if no other user can have
written them, and folders and files are made for the user alone, whatever the umask is.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import stat
import sys

CACHE_VARIABLE = "ASTRA_CACHE_DIR"
_CHECK_BYTES = 4


def cache_folder() -> str:
    """The folder for caches of `astra`: that of `ASTRA_CACHE_DIR`, else the system's default; empty: none."""
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
    """A file of this environment of Python, named after its content. Only the user who reads it may have written it."""

    def __init__(self, holds: str) -> None:
        folder = cache_folder()
        environment = binascii.crc32(os.fsencode(f"{sys.prefix}\n{sys.version}\n{sys.flags.optimize}"))
        self._path = os.path.join(folder, f"{holds}-{environment:08x}") if folder else ""

    def read(self) -> bytes | None:
        """The file that was written last; None: none, or it has been replaced since."""
        if not self._path:
            return None
        try:
            if not _is_safe(os.stat(os.path.dirname(self._path)), is_folder=True):
                return None
            # A pipe is opened without a wait for its writer.
            with open(os.open(self._path, os.O_RDONLY | _NO_WAIT | _NO_LINK | getattr(os, "O_BINARY", 0)), "rb") as file:
                if not _is_safe(os.fstat(file.fileno())):
                    return None
                check, data = file.read(_CHECK_BYTES), file.read()
        except (OSError, ValueError):
            return None
        return data if check == _check(data) else None

    def write(self, data: bytes) -> None:
        """Write it under a name of its own, then give it that of the file, so that who reads at the same time sees the old or the new."""
        if not self._path:
            return
        temporary = f"{self._path}.{os.urandom(8).hex()}"
        folder = os.path.dirname(self._path)
        try:
            _make_folder(folder)
            status = os.stat(folder)
            if not _is_safe(status, is_folder=True):
                if CACHE_VARIABLE in os.environ or not _is_safe(status, is_folder=True, ignore_mode=True):
                    return
                os.chmod(folder, _FOLDER_MODE)  # of a former version, made under another umask
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), _FILE_MODE)
            with open(descriptor, "wb") as file:
                os.chmod(temporary, _FILE_MODE)
                file.write(_check(data) + data)
            os.replace(temporary, self._path)
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.unlink(temporary)


_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NO_WAIT, _NO_LINK = getattr(os, "O_NONBLOCK", 0), getattr(os, "O_NOFOLLOW", 0)


def _is_safe(entry: os.stat_result, is_folder: bool = False, ignore_mode: bool = False) -> bool:
    """Whether only the user and the administrator can have written a file, or put one into a folder in place of another.

    In a sticky folder, such as /tmp, no other user can replace files.
    """
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(entry.st_mode):
        return False
    if not hasattr(os, "geteuid"):
        return True  # Windows keeps the folders of users apart
    owners = {0, os.geteuid()} if is_folder else {os.geteuid()}
    is_closed = not entry.st_mode & _OTHERS_WRITE or (is_folder and entry.st_mode & stat.S_ISVTX)
    return entry.st_uid in owners and (ignore_mode or bool(is_closed))


def _make_folder(folder: str) -> None:
    """Make a folder and those above it, if they are not there, for the user alone."""
    missing = []
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process has made it
            os.mkdir(each, _FOLDER_MODE)
            os.chmod(each, _FOLDER_MODE)


def _check(data: bytes) -> bytes:
    """Tells data from others."""
    return binascii.crc32(data).to_bytes(_CHECK_BYTES, "little")
