"""The log of ASTRA-sim 2.x: lines on standard output, and in the files `log.log` and `err.log` of a folder.

A line is `[2026-11-22T12:00:00+01:00] [I] <workload>: TEXT`: time, the first letter of its level, and the part of the simulator. Files are
added to; one of more than 10 MiB is renamed to `log.1.log`, and so on to `log.10.log`.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from astra_sim import AstraError, RunError

_BYTES, _FILES = 10 << 20, 10


class _Lines(logging.Formatter):
    """Records as ASTRA-sim writes them."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] [%(letter)s] <%(name)s>: %(message)s", defaults={"letter": "I"})
        self._second, self._text = -1, ""

    def format(self, record: logging.LogRecord) -> str:
        """A line; its letter is that of the level."""
        record.letter = record.levelname[0]
        return super().format(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 (its name there)
        """The time of a record in ISO 8601, to the second."""
        second = int(record.created)
        if second != self._second:
            local = time.localtime(second)
            zone = time.strftime("%z", local)
            self._second, self._text = second, f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}{zone[:3]}:{zone[3:]}"
        return self._text


class Log:
    """The log of a run: `say` says something in the name of a part of the simulator."""

    def __init__(self, *handlers: logging.Handler) -> None:
        self._handlers = handlers
        for handler in handlers:
            handler.setFormatter(_Lines())

    def say(self, part: str, text: str) -> None:
        """A line on standard output and in log.log."""
        self._write(part, logging.INFO, text)

    def keep_warning(self, part: str, text: str) -> None:
        """A line in the files, where standard error has it already."""
        self._write(part, logging.WARNING, text)

    def keep_error(self, part: str, text: str) -> None:
        """The same of what ends the run."""
        self._write(part, logging.CRITICAL, text)

    def _write(self, part: str, level: int, text: str) -> None:
        record = logging.LogRecord(part, level, "", 0, text.replace("\n", " "), None, None)
        for handler in self._handlers:
            if handler.level <= level and handler.filter(record):
                handler.emit(record)

    def close(self) -> None:
        """Close the files."""
        for handler in self._handlers:
            handler.flush()
            handler.close()


class _Console(logging.StreamHandler[TextIO]):
    """Standard output, for what a run says; what is wrong is told on standard error."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.addFilter(lambda record: record.levelno == logging.INFO)

    def flush(self) -> None:
        """Nothing after each line: the program flushes at its end."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Let the error of a full disk or a closed pipe end the program."""
        raise  # noqa: PLE0704 (called where the error is handled)


@contextlib.contextmanager
def log_in(folder: str) -> Iterator[Log]:
    """A log in a folder, made if it does not exist; what ends the block by an error of its input stands in it. Raises RunError."""
    try:
        os.makedirs(folder, exist_ok=True)
        log = Log(_Console(), _file(folder, "log", logging.DEBUG), _file(folder, "err", logging.ERROR))
    except OSError as error:
        raise RunError(f"--logging-folder {folder}: cannot write {error.filename or folder}: {error.strerror or error}") from None
    try:
        yield log
    except AstraError as error:
        log.keep_error("astra", str(error))
        raise
    finally:
        log.close()


def _file(folder: str, name: str, level: int) -> logging.Handler:
    path = os.path.join(folder, f"{name}.log")
    file = logging.handlers.RotatingFileHandler(path, maxBytes=_BYTES, backupCount=_FILES, encoding="utf-8", errors="backslashreplace")
    file.namer = lambda numbered: f"{path[:-4]}.{numbered.rpartition('.')[2]}.log"
    file.setLevel(level)
    return file
