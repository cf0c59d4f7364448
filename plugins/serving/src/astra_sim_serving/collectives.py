"""Collectives of an iteration: simulated by the engine on the platform of the experiment, one by one, and cached by size."""

from __future__ import annotations

import time

import attrs
from astra_sim.commands import Components, Experiment, Plugins, build, run_components
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Pass
from astra_sim.schedule import Collective

_STEPS_PER_OCTAVE = 8


@attrs.define(eq=False)
class CollectiveTimes:
    """Times of an all-reduce of the first `ranks` NPUs of a platform, in microseconds.

    Up to 64 KiB every size is simulated; between larger ones, eight an octave, the time is interpolated.
    """

    components: Components
    ranks: int
    _times: dict[int, float] = attrs.field(factory=dict)

    def all_reduce_us(self, size: int) -> float:
        """The time of an all-reduce of so many bytes."""
        step = 1 << max(0, size.bit_length() - _STEPS_PER_OCTAVE.bit_length()) if size > 1 << 16 else 1
        low = size // step * step
        first = self._simulated(low)
        if low == size:
            return first
        return first + (self._simulated(low + step) - first) * (size - low) / step

    def _simulated(self, size: int) -> float:
        """Microseconds of an all-reduce of so many bytes, by a run of its own."""
        if size not in self._times:
            platform = self.components.platform
            dimensions = platform.logical_dimensions()
            group = tuple(range(self.ranks)) if self.ranks < platform.npus else None
            collective = Communicate(
                (), Collective.ALL_REDUCE, size, tuple(range(len(dimensions))), -1, Pass.FORWARD, group=group
            )  # fmt: skip
            others = (NpuProgram((), tuple(range(self.ranks, platform.npus))),) if group is not None else ()
            graph = ExecutionGraph((collective,), dimensions, (), None, others)
            result = run_components(attrs.evolve(self.components, graph=graph), f"all-reduce of {size} bytes", time.perf_counter(), None)
            self._times[size] = result.finish_ns / 1e3
        return self._times[size]


def collective_times(experiment: Experiment, plugins: Plugins, ranks: int) -> CollectiveTimes:
    """The times on the platform, network and system of an experiment. Raises InputError."""
    made = experiment.copied()
    made.sections.pop("compute", None)
    made.use("workload", ExecutionGraph((), (), ()), plugins)
    return CollectiveTimes(build(made, plugins), ranks)
