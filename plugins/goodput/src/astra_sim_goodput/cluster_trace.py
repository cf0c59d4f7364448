"""Jobs of clusters, as published traces have them: when they came, how many NPUs they asked for, and how long they ran.

Recognised by content: CSV with the columns `submit_time`, `gpu_num` and `duration` (Helios, doi 10.1145/3458817.3476223; Acme, NSDI 2024),
and the JSON of Philly (`cluster_job_log`, ATC 2019), whose jobs have attempts with the GPUs of each machine.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.files import csv_table, finite_number, parse_json, read_text

_COLUMNS = ("submit_time", "gpu_num", "duration")


@attrs.frozen
class TraceJob:
    """A job of a trace: when it was submitted (s from the first one), its NPUs, and how long it ran (s)."""

    name: str
    submit_s: float
    npus: int
    duration_s: float


@attrs.frozen
class ClusterTrace:
    """The jobs of a trace that used NPUs, in the order of submission, and the number of others: without NPUs, or that never ran."""

    jobs: list[TraceJob]
    left_out: int


def read_trace(path: str) -> ClusterTrace:
    """The jobs of a file. Raises InputError naming file and line or job."""
    text = read_text(path)
    rows = list(_philly(text, path) if text.lstrip()[:1] == "[" else _csv(text, path))
    jobs = [each for each in rows if each.npus > 0 and each.duration_s > 0]
    if not jobs:
        raise InputError(f"{path}: no job with NPUs and a duration; expected CSV with {', '.join(_COLUMNS)}, or the JSON of Philly")
    first = min(each.submit_s for each in jobs)
    ordered = sorted((attrs.evolve(each, submit_s=each.submit_s - first) for each in jobs), key=lambda each: each.submit_s)
    return ClusterTrace(ordered, len(rows) - len(jobs))


def _csv(text: str, path: str) -> Iterator[TraceJob]:
    """The rows of Helios and Acme."""
    for number, (where, row) in enumerate(csv_table(text, path, _COLUMNS, None), 1):
        gpus = finite_number(row["gpu_num"], f"{where}: gpu_num")
        duration = finite_number(row["duration"] or "0", f"{where}: duration")
        yield TraceJob(row.get("job_id") or str(number), _moment(row["submit_time"], f"{where}: submit_time"), int(gpus), duration)


def _philly(text: str, path: str) -> Iterator[TraceJob]:
    """The jobs of Philly: of each the first attempt's GPUs, and the time of all attempts."""
    for number, job in enumerate(_tables(parse_json(text, path), path), 1):
        where = f"{path}: job {number}"
        if "attempts" not in job:
            raise InputError(f"{where}: {str(job)[:60]!r}; expected a table with jobid, submitted_time and attempts")
        attempts = [each for each in _tables(job["attempts"], f"{where}: attempts") if each.get("start_time") and each.get("end_time")]
        spans = [(_moment(each["start_time"], where), _moment(each["end_time"], where)) for each in attempts]
        machines = _tables(attempts[0].get("detail", []), f"{where}: detail") if attempts else []
        gpus = sum(len(_list(machine.get("gpus", []), f"{where}: gpus")) for machine in machines)
        yield TraceJob(
            str(job.get("jobid", number)), _moment(job.get("submitted_time"), where), gpus, math.fsum(end - begin for begin, end in spans)
        )


def _list(value: Any, where: str) -> list[Any]:
    """A list. Raises InputError."""
    if not isinstance(value, list):
        raise InputError(f"{where}: {str(value)[:60]!r}; expected a list")
    return value


def _tables(value: Any, where: str) -> list[Mapping[str, Any]]:
    """A list of tables. Raises InputError."""
    for each in _list(value, where):
        if not isinstance(each, Mapping):
            raise InputError(f"{where}: {str(each)[:60]!r}; expected a table")
    tables: list[Mapping[str, Any]] = value
    return tables


def _moment(value: Any, where: str) -> float:
    """A time as seconds: a date as `2023-03-01 00:18:22+08:00`, or a number of seconds. Raises InputError."""
    if not isinstance(value, str):
        raise InputError(f"{where}: {value!r} is no time; expected one such as 2023-03-01 00:18:22")
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError:
        return finite_number(value, where)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)).timestamp()
