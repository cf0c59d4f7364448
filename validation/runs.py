"""Simulated iterations: each experiment with each profile is run once, side by side where there is more than one processor."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import attrs
from astra_sim import AstraError, simulate

from validation.iterations import Experiment

Numbers = tuple[tuple[str, float], ...]
"""The numbers of a profile that are not 1, by name, in the order of the alphabet."""

NO_PROFILE: Numbers = ()


def numbers(profile: Mapping[str, float]) -> Numbers:
    """A profile as a key."""
    return tuple(sorted(profile.items()))


def figures(experiment: Experiment, profile: Numbers = NO_PROFILE) -> Mapping[str, Any]:
    """The figures of an experiment with a profile."""
    workload = dict(experiment.workload)
    if "launch_us" not in dict(profile):  # without it the host takes no time, and it is the same what a graph launches
        workload.pop("cuda_graphs", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # devices that are not calibrated: docs/compute.md says which
        result = simulate(
            platform=dict(experiment.platform),
            network=dict(experiment.network),
            system="plugin:astra2",
            compute={"plugin": "gpu", "device": experiment.device, "stack": dict(profile)},
            workload=workload,
        ).figures
    assert result is not None
    return result


def _iteration_s(job: tuple[Experiment, Numbers]) -> float:
    experiment, profile = job
    try:
        return float(figures(experiment, profile)["iteration_s"])
    except AstraError as error:
        raise RuntimeError(f"{error} in {experiment.key}") from None


@attrs.define
class Runs:
    """Iteration times in seconds, by experiment and profile. A context: `workers` processes run side by side, none of them if it is 1."""

    workers: int = attrs.field(factory=lambda: os.cpu_count() or 1)
    made: int = 0
    _known: dict[tuple[str, Numbers], float] = attrs.field(factory=dict)
    _pool: Executor | None = None

    def __enter__(self) -> Runs:
        if self.workers > 1:
            self._pool = ProcessPoolExecutor(self.workers)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def iterations_s(self, jobs: Iterable[tuple[Experiment, Numbers]]) -> list[float]:
        """The iteration times of experiments with profiles."""
        jobs = list(jobs)
        new = {(experiment.key, profile): (experiment, profile) for experiment, profile in jobs}
        new = {key: job for key, job in new.items() if key not in self._known}
        if self._pool is not None and len(new) > 1:
            times_s = list(self._pool.map(_iteration_s, new.values(), chunksize=4))
        else:
            times_s = [_iteration_s(job) for job in new.values()]
        self._known.update(zip(new, times_s, strict=True))
        self.made += len(new)
        return [self._known[experiment.key, profile] for experiment, profile in jobs]
