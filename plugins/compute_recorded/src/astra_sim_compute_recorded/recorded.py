"""Recorded compute times."""

from __future__ import annotations

from astra_sim.compute import Compute, MissingWork, Work


class Recorded(Compute):
    """A pass of a layer takes the time recorded in the workload."""

    def duration_ns(self, work: Work) -> float:
        """The recorded time in nanoseconds. Raises MissingWork if the workload has none."""
        if work.recorded_ns is None:
            raise MissingWork("it has no recorded time (compute_ns); give one, or choose a compute model such as plugin:roofline")
        return work.recorded_ns
