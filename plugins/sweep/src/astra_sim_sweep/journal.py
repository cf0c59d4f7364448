"""The journal of a sweep: the outcome of each run, in a database of SQLite, from the moment it is known."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import attrs
from astra_sim import InputError, RunError

FORMAT = 2
"""Format 1 has no table `packages`, and is read too."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS runs (key BLOB PRIMARY KEY, parameters TEXT NOT NULL, figures TEXT, error TEXT, wall_s REAL NOT NULL)"
    " WITHOUT ROWID"
)
_PACKAGES = "CREATE TABLE IF NOT EXISTS packages (versions TEXT PRIMARY KEY) WITHOUT ROWID"


@attrs.frozen
class JournalRun:
    """A run as the journal has it: the key of its points, the parameters of the first of them, figures or an error, and wall time."""

    key: bytes
    parameters: dict[str, Any]
    figures: dict[str, Any] | None
    error: str | None
    wall_s: float


SYNC_S = 1.0
"""The longest time (s) until added lines are on the disk: waiting for the disk at each run would take longer than short runs."""


class Journal:
    """Runs by key, in a file that one sweep writes at a time. Everything that was added is kept, whatever ends the process.

    A power cut loses at most the rows added in the last SYNC_S seconds, as long as `settle` is called repeatedly. Raises RunError if
    the file cannot be read or written, InputError if it is no journal, or another sweep writes it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = _locked(path)
        self._unsettled_since: float | None = None
        try:
            with self._naming():
                self._database = sqlite3.connect(path, isolation_level=None)
                self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self) -> None:
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if (version, tables) not in ((0, set()), (1, {"runs"}), (FORMAT, {"runs", "packages"})):
            raise InputError(f"{self.path}: this is not the journal of a sweep; expected another name of --output")
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(_TABLE)
        self._database.execute(_PACKAGES)
        self._database.execute(f"PRAGMA user_version = {FORMAT}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._unsettled_since is not None:
            self._sync()
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        os.close(self._lock)

    def __contains__(self, key: bytes) -> bool:
        with self._naming():
            return self._database.execute("SELECT 1 FROM runs WHERE key = ?", (key,)).fetchone() is not None

    def __len__(self) -> int:
        with self._naming():
            count: int = self._database.execute("SELECT count(*) FROM runs").fetchone()[0]
        return count

    def get(self, key: bytes) -> JournalRun | None:
        """The run of a key, if there is one."""
        with self._naming():
            row = self._database.execute("SELECT key, parameters, figures, error, wall_s FROM runs WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            parameters, figures = json.loads(row[1]), None if row[2] is None else json.loads(row[2])
            if isinstance(parameters, dict) and isinstance(figures, dict | None) and isinstance(row[3], str | None):
                return JournalRun(row[0], parameters, figures, row[3], float(row[4]))
        except (TypeError, ValueError, RecursionError):
            pass
        raise RunError(
            f"{self.path}: the run {key.hex()} cannot be read; expected a record written by astra (--overwrite drops the journal)"
        )

    def add(self, runs: Sequence[JournalRun]) -> None:
        """Keep runs: when this returns they are in the file, and no end of this process takes them from there."""
        rows = [(r.key, json.dumps(r.parameters), None if r.figures is None else json.dumps(r.figures), r.error, r.wall_s) for r in runs]
        with self._naming():
            self._database.execute("BEGIN")
            try:
                self._database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", rows)
                self._database.execute("COMMIT")
            except sqlite3.Error:
                with contextlib.suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise
        if self._unsettled_since is None:
            self._unsettled_since = time.monotonic()
        self.settle()

    def settle(self) -> None:
        """Have rows added SYNC_S seconds ago on the disk, if a power cut does not take them."""
        if self._unsettled_since is not None and time.monotonic() - self._unsettled_since >= SYNC_S:
            self._sync()

    def _sync(self) -> None:
        """Wait until the disk has the log of SQLite; rows that it has moved into the database already are there."""
        self._unsettled_since = None
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{self.path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def packages(self) -> list[dict[str, Any]]:
        """The versions of packages with which runs were added."""
        with self._naming():
            texts = [text for (text,) in self._database.execute("SELECT versions FROM packages")]
        try:
            result = [json.loads(text) for text in texts]
        except (TypeError, ValueError, RecursionError):
            result = [None]
        if not all(isinstance(each, dict) for each in result):
            raise RunError(f"{self.path}: versions of packages cannot be read; expected a record written by astra (--overwrite drops it)")
        return result

    def add_packages(self, versions: Mapping[str, Any]) -> None:
        """Note the versions of packages with which runs are to be added."""
        with self._naming():
            self._database.execute("INSERT OR IGNORE INTO packages VALUES (?)", (json.dumps(versions, sort_keys=True),))

    def merge(self, other: Journal) -> int:
        """Take over all runs of another journal, and return how many those are; a run with figures comes before one with an error."""
        for versions in other.packages():
            self.add_packages(versions)
        with other._naming():
            rows = other._database.execute("SELECT key, parameters, figures, error, wall_s FROM runs").fetchall()
        with self._naming():
            self._database.execute("BEGIN")
            self._database.executemany(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET parameters = excluded.parameters,"
                " figures = excluded.figures, error = excluded.error, wall_s = excluded.wall_s"
                " WHERE runs.error IS NOT NULL AND excluded.error IS NULL",
                rows,
            )
            self._database.execute("COMMIT")
        return len(rows)

    def drop_errors(self) -> None:
        """Forget runs that failed, so that they are run again."""
        with self._naming():
            self._database.execute("DELETE FROM runs WHERE error IS NOT NULL")

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error):
                raise InputError(f"{self.path}: this is not the journal of a sweep; expected another name of --output") from None
            raise RunError(f"{self.path}: {error}; finished points are kept, and --resume goes on") from None


def _locked(path: str) -> int:
    """A descriptor of the file, made if it is not there, that holds its lock as long as it is open."""
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InputError(f"{path}: another sweep writes this journal; wait until it has ended, or choose another --output") from None
    return descriptor
