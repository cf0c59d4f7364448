"""The file of --logging-configuration (TOML): loggers with levels, and further sinks of their lines, as ASTRA-sim 2.x reads it.

`[[sink]]` has `name`, `type`, perhaps `level`, and the keys of its type; `[[logger]]` has `name`, `sinks` (names), perhaps `level` (info).
Lines below a logger's level go nowhere. The lines of sinks are `[2026-11-22T12:00:00+00:00] [I] <workload>: TEXT`: ASTRA-sim sets
this pattern after it has read those of the file.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import warn, warn_of_unknown
from astra_sim.files import parse_toml, read_text

_LEVELS = {
    "trace": 5, "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "err": logging.ERROR,
    "critical": logging.CRITICAL, "off": 100,
}  # fmt: skip
_LETTERS = {5: "T", logging.DEBUG: "D", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "C"}
_TYPE = re.compile(r"(color_stdout|color_stderr|stdout|stderr|basic_file|rotating_file|daily_file|null|syslog)_sink_[sm]t")
_SIZE = re.compile(r"\s*(\d+)\s*([TGMK]?)(?::?B)?\s*", re.IGNORECASE)
_SINK_KEYS = (
    "name", "type", "level", "filename", "base_filename", "create_parent_dir", "truncate", "max_size", "max_files", "rotation_hour",
    "rotation_minute", "ident", "syslog_option", "syslog_facility",
)  # fmt: skip
_LOGGER_KEYS = ("name", "sinks", "level", "pattern", "type", "thread_pool", "overflow_policy")
_WITHOUT_EFFECT = ("global_pattern", "pattern", "thread_pool", "global_thread_pool")


class _ConfigurationLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        zone = time.strftime("%z", time.localtime(record.created))
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(record.created))
        return f"[{moment}{zone[:3]}:{zone[3:]}] [{_LETTERS[record.levelno]}] <{record.name}>: {record.getMessage()}"


@attrs.frozen
class LogConfiguration:
    """The least level and the sinks of loggers by name."""

    levels: Mapping[str, int] = {}
    sinks: Mapping[str, Sequence[logging.Handler]] = {}

    def close(self) -> None:
        """Close the files."""
        for handler in {id(each): each for sinks in self.sinks.values() for each in sinks}.values():
            handler.flush()
            handler.close()


def read_log_configuration(path: str) -> LogConfiguration:
    """The configuration in a file. Raises InputError naming file, table and key; OSError if a file of it cannot be written."""
    table = parse_toml(read_text(path), path)
    for key in table:
        if key in _WITHOUT_EFFECT:
            warn(f"{path}: {key} has no effect on the log; ASTRA-sim 2.x sets the pattern of all lines")
    warn_of_unknown(path, table, ("sink", "logger", *_WITHOUT_EFFECT))
    tables = _tables(table, "sink", path)
    if not tables:
        raise InputError(f"{path}: there is no [[sink]]; expected at least one")
    sinks = {str(_needed(each, "name", where)): _sink(each, where) for each, where in tables}
    levels, of_logger = {}, {}
    for each, where in _tables(table, "logger", path):
        warn_of_unknown(where, each, _LOGGER_KEYS)
        name, named = str(_needed(each, "name", where)), _needed(each, "sinks", where)
        if not isinstance(named, list) or any(sink not in sinks for sink in named):
            raise InputError(f"{where}: sinks is {named!r}; expected a list of names of sinks: {', '.join(sinks)}")
        levels[name] = _level(each, where, logging.INFO)
        of_logger[name] = [sinks[sink] for sink in named]
    return LogConfiguration(levels, of_logger)


def _tables(table: Mapping[str, Any], key: str, path: str) -> list[tuple[dict[str, Any], str]]:
    listed = table.get(key, [])
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InputError(f"{path}: {key} is {str(listed)[:80]!r}; expected tables [[{key}]]")
    return [(each, f"{path}: {key} {each.get('name', number)!r}") for number, each in enumerate(listed, 1)]


def _needed(table: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in table:
        raise InputError(f"{where}: {key} is missing")
    return table[key]


def _level(table: Mapping[str, Any], where: str, default: int) -> int:
    name = table.get("level")
    if name is not None and name not in _LEVELS:
        raise InputError(f"{where}: level is {name!r}; expected {', '.join(_LEVELS)}")
    return default if name is None else _LEVELS[name]


def _sink(table: Mapping[str, Any], where: str) -> logging.Handler:
    """The logging handler of a table in the file, with its level. Raises InputError."""
    warn_of_unknown(where, table, _SINK_KEYS)
    kind = _needed(table, "type", where)
    known = _TYPE.fullmatch(str(kind))
    if known is None:
        raise InputError(
            f"{where}: type is {kind!r}; expected such as stdout_sink_mt, basic_file_sink_mt, rotating_file_sink_mt, null_sink_mt"
        )
    sink = _handler(known[1], table, where)
    sink.setLevel(_level(table, where, _LEVELS["trace"]))
    sink.setFormatter(_ConfigurationLines())
    return sink


def _handler(kind: str, table: Mapping[str, Any], where: str) -> logging.Handler:
    """The logging handler for a kind of spdlog sink."""
    if kind == "syslog":
        warn(f"{where}: syslog_sink has no effect; its lines are not written")
    if kind in ("null", "syslog"):
        return logging.NullHandler()
    if kind.endswith(("stdout", "stderr")):
        return logging.StreamHandler(sys.stdout if kind.endswith("stdout") else sys.stderr)
    path = str(_needed(table, "filename" if kind == "basic_file" else "base_filename", where))
    if table.get("create_parent_dir"):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if kind == "rotating_file":
        size, count = _SIZE.fullmatch(str(_needed(table, "max_size", where))), _needed(table, "max_files", where)
        if size is None or type(count) is not int or count < 0:
            raise InputError(
                f"{where}: max_size is {table['max_size']!r} and max_files {count!r}; expected such as '10M' and a number of files"
            )
        limit = int(size[1]) << 10 * " KMGT".index(size[2].upper() or " ")
        from logging.handlers import RotatingFileHandler  # its imports are not needed by a short run

        return RotatingFileHandler(path, maxBytes=limit, backupCount=count, encoding="utf-8")
    if kind == "daily_file":
        base, extension = os.path.splitext(path)
        path = f"{base}_{time.strftime('%Y-%m-%d')}{extension}"
    return logging.FileHandler(path, "w" if table.get("truncate") else "a", encoding="utf-8")
