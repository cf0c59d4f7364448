"""The collective `synthesized`: a plan for the platform of the run."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.commands import shared_plugins
from astra_sim.memo import Cache, is_hashable
from astra_sim.platform import Platform
from astra_sim.schedule import Request, Schedule

from astra_sim_synthesis.judge import Judge
from astra_sim_synthesis.synthesis import NETWORK, Synthesizer

NETWORKS = {"aware": NETWORK, "flow": "plugin:flow", "packet": "plugin:packet", "roce": "plugin:roce"}


@attrs.frozen
class SynthesizedOptions:
    """Options of a synthesized collective."""

    network: str = option(
        "aware",
        choices=tuple(NETWORKS),
        help="network on which plans are compared; aware: analytical with congestion=aware and switching=cut_through",
    )


_synthesizers: Cache[tuple[Platform, str], Synthesizer] = Cache("synthesis: platforms", 4)
_schedules: Cache[tuple[Platform, str, Request], Schedule] = Cache("synthesis: schedules", 16)


def synthesized(request: Request, options: SynthesizedOptions, platform: Platform) -> Schedule:
    """The schedule of the plan for a platform, which is kept for requests like it.

    Raises ScheduleError for a communicator group: plans are for all NPUs. Raises InputError if no plan can be made.
    """
    if request.in_group or request.ranks != platform.npus:
        raise request.unsupported("synthesized", f"it is for all {platform.npus} NPUs of the platform")

    def make() -> Schedule:
        key = platform, options.network

        def begin() -> Synthesizer:
            return Synthesizer(Judge.of(platform, NETWORKS[options.network], None, shared_plugins()))

        synthesizer = _synthesizers.value(key, begin) if is_hashable(key) else begin()
        return synthesizer.plan_of(attrs.evolve(request, direction=1, instance=0)).schedule

    return _schedules.value((platform, options.network, attrs.evolve(request, direction=1, instance=0)), make)
