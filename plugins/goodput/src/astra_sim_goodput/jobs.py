"""Several jobs on one platform: how much slower each is than alone, and how fair that is."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import Experiment, InputError, option
from astra_sim.commands import Plugins, build, build_platform, run_components, shared_plugins
from astra_sim.experiments import experiment_from
from astra_sim.files import parse_toml, read_text
from astra_sim.network import EventNetwork, Network, OwnerLoad
from astra_sim.options import structure
from astra_sim.platform import Platform
from astra_sim.units import PS_PER_NS, picoseconds

from astra_sim_goodput.jobs_graph import JobGraph, block_sizes, ends_of_passes_by_job, merged
from astra_sim_goodput.jobs_system import JobsSystem, SystemChoice
from astra_sim_goodput.placement import FORMS, placed, ranks_of

KEY = "jobs"
SCHEDULE = "schedule"
SYSTEM = "astra2"
_MOST_OWNERS = 255


@attrs.frozen
class JobOptions:
    """A table of `[[jobs]]`."""

    name: str = option(help="name of the job")
    workload: Any = option(help="its workload: plugin:NAME, a path, or a table")
    ranks: Any = option(None, help='its NPUs in the order of ranks: "0-63", "0:64:2" (every second), "0-7,16-23", or a list')
    npus: int | None = option(None, minimum=1, help="how many NPUs a placement chooses")
    placement: str | None = option(
        None, help="packed | striped:N | random?seed=N | racks?npus=N, or a plugin's, of the NPUs that no job names"
    )
    start_ns: float = option(0.0, minimum=0, help="when it starts", unit="ns")
    passes: int | None = option(None, minimum=1, help="its passes; else those of [run]")
    compute: Any = option(None, help="its compute model, in place of that of the file")
    system: Any = option(None, help="its system layer, in place of that of the file")


@attrs.frozen
class PlacedJob:
    """A job and the NPUs that it runs on, in the order of ranks."""

    options: JobOptions
    ranks: tuple[int, ...]
    where: str


@attrs.frozen
class JobTimes:
    """When a job started and finished (nanoseconds). `alone_ns` is its duration without the others, None if it was not asked for.

    `slowdown` is duration / alone, `without` the duration with one other job left out, by the name of that.
    """

    name: str
    npus: int
    start_ns: float
    finish_ns: float
    duration_ns: float
    alone_ns: float | None = None
    slowdown: float | None = None
    without: dict[str, float] = attrs.field(factory=dict)
    passes_ns: list[float] = attrs.field(factory=list)


@attrs.frozen
class JobLink:
    """A link that carried something: how long it was busy (ns), bytes and busy time by job, and waits for it.

    `wait[i][j]` is how long messages of job i waited for it while it sent those of job j (ns), jobs in the order of the file. Waiting is
    not slowdown: it may be hidden behind computing.
    """

    dimension: int
    source: str
    target: str
    busy_ns: float
    by_job: dict[str, dict[str, float]]
    wait: list[list[float]]

    @classmethod
    def of(cls, load: OwnerLoad, names: Sequence[str]) -> JobLink:
        """That of the load of a link by owner, the number of a job."""
        by_job = {name: {"bytes": size, "busy_ns": busy} for name, size, busy in zip(names, load.bytes, load.busy_ns, strict=True)}
        used = {name: each for name, each in by_job.items() if each["busy_ns"] or each["bytes"]}
        return cls(load.dimension, load.source, load.target, math.fsum(load.busy_ns), used, [list(row) for row in load.wait_ns])


@attrs.frozen
class Jobs:
    """The result of a file of jobs."""

    name: str
    messages_wait: bool
    jobs: list[JobTimes]
    links: list[JobLink] | None = None

    @property
    def wait_ns(self) -> list[list[float]] | None:
        """How long messages of job i waited for links while they sent those of job j, over all links; None if it was not counted."""
        if self.links is None:
            return None
        places = range(len(self.jobs))
        return [[math.fsum(link.wait[i][j] for link in self.links) for j in places] for i in places]

    @property
    def finish_ns(self) -> float:
        """When the last job has finished."""
        return max(job.finish_ns for job in self.jobs)

    @property
    def fairness(self) -> dict[str, float] | None:
        """Jain's index of 1 / slowdown, (sum x)^2 / (n sum x^2), and the greatest slowdown; None if no job ran alone.

        R. Jain, D. Chiu, W. Hawe, DEC-TR-301 (1984).
        """
        slowdowns = [job.slowdown for job in self.jobs if job.slowdown]
        if not slowdowns:
            return None
        speeds = [1 / slowdown for slowdown in slowdowns]
        return {
            "jain": math.fsum(speeds) ** 2 / (len(speeds) * math.fsum(speed**2 for speed in speeds)),
            "worst_slowdown": max(slowdowns),
        }

    def to_dict(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        jobs = [attrs.asdict(job) for job in self.jobs]
        return {
            "run_name": self.name,
            "messages_wait": self.messages_wait,
            "finish_ns": self.finish_ns,
            "jobs": jobs,
            "fairness": self.fairness,
            "links": None if self.links is None else [attrs.asdict(link) for link in self.links],
            "wait_ns": self.wait_ns,
        }


@attrs.frozen
class Together:
    """A run of some jobs: when each had finished, and the end of its passes, in nanoseconds.

    `messages_wait`: whether messages of one could wait for those of another at all; `links` if they were counted.
    """

    finish_ns: dict[str, float]
    messages_wait: bool
    passes_ns: dict[str, list[float]]
    links: list[JobLink] | None = None


class JobFile:
    """The jobs of an experiment file with `[[jobs]]`, and how they run together."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        assignments: Sequence[str] = (),
        plugins: Plugins | None = None,
        jobs: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self._plugins = plugins or shared_plugins()
        self.file = os.fspath(path)
        table = parse_toml(read_text(self.file), self.file)
        tables = table.pop(KEY, None) if jobs is None else list(jobs)
        table.pop(SCHEDULE, None)
        if not isinstance(tables, list) or not tables or not all(isinstance(each, Mapping) for each in tables):
            raise InputError(f"{self.file}: expected tables [[jobs]], each with name, workload and {FORMS}")
        if "workload" in table:
            raise InputError(f"{self.file}: workload is given beside [[jobs]]; expected one in each of these")
        table.setdefault("system", f"plugin:{SYSTEM}")
        self.experiment = experiment_from(table, self.file, self._plugins)
        for assignment in assignments:
            self.experiment.set(assignment)
        self.platform = build_platform(self.experiment, self._plugins)
        self.jobs = self._jobs(tables)
        self._graphs = {job.options.name: self._graph(job) for job in self.jobs}

    def _jobs(self, tables: Sequence[Mapping[str, Any]]) -> list[PlacedJob]:
        """The jobs with their NPUs: those that name theirs first, the others on the rest, in the order of the file."""
        options = [structure(JobOptions, dict(table), f"{self.file}: jobs[{place}]") for place, table in enumerate(tables)]
        named: dict[int, tuple[int, ...]] = {}
        taken: dict[int, str] = {}
        for place, each in sorted(enumerate(options), key=lambda item: item[1].ranks is None):
            where = f"{self.file}: job {each.name!r}"
            if (each.ranks is None) == (each.npus is None) or (each.ranks is not None and each.placement is not None):
                raise InputError(f"{where}: expected {FORMS}")
            if each.ranks is not None:
                ranks = ranks_of(each.ranks, self.platform.npus, where)
            else:
                free = [npu for npu in range(self.platform.npus) if npu not in taken]
                ranks = placed(each.placement or "packed", each.npus or 0, free, where, self._plugins)
            for npu in ranks:
                if npu in taken:
                    raise InputError(f"{where}: NPU {npu} is one of job {taken[npu]!r}; expected NPUs of no other job")
                taken[npu] = each.name
            named[place] = ranks
        names = [each.name for each in options]
        for name in names:
            if not name or names.count(name) > 1:
                raise InputError(f"{self.file}: jobs are named {', '.join(map(repr, names))}; expected a name of its own for each")
        return [PlacedJob(each, named[place], f"{self.file}: job {each.name!r}") for place, each in enumerate(options)]

    def _graph(self, job: PlacedJob) -> JobGraph:
        """The workload of a job, as if its NPUs were a platform. Raises InputError."""
        experiment = self.experiment.copied()
        for kind in ("workload", "compute", "system"):
            value = getattr(job.options, kind)
            if value is not None:
                experiment.use(kind, value, self._plugins, os.path.dirname(self.file), f"{job.where}: {kind}")
        if job.options.passes is not None:
            experiment.choose("passes", job.options.passes)
        if len(job.ranks) < self.platform.npus:
            experiment.sections["platform"] = self._part(job)
            experiment.sections["network"] = {"plugin": "analytical"}
        components = build(experiment, self._plugins)
        if components.system.phases_end_together:
            raise InputError(
                f"{self.file}: system {type(components.system).__name__} ends each phase on all NPUs of the platform at once,"
                f" those of other jobs, too; expected another, such as plugin:{SYSTEM}"
            )
        return JobGraph(
            job.options.name, components.graph, job.ranks, picoseconds(job.options.start_ns * PS_PER_NS, f"{job.where}: start_ns")
        )

    def _part(self, job: PlacedJob) -> Platform:
        """A platform of as many NPUs as a job has: the block of dimensions that it is, else one switch."""
        sizes = block_sizes(self.platform, job.ranks) or [len(job.ranks)]
        dimensions = [
            {
                "topology": "switch",
                "size": size,
                "link_bandwidth_gb_per_s": dimension.link_bandwidth * max(1, dimension.links),
                "link_latency_ns": dimension.link_latency_ns,
            }
            for size, dimension in zip(sizes, self.platform.dimensions, strict=False)
        ]
        experiment = Experiment()
        experiment.use("platform", {"dimensions": dimensions, "device": self.platform.device}, self._plugins)
        return build_platform(experiment, self._plugins)

    def run(self, names: Sequence[str], link_figures: bool = False) -> Together:
        """Some of the jobs together, with every NPU simulated; `link_figures`: with the loads and waits of links by job."""
        experiment = self.experiment.copied()
        graph = merged([self._graphs[name] for name in names], self.platform)
        experiment.sections["workload"] = graph
        experiment.choose("symmetry", False)
        chosen = [job for job in self.jobs if job.options.name in names]
        if any(job.options.system is not None for job in chosen):
            experiment.sections["system"] = self._system(experiment, chosen)
        components = build(experiment, self._plugins)
        network = components.network
        if link_figures:
            self._count_by_job(network, chosen)
        result = run_components(components, experiment.name, time.perf_counter(), npu_times=True)
        finish = result.npu_finish_ns
        ends = {job.options.name: max(finish[npu] for npu in job.ranks) for job in chosen}
        passes = ends_of_passes_by_job(graph, result.operation_times(), {job.options.name: job.ranks for job in chosen})
        starts = {job.options.name: job.options.start_ns for job in chosen}
        links = None
        if link_figures:
            assert isinstance(network, EventNetwork)
            links = [JobLink.of(load, [job.options.name for job in chosen]) for load in network.owner_loads()]
        return Together(
            ends,
            isinstance(network, EventNetwork),
            {name: _durations(starts[name], each, ends[name]) for name, each in passes.items()},
            links,
        )

    def _system(self, experiment: Experiment, jobs: Sequence[PlacedJob]) -> JobsSystem:
        """The system layers of jobs as one. Raises InputError if they do not fit together."""
        systems = []
        for job in jobs:
            experiment_of_job = experiment.copied()
            if job.options.system is not None:
                experiment_of_job.use("system", job.options.system, self._plugins, os.path.dirname(self.file), f"{job.where}: system")
            systems.append(build(experiment_of_job, self._plugins).system)
        graphs = [self._graphs[job.options.name] for job in jobs]
        return JobsSystem(systems, SystemChoice.of(graphs, range(len(jobs)), self.platform), self.file)

    def _count_by_job(self, network: Network, jobs: Sequence[PlacedJob]) -> None:
        """Let a network count the loads of links by job. Raises InputError if it cannot."""
        if not isinstance(network, EventNetwork) or not network.counts_owners:
            raise InputError(
                f"{self.file}: --link-figures: the network counts no waits by job; expected one whose links send one message after another,"
                " such as plugin:analytical?congestion=aware"
            )
        if len(jobs) > _MOST_OWNERS:
            raise InputError(f"{self.file}: --link-figures: {len(jobs)} jobs; expected at most {_MOST_OWNERS}")
        owners = [0] * self.platform.npus
        for number, job in enumerate(jobs):
            for npu in job.ranks:
                owners[npu] = number
        network.owners = owners


def _durations(start: float, ends: Sequence[float], finish: float) -> list[float]:
    """The duration of each pass, from the end of the one before; the last ends with the job."""
    moments = [start, *ends[:-1], finish]
    return [later - earlier for earlier, later in itertools.pairwise(moments)]


def run_jobs(
    path: str | os.PathLike[str],
    *,
    alone: bool = False,
    without: Sequence[str] = (),
    link_figures: bool = False,
    set: Sequence[str] = (),
    plugins: Plugins | None = None,
    jobs: Sequence[Mapping[str, Any]] | None = None,
) -> Jobs:
    """Run the jobs of a file together; with `alone` each by itself, too, and once more without each job that `without` names.

    `link_figures` counts the loads of links by job, and the waits of one job for another. `jobs` are tables in place of those of the
    file, as of `jobs_at`. Raises InputError.
    """
    file = JobFile(path, set, plugins, jobs)
    names = [job.options.name for job in file.jobs]
    for name in without:
        if name not in names:
            raise InputError(f"{file.file}: --without is {name!r}; expected one of {', '.join(names)}")
    together = file.run(names, link_figures)
    others = {name: file.run([each for each in names if each != name]).finish_ns for name in without if len(names) > 1}
    result = []
    for job in file.jobs:
        own, start = job.options.name, job.options.start_ns
        finish = together.finish_ns[own]
        single = file.run([own]).finish_ns[own] - start if alone else None
        result.append(
            JobTimes(
                own,
                len(job.ranks),
                start,
                finish,
                finish - start,
                single,
                (finish - start) / single if single else None,
                {name: times[own] - start for name, times in others.items() if name != own},
                together.passes_ns[own],
            )
        )
    return Jobs(file.experiment.name, together.messages_wait, result, together.links)
