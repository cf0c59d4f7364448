"""The log of ASTRA-sim 2.x: lines on standard output, and in the files `log.log` and `err.log` of a folder.

A line is `[2026-11-22 12:00:00.123] [workload] [info] TEXT`: local time, the part of the simulator, and the level. Files are added to; one
of more than 10 MiB is renamed to `log.1.log`, and so on to `log.10.log`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TextIO

from astra_sim import AstraError, RunError

from astra_sim_compat import early_warnings
from astra_sim_compat.log_configuration import LogConfiguration, read_log_configuration

_BYTES, _FILES = 10 << 20, 10
NO_FILE = "empty"
"""The value of an option that names no file."""


class _LogLines(logging.Formatter):
    """Records as ASTRA-sim writes them."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s.%(msecs)03d] [%(name)s] [%(level)s] %(message)s", defaults={"level": ""})
        self._second, self._text = -1, ""

    def format(self, record: logging.LogRecord) -> str:
        """A line, with the level in lower case."""
        record.level = record.levelname.lower()
        return super().format(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 (its name there)
        """The local time of a record, to the second."""
        second = int(record.created)
        if second != self._second:
            self._second, self._text = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return self._text


class Log:
    """The log of a run: `say` writes a line in the name of a part of the simulator."""

    def __init__(self, *handlers: logging.Handler, configured: LogConfiguration) -> None:
        self._handlers, self._configured = handlers, configured
        for handler in handlers:
            handler.setFormatter(_LogLines())

    def say(self, part: str, text: str, level: int = logging.INFO) -> None:
        """A line on standard output and in log.log."""
        self._write(part, level, text, shown=True)

    def note(self, part: str, text: str) -> None:
        """A line of level debug, in log.log alone."""
        self._write(part, logging.DEBUG, text)

    def keep_warning(self, part: str, text: str) -> None:
        """A line in log.log alone: callers take a line on standard error for a failure, and compare standard output."""
        self._write(part, logging.WARNING, text)

    @contextlib.contextmanager
    def without(self, words: Sequence[str]) -> Iterator[None]:
        """Keep no warning of the block that has some of these words in it."""
        show = warnings.showwarning
        warnings.showwarning = lambda message, *rest, **more: (
            None if any(each in str(message) for each in words) else show(message, *rest, **more)
        )
        try:
            yield
        finally:
            warnings.showwarning = show

    def keep_error(self, part: str, text: str) -> None:
        """A line in both files, about the error that ends the run; standard error has it already."""
        self._write(part, logging.CRITICAL, text)

    def _write(self, part: str, level: int, text: str, shown: bool = False) -> None:
        if level < self._configured.levels.get(part, level):
            return
        record = logging.LogRecord(part, level, "", 0, text.replace("\n", " "), None, None)
        record.shown = shown
        for handler in (*self._configured.sinks.get(part, ()), *self._handlers):
            if handler.level <= level and handler.filter(record):
                handler.emit(record)

    def close(self) -> None:
        """Close the files."""
        for handler in self._handlers:
            handler.flush()
            handler.close()
        self._configured.close()


class _Console(logging.StreamHandler[TextIO]):
    """Standard output for results; errors go to standard error."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.addFilter(lambda record: bool(vars(record)["shown"]))

    def flush(self) -> None:
        """Nothing after each line: the program flushes at its end."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Let the error of a full disk or a closed pipe end the program."""
        raise  # noqa: PLE0704 (called while the error is handled)


@contextlib.contextmanager
def log_in(folder: str, configuration: str = NO_FILE) -> Iterator[Log]:
    """A log in a folder, made if it does not exist. Warnings of the block go to it, and an error that ends the block.

    `configuration` is the file of --logging-configuration. Raises RunError if the log cannot be written, and InputError.
    """
    option = f"--logging-configuration {configuration}"
    try:
        configured = LogConfiguration() if configuration == NO_FILE else read_log_configuration(configuration)
        option = f"--logging-folder {folder}"
        os.makedirs(folder, exist_ok=True)
        log = Log(_Console(), _file(folder, "log", logging.DEBUG), _file(folder, "err", logging.ERROR), configured=configured)
    except OSError as error:
        raise RunError(f"{option}: cannot write {error.filename or folder}: {error.strerror or error}") from None
    shown = warnings.showwarning
    warnings.showwarning = lambda message, *rest, **more: log.keep_warning("astra", str(message))
    for text in early_warnings.take():
        log.keep_warning("astra", text)
    try:
        yield log
    except AstraError as error:
        log.keep_error("astra", str(error))
        raise
    finally:
        warnings.showwarning = shown
        log.close()


class _RenamedFile(logging.FileHandler):
    """A file that is renamed when it is full: `log.log` becomes `log.1.log`, and that `log.2.log`; the last one goes.

    The class of the standard library that does so imports sockets and pickles.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, behind a full file to a new one."""
        if self.stream is not None and self.stream.tell() >= _BYTES:
            self.close()
            stem, extension = os.path.splitext(self.baseFilename)
            names = [self.baseFilename, *(f"{stem}.{number}{extension}" for number in range(1, _FILES + 1))]
            for number in reversed(range(_FILES)):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(names[number], names[number + 1])
            self.stream = self._open()
        super().emit(record)


def _file(folder: str, name: str, level: int) -> logging.Handler:
    file = _RenamedFile(os.path.join(folder, f"{name}.log"), encoding="utf-8", errors="backslashreplace")
    file.setLevel(level)
    return file
