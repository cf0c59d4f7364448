"""Files with a table `[schedule]`: the jobs of a cluster's trace on their platform, and those of a moment as jobs to run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from astra_sim import InputError
from astra_sim.commands import Plugins, build_platform, shared_plugins
from astra_sim.experiments import assigned, experiment_from
from astra_sim.files import parse_toml, read_text
from astra_sim.options import structure

from astra_sim_goodput.cluster_trace import read_trace
from astra_sim_goodput.jobs import KEY, SCHEDULE
from astra_sim_goodput.placement import placement_of
from astra_sim_goodput.schedule import ClusterSchedule, ScheduleOptions, simulate_schedule


def has_schedule(path: str | os.PathLike[str]) -> bool:
    """Whether a file of jobs has a table `[schedule]`. Raises InputError if it cannot be read."""
    where = os.fspath(path)
    return SCHEDULE in parse_toml(read_text(where), where)


def run_schedule(
    path: str | os.PathLike[str], *, set: Sequence[str] = (), plugins: Plugins | None = None
) -> tuple[ClusterSchedule, ScheduleOptions]:
    """Run the trace of a file with a table `[schedule]` on its platform, without its network. Raises InputError."""
    plugins, where = plugins or shared_plugins(), os.fspath(path)
    table = parse_toml(read_text(where), where)
    results = table.pop(SCHEDULE, None)
    if not isinstance(results, Mapping) or KEY in table:
        raise InputError(f"{where}: expected tables [[{KEY}]], or one [{SCHEDULE}]")
    results = dict(results)
    if isinstance(results.get("trace"), str):
        results["trace"] = os.path.join(os.path.dirname(where), results["trace"])
    for key, value in map(assigned, [each for each in set if each.startswith(f"{SCHEDULE}.")]):
        results[key.removeprefix(f"{SCHEDULE}.")] = value
    options: ScheduleOptions = structure(ScheduleOptions, results, f"{where}: {SCHEDULE}")
    experiment = experiment_from(table, where, plugins)
    for assignment in set:
        if not assignment.startswith(f"{SCHEDULE}."):
            experiment.set(assignment)
    platform = build_platform(experiment, plugins)
    place = placement_of(options.placement, f"{where}: {SCHEDULE}", plugins)
    trace = read_trace(options.trace)
    return simulate_schedule(trace, options, platform.npus, place, experiment.name or Path(where).stem), options


def jobs_at(schedule: ClusterSchedule, options: ScheduleOptions, moment_s: float, where: str) -> list[dict[str, Any]]:
    """The tables of the jobs of a schedule that run at a moment, for `run_jobs`. Raises InputError if there is none, or no workload."""
    if options.workload is None:
        raise InputError(f"{where}: {SCHEDULE}: --at needs a workload; expected one, which each job runs")
    running = schedule.running_at(moment_s)
    if not running:
        raise InputError(f"{where}: no job runs {moment_s:g} s after the first came; expected a time before {schedule.end_s:g} s")
    common = {"workload": options.workload} | ({} if options.passes is None else {"passes": options.passes})
    return [{"name": job.name, "ranks": list(job.npus), **common} for job in running]
