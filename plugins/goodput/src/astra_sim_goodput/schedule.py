"""A cluster whose jobs come from a trace: a queue, and a placement of each job that starts."""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option

from astra_sim_goodput.cluster_trace import ClusterTrace, TraceJob
from astra_sim_goodput.placement import Placement, chosen

QUEUES = ("fifo", "backfill", "shortest")
QUANTILES = (0.5, 0.9, 0.99)
MOST_LOOKED_AT = 1000
"""Jobs of the queue behind the first that may start before it, at most."""


@attrs.frozen
class ScheduleOptions:
    """The table `[schedule]` of a file of jobs."""

    trace: str = option(path="path", help="the cluster's jobs: CSV of Helios or Acme, JSON of Philly")
    queue: str = option("fifo", choices=QUEUES, help="fifo; backfill: later jobs that delay the first one by nothing; shortest: first")
    placement: str = option("packed", help="packed | striped:N | random?seed=N | racks?npus=N, or a plugin's")
    jobs: int | None = option(None, minimum=1, help="so many of the trace's jobs; none: all")
    npus_per_rack: int | None = option(None, minimum=1, help="NPUs of a rack, to count the racks of each job")
    load: float = option(1.0, above=0, maximum=1e6, help="how many times as close jobs come as in the trace")
    workload: Any = option(None, help="with --at: the workload of each job that runs then")
    passes: int | None = option(None, minimum=1, help="with --at: its passes")


@attrs.frozen
class ScheduledJob:
    """A job that has run: when it came, started and ended (s), and its NPUs."""

    name: str
    submit_s: float
    start_s: float
    end_s: float
    npus: tuple[int, ...]

    @property
    def wait_s(self) -> float:
        """The time in the queue."""
        return self.start_s - self.submit_s


@attrs.frozen
class Times:
    """Times of jobs (s): mean, and quantiles by name."""

    mean: float
    quantiles: dict[str, float]

    @classmethod
    def of(cls, values: Sequence[float]) -> Times:
        """Those of at least one value: of a quantile the value of that rank."""
        ordered = sorted(values)
        at = {f"p{100 * each:g}": ordered[min(len(ordered) - 1, int(each * len(ordered)))] for each in QUANTILES}
        return cls(math.fsum(values) / len(values), at)


@attrs.frozen
class ClusterSchedule:
    """The jobs of a trace on a cluster. `left_out` used no NPUs, `too_large` asked for more than there are."""

    name: str
    npus: int
    jobs: list[ScheduledJob]
    left_out: int
    too_large: int
    npus_per_rack: int | None = None

    @property
    def end_s(self) -> float:
        """When the last job ended."""
        return max(job.end_s for job in self.jobs)

    @property
    def utilisation(self) -> float:
        """The share of NPU time in which NPUs had a job, until the last one ended."""
        return math.fsum(len(job.npus) * (job.end_s - job.start_s) for job in self.jobs) / (self.npus * self.end_s)

    @property
    def racks(self) -> float | None:
        """The mean over jobs of their racks in those that they need; None if the size of a rack is not known."""
        if self.npus_per_rack is None:
            return None
        per = self.npus_per_rack
        return math.fsum(len({npu // per for npu in job.npus}) / -(-len(job.npus) // per) for job in self.jobs) / len(self.jobs)

    def running_at(self, moment_s: float) -> list[ScheduledJob]:
        """The jobs that run at a moment."""
        return [job for job in self.jobs if job.start_s <= moment_s < job.end_s]

    def to_dict(self, every: bool = False) -> dict[str, Any]:
        """The figures, ready for JSON; `every`: with the jobs."""
        waits, turnarounds = (Times.of(each) for each in zip(*((job.wait_s, job.end_s - job.submit_s) for job in self.jobs), strict=True))
        result = {
            "run_name": self.name,
            "npus": self.npus,
            "scheduled": len(self.jobs),
            "left_out": self.left_out,
            "too_large": self.too_large,
            "end_s": self.end_s,
            "utilisation": self.utilisation,
            "wait_s": attrs.asdict(waits),
            "completion_s": attrs.asdict(turnarounds),
            "racks": self.racks,
        }
        return result | ({"jobs": [attrs.asdict(job) for job in self.jobs]} if every else {})


class _Cluster:
    """The free NPUs and the jobs that run."""

    def __init__(self, npus: int, place: Placement) -> None:
        self.free = list(range(npus))
        self._place = place
        self._running: list[tuple[float, int, tuple[int, ...]]] = []
        self._order = 0

    def next_end(self) -> float:
        """When the next job ends."""
        return self._running[0][0] if self._running else math.inf

    def release(self, now: float) -> None:
        """End the jobs that are over."""
        while self._running and self._running[0][0] <= now:
            for npu in heapq.heappop(self._running)[2]:
                bisect.insort(self.free, npu)

    def start(self, job: TraceJob, now: float) -> ScheduledJob | None:
        """Start a job, if there is a place for it."""
        if job.npus > len(self.free):
            return None
        try:
            npus = chosen(self._place, self.free, job.npus)
        except ValueError:
            return None
        taken = set(npus)
        self.free = [npu for npu in self.free if npu not in taken]
        self._order += 1
        heapq.heappush(self._running, (now + job.duration_s, self._order, npus))
        return ScheduledJob(job.name, job.submit_s, now, now + job.duration_s, npus)

    def reservation(self, count: int) -> tuple[float, int]:
        """When `count` NPUs will be free if nothing else starts, and how many more are free then."""
        free = len(self.free)
        for end, _, npus in sorted(self._running):
            if free >= count:
                break
            free += len(npus)
            at = end
        else:
            at = max((end for end, _, _ in self._running), default=0.0)
        return at, free - count


def simulate_schedule(trace: ClusterTrace, options: ScheduleOptions, npus: int, place: Placement, name: str) -> ClusterSchedule:
    """Run the jobs of a trace on a cluster of `npus`. Raises InputError if none fits."""
    jobs = trace.jobs[: options.jobs]
    fitting = [attrs.evolve(job, submit_s=job.submit_s / options.load) for job in jobs if job.npus <= npus]
    if not fitting:
        raise InputError(f"{options.trace}: all {len(jobs)} jobs ask for more than the platform's {npus} NPUs; expected some that fit")
    cluster, queue, done = _Cluster(npus, place), list[TraceJob](), list[ScheduledJob]()
    arrived, now = 0, 0.0
    start_from = {"fifo": _in_order, "backfill": _backfilled, "shortest": _shortest_first}[options.queue]
    while arrived < len(fitting) or queue:
        coming = fitting[arrived].submit_s if arrived < len(fitting) else math.inf
        now = min(coming, cluster.next_end())
        if math.isinf(now):
            raise InputError(f"{name}: the placement finds no place for job {queue[0].name} on an empty cluster; expected one that does")
        cluster.release(now)
        while arrived < len(fitting) and fitting[arrived].submit_s <= now:
            queue.append(fitting[arrived])
            arrived += 1
        done += start_from(cluster, queue, now)
    return ClusterSchedule(name, npus, done, trace.left_out, len(jobs) - len(fitting), options.npus_per_rack)


def _in_order(cluster: _Cluster, queue: list[TraceJob], now: float) -> Iterator[ScheduledJob]:
    """Start jobs from the first on, until one does not fit."""
    while queue:
        started = cluster.start(queue[0], now)
        if started is None:
            return
        queue.pop(0)
        yield started


def _shortest_first(cluster: _Cluster, queue: list[TraceJob], now: float) -> Iterator[ScheduledJob]:
    """The same, the shortest job first."""
    queue.sort(key=lambda job: (job.duration_s, job.submit_s))
    yield from _in_order(cluster, queue, now)


def _backfilled(cluster: _Cluster, queue: list[TraceJob], now: float) -> Iterator[ScheduledJob]:
    """The same, and behind one that does not fit those that end before it can start, or take NPUs that it leaves (EASY).

    D. Lifka, "The ANL/IBM SP Scheduling System", 1995. The durations of the trace are taken as known.
    """
    yield from _in_order(cluster, queue, now)
    if not queue or not cluster.free:
        return
    at, beside = cluster.reservation(queue[0].npus)
    for job in queue[1 : 1 + MOST_LOOKED_AT]:
        ends_before = now + job.duration_s <= at
        if job.npus > len(cluster.free) or not (ends_before or job.npus <= beside):
            continue
        started = cluster.start(job, now)
        if started is not None:
            beside -= 0 if ends_before else job.npus
            queue.remove(job)
            yield started
