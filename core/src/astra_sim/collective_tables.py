"""Tables of measured collectives: output of nccl-tests or rccl-tests, as text or JSON (-J), or CSV with a heading.

Sizes are those of nccl-tests: of an all-gather the bytes of each rank at the end, of the others those at the start.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from astra_sim.errors import InputError, suggestion, warn_of_unknown
from astra_sim.files import csv_table, is_whole, parse_json
from astra_sim.schedule import Collective

COLUMNS = ("operation", "ranks", "bytes", "microseconds")
_OTHER_NAMES = {"alltoall": "all_to_all", "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
_PROGRAM = r"(all_reduce|all_gather|reduce_scatter|alltoall)_perf"
_LONGEST_US = 1e12
_NCCL_HEADING = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong")
"""Columns of nccl-tests up to the errors found; older versions have no `root` for some operations, and `error` for `#wrong`."""
_NCCL_NUMBERS = ("size", "count", "time", "algbw", "busbw")
"""Columns that hold numbers. A line with as many numbers is a row, even if one of them is damaged."""


class MeasuredCollective(NamedTuple):
    """A collective that was measured; `nodes` is the number of its hosts, None if unknown."""

    operation: Collective
    ranks: int
    bytes: int
    microseconds: float
    nodes: int | None = None


def operation_of(name: str, where: str) -> Collective:
    """The operation of a name, as we or nccl-tests write it. Raises InputError."""
    plain = name.strip().lower().removesuffix("_perf")
    plain = _OTHER_NAMES.get(plain.replace("_", ""), plain)
    known = [each.value for each in Collective]
    if plain not in known:
        raise InputError(f"{where}: operation {name!r}; {suggestion(plain, known)}")
    return Collective(plain)


def bus_factor(operation: Collective, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests defines them."""
    return (2 if operation is Collective.ALL_REDUCE else 1) * (ranks - 1) / ranks


def read_collectives(text: str, path: str, operation: Collective | None = None, ranks: int | None = None) -> list[MeasuredCollective]:
    """The rows of a table. `operation` and `ranks` are for output of nccl-tests that lacks them. Raises InputError with the line."""
    if text.lstrip().startswith("{"):
        return _from_json(text, path, operation, ranks)
    lines = text.splitlines()
    data = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    is_csv = bool(data) and "," in data[0][1]
    rows = _from_csv(text, path) if is_csv else _from_nccl_tests(lines, data, path, operation, ranks)
    if not rows:
        raise InputError(f"{path}: it has no measured collectives; expected output of nccl-tests, or CSV with {', '.join(COLUMNS)}")
    return rows


def _from_csv(text: str, path: str) -> list[MeasuredCollective]:
    return [_row(operation_of(row["operation"], where), row, where) for where, row in csv_table(text, path, COLUMNS, ("nodes",))]


def _from_json(text: str, path: str, operation: Collective | None, ranks: int | None) -> list[MeasuredCollective]:
    """The rows of a report of nccl-tests in JSON (-J). Raises InputError."""
    report = parse_json(text, path)
    results = report.get("results") if isinstance(report, Mapping) else None
    if not isinstance(results, list):
        raise InputError(f"{path}: no report of nccl-tests: results is {results!s:.40}; expected a list of measurements")
    config = report.get("config")
    devices = (config.get("devices") if isinstance(config, Mapping) else None) or report.get("devices") or ()
    arguments = report.get("args") or ()
    hosts = {str(each.get("hostname")) for each in devices if isinstance(each, Mapping)}
    nodes, ranks = str(len(hosts) or ""), ranks or len(devices) or None
    rows = []
    for number, result in enumerate(results):
        where = f"{path}: results[{number}]"
        time = result.get("out_of_place") or result.get("in_place") if isinstance(result, Mapping) else None
        if not isinstance(time, Mapping) or "time" not in time:
            raise InputError(f"{where}: expected size and out_of_place with time")
        named = operation
        for text_ in (result.get("experiment_name"), *arguments[:1]) if named is None else ():
            program = re.search(_PROGRAM, str(text_))
            named = named or (operation_of(program[1], where) if program else None)
        cells = {"bytes": str(result.get("size")), "microseconds": str(time["time"]), "nodes": nodes}
        rows.append(_measured(named, ranks, cells, path, where))
    return rows


def _from_nccl_tests(
    lines: Sequence[str], data: Sequence[tuple[int, str]], path: str, operation: Collective | None, ranks: int | None
) -> list[MeasuredCollective]:
    """The rows of a log of nccl-tests: the size and the first time of each line. Raises InputError."""
    heading = _nccl_heading(lines, path)
    comments = "\n".join(line for line in lines if line.lstrip().startswith("#"))
    named = re.search(rf"#.*?\b{_PROGRAM}", comments)
    if operation is None and named:
        operation = operation_of(named[1], path)
    ranks = ranks or _listed_ranks(lines, path)
    nodes = str(len(set(re.findall(r"^\s*#\s+Rank\s+\d+\b.*?\bon\s+(\S+)\s+device", "\n".join(lines), re.MULTILINE))) or "")
    rows = []
    for number, line in data:
        cells, where = line.split(), f"{path}:{number}"
        numbers = sum(map(_is_number, cells[: len(heading)]))
        if numbers < 2 or (numbers < len(_NCCL_NUMBERS) and not (cells[0].isdecimal() and cells[1].isdecimal())):
            continue  # nccl-tests prints lines about its start, too
        places = [heading.index(name) for name in _NCCL_NUMBERS if name in heading]
        if len(cells) < len(heading) or not all(_is_number(cells[place]) for place in places):
            raise InputError(f"{where}: {line.strip()!r:.100} is no whole row of nccl-tests; expected {', '.join(heading)}")
        measured = {"bytes": cells[heading.index("size")], "microseconds": cells[heading.index("time")], "nodes": nodes}
        rows.append(_measured(operation, ranks, measured, path, where))
    return rows


def _nccl_heading(lines: Sequence[str], path: str) -> Sequence[str]:
    """The columns of the first measurement in a line. Raises InputError if a heading has no size or time."""
    for number, line in enumerate(lines, 1):
        words = line.strip().removeprefix("#").split()
        if line.lstrip().startswith("#") and len({*words} & {*_NCCL_HEADING}) > len(_NCCL_HEADING) // 2:
            known = (*_NCCL_HEADING, "error")
            warn_of_unknown(f"{path}:{number}: column", dict.fromkeys(words), known)
            ends = [place for place, word in enumerate(words) if word in ("#wrong", "error")]
            columns = words[: ends[0] + 1] if ends else words
            for name in ("size", "time"):
                if name not in columns:
                    raise InputError(f"{path}:{number}: the columns are {', '.join(columns):.120}; expected {name} among them")
            return columns
    return _NCCL_HEADING


def _listed_ranks(lines: Sequence[str], path: str) -> int | None:
    """The number of ranks that the comments list; None: none. Raises InputError if a rank is listed twice or missing."""
    listed: dict[int, int] = {}
    for number, line in enumerate(lines, 1):
        match = re.match(r"\s*#\s+Rank\s+(\d{1,9})\b", line)
        if match and int(match[1]) in listed:
            first = listed[int(match[1])]
            again = f"rank {match[1]} is listed again (first in line {first})"
            raise InputError(f"{path}:{number}: {again}; expected one run of nccl-tests, or --ranks")
        if match:
            listed[int(match[1])] = number
    missing = next((rank for rank in range(len(listed)) if rank not in listed), None)
    if missing is not None:
        raise InputError(f"{path}: {len(listed)} ranks are listed, without rank {missing}; expected all from 0 on, or --ranks")
    return len(listed) or None


def _is_number(text: str) -> bool:
    try:
        return len(text) < 100 and math.isfinite(float(text))
    except ValueError:
        return False


def _measured(operation: Collective | None, ranks: int | None, cells: Mapping[str, str], path: str, where: str) -> MeasuredCollective:
    """A measurement of nccl-tests. Raises InputError if its collective or its ranks are not known."""
    if operation is None:
        raise InputError(f"{path}: the collective is not named; expected --op")
    if ranks is None:
        raise InputError(f"{path}: it lists no ranks; expected --ranks")
    return _row(operation, {"ranks": str(ranks), **cells}, where)


def _row(operation: Collective, cells: Mapping[str, str], where: str) -> MeasuredCollective:
    """The measurement in a row of CSV. Raises InputError that begins with `where`."""
    numbers = {}
    for name, least in (("ranks", 2), ("bytes", 0)):
        text = cells[name]
        if not is_whole(text) or not least <= int(text) < 1 << 62:
            raise InputError(f"{where}: {name} is {text!r}; expected a whole number of at least {least}")
        numbers[name] = int(text)
    time = float(cells["microseconds"]) if _is_number(cells["microseconds"]) else 0.0
    if not 0 < time < _LONGEST_US:
        raise InputError(f"{where}: microseconds is {cells['microseconds']!r}; expected a number above 0")
    nodes = cells.get("nodes", "").strip()
    if nodes and not (is_whole(nodes) and 1 <= int(nodes) <= numbers["ranks"]):
        raise InputError(f"{where}: nodes is {nodes!r}; expected a whole number from 1 to the number of ranks")
    return MeasuredCollective(operation, numbers["ranks"], numbers["bytes"], time, int(nodes) if nodes else None)
