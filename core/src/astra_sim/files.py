"""Input files, read with errors that name file and line; output files, written as a set.

Each file of a set is written under a temporary name beside its own, and renamed when all are complete. So a full disk, a missing
permission or Ctrl-C leaves earlier files as they were.

Code that reads an input file notes it (`read_text` does, others call `note_input`), so that a command does not replace a file that it has
read (`guarded_inputs`), and cached content is read again if any file that it came from has changed (`ReadTexts`).

Examples:

Read files with errors that name file and line:

    >>> from pathlib import Path
    >>> from astra_sim.files import FileSet, csv_table, finite_number, parse_json, parse_toml, read_text, whole_number
    >>> _ = Path("links.csv").write_text("source,target,gb_per_s\\n0,1,25\\n1,0,fast\\n")
    >>> rows = csv_table(read_text("links.csv"), "links.csv", needed=("source", "target", "gb_per_s"))
    >>> (here, first), (there, second) = rows
    >>> whole_number(first["source"], here), finite_number(first["gb_per_s"], f"{here}: gb_per_s", above=0)
    (0, 25.0)
    >>> finite_number(second["gb_per_s"], f"{there}: gb_per_s", above=0)
    Traceback (most recent call last):
        ...
    astra_sim.errors.InputError: links.csv:3: gb_per_s is 'fast'; expected a number above 0
    >>> parse_toml("[platform]\\nsize = 8\\n", "experiment.toml")["platform"]
    {'size': 8}
    >>> parse_json('{"size": 8,}', "platform.json")
    Traceback (most recent call last):
        ...
    astra_sim.errors.InputError: platform.json:1: not JSON: Expecting property name enclosed in double quotes (column 12)

Write files that appear together, or not at all:

    >>> with FileSet() as files:
    ...     files.write("times.csv", ["rank,ns\\n", "0,12.5\\n"])
    >>> Path("times.csv").read_text()
    'rank,ns\\n0,12.5\\n'
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import signal
import stat
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import IO, Any, Self

from astra_sim.errors import InputError, RunError, suggestion
from astra_sim.limits import MAX_CELL, MAX_FILE_BYTES, MAX_VALUES

__all__ = [
    "FileSet",
    "csv_table",
    "finite_number",
    "parse_json",
    "parse_toml",
    "read_text",
    "whole_number",
]

FilePath = str | os.PathLike[str]
Table = dict[str, Any]

# -- Reading -----------------------------------------------------------------------------------------------------------


def read_text(path: str, is_input: bool = True) -> str:
    """The text of a file: UTF-8, with or without byte order mark, any line ends. Raises InputError.

    A file that a command reads in order to extend it is no input (`is_input`).
    """
    return decoded(_read(path, is_input), path)


def read_packed_text(path: str) -> str:
    """The text of a file as `read_text` gives it; the file may be gzipped. Raises InputError."""
    data = _read(path, True)
    if data.startswith(GZIP):
        import gzip
        import io

        with naming_gzip(path), gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            data = limited(file, path).read()  # type: ignore[arg-type]
    return decoded(data, path)


GZIP = b"\x1f\x8b"
"""The first bytes of a gzipped file."""


@contextlib.contextmanager
def naming_gzip(path: str) -> Iterator[None]:
    """Within the block, that a gzipped file is damaged is an InputError that names it."""
    import gzip
    import zlib

    try:
        yield
    except EOFError:
        raise InputError(f"{path}: the gzip file was cut off") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: the gzip file is damaged: {error}") from None


def limited(file: IO[bytes], path: str, most: int = MAX_FILE_BYTES) -> IO[bytes]:
    """A file that is unpacked while it is read: InputError if it has more than `most` bytes."""
    return _Limited(file, path, most)  # type: ignore[return-value]


class _Limited:
    def __init__(self, file: IO[bytes], path: str, most: int) -> None:
        self._file, self._path, self._most, self._left = file, path, most, most

    def read(self, size: int = -1) -> bytes:
        """As that of a file."""
        data = self._file.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise InputError(f"{self._path}: more than {self._most} bytes of content; expected at most that")
        return data


def _read(path: str, is_input: bool) -> bytes:
    """The content of a file, noted for provenance. Raises InputError if it cannot be read or is too large."""
    try:
        with open(path, "rb") as file:
            if is_input:
                note_input(file.fileno())
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        _note_content(path, None)
        raise InputError(f"{path!r}: {getattr(error, 'strerror', None) or error}") from None
    _note_content(path, data)
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"{path}: the file has more than {MAX_FILE_BYTES} bytes, the most that an input file may have")
    return data


def decoded(data: bytes, path: str) -> str:
    """The text of a file of those bytes, as `read_text` gives it. Raises InputError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file (byte {data[error.start]:#04x} at position {error.start})") from None
    if "\0" in text:
        raise InputError(f"{path}: not a text file (zero byte at position {text.index(chr(0))})")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_there(path: str) -> bool:
    """Whether there is such a file: as `os.path.exists`, for cached content of files (`ReadTexts`)."""
    there = os.path.exists(path)
    if not there:
        _note_content(path, None)
    return there


def parse_toml(text: str, path: str) -> Table:
    """A TOML file's table. Raises InputError naming the file and line."""
    import tomli

    try:
        return tomli.loads(text)
    except (tomli.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from None
    except ValueError:  # a whole number that Python does not convert
        raise InputError(f"{path}: a number has more than {sys.get_int_max_str_digits()} digits") from None


def _whole(digits: str) -> int:
    if len(digits) > sys.get_int_max_str_digits():
        raise ValueError(f"a number has {len(digits)} digits; expected at most {sys.get_int_max_str_digits()}")
    return int(digits)


def parse_json(text: str, path: str, line: int | None = None, once: bool = True) -> Any:
    """The value of a JSON file, or of one line of it. Raises InputError naming the file and line.

    A key that occurs twice in an object is an error, too, unless the program that wrote the file does that (not `once`).
    """
    import json

    values = text.count(",") + text.count("[") + text.count("{")
    if values > MAX_VALUES:
        raise InputError(f"{path}: more than {MAX_VALUES} values in a file of JSON; expected at most that")
    try:
        return json.loads(text, object_pairs_hook=_once if once else None, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{line or error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> Table:
    """An object in which no key occurs twice."""
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} is given twice")
    return table


def is_whole(text: str) -> bool:
    """Whether a text is a whole number in plain digits, of at most 19."""
    return text.isdecimal() and text.isascii() and len(text) < 20


def whole_number(value: Any, where: str, least: int = 0, most: int = 1 << 62) -> int:
    """A number from a file: plain digits in a cell of CSV, a number in JSON. Raises InputError that begins with `where`."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= 20 else value
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise InputError(f"{where} is {number!r}; expected a whole number from {least} to {most}")
    return number


def finite_number(value: Any, where: str, least: float = 0, most: float = math.inf, above: float | None = None, unit: str = "") -> float:
    """A number from a file or an option: a text such as a cell of CSV, or a number of JSON, YAML or TOML.

    It is at least `least`, or more than `above`; at most `most`, and not infinite. `unit` is named in messages. Raises InputError that
    begins with `where`.
    """
    number = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = math.nan
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not least <= number <= most or number == math.inf or (above is not None and number <= above):
        has_most = most < 1e9 or (is_number and number > most)
        if above is None and has_most:
            expected = f"from {least:g} to {most:g}"
        else:
            expected = f"above {above:g}" if above is not None else f"of at least {least:g}"
            expected += f" and at most {most:g}" if has_most else ""
        shown = repr(value.strip()) if isinstance(value, str) else repr(value)
        raise InputError(f"{where} is {shown:.80}; expected a number {expected}{unit and f', in {unit}'}")
    return number  # type: ignore[no-any-return]


def csv_rows(text: str, path: str, plain: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of CSV, each with the number of its last line. Raises InputError naming file and line.

    Blanks around cells, rows of empty cells and comments (#) are left out, unless the cells are wanted as they are (`plain`).
    """
    import csv
    import io

    rows = csv.reader(io.StringIO(text))
    try:
        for row in rows:
            cells = row if plain else [cell.strip() for cell in row]
            if cells and (plain or (any(cells) and not cells[0].startswith("#"))):
                yield rows.line_num, cells
    except csv.Error as error:
        reason = f"a cell has more than {MAX_CELL} characters; expected at most that" if "field limit" in str(error) else error
        raise InputError(f"{path}:{rows.line_num}: {reason}") from None


class _Lines:
    """A file-like object for csv writers: its `writerow` returns the line."""

    @staticmethod
    def write(line: str) -> str:
        return line


def csv_lines(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Each row as a line of CSV with its end. None is an empty cell; a text is quoted if it has to be."""
    import csv

    return map(csv.writer(_Lines(), lineterminator="\n").writerow, rows)


def csv_table(text: str, path: str, needed: Sequence[str], optional: Sequence[str] | None = ()) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of CSV below a heading, by its columns, each with its file and line for messages. `optional` None: any other columns.

    Raises InputError for a column that is unknown, missing or there twice, and for a row that has not as many cells as the heading.
    """
    rows = csv_rows(text, path)
    first, heading = next(rows, (1, []))
    if not heading:
        raise InputError(f"{path}: it is empty; expected a heading with {', '.join(needed)}")
    check_columns(heading, f"{path}:{first}", needed, (*needed, *(heading if optional is None else optional)))
    for number, cells in rows:
        where = f"{path}:{number}"
        check_cells(cells, heading, where)
        yield where, dict(zip(heading, cells, strict=True))


def check_columns(heading: Sequence[str], where: str, needed: Sequence[str], known: Sequence[str]) -> None:
    """Raise InputError if a heading has a column that is unknown or there twice, or has not one that is needed."""
    for name in heading:
        if name not in known:
            raise InputError(f"{where}: unknown column {name!r:.80}; {suggestion(name, known)}")
    check_once(heading, where)
    for name in needed:
        if name not in heading:
            raise InputError(f"{where}: the column {name} is missing; expected {', '.join(needed)}")


def check_once(heading: Sequence[str], where: str) -> None:
    """Raise InputError if a column of a heading is there twice."""
    if len(set(heading)) < len(heading):
        twice = next(name for name in heading if heading.count(name) > 1)
        raise InputError(f"{where}: the column {twice!r:.80} is given twice")


def check_cells(cells: Sequence[str], heading: Sequence[str], where: str) -> None:
    """Raise InputError if a row has not as many cells as its heading."""
    if len(cells) != len(heading):
        raise InputError(f"{where}: {len(cells)} cells under {len(heading)} headings; expected one for each, empty where there is nothing")


# -- Noted inputs ------------------------------------------------------------------------------------------------------

_inputs: list[set[tuple[int, int]]] = []
"""Device and inode of each file that the command has read; empty: there is no command."""

_recorders: list[ReadTexts] = []


@contextlib.contextmanager
def guarded_inputs() -> Iterator[None]:
    """Within the block, which is a command or a part of one, no FileSet replaces a file that was read there."""
    _inputs.append(_inputs[-1] if _inputs else set())
    try:
        yield
    finally:
        _inputs.pop()


def note_input(file: FilePath | int) -> None:
    """Say that a file, by its path or an open descriptor, is an input of the command. One that is not there is none."""
    if _inputs and (identity := _identity(file)) is not None:
        _inputs[-1].add(identity)


def _identity(file: FilePath | int) -> tuple[int, int] | None:
    """Device and inode of a regular file; None: there is none."""
    with contextlib.suppress(OSError, ValueError):
        status = os.stat(file)
        if stat.S_ISREG(status.st_mode):
            return status.st_dev, status.st_ino
    return None


def check_output(path: FilePath) -> None:
    """Raise InputError if a path to write to is a file that the command has read."""
    if _inputs and _identity(path) in _inputs[-1]:
        raise InputError(f"cannot write {os.fspath(path)}: it is an input of this command; expected another name")


def check_words(inputs: Iterable[str], outputs: Sequence[str]) -> None:
    """Raise InputError if one of the paths to write to is the same file as one of those to read; others need not be paths."""
    files = {identity: path for path in outputs if (identity := _identity(path)) is not None}
    for word in inputs if files else ():
        identity = _identity(word)
        if identity in files:
            raise InputError(f"cannot write {files[identity]}: it is an input of this command; expected another name")


class ReadTexts:
    """The files that `read_text` reads within a `with` block, and those that were looked for there, with their contents then."""

    def __init__(self) -> None:
        self._contents: dict[tuple[str, str], bytes | None] = {}

    def __enter__(self) -> Self:
        _recorders.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _recorders[:] = [each for each in _recorders if each is not self]

    def note(self, path: str, data: bytes | None) -> None:
        """Take note of a file, with a digest of its content, or None if it cannot be read."""
        self._contents.setdefault((path, os.path.abspath(path)), None if data is None else _digest(data))

    def are_the_same(self) -> bool:
        """Whether they all still have the noted content."""
        for (path, absolute), content in self._contents.items():
            if os.path.abspath(path) != absolute:
                return False  # the working directory is another one
            try:
                with open(path, "rb") as file:
                    note_input(file.fileno())
                    now = _digest(file.read(MAX_FILE_BYTES + 1))
            except (OSError, ValueError):
                now = None
            if now != content:
                return False
        return True


def _note_content(path: str, data: bytes | None) -> None:
    for recorder in _recorders:
        recorder.note(path, data)


_LONGEST_KEPT = 1 << 16


def _digest(data: bytes) -> bytes:
    """A cache key for data: the data themselves, or a digest of long ones, which are not stored."""
    if len(data) <= _LONGEST_KEPT:
        return data
    import hashlib

    return hashlib.sha256(data).digest()


# -- Interrupts --------------------------------------------------------------------------------------------------------

_INTERRUPTS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name))


def interrupt_on_sigterm() -> None:
    """Let SIGTERM, with which batch systems and containers end a process, act like Ctrl-C, unless the caller has it ignored."""
    with contextlib.suppress(ValueError, AttributeError):  # not the main thread
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)


class _Undisturbed:
    """A block within which interrupts wait; they come at its end. Another thread than the main one gets none anyway."""

    def __enter__(self) -> None:
        self._came: list[tuple[int, Any]] = []
        self._handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in _INTERRUPTS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, lambda number, frame: self._came.append((number, frame)))

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number, frame in self._came[:1]:
            self._handlers[number](number, frame)


# -- Writing -----------------------------------------------------------------------------------------------------------


class FileSet:
    """Files that take their names together, at the end of a `with` block; if the block raises, none does.

    `names` are the paths so far, in the order in which they were begun. Folders that are not there are made. A file that was there keeps
    its permissions, and must be writable. Behind a symbolic link the file that it leads to is replaced. Devices and pipes have nothing to
    keep and are written directly. Every failure is a RunError that names the file; a file that the command has read is not replaced, which
    is an InputError. Interrupts wait while files take their names.
    """

    def __init__(self) -> None:
        self._written: list[tuple[str, str]] = []  # temporary name, name
        self._folders: list[str] = []
        self.names: list[str] = []
        self._token = os.urandom(8).hex()
        # An interrupt may come before the block has ended, or at the begin of its end: then this is called when the set goes.
        self._discard = weakref.finalize(self, _discard, os.getpid(), self._written, self._folders)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with _Undisturbed():
            try:
                if error is None:
                    self._rename()
                    self._discard.detach()
            finally:
                self._discard()

    def make_folder(self, path: FilePath) -> None:
        """Make a folder and those above it, if they are not there; they go again if the set is not completed. Raises RunError."""
        with _naming(path):
            missing = []
            folder = os.path.abspath(_checked(path))
            while not os.path.lexists(folder):
                missing.append(folder)
                folder = os.path.dirname(folder)
            self._folders += reversed(missing)
            os.makedirs(path, exist_ok=True)

    @contextlib.contextmanager
    def temporary(self, path: FilePath) -> Iterator[str]:
        """The name under which the file `path` is to be written within the block. Raises RunError."""
        with _naming(path):
            temporary, descriptor = self._begin(path)
            if descriptor is not None:
                os.close(descriptor)
            yield temporary

    def _begin(self, path: FilePath) -> tuple[str, int | None]:
        """The temporary name of a file, and a descriptor of it, newly made; its own name and None if it is written directly."""
        mode, target = None, os.fspath(_checked(path))
        self.names.append(target)
        target = _of_output(target)
        if os.path.lexists(target):
            mode = _mode(target)
            if mode is not None and not stat.S_ISREG(mode):
                return target, None
            check_output(target)
            target = os.path.realpath(target)
        folder = os.path.dirname(target)
        if folder and not os.path.lexists(folder):
            self.make_folder(folder)
        temporary = os.path.join(os.path.dirname(target), f".astra-{self._token}-{len(self._written)}.tmp")
        self._written.append((temporary, target))
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if mode is not None:
            try:
                os.chmod(temporary, stat.S_IMODE(mode))
            except BaseException:
                os.close(descriptor)
                raise
        return temporary, descriptor

    @contextlib.contextmanager
    def open(self, path: FilePath, mode: str = "w", errors: str = "strict") -> Iterator[IO[Any]]:
        """A file to write: "w" for text in UTF-8, whose line ends stay as they are, "wb" for bytes. Raises RunError."""
        text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "errors": errors, "newline": ""}
        with _naming(path):
            temporary, descriptor = self._begin(path)
            with open(temporary if descriptor is None else descriptor, mode, **text) as file:
                yield file

    def write(self, path: FilePath, text: Iterable[str], errors: str = "strict") -> None:
        """A whole file of text in UTF-8, whose line ends stay as they are, piece by piece. Raises RunError.

        Without the layers of `open`, a small file is one call of the system to write, beside those to open and to close it.
        """
        with _naming(path):
            temporary, descriptor = self._begin(path)
            if descriptor is None:
                descriptor = os.open(temporary, os.O_WRONLY | getattr(os, "O_BINARY", 0))
            try:
                for block in _blocks(text):
                    data = memoryview(block.encode("utf-8", errors))
                    while data:
                        data = data[os.write(descriptor, data) :]
            finally:
                os.close(descriptor)

    def _rename(self) -> None:
        """Give all files their names. If one cannot take its own, the earlier ones are put back."""
        begun: list[tuple[str, str]] = []
        backups: list[str] = []
        try:
            for temporary, target in self._written:
                begun.append((temporary, target))
                if os.path.lexists(target):
                    backups.append(_backup_of(temporary))
                    with _naming(target):
                        _keep(target, backups[-1])
                try:
                    os.replace(temporary, target)
                except OSError as error:
                    raise _cannot_write(target, error) from None
        except BaseException:
            for temporary, target in reversed(begun):
                _put_back(temporary, target)
            raise
        finally:
            for old in backups:
                _remove(old)


def _discard(process: int, written: list[tuple[str, str]], folders: list[str]) -> None:
    """Delete temporary files, and the folders that were made for them, unless in a copy of the process that has them."""
    if os.getpid() != process:
        return
    for temporary, _ in written:
        _remove(temporary)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


_BLOCK = 1 << 20
"""Characters that are written at once."""


def _blocks(text: Iterable[str]) -> Iterator[str]:
    """Pieces of text, as few as _BLOCK allows."""
    pieces, gathered, size = iter(text), list[str](), 0
    while several := list(itertools.islice(pieces, 64)):
        gathered.append("".join(several))
        size += len(gathered[-1])
        if size >= _BLOCK:
            yield "".join(gathered)
            gathered, size = [], 0
    if size:
        yield "".join(gathered)


@contextlib.contextmanager
def _naming(path: FilePath) -> Iterator[None]:
    """Errors within the block become a RunError that names a file. A closed pipe stays a BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, UnicodeError) as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: FilePath, error: Exception) -> RunError:
    return RunError(f"cannot write {os.fspath(path)}: {getattr(error, 'strerror', None) or error}")


def _checked(path: FilePath) -> FilePath:
    """The path. Raises RunError if it cannot be one."""
    if "\0" in os.fspath(path):
        raise RunError(f"cannot write {os.fspath(path)!r}: a file name cannot contain a zero byte")
    return path


_output: list[int] = []
"""The descriptor of standard output, if the command has moved it."""

_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
_MOST_LINKS = 40


def move_output(descriptor: int) -> None:
    """Say that standard output has another descriptor than 1: paths such as /dev/stdout are written there."""
    _output[:] = [descriptor]


def _of_output(path: str) -> str:
    """The path of standard output if a path leads to descriptor 1 and that has been moved; else the path."""
    target = path
    for _ in range(_MOST_LINKS if _output and os.name == "posix" else 0):
        folder, name = os.path.split(target)
        if name in ("1", "stdout") and (target == "/dev/stdout" or os.path.realpath(folder) in map(os.path.realpath, _DESCRIPTORS)):
            return f"/dev/fd/{_output[0]}"
        if not os.path.islink(target):
            break
        target = os.path.join(folder, os.readlink(target))
    return path


def _mode(path: FilePath) -> int | None:
    """The mode of the file to write; None if it does not exist. Raises OSError if it cannot be written."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return mode


def _backup_of(temporary: str) -> str:
    """The place of the file that a temporary one replaces, until all files of the set have their names."""
    return f"{temporary}.old"


def _keep(target: str, backup: str) -> None:
    """Keep a file under a second name; if the file system has no links, under that name only."""
    try:
        os.link(target, backup)
    except FileNotFoundError:
        return
    except OSError:
        os.rename(target, backup)


def _put_back(temporary: str, target: str) -> None:
    """Undo a renaming, wherever it stopped."""
    with contextlib.suppress(OSError):
        if os.path.lexists(_backup_of(temporary)):
            os.replace(_backup_of(temporary), target)
        elif not os.path.lexists(temporary):
            os.unlink(target)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
